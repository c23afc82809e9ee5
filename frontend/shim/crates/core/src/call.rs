//! What every exported function passes through: counting, panics, sticky errors, the last error of each thread.
//!
//! Owns the conventions between the generated exports and the hand-written families; owns no function's behaviour.
//! The generated exports call [`enter`] for functions that return a `cudaError_t` and [`enter_value`] for the few that
//! return something else. No panic leaves either: it becomes cudaErrorUnknown, logged with the function's name.
//!
//! Order of checks, for functions of class deferred or sync: a forked child first, then a sticky error of the session,
//! then the function itself. Functions of class local decide for themselves what they need (`runtime::session` tells a
//! child apart). Source: CUDA runtime API, "Error Handling"; house rule 7.

use std::cell::Cell;
use std::ffi::{c_char, CStr};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Mutex;

use abi::CudaError;
use client::{CallSummary, Failure};

use crate::driver::current;
use crate::frame::{self, Part};
use crate::generated_exports::Function;
use crate::{graph, guards, lifecycle, output, permission, runtime, tally, trace};

/// What a family's function returns.
pub type CudaResult<T = ()> = Result<T, CudaError>;

/// How the API table has a function executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Answered in the guest.
    Local = 0,
    /// Recorded on the tape.
    Deferred = 1,
    /// Waits for the host's answer, where there is something to wait for.
    Sync = 2,
}

/// Which default stream a null stream argument means: the plain symbols' or the `_ptsz`/`_ptds` ones'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultStream {
    Legacy,
    PerThread,
}

static UNSUPPORTED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());

thread_local! {
    static LAST_ERROR: Cell<i32> = const { Cell::new(0) };
}

/// Runs one call of the runtime API and returns its `cudaError_t`.
#[inline]
pub fn enter(function: Function, body: impl FnOnce() -> CudaResult) -> CudaError {
    match pass(function, || Ok(()), body) {
        Ok(()) => {
            if needs_context(function) {
                current::runtime_used();
            }
            CudaError(0)
        }
        Err(error) => {
            if !reads_last_error(function) {
                set_last_error(error);
            }
            error
        }
    }
}

/// What the calls of both APIs have in common: counting, the place in the program, panics, sticky errors. `first` is what an API requires of
/// all of its calls.
#[inline]
pub fn pass(function: Function, first: impl FnOnce() -> CudaResult, body: impl FnOnce() -> CudaResult) -> CudaResult {
    let class = function.class();
    tally::count(class);
    let call = || {
        begin(function);
        let outcome = first().and_then(|()| admit(function.meaning(), class)).and_then(|()| body());
        end(function.meaning(), outcome.err());
        outcome
    };
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(report_panic(function)))
}

/// Runs one call that returns no `cudaError_t`; after a panic it returns `otherwise`.
#[inline]
pub fn enter_value<T>(function: Function, otherwise: T, body: impl FnOnce() -> T) -> T {
    tally::count(function.class());
    let call = || {
        begin(function);
        let value = body();
        end(function, None);
        value
    };
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
        report_panic(function);
        otherwise
    })
}

/// Called by the libraries' exports that have no row in the API table: names the function once, in the log and the
/// report. It reports a twin for the per-thread default stream by its documented name.
pub fn unsupported(symbol: &'static CStr) -> CudaError {
    let symbol = symbol.to_str().unwrap_or("an unknown function");
    let name = symbol.strip_suffix("_ptsz").or_else(|| symbol.strip_suffix("_ptds")).unwrap_or(symbol);
    if trace::on() {
        trace::unsupported(name);
    }
    if let Ok(mut names) = UNSUPPORTED.lock() {
        if !names.contains(&name) {
            names.push(name);
            crate::log::error(format_args!("{name} is not supported yet: it returns cudaErrorNotSupported"));
        }
    }
    CudaError::NOT_SUPPORTED
}

/// Where libcudart.so.12 and .13 send every symbol that is not supported, with its name.
///
/// # Safety
/// `name` is a string that lives as long as the process.
#[no_mangle]
pub unsafe extern "C" fn farlane_unsupported_runtime(name: *const c_char) -> CudaError {
    // SAFETY: the caller's promise.
    let error = unsupported(unsafe { CStr::from_ptr(name) });
    set_last_error(error);
    error
}

/// The CUDA result that the program sees for a failure of the session.
#[inline]
pub fn error_of(failure: Failure) -> CudaError {
    match failure {
        Failure::Cuda { code, .. } => CudaError(code),
        Failure::Dead if lifecycle::is_forked_child() => lifecycle::INITIALIZATION_ERROR,
        Failure::Dead => CudaError::DEVICES_UNAVAILABLE,
    }
}

/// As a result, for `map_err(...)?`-free code: `Ok` for success, the error otherwise.
#[inline]
pub fn check(code: i32) -> CudaResult {
    if code == 0 {
        Ok(())
    } else {
        Err(CudaError(code))
    }
}

