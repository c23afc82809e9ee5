//! cudaDeviceProp of CUDA 12 and 13, made of what the handshake said, and the choice of a device by it.

use std::ffi::{c_char, c_int};
use std::mem::{offset_of, MaybeUninit};

#[allow(clippy::wildcard_imports)] // a hundred constants
use abi::*;
use session::call::{give, Error, Outcome};
use session::process::{device_of, Device};

use operations::device::{attribute, choose, DeviceOptions};

/// The fields that both versions have, from attributes.
macro_rules! common_fields {
    ($prop:ident, $get:ident, $size:ident) => {{
        $prop.sharedMemPerBlock = $size(cudaDevAttrMaxSharedMemoryPerBlock);
        $prop.regsPerBlock = $get(cudaDevAttrMaxRegistersPerBlock);
        $prop.warpSize = $get(cudaDevAttrWarpSize);
        $prop.memPitch = $size(cudaDevAttrMaxPitch);
        $prop.maxThreadsPerBlock = $get(cudaDevAttrMaxThreadsPerBlock);
        $prop.maxThreadsDim =
            [$get(cudaDevAttrMaxBlockDimX), $get(cudaDevAttrMaxBlockDimY), $get(cudaDevAttrMaxBlockDimZ)];
        $prop.maxGridSize = [$get(cudaDevAttrMaxGridDimX), $get(cudaDevAttrMaxGridDimY), $get(cudaDevAttrMaxGridDimZ)];
        $prop.totalConstMem = $size(cudaDevAttrTotalConstantMemory);
        $prop.textureAlignment = $size(cudaDevAttrTextureAlignment);
        $prop.texturePitchAlignment = $size(cudaDevAttrTexturePitchAlignment);
        $prop.multiProcessorCount = $get(cudaDevAttrMultiProcessorCount);
        $prop.integrated = $get(cudaDevAttrIntegrated);
        $prop.canMapHostMemory = $get(cudaDevAttrCanMapHostMemory);
        $prop.maxTexture1D = $get(cudaDevAttrMaxTexture1DWidth);
        $prop.maxTexture1DMipmap = $get(cudaDevAttrMaxTexture1DMipmappedWidth);
        $prop.maxTexture2D = [$get(cudaDevAttrMaxTexture2DWidth), $get(cudaDevAttrMaxTexture2DHeight)];
        $prop.maxTexture2DMipmap =
            [$get(cudaDevAttrMaxTexture2DMipmappedWidth), $get(cudaDevAttrMaxTexture2DMipmappedHeight)];
        $prop.maxTexture2DLinear = [
            $get(cudaDevAttrMaxTexture2DLinearWidth),
            $get(cudaDevAttrMaxTexture2DLinearHeight),
            $get(cudaDevAttrMaxTexture2DLinearPitch),
        ];
        $prop.maxTexture2DGather =
            [$get(cudaDevAttrMaxTexture2DGatherWidth), $get(cudaDevAttrMaxTexture2DGatherHeight)];
        $prop.maxTexture3D = [
            $get(cudaDevAttrMaxTexture3DWidth),
            $get(cudaDevAttrMaxTexture3DHeight),
            $get(cudaDevAttrMaxTexture3DDepth),
        ];
        $prop.maxTexture3DAlt = [
            $get(cudaDevAttrMaxTexture3DWidthAlt),
            $get(cudaDevAttrMaxTexture3DHeightAlt),
            $get(cudaDevAttrMaxTexture3DDepthAlt),
        ];
        $prop.maxTextureCubemap = $get(cudaDevAttrMaxTextureCubemapWidth);
        $prop.maxTexture1DLayered =
            [$get(cudaDevAttrMaxTexture1DLayeredWidth), $get(cudaDevAttrMaxTexture1DLayeredLayers)];
        $prop.maxTexture2DLayered = [
            $get(cudaDevAttrMaxTexture2DLayeredWidth),
            $get(cudaDevAttrMaxTexture2DLayeredHeight),
            $get(cudaDevAttrMaxTexture2DLayeredLayers),
        ];
        $prop.maxTextureCubemapLayered =
            [$get(cudaDevAttrMaxTextureCubemapLayeredWidth), $get(cudaDevAttrMaxTextureCubemapLayeredLayers)];
        $prop.maxSurface1D = $get(cudaDevAttrMaxSurface1DWidth);
        $prop.maxSurface2D = [$get(cudaDevAttrMaxSurface2DWidth), $get(cudaDevAttrMaxSurface2DHeight)];
        $prop.maxSurface3D = [
            $get(cudaDevAttrMaxSurface3DWidth),
            $get(cudaDevAttrMaxSurface3DHeight),
            $get(cudaDevAttrMaxSurface3DDepth),
        ];
        $prop.maxSurface1DLayered =
            [$get(cudaDevAttrMaxSurface1DLayeredWidth), $get(cudaDevAttrMaxSurface1DLayeredLayers)];
        $prop.maxSurface2DLayered = [
            $get(cudaDevAttrMaxSurface2DLayeredWidth),
            $get(cudaDevAttrMaxSurface2DLayeredHeight),
            $get(cudaDevAttrMaxSurface2DLayeredLayers),
        ];
        $prop.maxSurfaceCubemap = $get(cudaDevAttrMaxSurfaceCubemapWidth);
        $prop.maxSurfaceCubemapLayered =
            [$get(cudaDevAttrMaxSurfaceCubemapLayeredWidth), $get(cudaDevAttrMaxSurfaceCubemapLayeredLayers)];
        $prop.surfaceAlignment = $size(cudaDevAttrSurfaceAlignment);
        $prop.concurrentKernels = $get(cudaDevAttrConcurrentKernels);
        $prop.ECCEnabled = $get(cudaDevAttrEccEnabled);
        $prop.pciBusID = $get(cudaDevAttrPciBusId);
        $prop.pciDeviceID = $get(cudaDevAttrPciDeviceId);
        $prop.pciDomainID = $get(cudaDevAttrPciDomainId);
        $prop.tccDriver = $get(cudaDevAttrTccDriver);
        $prop.asyncEngineCount = $get(cudaDevAttrAsyncEngineCount);
        $prop.unifiedAddressing = $get(cudaDevAttrUnifiedAddressing);
        $prop.memoryBusWidth = $get(cudaDevAttrGlobalMemoryBusWidth);
        $prop.l2CacheSize = $get(cudaDevAttrL2CacheSize);
        $prop.persistingL2CacheMaxSize = $get(cudaDevAttrMaxPersistingL2CacheSize);
        $prop.maxThreadsPerMultiProcessor = $get(cudaDevAttrMaxThreadsPerMultiProcessor);
        $prop.streamPrioritiesSupported = $get(cudaDevAttrStreamPrioritiesSupported);
        $prop.globalL1CacheSupported = $get(cudaDevAttrGlobalL1CacheSupported);
        $prop.localL1CacheSupported = $get(cudaDevAttrLocalL1CacheSupported);
        $prop.sharedMemPerMultiprocessor = $size(cudaDevAttrMaxSharedMemoryPerMultiprocessor);
        $prop.regsPerMultiprocessor = $get(cudaDevAttrMaxRegistersPerMultiprocessor);
        $prop.managedMemory = $get(cudaDevAttrManagedMemory);
        $prop.isMultiGpuBoard = $get(cudaDevAttrIsMultiGpuBoard);
        $prop.multiGpuBoardGroupID = $get(cudaDevAttrMultiGpuBoardGroupID);
        $prop.hostNativeAtomicSupported = $get(cudaDevAttrHostNativeAtomicSupported);
        $prop.pageableMemoryAccess = $get(cudaDevAttrPageableMemoryAccess);
        $prop.concurrentManagedAccess = $get(cudaDevAttrConcurrentManagedAccess);
        $prop.computePreemptionSupported = $get(cudaDevAttrComputePreemptionSupported);
        $prop.canUseHostPointerForRegisteredMem = $get(cudaDevAttrCanUseHostPointerForRegisteredMem);
        $prop.cooperativeLaunch = $get(cudaDevAttrCooperativeLaunch);
        $prop.sharedMemPerBlockOptin = $size(cudaDevAttrMaxSharedMemoryPerBlockOptin);
        $prop.pageableMemoryAccessUsesHostPageTables = $get(cudaDevAttrPageableMemoryAccessUsesHostPageTables);
        $prop.directManagedMemAccessFromHost = $get(cudaDevAttrDirectManagedMemAccessFromHost);
        $prop.maxBlocksPerMultiProcessor = $get(cudaDevAttrMaxBlocksPerMultiprocessor);
        $prop.accessPolicyMaxWindowSize = $get(cudaDevAttrMaxAccessPolicyWindowSize);
        $prop.reservedSharedMemPerBlock = $size(cudaDevAttrReservedSharedMemoryPerBlock);
        $prop.hostRegisterSupported = $get(cudaDevAttrHostRegisterSupported);
        $prop.sparseCudaArraySupported = $get(cudaDevAttrSparseCudaArraySupported);
        $prop.hostRegisterReadOnlySupported = $get(cudaDevAttrHostRegisterReadOnlySupported);
        $prop.timelineSemaphoreInteropSupported = $get(cudaDevAttrTimelineSemaphoreInteropSupported);
        $prop.memoryPoolsSupported = $get(cudaDevAttrMemoryPoolsSupported);
        $prop.gpuDirectRDMASupported = $get(cudaDevAttrGPUDirectRDMASupported);
        $prop.gpuDirectRDMAFlushWritesOptions = $get(cudaDevAttrGPUDirectRDMAFlushWritesOptions).cast_unsigned();
        $prop.gpuDirectRDMAWritesOrdering = $get(cudaDevAttrGPUDirectRDMAWritesOrdering);
        $prop.memoryPoolSupportedHandleTypes = $get(cudaDevAttrMemoryPoolSupportedHandleTypes).cast_unsigned();
        $prop.deferredMappingCudaArraySupported = $get(cudaDevAttrDeferredMappingCudaArraySupported);
        $prop.ipcEventSupported = $get(cudaDevAttrIpcEventSupport);
        $prop.clusterLaunch = $get(cudaDevAttrClusterLaunch);
    }};
}

