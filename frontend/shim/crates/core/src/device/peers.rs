//! Access between devices. A session's devices do not see each other's memory; copies between them go through the API.

use std::ffi::{c_int, c_uint};

use abi::{
    cudaDevP2PAttrOnlyPartialNativeAtomicSupported, cudaDevP2PAttrPerformanceRank, cudaDeviceP2PAttr, CudaError,
};

use super::{device_of, give, no_capabilities};
use crate::call::CudaResult;
use crate::runtime;

/// Two different devices that are there.
fn pair(one: c_int, other: c_int) -> CudaResult {
    device_of(one)?;
    device_of(other)?;
    if one == other {
        return Err(CudaError::INVALID_DEVICE);
    }
    Ok(())
}

pub unsafe fn cudaDeviceCanAccessPeer(canAccessPeer: *mut c_int, device: c_int, peerDevice: c_int) -> CudaResult {
    device_of(device)?;
    device_of(peerDevice)?;
    // SAFETY: the caller's place for the answer.
    unsafe { give(canAccessPeer, 0) }
}

pub unsafe fn cudaDeviceEnablePeerAccess(peerDevice: c_int, flags: c_uint) -> CudaResult {
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    pair(runtime::current_device(), peerDevice)?;
    Err(CudaError::PEER_ACCESS_UNSUPPORTED)
}

pub unsafe fn cudaDeviceDisablePeerAccess(peerDevice: c_int) -> CudaResult {
    pair(runtime::current_device(), peerDevice)?;
    Err(CudaError::PEER_ACCESS_NOT_ENABLED)
}

pub unsafe fn cudaDeviceGetP2PAttribute(
    value: *mut c_int,
    attr: cudaDeviceP2PAttr,
    srcDevice: c_int,
    dstDevice: c_int,
) -> CudaResult {
    if !(cudaDevP2PAttrPerformanceRank..=cudaDevP2PAttrOnlyPartialNativeAtomicSupported).contains(&attr) {
        return Err(CudaError::INVALID_VALUE);
    }
    pair(srcDevice, dstDevice)?;
    // SAFETY: the caller's place for the answer.
    unsafe { give(value, 0) }
}

pub unsafe fn cudaDeviceGetP2PAtomicCapabilities(
    capabilities: *mut c_uint,
    operations: *const abi::cudaAtomicOperation,
    count: c_uint,
    srcDevice: c_int,
    dstDevice: c_int,
) -> CudaResult {
    pair(srcDevice, dstDevice)?;
    // SAFETY: the program says that the array has `count` elements.
    unsafe { no_capabilities(capabilities, operations, count) }
}
