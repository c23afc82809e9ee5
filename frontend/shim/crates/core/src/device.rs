//! Family device: skeleton.
#![allow(non_snake_case)]

use std::ffi::*;

use abi::*;

use crate::call::{CudaResult, DefaultStream};

pub unsafe fn cudaGetDeviceCount(_count: *mut c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaGetDevice(_device: *mut c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaSetDevice(_device: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaSetValidDevices(_device_arr: *mut c_int, _len: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaInitDevice(_device: c_int, _deviceFlags: c_uint, _flags: c_uint) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaGetDeviceProperties_v12(_prop: *mut cudaDeviceProp_v12, _device: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaGetDeviceProperties_v13(_prop: *mut cudaDeviceProp_v13, _device: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaGetDeviceProperties_v2(_prop: *mut cudaDeviceProp_v12, _device: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceGetAttribute(_value: *mut c_int, _attr: cudaDeviceAttr, _device: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaChooseDevice_v12(_device: *mut c_int, _prop: *const cudaDeviceProp_v12) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaChooseDevice_v13(_device: *mut c_int, _prop: *const cudaDeviceProp_v13) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceGetPCIBusId(_pciBusId: *mut c_char, _len: c_int, _device: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceGetByPCIBusId(_device: *mut c_int, _pciBusId: *const c_char) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaGetDeviceFlags(_flags: *mut c_uint) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaSetDeviceFlags(_flags: c_uint) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceGetLimit(_pValue: *mut usize, _limit: cudaLimit) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceGetCacheConfig(_pCacheConfig: *mut cudaFuncCache) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceSetCacheConfig(_cacheConfig: cudaFuncCache) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceGetSharedMemConfig(_pConfig: *mut cudaSharedMemConfig) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceSetSharedMemConfig(_config: cudaSharedMemConfig) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceGetStreamPriorityRange(_leastPriority: *mut c_int, _greatestPriority: *mut c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceGetP2PAttribute(_value: *mut c_int, _attr: cudaDeviceP2PAttr, _srcDevice: c_int, _dstDevice: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceCanAccessPeer(_canAccessPeer: *mut c_int, _device: c_int, _peerDevice: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceEnablePeerAccess(_peerDevice: c_int, _flags: c_uint) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceDisablePeerAccess(_peerDevice: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceFlushGPUDirectRDMAWrites(_target: cudaFlushGPUDirectRDMAWritesTarget, _scope: cudaFlushGPUDirectRDMAWritesScope) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceGetTexture1DLinearMaxWidth(_maxWidthInElements: *mut usize, _fmtDesc: *const cudaChannelFormatDesc, _device: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDriverGetVersion(_driverVersion: *mut c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaRuntimeGetVersion(_runtimeVersion: *mut c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceGetHostAtomicCapabilities(_capabilities: *mut c_uint, _operations: *const cudaAtomicOperation, _count: c_uint, _device: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceGetP2PAtomicCapabilities(_capabilities: *mut c_uint, _operations: *const cudaAtomicOperation, _count: c_uint, _srcDevice: c_int, _dstDevice: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaProfilerStart() -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaProfilerStop() -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaSetDoubleForDevice(_d: *mut c_double) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaSetDoubleForHost(_d: *mut c_double) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceSetLimit(_limit: cudaLimit, _value: usize) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceSynchronize() -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaDeviceReset() -> CudaResult {
    Err(CudaError(801)) // not yet
}
