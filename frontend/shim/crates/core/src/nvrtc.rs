//! NVRTC's functions for machine code, for programs that are linked with NVRTC: they give PTX where `steering` gives it
//! to who looks them up.
//!
//! Preloaded, this library's come before NVRTC's own. They call NVRTC's, so without steering nothing changes.

use libc::{c_int, c_void};
use std::ffi::CStr;
use std::mem::transmute;

use crate::steering;

const LIBRARIES: [&CStr; 2] = [c"libnvrtc.so.13", c"libnvrtc.so.12"];
const NVRTC_ERROR_INTERNAL_ERROR: c_int = 11;

/// NVRTC's function of that name, or the one that takes its place.
///
/// # Safety
/// The caller's promises are those of the function.
unsafe fn call(name: &CStr, program: *mut c_void, result: *mut c_void) -> c_int {
    // Of the library that the program is linked with, or of one that another library has opened.
    let function = session::real::function_of(&LIBRARIES, steering::instead_of(name).unwrap_or(name));
    if function.is_null() {
        return NVRTC_ERROR_INTERNAL_ERROR;
    }
    // SAFETY: all four functions have this type.
    unsafe {
        transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int>(function)(program, result)
    }
}

/// # Safety
/// NVRTC's.
#[no_mangle]
#[allow(non_snake_case)]
pub unsafe extern "C" fn nvrtcGetCUBIN(program: *mut c_void, code: *mut c_void) -> c_int {
    // SAFETY: the caller's promises.
    unsafe { call(c"nvrtcGetCUBIN", program, code) }
}

/// # Safety
/// NVRTC's.
#[no_mangle]
#[allow(non_snake_case)]
pub unsafe extern "C" fn nvrtcGetCUBINSize(program: *mut c_void, size: *mut c_void) -> c_int {
    // SAFETY: the caller's promises.
    unsafe { call(c"nvrtcGetCUBINSize", program, size) }
}
