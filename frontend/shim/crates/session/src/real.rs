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

/// The C library's `dlsym`, which this library defines as well: found without it.
pub fn dlsym() -> *mut c_void {
    const NAME: &CStr = c"dlsym";
    // SAFETY: strings that end with NUL.
    unsafe {
        [libc::RTLD_NEXT, libc::RTLD_DEFAULT]
            .into_iter()
            // In the C library since 2.34, before that in one of its own.
            .flat_map(|place| [c"GLIBC_2.34", c"GLIBC_2.2.5"].map(|version| (place, version)))
            .map(|(place, version)| libc::dlvsym(place, NAME.as_ptr(), version.as_ptr()))
            .find(|found| !found.is_null())
            .unwrap_or(std::ptr::null_mut())
    }
}

/// The C library's `dlopen`, which this library defines as well: found without opening anything.
pub fn dlopen() -> *mut c_void {
    const NAME: &CStr = c"dlopen";
    // SAFETY: strings that end with NUL.
    unsafe {
        let next = libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr());
        if !next.is_null() {
            return next;
        }
        // In the C library since 2.34, before that in one of its own.
        let current = libc::dlvsym(libc::RTLD_DEFAULT, NAME.as_ptr(), c"GLIBC_2.34".as_ptr());
        if current.is_null() {
            libc::dlvsym(libc::RTLD_DEFAULT, NAME.as_ptr(), c"GLIBC_2.2.5".as_ptr())
        } else {
            current
        }
    }
}
