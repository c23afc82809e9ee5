//! Signals of the program while one of its threads reads replies.
//!
//! A handler may end the process, make CUDA calls or leave by longjmp. None of that may come in the middle of a
//! message, so signals are held back meanwhile (`Held`). That takes two system calls for each wait, a fifth of a round
//! trip by shared memory. As long as the program has installed no handler, a signal runs no code of the program: it ends
//! the process, stops it, or is ignored. A thread that reads rings then leaves its signals as they are
//! (`Reader::Free`).
//!
//! The core defines the C library's functions that install handlers, and says so before each (`expect_handler`). That
//! is enough where the program finds these functions first, and had no handler when the session opened (`look`). What
//! is not seen is a handler that a program installs later by the system call, or by the C library's function from a
//! library that was opened apart (`RTLD_DEEPBIND`). A CUDA call that it makes in the middle of a message ends the
//! process, for it would wait for itself (`refuse_inside`). Handlers of faults are never held back, so they do not
//! count.
//!
//! One thread reads at a time, and there is one session.

use crate::log;
use std::ffi::{c_int, c_void, CStr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use std::{mem, process, ptr, thread};

/// Handlers of the program may exist that were installed unseen.
static UNSEEN: AtomicBool = AtomicBool::new(true);
/// A handler is installed, or is about to be.
static INSTALLED: AtomicBool = AtomicBool::new(false);
/// The thread that reads with its signals as they were (`this_thread`); 0: none does.
static READER: AtomicUsize = AtomicUsize::new(0);

/// Signals of faults: never held back, so that writing a result to a bad address ends as it would in the program.
const FAULTS: [c_int; 6] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];
/// The C library's own signals, whose handlers run none of the program's code: they set the user of each thread, or
/// cancel it (`Uncancelled`).
const OF_THE_C_LIBRARY: [c_int; 2] = [32, 33];
const SIGNALS: c_int = 64;

/// How long a program that installs a handler waits for a thread that reads: that one ends its turn within 2 ms, unless
/// the host falls silent in the middle of a message.
const PATIENCE: u32 = 100;
const PAUSE: Duration = Duration::from_millis(1);

/// The program is about to install a handler of the signal. Afterwards no thread reads that has not held its signals
/// back.
#[cold]
#[inline(never)]
pub fn expect_handler(signal: c_int) {
    if FAULTS.contains(&signal) {
        return;
    }
    INSTALLED.store(true, Ordering::SeqCst);
    let this = this_thread();
    for _ in 0..PATIENCE {
        if [0, this].contains(&READER.load(Ordering::SeqCst)) {
            break;
        }
        thread::sleep(PAUSE);
    }
}

/// Finds out whether all handlers that the program installs from now on are seen, and there are none yet.
pub(crate) fn look() {
    let seen = [c"sigaction", c"signal"].into_iter().all(|name| library_of(found(name)) == library_of(own()));
    UNSEEN.store(!seen || has_handlers(), Ordering::SeqCst);
}

/// The address of a static of this library.
fn own() -> *const c_void {
    (&raw const UNSEEN).cast()
}

