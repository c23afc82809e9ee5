//! A call of the program: what its operation returns, and how a failure of the session becomes an error of the call.
//!
//! Rooms: `function` (its row in the API tables), `frame` (its place in the program), `callers` (the library it comes
//! from).

pub mod callers;
pub mod frame;
pub mod function;

use client::Failure;

use crate::lifecycle;

/// Why an operation failed: a code of the tape's (protos/tape.md), never success. Each face gives it the code of its
/// API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Error(pub i32);

/// What an operation returns.
pub type Outcome<T = ()> = Result<T, Error>;

/// The error of a call that a failure of the session ended.
#[inline]
pub fn error_of(failure: Failure) -> Error {
    match failure {
        Failure::Cuda { code, .. } => Error(code),
        Failure::Dead if lifecycle::is_forked_child() => lifecycle::INITIALIZATION_ERROR,
        Failure::Dead => Error::DEVICES_UNAVAILABLE,
    }
}

/// As a result, for `map_err(...)?`-free code: `Ok` for success, the error otherwise.
#[inline]
pub fn check(code: i32) -> Outcome {
    if code == 0 {
        Ok(())
    } else {
        Err(Error(code))
    }
}

/// Writes a result through a pointer of the program.
///
/// # Errors
/// cudaErrorInvalidValue for null.
///
/// # Safety
/// `place` is null or one that a `T` can be written to.
pub unsafe fn give<T>(place: *mut T, value: T) -> Outcome {
    if place.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: not null, and the program says that it is such a place.
    unsafe { place.write(value) };
    Ok(())
}
