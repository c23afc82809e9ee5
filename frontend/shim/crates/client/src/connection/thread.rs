//! The shim's own threads.
//!
//! Made by the system's own function, not by Rust's: what that allocates as a thread starts, LeakSanitizer finds in the child of a fork, where
//! the thread is not there to hold it.

use crate::connection::leaks::Ignored;
use std::ffi::c_void;
use std::panic::{self, AssertUnwindSafe};
use std::{io, mem, ptr};

type Run = Box<dyn FnOnce() + Send>;

/// Spawns a thread, detached, with the program's signals blocked: its handlers must run on its own threads. The signals of
/// faults stay deliverable, so that writing a result to a bad address ends as it would in the program. What the thread allocates is no leak.
///
/// # Errors
/// The system makes no thread.
pub(crate) fn spawn(run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let _ignored = Ignored::begin();
    let run: *mut Run = Box::into_raw(Box::new(Box::new(run)));
    let _signals = HeldSignals::begin(); // the thread inherits the mask
                                         // SAFETY: the attributes are initialized before use, and live over the calls. `start` takes `run` over, once, if there is a thread; else it is taken back here.
    unsafe {
        let mut attributes: libc::pthread_attr_t = mem::zeroed();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&raw mut attributes, STACK_BYTES);
        let mut thread: libc::pthread_t = mem::zeroed();
        let error = libc::pthread_create(&raw mut thread, &raw const attributes, start, run.cast());
        libc::pthread_attr_destroy(&raw mut attributes);
        if error == 0 {
            Ok(())
        } else {
            drop(Box::from_raw(run));
            Err(io::Error::from_raw_os_error(error))
        }
    }
}

/// As Rust's threads have.
const STACK_BYTES: usize = 2 << 20;

extern "C" fn start(run: *mut c_void) -> *mut c_void {
    // Until the thread has ended.
    mem::forget(Ignored::begin());
    // SAFETY: `spawn`'s box, which is this thread's alone.
    let run = unsafe { Box::from_raw(run.cast::<Run>()) };
    // SAFETY: the calling thread's own name, which ends with zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"farlane".as_ptr()) };
    let _ = panic::catch_unwind(AssertUnwindSafe(run)); // it says for itself what went wrong
    ptr::null_mut()
}

/// The calling thread's signals are held back while this lives, and those of threads that it makes for ever; the signals of faults are not.
pub(crate) struct HeldSignals(libc::sigset_t);

impl HeldSignals {
    pub(crate) fn begin() -> Self {
        // SAFETY: the sets are initialized by sigfillset before use and live over the calls; only this thread's mask changes.
        unsafe {
            let mut blocked: libc::sigset_t = mem::zeroed();
            let mut before: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&raw mut blocked);
            for fault in [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS] {
                libc::sigdelset(&raw mut blocked, fault);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // SAFETY: the mask from before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}
