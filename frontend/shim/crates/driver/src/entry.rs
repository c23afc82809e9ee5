//! What every function of the driver API passes through: the checks for initialization and for a current context,
//! result codes.
//!
//! The order of CUDA's checks: cuInit, then the current context, then the context's sticky error, then the function
//! itself. A driver function leaves the runtime API's last error alone.

use std::ffi::{c_char, c_int, CStr};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

use abi::driver::CUresult;
use operations::entry::pass;
use session::call::{Error, Outcome};
use session::function::Function;
use session::{process, report};

use super::current;

/// What a function of the driver API requires (the row's `needs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needs {
    Nothing,
    /// cuInit was called.
    Initialization,
    /// The current context of the calling thread, if it has one, was not destroyed.
    NoEndedContext,
    /// The calling thread has a current context.
    Context,
}

/// CUDA_ERROR_INVALID_CONTEXT: the runtime API knows the code under another name.
pub const INVALID_CONTEXT: Error = Error(201);
/// CUDA_ERROR_CONTEXT_IS_DESTROYED.
pub const CONTEXT_IS_DESTROYED: Error = Error(709);
/// CUDA_ERROR_NOT_FOUND.
pub const NOT_FOUND: Error = Error(500);
/// CUDA_ERROR_INVALID_HANDLE.
pub const INVALID_HANDLE: Error = Error(400);

static INITIALIZED: AtomicBool = AtomicBool::new(false);

/// From now on the driver is initialized (cuInit).
pub fn initialize() {
    INITIALIZED.store(true, Release);
}

/// Whether cuInit was called, by the program or by the runtime API.
pub fn is_initialized() -> bool {
    INITIALIZED.load(Acquire) || process::was_touched()
}

/// Runs one call of the program and returns its `CUresult`.
#[inline]
pub fn enter(function: Function, needs: Needs, body: impl FnOnce() -> Outcome) -> CUresult {
    let admitted = || match needs {
        Needs::Context => current::require().map(drop),
        Needs::Nothing => Ok(()),
        Needs::NoEndedContext if current::get().is_some() => current::require().map(drop),
        Needs::Initialization | Needs::NoEndedContext if is_initialized() => Ok(()),
        Needs::Initialization | Needs::NoEndedContext => Err(Error::INITIALIZATION_ERROR),
    };
    match pass(function, admitted, body) {
        Ok(()) => CUresult::SUCCESS,
        Err(error) if super::interop::are_the_runtimes(function) => CUresult(error.0),
        Err(error) => result_of(error),
    }
}

/// The driver API's code for an error of the operations. Codes from 100 on are the same in both APIs; below, the
/// runtime API has codes of its own, for arguments and for symbols.
#[cold]
pub fn result_of(error: Error) -> CUresult {
    const INVALID_VALUE: c_int = 1;
    CUresult(match error {
        Error::INVALID_CONFIGURATION
        | Error::INVALID_PITCH_VALUE
        | Error::INVALID_MEMCPY_DIRECTION
        | Error::INVALID_CHANNEL_DESCRIPTOR => INVALID_VALUE,
        Error::INVALID_SYMBOL => NOT_FOUND.0,
        Error::INVALID_DEVICE_FUNCTION => INVALID_HANDLE.0,
        Error(code) if (9..46).contains(&code) || (48..100).contains(&code) => INVALID_VALUE,
        Error(code) => code,
    })
}

/// Where libcuda.so.1 sends every symbol that is not supported, with its name.
///
/// # Safety
/// `name` is a string that lives as long as the process.
#[no_mangle]
pub unsafe extern "C" fn farlane_unsupported_driver(name: *const c_char) -> CUresult {
    // SAFETY: the caller's promise.
    let name: &'static CStr = unsafe { CStr::from_ptr(name) };
    report::unsupported(name);
    CUresult(Error::NOT_SUPPORTED.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_the_driver_apis() {
        for (error, code) in
            [(9, 1), (12, 1), (13, 500), (21, 1), (98, 400), (46, 46), (2, 2), (3, 3), (700, 700), (999, 999)]
        {
            assert_eq!(result_of(Error(error)), CUresult(code), "{error}");
        }
    }
}
