//! The two futex calls, on a word that two processes share (so without `FUTEX_PRIVATE_FLAG`).

use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// How a sleep ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Awake {
    /// A wake-up, or the word was another before.
    Woken,
    /// The time is over, or a signal's handler ran.
    Otherwise,
}

/// Sleeps while `word` holds `value`, at most for `time`.
pub(crate) fn wait(word: &AtomicU32, value: u32, time: Duration) -> Awake {
    let time = libc::timespec { tv_sec: time.as_secs() as libc::time_t, tv_nsec: time.subsec_nanos().into() };
    // SAFETY: the word is mapped and aligned; the kernel reads it and the time.
    let result = unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const time) };
    if result == 0 {
        return Awake::Woken;
    }
    // SAFETY: errno of this thread.
    match unsafe { *libc::__errno_location() } {
        libc::EAGAIN => Awake::Woken,
        _ => Awake::Otherwise,
    }
}

/// Wakes who sleeps on `word`.
pub(crate) fn wake(word: &AtomicU32) {
    // SAFETY: the word is mapped; the kernel takes its address as a name.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, 1) };
}
