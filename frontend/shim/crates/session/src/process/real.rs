//! The function of a name that this library defines as well: the C library's, or another one's.

use std::ffi::{c_char, c_void, CStr};

/// What comes next behind this library; where it was not preloaded nothing does, and it is the C library's own. Null
/// when there is none.
pub fn function(name: &CStr) -> *mut c_void {
    function_of(&[c"libc.so.6"], name)
}

/// As `function`, for a function of one of these libraries: of the first loaded one that has it. Nothing is loaded for
/// it.
pub fn function_of(libraries: &[&CStr], name: &CStr) -> *mut c_void {
    // SAFETY: the C library's function; names that end with NUL.
    unsafe {
        // Not this library's `dlsym`, which leads some names to other functions.
        let find: unsafe extern "C" fn(*mut c_void, *const c_char) -> *mut c_void = std::mem::transmute(dlsym());
        let next = find(libc::RTLD_NEXT, name.as_ptr());
        if !next.is_null() {
            return next;
        }
        libraries
            .iter()
            .map(|library| libc::dlopen(library.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD))
            .filter(|handle| !handle.is_null())
            .map(|handle| find(handle, name.as_ptr()))
            .find(|found| !found.is_null())
            .unwrap_or(std::ptr::null_mut())
    }
}

/// The C library's `dlsym`, which this library defines as well: found without it.
pub fn dlsym() -> *mut c_void {
    let next = of_the_loader(libc::RTLD_NEXT, c"dlsym");
    if next.is_null() {
        of_the_loader(libc::RTLD_DEFAULT, c"dlsym")
    } else {
        next
    }
}

/// The version of glibc's first release for the processor.
const FIRST: &CStr = if cfg!(target_arch = "aarch64") { c"GLIBC_2.17" } else { c"GLIBC_2.2.5" };

/// A function of the loader's, by its version: the C library has it since 2.34, before that a library of its own.
fn of_the_loader(place: *mut c_void, name: &CStr) -> *mut c_void {
    [c"GLIBC_2.34", FIRST]
        .into_iter()
        // SAFETY: strings that end with NUL.
        .map(|version| unsafe { libc::dlvsym(place, name.as_ptr(), version.as_ptr()) })
        .find(|found| !found.is_null())
        .unwrap_or(std::ptr::null_mut())
}

/// The C library's `dlopen`, which this library defines as well: found without opening anything.
pub fn dlopen() -> *mut c_void {
    const NAME: &CStr = c"dlopen";
    // SAFETY: a string that ends with NUL.
    let next = unsafe { libc::dlsym(libc::RTLD_NEXT, NAME.as_ptr()) };
    if next.is_null() {
        of_the_loader(libc::RTLD_DEFAULT, NAME)
    } else {
        next
    }
}
