//! What the runtime says of the driver API: it is not there, so no symbol of it is found. Programs that ask for one at run time are
//! prepared for that answer.
#![allow(non_snake_case)] // C's names

use std::ffi::{c_char, c_uint, c_ulonglong, c_void};

use abi::{cudaDriverEntryPointQueryResult, CudaError};

use super::give;
use crate::call::{CudaResult, DefaultStream};

const SYMBOL_NOT_FOUND: cudaDriverEntryPointQueryResult = 1;
/// cudaEnableDefault, cudaEnableLegacyStream, cudaEnablePerThreadDefaultStream.
const FLAGS: std::ops::RangeInclusive<c_ulonglong> = 0..=2;

pub unsafe fn cudaGetDriverEntryPoint(
    _default: DefaultStream,
    symbol: *const c_char,
    funcPtr: *mut *mut c_void,
    flags: c_ulonglong,
    driverStatus: *mut cudaDriverEntryPointQueryResult,
) -> CudaResult {
    if symbol.is_null() || !FLAGS.contains(&flags) {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    unsafe {
        give(funcPtr, std::ptr::null_mut())?;
        if driverStatus.is_null() {
            return Err(CudaError::SYMBOL_NOT_FOUND);
        }
        give(driverStatus, SYMBOL_NOT_FOUND)
    }
}

pub unsafe fn cudaGetDriverEntryPointByVersion(
    default: DefaultStream,
    symbol: *const c_char,
    funcPtr: *mut *mut c_void,
    _cudaVersion: c_uint,
    flags: c_ulonglong,
    driverStatus: *mut cudaDriverEntryPointQueryResult,
) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { cudaGetDriverEntryPoint(default, symbol, funcPtr, flags, driverStatus) }
}
