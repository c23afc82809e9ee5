//! What every function of the runtime API passes through: result codes, the last error of each thread, the primary
//! context.
//!
//! The generated exports call [`enter`] for functions that return a `cudaError_t` and [`enter_value`] for the few that
//! return something else. What both APIs do is `operations::entry`'s. Source: CUDA runtime API, "Error Handling".

use std::cell::Cell;
use std::ffi::{c_char, CStr};

use abi::CudaError;
use driver::current;
use operations::entry::pass;
pub use operations::entry::pass_value as enter_value;
use session::call::Outcome;
use session::function::Function;
use session::report;

thread_local! {
    static LAST_ERROR: Cell<i32> = const { Cell::new(0) };
}

/// Runs one call of the runtime API and returns its `cudaError_t`.
#[inline]
pub fn enter(function: Function, body: impl FnOnce() -> Outcome) -> CudaError {
    match pass(function, current::admit_runtime, body) {
        Ok(()) => {
            if function.makes_context() {
                current::runtime_used();
            }
            CudaError::SUCCESS
        }
        Err(error) => {
            let error = CudaError(error.0);
            if !reads_last_error(function) && error != CudaError::NOT_READY {
                set_last_error(error);
            }
            error
        }
    }
}

/// Where libcudart.so.12 and .13 send every symbol that is not supported, with its name.
///
/// # Safety
/// `name` is a string that lives as long as the process.
#[no_mangle]
pub unsafe extern "C" fn farlane_unsupported_runtime(name: *const c_char) -> CudaError {
    // SAFETY: the caller's promise.
    report::unsupported(unsafe { CStr::from_ptr(name) });
    set_last_error(CudaError::NOT_SUPPORTED);
    CudaError::NOT_SUPPORTED
}

/// The thread's last error (cudaPeekAtLastError).
#[inline]
pub fn last_error() -> CudaError {
    CudaError(LAST_ERROR.try_with(Cell::get).unwrap_or(0))
}

/// The thread's last error, which is success from now on (cudaGetLastError).
#[inline]
pub fn take_last_error() -> CudaError {
    CudaError(LAST_ERROR.try_with(|slot| slot.replace(0)).unwrap_or(0))
}

/// Sets the thread's last error. Success leaves it as it is.
#[inline]
pub fn set_last_error(error: CudaError) {
    if error.0 != 0 {
        // A thread that is ending has no last error any more.
        let _ = LAST_ERROR.try_with(|slot| slot.set(error.0));
    }
}

/// These return the last error as their result, which is no error of theirs.
#[inline]
fn reads_last_error(function: Function) -> bool {
    matches!(function, Function::cudaGetLastError | Function::cudaPeekAtLastError)
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::call::{check, Error};

    #[test]
    fn a_panic_becomes_an_unknown_error() {
        assert_eq!(enter(Function::cudaGetDevice, || panic!("a test panics")), CudaError(Error::UNKNOWN.0));
        assert_eq!(take_last_error(), CudaError(Error::UNKNOWN.0));
    }

    #[test]
    fn the_last_error_is_the_threads_own_and_lasts_until_it_is_taken() {
        let fail = |error| move || Err(error);
        enter(Function::cudaGetDevice, fail(Error::INVALID_VALUE));
        assert_eq!(enter(Function::cudaGetDevice, || Ok(())), CudaError::SUCCESS);
        assert_eq!(last_error(), CudaError(Error::INVALID_VALUE.0));
        std::thread::spawn(|| assert_eq!(last_error(), CudaError::SUCCESS)).join().unwrap();
        enter(Function::cudaGetDevice, fail(Error::INVALID_DEVICE));
        // Returning it is no new error.
        let returned = enter(Function::cudaGetLastError, || check(take_last_error().0));
        assert_eq!(returned, CudaError(Error::INVALID_DEVICE.0));
        assert_eq!(last_error(), CudaError::SUCCESS);
        // That work is not done is no error, so seen on an H100: CUB takes the last error for a call's own.
        assert_eq!(enter(Function::cudaEventQuery, fail(Error::NOT_READY)), CudaError::NOT_READY);
        assert_eq!(last_error(), CudaError::SUCCESS);
    }
}
