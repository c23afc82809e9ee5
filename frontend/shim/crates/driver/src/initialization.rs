//! What a program asks first: initialization, names of results, the addresses of functions.
//!
//! Source: CUDA driver API, "Initialization", "Error Handling", "Driver Entry Point Access".

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};

use abi::driver::{
    cuuint64_t, CUdriverProcAddressQueryResult, CUresult, CU_GET_PROC_ADDRESS_SUCCESS,
    CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT, RESULTS,
};
use operations::device::DRIVER_VERSION;
use session::call::{Error, Outcome};
use session::function::DefaultStream;
use session::process;

use super::entries::{self, Found};
use super::entry::{self, NOT_FOUND};
use super::{give, give_if_wanted};

/// CU_GET_PROC_ADDRESS_DEFAULT, _LEGACY_STREAM and _PER_THREAD_DEFAULT_STREAM.
const DEFAULT: cuuint64_t = 0;
const LEGACY: cuuint64_t = 1;
const PER_THREAD: cuuint64_t = 2;

/// Opens the session: a process without a host has no device.
pub unsafe fn cuInit(Flags: c_uint) -> Outcome {
    if Flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    process::devices()?;
    entry::initialize();
    Ok(())
}

/// # Errors
/// cudaErrorInvalidValue for a code that is none.
fn strings(error: CUresult) -> Outcome<(&'static str, &'static str)> {
    let index = RESULTS.binary_search_by_key(&error.0, |(code, _, _)| *code).map_err(|_| Error::INVALID_VALUE)?;
    Ok((RESULTS[index].1, RESULTS[index].2))
}

/// The string, or null with the error.
unsafe fn give_string(place: *mut *const c_char, string: Outcome<&'static str>) -> Outcome {
    // SAFETY: the caller's place for the string.
    unsafe { give(place, string.map_or(std::ptr::null(), |text| text.as_ptr().cast()))? };
    string.map(drop)
}

pub unsafe fn cuGetErrorName(error: CUresult, pStr: *mut *const c_char) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { give_string(pStr, strings(error).map(|(name, _)| name)) }
}

pub unsafe fn cuGetErrorString(error: CUresult, pStr: *mut *const c_char) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { give_string(pStr, strings(error).map(|(_, text)| text)) }
}

/// What both forms of cuGetProcAddress do. Flag 0 means the default stream for which the caller was compiled; a version
/// that is newer than the driver's is invalid.
///
/// # Safety
/// `symbol` is a string or null.
unsafe fn search(default: DefaultStream, symbol: *const c_char, version: c_int, flags: cuuint64_t) -> Outcome<Found> {
    let default = match flags {
        _ if symbol.is_null() || version > DRIVER_VERSION => return Err(Error::INVALID_VALUE),
        DEFAULT => default,
        LEGACY => DefaultStream::Legacy,
        PER_THREAD => DefaultStream::PerThread,
        _ => return Err(Error::INVALID_VALUE),
    };
    // SAFETY: not null, the caller's promise.
    let name = unsafe { CStr::from_ptr(symbol) };
    Ok(entries::find(name, version, default))
}

/// An older program learns by the result that the function is not there, a newer one by the status.
pub unsafe fn cuGetProcAddress_v2(
    default: DefaultStream,
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cudaVersion: c_int,
    flags: cuuint64_t,
    symbolStatus: *mut CUdriverProcAddressQueryResult,
) -> Outcome {
    // SAFETY: the caller's promise.
    let found = unsafe { search(default, symbol, cudaVersion, flags) }?;
    let (address, status) = match found {
        Found::At(address) => (address, CU_GET_PROC_ADDRESS_SUCCESS),
        Found::TooNew => (std::ptr::null_mut(), CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
        Found::Unknown => (std::ptr::null_mut(), CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND),
    };
    // SAFETY: the caller's places.
    unsafe {
        give(pfn, address)?;
        give_if_wanted(symbolStatus, status);
    }
    if address.is_null() && symbolStatus.is_null() {
        return Err(NOT_FOUND);
    }
    Ok(())
}

pub unsafe fn cuGetProcAddress(
    symbol: *const c_char,
    pfn: *mut *mut c_void,
    cudaVersion: c_int,
    flags: cuuint64_t,
) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { cuGetProcAddress_v2(DefaultStream::Legacy, symbol, pfn, cudaVersion, flags, std::ptr::null_mut()) }
}
