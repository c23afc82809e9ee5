//! Copies of the driver API: the direction is in the name, memory is addressed by number.
//!
//! Source: CUDA driver API, "Memory Management".

use std::ffi::c_void;

use abi::driver::{CUcontext, CUdeviceptr, CUstream};
use operations::memory::{memcpy, memcpy_async};
use operations::types::{
    CopyKind, MEMCPY_DEFAULT, MEMCPY_DEVICE_TO_DEVICE, MEMCPY_DEVICE_TO_HOST, MEMCPY_HOST_TO_DEVICE,
};
use session::call::Outcome;
use session::function::DefaultStream;

pub use super::boxes::*;
use crate::contexts;

/// Copies that wait, and their twins in a stream: name, name of the twin, types of the ends, direction.
macro_rules! lines {
    ($($name:ident $in_stream:ident ($to:ident: $To:ty, $from:ident: $From:ty) $kind:expr;)*) => {$(
        pub unsafe fn $name(default: DefaultStream, $to: $To, $from: $From, ByteCount: usize) -> Outcome {
            let kind: CopyKind = $kind;
            // SAFETY: the program's promise.
            unsafe { memcpy(default, $to as *mut c_void, $from as *const c_void, ByteCount, kind) }
        }

        pub unsafe fn $in_stream(
            default: DefaultStream,
            $to: $To,
            $from: $From,
            ByteCount: usize,
            hStream: CUstream,
        ) -> Outcome {
            let kind: CopyKind = $kind;
            // SAFETY: the program's promise.
            unsafe { memcpy_async(default, $to as *mut c_void, $from as *const c_void, ByteCount, kind, hStream) }
        }
    )*};
}

lines! {
    cuMemcpy cuMemcpyAsync (dst: CUdeviceptr, src: CUdeviceptr) MEMCPY_DEFAULT;
    cuMemcpyHtoD_v2 cuMemcpyHtoDAsync_v2 (dstDevice: CUdeviceptr, srcHost: *const c_void) MEMCPY_HOST_TO_DEVICE;
    cuMemcpyDtoH_v2 cuMemcpyDtoHAsync_v2 (dstHost: *mut c_void, srcDevice: CUdeviceptr) MEMCPY_DEVICE_TO_HOST;
    cuMemcpyDtoD_v2 cuMemcpyDtoDAsync_v2 (dstDevice: CUdeviceptr, srcDevice: CUdeviceptr) MEMCPY_DEVICE_TO_DEVICE;
}

/// A copy between contexts, which must be alive: the contexts of a process share the device's addresses.
pub unsafe fn cuMemcpyPeer(
    default: DefaultStream,
    dstDevice: CUdeviceptr,
    dstContext: CUcontext,
    srcDevice: CUdeviceptr,
    srcContext: CUcontext,
    ByteCount: usize,
) -> Outcome {
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
) -> Outcome {
    contexts::living(dstContext)?;
    contexts::living(srcContext)?;
    // SAFETY: the program's promise.
    unsafe { cuMemcpyDtoDAsync_v2(default, dstDevice, srcDevice, ByteCount, hStream) }
}
