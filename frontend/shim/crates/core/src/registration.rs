//! Family registration: skeleton.
#![allow(non_snake_case)]

use std::ffi::*;

use abi::*;

use crate::call::{CudaResult, DefaultStream};

pub unsafe fn __cudaRegisterFatBinary(_fatCubin: *mut c_void) -> *mut *mut c_void {
    std::ptr::null_mut() // not yet
}

pub unsafe fn __cudaRegisterFatBinaryEnd(_fatCubinHandle: *mut *mut c_void) {
    // not yet
}

pub unsafe fn __cudaUnregisterFatBinary(_fatCubinHandle: *mut *mut c_void) {
    // not yet
}

pub unsafe fn __cudaRegisterFunction(_fatCubinHandle: *mut *mut c_void, _hostFun: *const c_char, _deviceFun: *mut c_char, _deviceName: *const c_char, _thread_limit: c_int, _tid: *mut uint3, _bid: *mut uint3, _bDim: *mut dim3, _gDim: *mut dim3, _wSize: *mut c_int) {
    // not yet
}

pub unsafe fn __cudaRegisterVar(_fatCubinHandle: *mut *mut c_void, _hostVar: *mut c_char, _deviceAddress: *mut c_char, _deviceName: *const c_char, _ext: c_int, _size: usize, _constant: c_int, _global: c_int) {
    // not yet
}

pub unsafe fn __cudaRegisterManagedVar(_fatCubinHandle: *mut *mut c_void, _hostVarPtrAddress: *mut *mut c_void, _deviceAddress: *mut c_char, _deviceName: *const c_char, _ext: c_int, _size: usize, _constant: c_int, _global: c_int) {
    // not yet
}

pub unsafe fn __cudaRegisterHostVar(_fatCubinHandle: *mut *mut c_void, _deviceName: *const c_char, _hostVar: *mut c_char, _size: usize) {
    // not yet
}

pub unsafe fn __cudaInitModule(_fatCubinHandle: *mut *mut c_void) -> c_char {
    0 // not yet
}