/// What the program finds under the name.
fn found(name: &CStr) -> *const c_void {
    // SAFETY: a string that ends with NUL.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}

/// Where the library lies that the address is in; null where there is none.
fn library_of(address: *const c_void) -> *mut c_void {
    // SAFETY: an all-zero value is valid, and dladdr, which looks the address up, fills it.
    unsafe {
        let mut info: libc::Dl_info = mem::zeroed();
        if libc::dladdr(address, &raw mut info) == 0 {
            return ptr::null_mut();
        }
        info.dli_fbase
    }
}

/// Whether a signal that `Held` holds back has a handler.
fn has_handlers() -> bool {
    (1..=SIGNALS)
        .filter(|signal| !FAULTS.contains(signal) && !OF_THE_C_LIBRARY.contains(signal))
        .any(|signal| handler(signal).is_none_or(|handler| ![libc::SIG_DFL, libc::SIG_IGN].contains(&handler)))
}

/// What the system does at the signal: by the system call, for the C library keeps none of this.
fn handler(signal: c_int) -> Option<usize> {
    /// More than the kernel's `struct sigaction`, which begins with the handler.
    const WORDS: usize = 8;
    const BYTES_OF_SET: usize = 8;
    let mut action = [0_usize; WORDS];
    // SAFETY: the structure is asked for, not given.
    let result = unsafe {
        let none: *const c_void = ptr::null();
        libc::syscall(libc::SYS_rt_sigaction, signal, none, action.as_mut_ptr(), BYTES_OF_SET)
    };
    (result == 0).then_some(action[0])
}

/// Tells the calling thread from the others; never 0.
fn this_thread() -> usize {
    thread_local! {
        static OWN: u8 = const { 0 };
    }
    OWN.with(|own| ptr::from_ref(own) as usize)
}

/// The calling thread is in the middle of a message: the call comes from a signal's handler, or a handler has left the
/// call before by longjmp.
#[inline]
#[must_use]
pub fn is_inside() -> bool {
    match READER.load(Ordering::Relaxed) {
        0 => false,
        reader => reader == this_thread(),
    }
}

/// A call that would wait for a message whose middle the calling thread is in would wait for ever.
#[inline]
pub(crate) fn refuse_inside() {
    if is_inside() {
        end_inside();
    }
}

#[cold]
fn end_inside() -> ! {
    log::error(format_args!(
        "a signal's handler makes a CUDA call in the middle of another one of the same thread, or has left one by longjmp: \
         install the handler before the program's first CUDA call, or by the C library's sigaction"
    ));
    process::abort()
}

/// In the child of a fork, where the thread that reads does not exist. Async-signal-safe.
pub(crate) fn forget_reader() {
    READER.store(0, Ordering::SeqCst);
}

/// The calling thread reads replies as long as this lives: it takes the source behind `begin`, and gives it back before
/// this ends, so that a handler that was held back finds it free.
pub(crate) enum Reader {
    /// Signals run no code of the program.
    Free,
    Holding(#[allow(dead_code)] Held),
}

impl Reader {
    /// `rings`: it is to read rings, and to write to no socket.
    #[inline]
    pub(crate) fn begin(rings: bool) -> Self {
        if rings && !UNSEEN.load(Ordering::Relaxed) && !INSTALLED.load(Ordering::Relaxed) {
            Self::Free
        } else {
            Self::Holding(Held::begin())
        }
    }

    /// The calling thread has the source. False: it is to give it back, and to begin again.
    #[inline]
    pub(crate) fn may_read(&self) -> bool {
        if let Self::Free = self {
            READER.store(this_thread(), Ordering::SeqCst);
            // After that: who installs a handler now waits for this thread, or is seen here.
            if INSTALLED.load(Ordering::SeqCst) {
                READER.store(0, Ordering::SeqCst);
                return false;
            }
        }
        true
    }
}

impl Drop for Reader {
    #[inline]
    fn drop(&mut self) {
        if let Self::Free = self {
            // Another thread may read by now.
            let _ = READER.compare_exchange(this_thread(), 0, Ordering::Release, Ordering::Relaxed);
        }
    }
}

/// The calling thread's signals are held back while this lives, and those of threads that it makes for ever; the
/// signals of faults are not.
pub(crate) struct Held(libc::sigset_t);

impl Held {
    pub(crate) fn begin() -> Self {
        // SAFETY: the sets are initialized by sigfillset before use and live over the calls; only this thread's mask
        // changes.
        unsafe {
            let mut blocked: libc::sigset_t = mem::zeroed();
            let mut signals: libc::sigset_t = mem::zeroed();
            libc::sigfillset(&raw mut blocked);
            for fault in FAULTS {
                libc::sigdelset(&raw mut blocked, fault);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const blocked, &raw mut signals);
            Self(signals)
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the mask from before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, ptr::null_mut()) };
    }
}

/// The calling thread, whose signals are held back, has written to a connection that is broken: not every way to write
/// asks for an error alone, and the program would end by SIGPIPE.
pub(crate) fn discard_pipe_signal() {
    // SAFETY: the set is initialized before use; the set and the limit live over the calls, which wait for nothing.
    unsafe {
        let mut pipe: libc::sigset_t = mem::zeroed();
        libc::sigemptyset(&raw mut pipe);
        libc::sigaddset(&raw mut pipe, libc::SIGPIPE);
        let now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        libc::sigtimedwait(&raw const pipe, ptr::null_mut(), &raw const now);
    }
}
