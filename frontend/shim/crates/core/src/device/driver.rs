//! What the runtime API says of the driver API: where its functions are.
#![allow(non_snake_case)] // C's names

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr;

use abi::{cudaDriverEntryPointQueryResult, CudaError};

use super::DRIVER_VERSION;
use crate::call::{CudaResult, DefaultStream};
use crate::driver::initialization::cuGetProcAddress_v2;

/// cudaEnablePerThreadDefaultStream, the last of the flags; they are cuGetProcAddress's.
const PER_THREAD: c_ulonglong = 2;

pub unsafe fn cudaGetDriverEntryPoint(
    default: DefaultStream,
    symbol: *const c_char,
    funcPtr: *mut *mut c_void,
    flags: c_ulonglong,
    driverStatus: *mut cudaDriverEntryPointQueryResult,
) -> CudaResult {
    let version = DRIVER_VERSION.cast_unsigned();
    // SAFETY: the caller's promise.
    unsafe { cudaGetDriverEntryPointByVersion(default, symbol, funcPtr, version, flags, driverStatus) }
}

pub unsafe fn cudaGetDriverEntryPointByVersion(
    default: DefaultStream,
    symbol: *const c_char,
    funcPtr: *mut *mut c_void,
    cudaVersion: c_uint,
    flags: c_ulonglong,
    driverStatus: *mut cudaDriverEntryPointQueryResult,
) -> CudaResult {
    // SAFETY: the program says that it is a string, or null.
    if symbol.is_null() || unsafe { *symbol } == 0 || flags > PER_THREAD {
        return Err(CudaError::INVALID_VALUE);
    }
    let version = c_int::try_from(cudaVersion).map_err(|_| CudaError::INVALID_VALUE)?;
    let mut address = ptr::null_mut();
    // SAFETY: the caller's promise; a place of ours.
    let found = unsafe { cuGetProcAddress_v2(default, symbol, &mut address, version, flags, driverStatus) };
    // SAFETY: the caller's place for the function.
    unsafe { super::give(funcPtr, address) }?;
    found
}
