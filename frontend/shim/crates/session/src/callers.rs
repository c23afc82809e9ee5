//! Whose code makes a call: NVIDIA's libraries are known by their files' names.

use std::ffi::{c_void, CStr};
use std::path::Path;

/// Whether the address is in code of one of NVIDIA's libraries (libcublas.so.13, libnvJitLink.so.13, ...).
pub fn is_nvidias(address: *const c_void) -> bool {
    // SAFETY: dladdr only looks the address up; the strings belong to the loader.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address, &mut info) == 0 || info.dli_fname.is_null() {
            return false;
        }
        let path = CStr::from_ptr(info.dli_fname).to_string_lossy();
        let name = Path::new(path.as_ref()).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        ["libcu", "libnv"].iter().any(|prefix| name.starts_with(prefix))
    }
}

/// Whether the guest is led to PTX where its device takes nothing else (`FARLANE_STEERING`; docs/python.md).
pub fn may_be_steered() -> bool {
    std::env::var_os("FARLANE_STEERING").is_none_or(|setting| setting != "off")
}
