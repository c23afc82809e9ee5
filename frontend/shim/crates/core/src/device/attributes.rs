//! Device attributes: the host's, except where Farlane itself decides what a guest can have.

use std::ffi::c_int;

use abi::driver::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
use abi::{
    cudaDevAttrCanMapHostMemory, cudaDevAttrCanUseHostPointerForRegisteredMem, cudaDevAttrConcurrentManagedAccess,
    cudaDevAttrCooperativeMultiDeviceLaunch, cudaDevAttrDeferredMappingCudaArraySupported,
    cudaDevAttrDirectManagedMemAccessFromHost, cudaDevAttrGPUDirectRDMAFlushWritesOptions,
    cudaDevAttrGPUDirectRDMASupported, cudaDevAttrGPUDirectRDMAWritesOrdering, cudaDevAttrHostNativeAtomicSupported,
    cudaDevAttrHostRegisterReadOnlySupported, cudaDevAttrHostRegisterSupported, cudaDevAttrIpcEventSupport,
    cudaDevAttrManagedMemory, cudaDevAttrMemoryPoolSupportedHandleTypes, cudaDevAttrMemoryPoolsSupported,
    cudaDevAttrPageableMemoryAccess, cudaDevAttrPageableMemoryAccessUsesHostPageTables,
    cudaDevAttrSparseCudaArraySupported, cudaDevAttrTimelineSemaphoreInteropSupported, cudaDevAttrUnifiedAddressing,
    cudaDeviceAttr, DEVICE_ATTRIBUTES,
};

use crate::runtime::Device;

/// What the shim answers whatever the device can do: a program that asks first takes the path that works here.
const OURS: [(cudaDeviceAttr, c_int); 21] = [
    // Managed and mapped memory is kept coherent page by page (`managed`); other host memory the device cannot reach.
    (cudaDevAttrCanMapHostMemory, 1),
    (cudaDevAttrCanUseHostPointerForRegisteredMem, 0),
    (cudaDevAttrHostNativeAtomicSupported, 0),
    (cudaDevAttrManagedMemory, 1),
    (cudaDevAttrConcurrentManagedAccess, 1),
    (cudaDevAttrDirectManagedMemAccessFromHost, 0),
    (cudaDevAttrPageableMemoryAccess, 0),
    (cudaDevAttrPageableMemoryAccessUsesHostPageTables, 0),
    // Not forwarded (docs/coverage.md).
    (cudaDevAttrCooperativeMultiDeviceLaunch, 0),
    (cudaDevAttrDeferredMappingCudaArraySupported, 0),
    (cudaDevAttrGPUDirectRDMASupported, 0),
    (cudaDevAttrGPUDirectRDMAFlushWritesOptions, 0),
    (cudaDevAttrGPUDirectRDMAWritesOrdering, 0),
    (cudaDevAttrHostRegisterReadOnlySupported, 0),
    (cudaDevAttrIpcEventSupport, 0),
    (cudaDevAttrMemoryPoolSupportedHandleTypes, 0),
    (cudaDevAttrSparseCudaArraySupported, 0),
    (cudaDevAttrTimelineSemaphoreInteropSupported, 0),
    // The shim's own work: the default pool, registration as bookkeeping, one window of addresses.
    (cudaDevAttrMemoryPoolsSupported, 1),
    (cudaDevAttrHostRegisterSupported, 1),
    (cudaDevAttrUnifiedAddressing, 1),
];

/// The value a guest sees; `None` for a number that is no attribute.
///
/// An attribute that CUDA defines and the host did not tell (it is older than the attribute) reads 0: not supported.
pub fn attribute(device: &Device, attribute: cudaDeviceAttr) -> Option<c_int> {
    if let Some((_, value)) = OURS.iter().find(|(ours, _)| *ours == attribute) {
        return Some(*value);
    }
    if attribute == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED {
        return Some(device.description.has_mappings.into());
    }
    device.attribute(attribute).or_else(|| DEVICE_ATTRIBUTES.binary_search(&attribute).ok().map(|_| 0))
}
