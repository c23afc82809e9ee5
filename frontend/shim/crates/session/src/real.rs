//! The C library's function of a name that this library defines as well.

use std::ffi::{c_void, CStr};

/// What comes next behind this library; where it was not preloaded nothing does, and it is the C library's own. Null when there is none.
pub fn function(name: &CStr) -> *mut c_void {
    // SAFETY: names that end with NUL; the C library is there, so nothing is loaded.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr());
        if !next.is_null() {
            return next;
        }
        let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD);
        if library.is_null() {
            library
        } else {
            libc::dlsym(library, name.as_ptr())
        }
    }
}
