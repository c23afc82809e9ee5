//! The C library's functions that install handlers of signals, when this library is preloaded: as long as the program
//! has installed none, a thread that waits for the host need not hold its signals back (crate `client`, `signals`).
//!
//! Each does what the C library's does, and says before that a handler comes. Handlers are never taken back: a program
//! that has had one is taken for one that may have another.

use crate::io::wrapped;
use libc::{c_int, c_void, sighandler_t};
use std::ffi::CStr;
use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Whether it is code of the program, not what the system does by itself.
fn is_handler(handler: sighandler_t) -> bool {
    ![libc::SIG_DFL, libc::SIG_IGN].contains(&handler)
}

#[inline(never)]
fn before(signal: c_int, handler: sighandler_t) {
    if is_handler(handler) {
        session::expect_handler(signal);
    }
}

#[inline(never)]
fn before_action(signal: c_int, action: *const libc::sigaction) {
    if !action.is_null() {
        // SAFETY: not null, so the program says that it is such a structure.
        before(signal, unsafe { (*action).sa_sigaction });
    }
}

wrapped!(sigaction(signal: c_int, action: *const libc::sigaction, old: *mut libc::sigaction) -> c_int, -1, before_action(signal, action));
wrapped!(__sigaction(signal: c_int, action: *const libc::sigaction, old: *mut libc::sigaction) -> c_int, -1, before_action(signal, action));
wrapped!(signal(signal: c_int, handler: sighandler_t) -> sighandler_t, libc::SIG_ERR, before(signal, handler));
wrapped!(bsd_signal(signal: c_int, handler: sighandler_t) -> sighandler_t, libc::SIG_ERR, before(signal, handler));
wrapped!(ssignal(signal: c_int, handler: sighandler_t) -> sighandler_t, libc::SIG_ERR, before(signal, handler));
wrapped!(sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t, libc::SIG_ERR, before(signal, handler));
wrapped!(__sysv_signal(signal: c_int, handler: sighandler_t) -> sighandler_t, libc::SIG_ERR, before(signal, handler));
wrapped!(sigset(signal: c_int, handler: sighandler_t) -> sighandler_t, libc::SIG_ERR, before(signal, handler));