/// The fields that both versions have and that are no attributes.
macro_rules! identity_fields {
    ($prop:ident, $device:ident) => {{
        let description = &$device.description;
        copy_bytes(&mut $prop.name[..255], description.name.as_bytes()); // a NUL stays behind it
        copy_bytes(&mut $prop.uuid.bytes, &description.uuid);
        $prop.totalGlobalMem = usize::try_from(description.total_memory).unwrap_or(usize::MAX);
        ($prop.major, $prop.minor) = operations::device::capability($device);
    }};
}

/// Copies what fits; the rest of the place is zero already.
fn copy_bytes(place: &mut [c_char], bytes: &[u8]) {
    for (to, from) in place.iter_mut().zip(bytes) {
        *to = *from as c_char;
    }
}

fn zeroed<T: Copy>() -> T {
    // SAFETY: used for the two structures below, which are integers and arrays of integers only.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

fn properties_v12(device: &Device) -> cudaDeviceProp_v12 {
    let get = |name: cudaDeviceAttr| -> c_int { attribute(device, name).unwrap_or(0) };
    let size = |name: cudaDeviceAttr| usize::try_from(get(name)).unwrap_or(0);
    let mut prop: cudaDeviceProp_v12 = zeroed();
    identity_fields!(prop, device);
    common_fields!(prop, get, size);
    prop.clockRate = get(cudaDevAttrClockRate);
    prop.deviceOverlap = get(cudaDevAttrGpuOverlap);
    prop.kernelExecTimeoutEnabled = get(cudaDevAttrKernelExecTimeout);
    prop.computeMode = get(cudaDevAttrComputeMode);
    prop.maxTexture1DLinear = get(cudaDevAttrMaxTexture1DLinearWidth);
    prop.memoryClockRate = get(cudaDevAttrMemoryClockRate);
    prop.singleToDoublePrecisionPerfRatio = get(cudaDevAttrSingleToDoublePrecisionPerfRatio);
    prop.cooperativeMultiDeviceLaunch = get(cudaDevAttrCooperativeMultiDeviceLaunch);
    prop
}

fn properties_v13(device: &Device) -> cudaDeviceProp_v13 {
    let get = |name: cudaDeviceAttr| -> c_int { attribute(device, name).unwrap_or(0) };
    let size = |name: cudaDeviceAttr| usize::try_from(get(name)).unwrap_or(0);
    let mut prop: cudaDeviceProp_v13 = zeroed();
    identity_fields!(prop, device);
    common_fields!(prop, get, size);
    prop.deviceNumaConfig = get(cudaDevAttrNumaConfig);
    prop.deviceNumaId = get(cudaDevAttrNumaId);
    prop.mpsEnabled = get(cudaDevAttrMpsEnabled);
    prop.hostNumaId = get(cudaDevAttrHostNumaId);
    prop.gpuPciDeviceID = get(cudaDevAttrGpuPciDeviceId).cast_unsigned();
    prop.gpuPciSubsystemID = get(cudaDevAttrGpuPciSubsystemId).cast_unsigned();
    prop.hostNumaMultinodeIpcSupported = get(cudaDevAttrHostNumaMultinodeIpcSupported);
    prop
}

/// CUDA 11's structure, the one that the symbol without suffix of libcudart.so.12 writes: the part of CUDA 12's before
/// the fields that were added.
pub unsafe fn cudaGetDeviceProperties_v12(prop: *mut cudaDeviceProp_v12, device: c_int) -> Outcome {
    if prop.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let properties = properties_v12(device_of(device)?);
    let bytes = offset_of!(cudaDeviceProp_v12, hostRegisterSupported);
    // SAFETY: the program says that it is such a place; no more of it is written than CUDA 11's structure has.
    unsafe { std::ptr::from_ref(&properties).cast::<u8>().copy_to_nonoverlapping(prop.cast(), bytes) };
    Ok(())
}

pub unsafe fn cudaGetDeviceProperties_v2(prop: *mut cudaDeviceProp_v12, device: c_int) -> Outcome {
    let properties = properties_v12(device_of(device)?);
    // SAFETY: the caller's place for the properties.
    unsafe { give(prop, properties) }
}

pub unsafe fn cudaGetDeviceProperties_v13(prop: *mut cudaDeviceProp_v13, device: c_int) -> Outcome {
    let properties = properties_v13(device_of(device)?);
    // SAFETY: the caller's place for the properties.
    unsafe { give(prop, properties) }
}

pub unsafe fn cudaChooseDevice_v12(device: *mut c_int, prop: *const cudaDeviceProp_v12) -> Outcome {
    // SAFETY: the program says that it is such a structure.
    let prop = unsafe { prop.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    let options = DeviceOptions {
        compute: (prop.major, prop.minor),
        memory: prop.totalGlobalMem,
        multiprocessors: prop.multiProcessorCount,
    };
    // SAFETY: the caller's place for the number.
    unsafe { give(device, choose(&options)?) }
}

pub unsafe fn cudaChooseDevice_v13(device: *mut c_int, prop: *const cudaDeviceProp_v13) -> Outcome {
    // SAFETY: the program says that it is such a structure.
    let prop = unsafe { prop.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    let options = DeviceOptions {
        compute: (prop.major, prop.minor),
        memory: prop.totalGlobalMem,
        multiprocessors: prop.multiProcessorCount,
    };
    // SAFETY: the caller's place for the number.
    unsafe { give(device, choose(&options)?) }
}
