//! The device files of a GPU, for programs that look whether there is one before they use CUDA (JAX): in a guest there
//! is.
//!
//! Where the C library finds no `/dev/nvidia0` or `/dev/nvidiactl`, these functions answer for `/dev/null`. Opening
//! such a file fails as it did: what does that speaks to NVIDIA's kernel module. Other ways to ask (fstatat, statx,
//! system calls, folders) are not seen.

use libc::{c_char, c_int, c_void};
use std::ffi::CStr;
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

const FILES: [&CStr; 2] = [c"/dev/nvidia0", c"/dev/nvidiactl"];
const IN_THEIR_PLACE: &CStr = c"/dev/null";

/// Whether a guest of a host looks for a file that a machine with a GPU has.
fn is_asked_for(path: *const c_char) -> bool {
    // SAFETY: null, or the program says that it is a string.
    !path.is_null() && FILES.contains(&unsafe { CStr::from_ptr(path) }) && std::env::var_os("FARLANE_HOST").is_some()
}

/// Defines the C function `name`, which does the same as the C library's but for the device files.
macro_rules! answering {
    ($name:ident ( $($before:ident : $earlier:ty,)* @path, $($after:ident : $later:ty),* ) $(else $other:ident)?) => {
        #[no_mangle]
        #[allow(clippy::missing_safety_doc)] // C's own
        pub unsafe extern "C" fn $name($($before: $earlier,)* path: *const c_char, $($after: $later),*) -> c_int {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            };
            let mut real = REAL.load(Relaxed);
            if real.is_null() {
                real = session::real::function(NAME);
                $(if real.is_null() {
                    real = $other as *mut c_void;
                })?
                if real.is_null() {
                    return -1;
                }
                REAL.store(real, Relaxed);
            }
            // SAFETY: the C library's function of this name, hence of this type; the caller's promises are its.
            unsafe {
                let real = transmute::<*mut c_void, unsafe extern "C" fn($($earlier,)* *const c_char, $($later),*) -> c_int>(real);
                let result = real($($before,)* path, $($after),*);
                if result != 0 && is_asked_for(path) {
                    return real($($before,)* IN_THEIR_PLACE.as_ptr(), $($after),*);
                }
                result
            }
        }
    };
}

/// A C library before 2.33 has no function of the name.
#[cfg(target_arch = "x86_64")]
unsafe extern "C" fn stat_by_system_call(path: *const c_char, buf: *mut c_void) -> c_int {
    // SAFETY: the caller's promises. The kernel's structure is the C library's.
    unsafe { libc::syscall(libc::SYS_stat, path, buf) as c_int }
}

#[cfg(target_arch = "x86_64")]
answering!(stat(@path, buf: *mut c_void) else stat_by_system_call);
#[cfg(target_arch = "x86_64")]
answering!(stat64(@path, buf: *mut c_void) else stat_by_system_call);
#[cfg(not(target_arch = "x86_64"))]
answering!(stat(@path, buf: *mut c_void));
#[cfg(not(target_arch = "x86_64"))]
answering!(stat64(@path, buf: *mut c_void));
answering!(access(@path, mode: c_int));
// What programs that were built with a C library before 2.33 call.
answering!(__xstat(version: c_int, @path, buf: *mut c_void));
answering!(__xstat64(version: c_int, @path, buf: *mut c_void));
