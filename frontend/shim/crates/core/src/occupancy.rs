//! Family occupancy: skeleton.
#![allow(non_snake_case)]

use std::ffi::*;

use abi::*;

use crate::call::{CudaResult, DefaultStream};

pub unsafe fn cudaOccupancyMaxActiveBlocksPerMultiprocessor(_numBlocks: *mut c_int, _func: *const c_void, _blockSize: c_int, _dynamicSMemSize: usize) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(_numBlocks: *mut c_int, _func: *const c_void, _blockSize: c_int, _dynamicSMemSize: usize, _flags: c_uint) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaOccupancyAvailableDynamicSMemPerBlock(_dynamicSmemSize: *mut usize, _func: *const c_void, _numBlocks: c_int, _blockSize: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}
