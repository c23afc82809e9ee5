//! The compilers' side of a launch: the configuration between `<<<` and `>>>`, and the stub's functions.
//!
//! Source: crt/device_functions.h and crt/host_runtime.h of CUDA 12 and 13.

use std::ffi::{c_uint, c_void};

use abi::{cudaKernel_t, cudaStream_t, dim3};
use session::call::{Error, Outcome};
use session::frame;
use session::function::DefaultStream;

use crate::configuration::{self, Configuration};

#[inline]
pub unsafe fn __cudaPushCallConfiguration(
    gridDim: dim3,
    blockDim: dim3,
    sharedMem: usize,
    stream: cudaStream_t,
) -> c_uint {
    let (grid, block, site) = (gridDim, blockDim, frame::site());
    let pushed = configuration::push(Configuration { grid, block, shared_bytes: sharedMem, stream, site });
    c_uint::from(!pushed)
}

#[inline]
pub unsafe fn __cudaPopCallConfiguration(
    gridDim: *mut dim3,
    blockDim: *mut dim3,
    sharedMem: *mut usize,
    stream: *mut c_void,
) -> Outcome {
    if gridDim.is_null() || blockDim.is_null() || sharedMem.is_null() || stream.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let popped = configuration::pop(move |configuration| {
        frame::popped(configuration.site);
        // SAFETY: not null; the stub passes places of these types.
        unsafe {
            gridDim.write(configuration.grid);
            blockDim.write(configuration.block);
            sharedMem.write(configuration.shared_bytes);
            stream.cast::<cudaStream_t>().write(configuration.stream);
        }
    });
    popped.ok_or(Error::MISSING_CONFIGURATION)
}

pub unsafe fn __cudaGetKernel(kernelPtr: *mut cudaKernel_t, entryFuncAddr: *const c_void) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { operations::module::get_kernel(kernelPtr, entryFuncAddr) }
}

pub unsafe fn __cudaLaunchKernel(
    default: DefaultStream,
    kernel: cudaKernel_t,
    gridDim: dim3,
    blockDim: dim3,
    args: *mut *mut c_void,
    sharedMem: usize,
    stream: cudaStream_t,
) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        operations::launch::launch_kernel(
            default,
            kernel.cast_const().cast(),
            gridDim,
            blockDim,
            args,
            sharedMem,
            stream,
        )
    }
}
