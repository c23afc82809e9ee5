//! What the library that redirects statically linked runtimes (crate `redirect`) needs of the core: a place to tell which objects it has redirected.
//! Calls of names that no library of ours has go to `farlane_unsupported_runtime` (crate `runtime`).

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

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
