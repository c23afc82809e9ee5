//! The shim's own threads.
//!
//! Made by the system's own function, not by Rust's: what that allocates as a thread starts, LeakSanitizer finds in the child of a fork, where
//! the thread is not there to hold it.

use crate::connection::leaks::Ignored;
use crate::connection::signals::Held;
use std::ffi::{c_int, c_void, CStr};
use std::panic::{self, AssertUnwindSafe};
use std::{io, mem, ptr};

struct Run {
    name: &'static CStr,
    body: Box<dyn FnOnce() + Send>,
}

/// Spawns a thread, detached, with the program's signals blocked: its handlers must run on its own threads. The signals of
/// faults stay deliverable, so that writing a result to a bad address ends as it would in the program. What the thread allocates is no leak.
///
/// # Errors
/// The system makes no thread.
pub fn spawn(name: &'static CStr, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let _ignored = Ignored::begin();
    let run = Box::into_raw(Box::new(Run { name, body: Box::new(body) }));
    let _held = Held::begin();
    // SAFETY: the attributes are initialized before use, and live over the calls. `start` takes `run` over, once, if
    // there is a thread; else it is taken back here. The thread inherits the mask of signals.
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
    unsafe { libc::prctl(libc::PR_SET_NAME, run.name.as_ptr()) };
    let _ = panic::catch_unwind(AssertUnwindSafe(run.body)); // it says for itself what went wrong
    ptr::null_mut()
}

/// No other thread cancels the calling one (pthread_cancel) while this lives: the system calls of the connection are
/// places where it could, and what it unwinds with must not come through Rust's frames.
pub(crate) struct Uncancelled(c_int);

extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

/// PTHREAD_CANCEL_DISABLE
const CANCEL_DISABLE: c_int = 1;

impl Uncancelled {
    pub(crate) fn begin() -> Self {
        let mut before = 0;
        // SAFETY: the calling thread's own state; `before` lives over the call.
        unsafe { pthread_setcancelstate(CANCEL_DISABLE, &raw mut before) };
        Self(before)
    }
}

impl Drop for Uncancelled {
    fn drop(&mut self) {
        // SAFETY: the state from before.
        unsafe { pthread_setcancelstate(self.0, ptr::null_mut()) };
    }
}
