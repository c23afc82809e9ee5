//! The error family: the last error of a thread, and the names and texts of errors.
//!
//! The last error itself is `entry`'s: every function that fails sets it. A sticky error stays the last error, however
//! often it is read, until the device is reset: that is how a program sees that its context is lost.
//! Source: CUDA runtime API, "Error Handling".

use std::ffi::c_char;

use abi::{CudaError, ERRORS};
use session::process;

use crate::entry;
use session::call::{check, Outcome};

/// The session's sticky error, if there is one; a session that was never opened has none.
fn sticky() -> Option<CudaError> {
    process::opened_session().and_then(client::Session::sticky).map(CudaError)
}

fn as_result(error: CudaError) -> Outcome {
    check(error.0)
}

pub unsafe fn cudaGetLastError() -> Outcome {
    let last = entry::take_last_error();
    as_result(sticky().unwrap_or(last))
}

pub unsafe fn cudaPeekAtLastError() -> Outcome {
    as_result(sticky().unwrap_or_else(entry::last_error))
}

const UNRECOGNIZED: &str = "unrecognized error code\0";

/// (name, text) of an error, each with its final NUL.
fn strings(error: CudaError) -> (&'static str, &'static str) {
    match ERRORS.binary_search_by_key(&error.0, |(code, _, _)| *code) {
        Ok(index) => (ERRORS[index].1, ERRORS[index].2),
        Err(_) => (UNRECOGNIZED, UNRECOGNIZED),
    }
}

pub unsafe fn cudaGetErrorName(error: CudaError) -> *const c_char {
    strings(error).0.as_ptr().cast()
}

pub unsafe fn cudaGetErrorString(error: CudaError) -> *const c_char {
    strings(error).1.as_ptr().cast()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_found_and_end_with_one_nul() {
        assert_eq!(strings(CudaError::SUCCESS), ("cudaSuccess\0", "no error\0"));
        assert_eq!(strings(CudaError::NOT_SUPPORTED).0, "cudaErrorNotSupported\0");
        assert_eq!(strings(CudaError(12345)).1, UNRECOGNIZED);
        assert_eq!(strings(CudaError(-1)).0, UNRECOGNIZED);
        for (code, name, text) in &ERRORS {
            for string in [name, text] {
                assert_eq!(string.find('\0'), Some(string.len() - 1), "{code}");
            }
        }
    }
}
