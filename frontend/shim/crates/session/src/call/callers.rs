//! Whose code makes a call: libraries are known by their files' names.

use std::ffi::{c_void, CStr, OsStr};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// The file that the address is in, of the program or a library, as the loader has it.
pub fn file_at(address: usize) -> Option<PathBuf> {
    // SAFETY: dladdr only looks the address up; the string belongs to the loader.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = libc::dladdr(address as *const c_void, &mut info) != 0 && !info.dli_fname.is_null();
        found.then(|| Path::new(OsStr::from_bytes(CStr::from_ptr(info.dli_fname).to_bytes())).to_path_buf())
    }
}

/// Whether the address is in code of a library whose file's name begins so.
pub fn is_of(address: usize, names: &[&str]) -> bool {
    let path = file_at(address).unwrap_or_default();
    let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
    names.iter().any(|beginning| name.starts_with(beginning))
}

/// Whether the guest is led to PTX where its device takes nothing else (`FARLANE_STEERING`; docs/howto/python-guests.md).
pub fn may_be_steered() -> bool {
    std::env::var_os("FARLANE_STEERING").is_none_or(|setting| setting != "off")
}
