//! NVML's result codes, and what every function goes through.

use std::ffi::{c_char, c_uint};
use std::panic::{catch_unwind, AssertUnwindSafe};

/// nvmlReturn_t.
pub type Code = c_uint;

pub const SUCCESS: Code = 0;
pub const UNINITIALIZED: Code = 1;
pub const INVALID_ARGUMENT: Code = 2;
pub const NOT_SUPPORTED: Code = 3;
pub const NOT_FOUND: Code = 6;
pub const INSUFFICIENT_SIZE: Code = 7;
pub const DRIVER_NOT_LOADED: Code = 9;
pub const GPU_IS_LOST: Code = 15;
pub const VERSION_MISMATCH: Code = 25;
pub const UNKNOWN: Code = 999;

/// Runs a function; a panic does not leave the library.
pub fn enter(run: impl FnOnce() -> Result<(), Code>) -> Code {
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(())) => SUCCESS,
        Ok(Err(code)) => code,
        Err(_) => UNKNOWN,
    }
}

/// Writes an answer.
///
/// # Safety
/// `place` is null, or the caller's place for a value of this type.
pub unsafe fn give<T>(place: *mut T, value: T) -> Result<(), Code> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    // SAFETY: not null, and the caller's promise. C's structs may lie anywhere.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Writes a string with its end.
///
/// # Safety
/// `place` is null, or has `length` bytes.
pub unsafe fn give_text(place: *mut c_char, length: c_uint, text: &str) -> Result<(), Code> {
    if place.is_null() {
        return Err(INVALID_ARGUMENT);
    }
    if text.len() >= length as usize {
        return Err(INSUFFICIENT_SIZE);
    }
    // SAFETY: the text and its end fit, as was just checked.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr().cast(), place, text.len());
        place.add(text.len()).write(0);
    }
    Ok(())
}
