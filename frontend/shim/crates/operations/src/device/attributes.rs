//! Device attributes: the host's, except where Farlane itself decides what a guest can have.

use std::ffi::c_int;

use super::capability;
use crate::types::DEV_ATTR_VIRTUAL_MEMORY_MANAGEMENT;
use crate::types::{
    DeviceAttr, DEV_ATTR_CAN_MAP_HOST_MEMORY, DEV_ATTR_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
    DEV_ATTR_COMPUTE_CAPABILITY_MAJOR, DEV_ATTR_COMPUTE_CAPABILITY_MINOR, DEV_ATTR_CONCURRENT_MANAGED_ACCESS,
    DEV_ATTR_COOPERATIVE_MULTI_DEVICE_LAUNCH, DEV_ATTR_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
    DEV_ATTR_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, DEV_ATTR_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
    DEV_ATTR_GPU_DIRECT_RDMA_SUPPORTED, DEV_ATTR_GPU_DIRECT_RDMA_WRITES_ORDERING,
    DEV_ATTR_HOST_NATIVE_ATOMIC_SUPPORTED, DEV_ATTR_HOST_REGISTER_READ_ONLY_SUPPORTED,
    DEV_ATTR_HOST_REGISTER_SUPPORTED, DEV_ATTR_IPC_EVENT_SUPPORT, DEV_ATTR_MANAGED_MEMORY,
    DEV_ATTR_MEMORY_POOLS_SUPPORTED, DEV_ATTR_MEMORY_POOL_SUPPORTED_HANDLE_TYPES, DEV_ATTR_PAGEABLE_MEMORY_ACCESS,
    DEV_ATTR_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, DEV_ATTR_SPARSE_CUDA_ARRAY_SUPPORTED,
    DEV_ATTR_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, DEV_ATTR_UNIFIED_ADDRESSING,
};
use abi::DEVICE_ATTRIBUTES;
use session::process::Device;

/// What the shim answers whatever the device can do: a program that asks first takes the path that works here.
const OURS: [(DeviceAttr, c_int); 21] = [
    // Managed and mapped memory is kept coherent page by page (`managed`); other host memory the device cannot reach.
    (DEV_ATTR_CAN_MAP_HOST_MEMORY, 1),
    (DEV_ATTR_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 0),
    (DEV_ATTR_HOST_NATIVE_ATOMIC_SUPPORTED, 0),
    (DEV_ATTR_MANAGED_MEMORY, 1),
    (DEV_ATTR_CONCURRENT_MANAGED_ACCESS, 1),
    (DEV_ATTR_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 0),
    (DEV_ATTR_PAGEABLE_MEMORY_ACCESS, 0),
    (DEV_ATTR_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 0),
    // Not forwarded (docs/reference/coverage.md).
    (DEV_ATTR_COOPERATIVE_MULTI_DEVICE_LAUNCH, 0),
    (DEV_ATTR_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 0),
    (DEV_ATTR_GPU_DIRECT_RDMA_SUPPORTED, 0),
    (DEV_ATTR_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 0),
    (DEV_ATTR_GPU_DIRECT_RDMA_WRITES_ORDERING, 0),
    (DEV_ATTR_HOST_REGISTER_READ_ONLY_SUPPORTED, 0),
    (DEV_ATTR_IPC_EVENT_SUPPORT, 0),
    (DEV_ATTR_MEMORY_POOL_SUPPORTED_HANDLE_TYPES, 0),
    (DEV_ATTR_SPARSE_CUDA_ARRAY_SUPPORTED, 0),
    (DEV_ATTR_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 0),
    // The shim's own work: the default pool, registration as bookkeeping, one window of addresses.
    (DEV_ATTR_MEMORY_POOLS_SUPPORTED, 1),
    (DEV_ATTR_HOST_REGISTER_SUPPORTED, 1),
    (DEV_ATTR_UNIFIED_ADDRESSING, 1),
];

/// The value a guest sees; `None` for a number that is no attribute.
///
/// An attribute that CUDA defines and the host did not tell (it is older than the attribute) reads 0: not supported.
pub fn attribute(device: &Device, attribute: DeviceAttr) -> Option<c_int> {
    if let Some((_, value)) = OURS.iter().find(|(ours, _)| *ours == attribute) {
        return Some(*value);
    }
    match attribute {
        DEV_ATTR_VIRTUAL_MEMORY_MANAGEMENT => return Some(device.description.has_mappings.into()),
        DEV_ATTR_COMPUTE_CAPABILITY_MAJOR => return Some(capability(device).0),
        DEV_ATTR_COMPUTE_CAPABILITY_MINOR => return Some(capability(device).1),
        _ => {}
    }
    device.attribute(attribute).or_else(|| DEVICE_ATTRIBUTES.binary_search(&attribute).ok().map(|_| 0))
}
