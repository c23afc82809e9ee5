//! The C library's reading and writing, when this library is preloaded: a system call on a protected page would fail
//! with EFAULT.
//!
//! Each of these first makes the memory accessible (`touch`), then does what the C library's does. Without managed
//! memory that costs one load. Calls that are made in other ways (syscall(2), io_uring, scatter lists of sendmsg) are
//! not seen: there the program gets EFAULT unless it touched the memory itself before.

use libc::{c_int, c_void, iovec, off64_t, off_t, size_t, ssize_t, FILE};
use operations::managed::{any, touch};
use std::ffi::CStr;
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Makes memory accessible where there are regions at all.
#[inline]
fn before(start: *const c_void, length: usize, write: bool) {
    if any() {
        touch(start as usize, length, write);
    }
}

/// Makes the parts of a list accessible.
fn before_all(parts: *const iovec, count: c_int, write: bool) {
    if !any() || parts.is_null() {
        return;
    }
    for at in 0..usize::try_from(count).unwrap_or(0).min(1024) {
        // SAFETY: the program says that there are so many.
        let part = unsafe { parts.add(at).read() };
        touch(part.iov_base as usize, part.iov_len, write);
    }
}

/// Defines the C function `name`, which does the same as the C library's after `prepare`.
macro_rules! wrapped {
    ($name:ident ( $($argument:ident : $kind:ty),* ) -> $result:ty, $failure:expr, $prepare:expr) => {
        #[no_mangle]
        #[allow(clippy::missing_safety_doc)] // C's own
        pub unsafe extern "C" fn $name($($argument: $kind),*) -> $result {
            static REAL: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            };
            $prepare;
            let mut real = REAL.load(Relaxed);
            if real.is_null() {
                real = session::real::function(NAME);
                if real.is_null() {
                    return $failure;
                }
                REAL.store(real, Relaxed);
            }
            // SAFETY: the C library's function of this name, hence of this type; the caller's promises are its.
            unsafe { transmute::<*mut c_void, unsafe extern "C" fn($($kind),*) -> $result>(real)($($argument),*) }
        }
    };
}
pub(crate) use wrapped;

wrapped!(read(fd: c_int, buf: *mut c_void, count: size_t) -> ssize_t, -1, before(buf, count, true));
wrapped!(write(fd: c_int, buf: *const c_void, count: size_t) -> ssize_t, -1, before(buf, count, false));
wrapped!(pread(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t) -> ssize_t, -1, before(buf, count, true));
wrapped!(pread64(fd: c_int, buf: *mut c_void, count: size_t, offset: off64_t) -> ssize_t, -1, before(buf, count, true));
wrapped!(pwrite(fd: c_int, buf: *const c_void, count: size_t, offset: off_t) -> ssize_t, -1, before(buf, count, false));
wrapped!(pwrite64(fd: c_int, buf: *const c_void, count: size_t, offset: off64_t) -> ssize_t, -1, before(buf, count, false));
wrapped!(readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t, -1, before_all(iov, count, true));
wrapped!(writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t, -1, before_all(iov, count, false));
wrapped!(recv(fd: c_int, buf: *mut c_void, count: size_t, flags: c_int) -> ssize_t, -1, before(buf, count, true));
wrapped!(send(fd: c_int, buf: *const c_void, count: size_t, flags: c_int) -> ssize_t, -1, before(buf, count, false));
wrapped!(fread(buf: *mut c_void, size: size_t, count: size_t, file: *mut FILE) -> size_t, 0, before(buf, size.saturating_mul(count), true));
// What the headers call in a program that is compiled with _FORTIFY_SOURCE, as Ubuntu's and Fedora's compilers do by themselves.
wrapped!(__read_chk(fd: c_int, buf: *mut c_void, count: size_t, room: size_t) -> ssize_t, -1, before(buf, count, true));
wrapped!(__pread_chk(fd: c_int, buf: *mut c_void, count: size_t, offset: off_t, room: size_t) -> ssize_t, -1, before(buf, count, true));
wrapped!(__pread64_chk(fd: c_int, buf: *mut c_void, count: size_t, offset: off64_t, room: size_t) -> ssize_t, -1, before(buf, count, true));
wrapped!(__recv_chk(fd: c_int, buf: *mut c_void, count: size_t, room: size_t, flags: c_int) -> ssize_t, -1, before(buf, count, true));
wrapped!(__fread_chk(buf: *mut c_void, room: size_t, size: size_t, count: size_t, file: *mut FILE) -> size_t, 0, before(buf, size.saturating_mul(count), true));
wrapped!(fwrite(buf: *const c_void, size: size_t, count: size_t, file: *mut FILE) -> size_t, 0, before(buf, size.saturating_mul(count), false));