/// Writes a result through a pointer of the program.
///
/// # Errors
/// cudaErrorInvalidValue for null.
///
/// # Safety
/// `place` is null or one that a `T` can be written to.
pub unsafe fn give<T>(place: *mut T, value: T) -> CudaResult {
    if place.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: not null, and the program says that it is such a place.
    unsafe { place.write(value) };
    Ok(())
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

/// What was counted so far, for the report.
pub fn summary() -> CallSummary {
    CallSummary {
        local: tally::counted(Class::Local),
        deferred: tally::counted(Class::Deferred),
        sync: tally::counted(Class::Sync),
        unsupported: match UNSUPPORTED.lock() {
            Ok(names) => names.iter().map(|name| (*name).to_owned()).collect(),
            Err(_) => Vec::new(),
        },
        sections: [crate::memory::payloads::section()]
            .into_iter()
            .chain(permission::section())
            .chain(guards::section())
            .collect(),
    }
}

/// Notes where the call comes from.
#[inline]
fn begin(function: Function) {
    let meaning = function.meaning();
    frame::begin(Part::of(meaning));
    if trace::on() {
        trace::call(function);
    }
    permission::arrive(meaning);
}

/// The call is done, perhaps with an error.
#[inline]
fn end(function: Function, error: Option<CudaError>) {
    if error.is_some_and(|error| error != CudaError::NOT_READY) {
        permission::failed();
    }
    output::after(function);
    permission::leave(function);
}

#[inline]
fn admit(function: Function, class: Class) -> CudaResult {
    if graph::capture::any() {
        graph::capture::admit(function)?;
    }
    if class == Class::Local {
        return Ok(());
    }
    if lifecycle::is_forked_child() {
        return Err(lifecycle::INITIALIZATION_ERROR);
    }
    match runtime::opened_session().and_then(client::Session::sticky) {
        Some(code) if !clears_sticky(function) => Err(CudaError(code)),
        _ => Ok(()),
    }
}

/// Calls of the runtime API that make the primary context current; one of the local ones is a request to do so, and a reset ends it.
#[inline]
fn needs_context(function: Function) -> bool {
    match function {
        Function::cudaSetDevice | Function::cudaInitDevice => true,
        Function::cudaDeviceReset => false,
        _ => function.class() != Class::Local,
    }
}

/// cudaDeviceReset is how a program leaves a sticky error behind.
#[inline]
fn clears_sticky(function: Function) -> bool {
    matches!(function, Function::cudaDeviceReset)
}

/// These return the last error as their result, which is no error of theirs.
#[inline]
fn reads_last_error(function: Function) -> bool {
    matches!(function, Function::cudaGetLastError | Function::cudaPeekAtLastError)
}

#[cold]
fn report_panic(function: Function) -> CudaError {
    crate::log::error(format_args!(
        "{} failed inside Farlane's shim (a bug of Farlane, not of the program); it returns cudaErrorUnknown",
        function.name()
    ));
    CudaError::UNKNOWN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_unknown_error() {
        assert_eq!(enter(Function::cudaGetDevice, || panic!("a test panics")), CudaError::UNKNOWN);
        assert_eq!(take_last_error(), CudaError::UNKNOWN);
        assert_eq!(enter_value(Function::__cudaInitModule, 7, || panic!("a test panics")), 7);
    }

    #[test]
    fn the_last_error_is_the_threads_own_and_lasts_until_it_is_taken() {
        let fail = |error| move || Err(error);
        enter(Function::cudaGetDevice, fail(CudaError::INVALID_VALUE));
        assert_eq!(enter(Function::cudaGetDevice, || Ok(())), CudaError::SUCCESS);
        assert_eq!(last_error(), CudaError::INVALID_VALUE);
        std::thread::spawn(|| assert_eq!(last_error(), CudaError::SUCCESS)).join().unwrap();
        enter(Function::cudaGetDevice, fail(CudaError::INVALID_DEVICE));
        // Returning it is no new error.
        assert_eq!(enter(Function::cudaGetLastError, || check(take_last_error().0)), CudaError::INVALID_DEVICE);
        assert_eq!(last_error(), CudaError::SUCCESS);
    }

    #[test]
    fn calls_are_counted_by_class_and_unsupported_ones_named_once() {
        let before = summary();
        enter(Function::cudaGetDevice, || Ok(()));
        assert!(summary().local > before.local);
        assert_eq!(unsupported(c"cudaUnheardOf"), CudaError::NOT_SUPPORTED);
        assert_eq!(unsupported(c"cudaUnheardOf_ptsz"), CudaError::NOT_SUPPORTED);
        assert_eq!(summary().unsupported.iter().filter(|name| *name == "cudaUnheardOf").count(), 1);
        take_last_error();
    }
}
