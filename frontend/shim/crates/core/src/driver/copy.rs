//! Copies of the driver API: the direction is in the name, memory is addressed by number.
//!
//! Source: CUDA driver API, "Memory Management".

use std::ffi::c_void;

use abi::driver::{CUcontext, CUdeviceptr, CUstream};
use abi::{
    cudaMemcpyDefault, cudaMemcpyDeviceToDevice, cudaMemcpyDeviceToHost, cudaMemcpyHostToDevice, cudaMemcpyKind,
};

pub use super::boxes::*;
use super::contexts;
use crate::call::{CudaResult, DefaultStream};
use crate::memory::{cudaMemcpy, cudaMemcpyAsync};

/// Copies that wait, and their twins in a stream: name, name of the twin, types of the ends, direction.
macro_rules! lines {
    ($($name:ident $in_stream:ident ($to:ident: $To:ty, $from:ident: $From:ty) $kind:expr;)*) => {$(
        pub unsafe fn $name(default: DefaultStream, $to: $To, $from: $From, ByteCount: usize) -> CudaResult {
            let kind: cudaMemcpyKind = $kind;
            // SAFETY: the program's promise.
            unsafe { cudaMemcpy(default, $to as *mut c_void, $from as *const c_void, ByteCount, kind) }
        }

        pub unsafe fn $in_stream(
            default: DefaultStream,
            $to: $To,
            $from: $From,
            ByteCount: usize,
            hStream: CUstream,
        ) -> CudaResult {
            let kind: cudaMemcpyKind = $kind;
            // SAFETY: the program's promise.
            unsafe { cudaMemcpyAsync(default, $to as *mut c_void, $from as *const c_void, ByteCount, kind, hStream) }
        }
    )*};
}

lines! {
    cuMemcpy cuMemcpyAsync (dst: CUdeviceptr, src: CUdeviceptr) cudaMemcpyDefault;
    cuMemcpyHtoD_v2 cuMemcpyHtoDAsync_v2 (dstDevice: CUdeviceptr, srcHost: *const c_void) cudaMemcpyHostToDevice;
    cuMemcpyDtoH_v2 cuMemcpyDtoHAsync_v2 (dstHost: *mut c_void, srcDevice: CUdeviceptr) cudaMemcpyDeviceToHost;
    cuMemcpyDtoD_v2 cuMemcpyDtoDAsync_v2 (dstDevice: CUdeviceptr, srcDevice: CUdeviceptr) cudaMemcpyDeviceToDevice;
}

/// A copy between contexts, which must be alive: the contexts of a process share the device's addresses.
pub unsafe fn cuMemcpyPeer(
    default: DefaultStream,
    dstDevice: CUdeviceptr,
    dstContext: CUcontext,
    srcDevice: CUdeviceptr,
    srcContext: CUcontext,
    ByteCount: usize,
) -> CudaResult {
    contexts::living(dstContext)?;
    contexts::living(srcContext)?;
    // SAFETY: the program's promise.
    unsafe { cuMemcpyDtoD_v2(default, dstDevice, srcDevice, ByteCount) }
}

pub unsafe fn cuMemcpyPeerAsync(
    default: DefaultStream,
    dstDevice: CUdeviceptr,
    dstContext: CUcontext,
    srcDevice: CUdeviceptr,
    srcContext: CUcontext,
    ByteCount: usize,
    hStream: CUstream,
) -> CudaResult {
    contexts::living(dstContext)?;
    contexts::living(srcContext)?;
    // SAFETY: the program's promise.
    unsafe { cuMemcpyDtoDAsync_v2(default, dstDevice, srcDevice, ByteCount, hStream) }
}
