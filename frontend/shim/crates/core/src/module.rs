//! Family module: skeleton.
#![allow(non_snake_case)]

use std::ffi::*;

use abi::*;

use crate::call::{CudaResult, DefaultStream};

pub unsafe fn cudaFuncGetAttributes(_attr: *mut cudaFuncAttributes, _func: *const c_void) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaFuncGetName(_name: *mut *const c_char, _func: *const c_void) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaFuncGetParamInfo(_func: *const c_void, _paramIndex: usize, _paramOffset: *mut usize, _paramSize: *mut usize) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaFuncGetParamCount(_func: *const c_void, _paramCount: *mut usize) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaGetFuncBySymbol(_functionPtr: *mut cudaFunction_t, _symbolPtr: *const c_void) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaGetKernel(_kernelPtr: *mut cudaKernel_t, _entryFuncAddr: *const c_void) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaGetSymbolSize(_size: *mut usize, _symbol: *const c_void) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaLibraryLoadData(_library: *mut cudaLibrary_t, _code: *const c_void, _jitOptions: *mut cudaJitOption, _jitOptionsValues: *mut *mut c_void, _numJitOptions: c_uint, _libraryOptions: *mut cudaLibraryOption, _libraryOptionValues: *mut *mut c_void, _numLibraryOptions: c_uint) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaLibraryLoadFromFile(_library: *mut cudaLibrary_t, _fileName: *const c_char, _jitOptions: *mut cudaJitOption, _jitOptionsValues: *mut *mut c_void, _numJitOptions: c_uint, _libraryOptions: *mut cudaLibraryOption, _libraryOptionValues: *mut *mut c_void, _numLibraryOptions: c_uint) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaLibraryGetKernel(_pKernel: *mut cudaKernel_t, _library: cudaLibrary_t, _name: *const c_char) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaLibraryGetKernelCount(_count: *mut c_uint, _lib: cudaLibrary_t) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaLibraryEnumerateKernels(_kernels: *mut cudaKernel_t, _numKernels: c_uint, _lib: cudaLibrary_t) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaFuncSetAttribute(_func: *const c_void, _attr: cudaFuncAttribute, _value: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaKernelSetAttributeForDevice(_kernel: cudaKernel_t, _attr: cudaFuncAttribute, _value: c_int, _device: c_int) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaFuncSetCacheConfig(_func: *const c_void, _cacheConfig: cudaFuncCache) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaFuncSetSharedMemConfig(_func: *const c_void, _config: cudaSharedMemConfig) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaGetSymbolAddress(_devPtr: *mut *mut c_void, _symbol: *const c_void) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaLibraryGetGlobal(_dptr: *mut *mut c_void, _bytes: *mut usize, _library: cudaLibrary_t, _name: *const c_char) -> CudaResult {
    Err(CudaError(801)) // not yet
}

pub unsafe fn cudaLibraryUnload(_library: cudaLibrary_t) -> CudaResult {
    Err(CudaError(801)) // not yet
}
