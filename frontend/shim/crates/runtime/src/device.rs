//! What of the device family only the runtime API has: resetting the primary context's device, its version, its view of
//! the driver API.

use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::ptr;

use abi::cudaDriverEntryPointQueryResult;
use driver::initialization::cuGetProcAddress_v2;
use driver::{contexts, current};
use operations::device::{self, DRIVER_VERSION};
use session::call::{give, Error, Outcome};
use session::function::DefaultStream;
use session::process;

pub use crate::properties::*;

/// What each library says it is.
const RUNTIME_VERSION_12: c_int = 12090;
const RUNTIME_VERSION_13: c_int = 13050;

pub unsafe fn cudaRuntimeGetVersion_v12(runtimeVersion: *mut c_int) -> Outcome {
    // SAFETY: the caller's place for the version.
    unsafe { give(runtimeVersion, RUNTIME_VERSION_12) }
}

pub unsafe fn cudaRuntimeGetVersion_v13(runtimeVersion: *mut c_int) -> Outcome {
    // SAFETY: the caller's place for the version.
    unsafe { give(runtimeVersion, RUNTIME_VERSION_13) }
}

/// A process that never used the device has nothing to reset.
pub unsafe fn cudaDeviceReset() -> Outcome {
    if !process::was_touched() {
        return Ok(());
    }
    // Of another context only the runtime's own state would end, of which there is none to be seen.
    if current::get().is_some_and(|context| !context.primary) {
        return Ok(());
    }
    device::reset(!contexts::any_created())?;
    contexts::reset_primary(process::current_device())
}

/// cudaEnablePerThreadDefaultStream, the last of the flags; they are cuGetProcAddress's.
const PER_THREAD: c_ulonglong = 2;

pub unsafe fn cudaGetDriverEntryPoint(
    default: DefaultStream,
    symbol: *const c_char,
    funcPtr: *mut *mut c_void,
    flags: c_ulonglong,
    driverStatus: *mut cudaDriverEntryPointQueryResult,
) -> Outcome {
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
) -> Outcome {
    // SAFETY: the program says that it is a string, or null.
    if symbol.is_null() || unsafe { *symbol } == 0 || flags > PER_THREAD {
        return Err(Error::INVALID_VALUE);
    }
    let version = c_int::try_from(cudaVersion).map_err(|_| Error::INVALID_VALUE)?;
    let mut address = ptr::null_mut();
    // SAFETY: the caller's promise; a place of ours.
    let found = unsafe { cuGetProcAddress_v2(default, symbol, &mut address, version, flags, driverStatus) };
    // SAFETY: the caller's place for the function.
    unsafe { give(funcPtr, address) }?;
    found
}
