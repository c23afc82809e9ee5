//! Family launch: skeleton.
#![allow(non_snake_case)]

use std::ffi::*;

use abi::*;

use crate::call::{CudaResult, DefaultStream};

pub unsafe fn __cudaPushCallConfiguration(_gridDim: dim3, _blockDim: dim3, _sharedMem: usize, _stream: cudaStream_t) -> c_uint {
    1 // not yet
}

pub unsafe fn __cudaPopCallConfiguration(_gridDim: *mut dim3, _blockDim: *mut dim3, _sharedMem: *mut usize, _stream: *mut c_void) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn __cudaGetKernel(_kernelPtr: *mut cudaKernel_t, _entryFuncAddr: *const c_void) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn __cudaLaunchKernel(_default: DefaultStream, _kernel: cudaKernel_t, _gridDim: dim3, _blockDim: dim3, _args: *mut *mut c_void, _sharedMem: usize, _stream: cudaStream_t) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaLaunchKernel(_default: DefaultStream, _func: *const c_void, _gridDim: dim3, _blockDim: dim3, _args: *mut *mut c_void, _sharedMem: usize, _stream: cudaStream_t) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaLaunchKernelExC(_default: DefaultStream, _config: *const cudaLaunchConfig_t, _func: *const c_void, _args: *mut *mut c_void) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaLaunchCooperativeKernel(_default: DefaultStream, _func: *const c_void, _gridDim: dim3, _blockDim: dim3, _args: *mut *mut c_void, _sharedMem: usize, _stream: cudaStream_t) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaLaunchHostFunc(_default: DefaultStream, _stream: cudaStream_t, _fn: cudaHostFn_t, _userData: *mut c_void) -> CudaResult {
    Err(CudaError(801)) // not yet
}
