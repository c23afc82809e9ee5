//! What the library that redirects statically linked runtimes (crate `redirect`) needs of the core: a place to tell which objects it has redirected,
//! and a function that takes calls of names which no library of ours has.

use std::ffi::{c_char, c_int, CStr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::call;

/// As many as `redirect` assumes (`MOST_REDIRECTED`).
const MOST: usize = 256;

/// The biases of redirected objects, with bit 0 set; zero where there is none. Written by the other library, under the loader's lock, before any
/// constructor of the object.
#[no_mangle]
pub static farlane_redirected: [AtomicUsize; MOST] = [const { AtomicUsize::new(0) }; MOST];

/// Whether the calls of the object that is loaded at this bias to the runtime that is linked into it come here.
pub fn is_redirected(bias: usize) -> bool {
    farlane_redirected.iter().any(|redirected| redirected.load(Relaxed) == bias | 1)
}

/// A function of an embedded runtime that our libraries do not have, by its name.
///
/// # Safety
/// The name is a string that ends with NUL and lives for ever.
#[no_mangle]
pub unsafe extern "C" fn farlane_unsupported(name: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr::<'static>(name) }.to_str().unwrap_or("a function");
    std::panic::catch_unwind(|| call::unsupported(name).0).unwrap_or(abi::CudaError::UNKNOWN.0)
}
