//! Whose code makes a call: libraries are known by their files' names.

use std::ffi::{c_void, CStr};
use std::path::Path;

/// Whether the address is in code of a library whose file's name begins so.
pub fn is_of(address: usize, names: &[&str]) -> bool {
    // SAFETY: dladdr only looks the address up; the strings belong to the loader.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address as *const c_void, &mut info) == 0 || info.dli_fname.is_null() {
            return false;
        }
        let path = CStr::from_ptr(info.dli_fname).to_string_lossy();
        let name = Path::new(path.as_ref()).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        names.iter().any(|beginning| name.starts_with(beginning))
    }
}

/// Whether the guest is led to PTX where its device takes nothing else (`FARLANE_STEERING`; docs/python.md).
pub fn may_be_steered() -> bool {
    std::env::var_os("FARLANE_STEERING").is_none_or(|setting| setting != "off")
}
