//! Family error: skeleton.
#![allow(non_snake_case)]

use std::ffi::*;

use abi::*;

use crate::call::{CudaResult, DefaultStream};

pub unsafe fn cudaGetLastError() -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaPeekAtLastError() -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaGetErrorName(_error: cudaError_t) -> *const c_char {
    std::ptr::null() // not yet
}

pub unsafe fn cudaGetErrorString(_error: cudaError_t) -> *const c_char {
    std::ptr::null() // not yet
}
