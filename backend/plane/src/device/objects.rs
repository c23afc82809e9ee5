//! Streams and events, as the plane knows them. Any thread may use them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A stream. On a device without a driver work is over when it is issued, so streams do not differ there.
#[derive(Debug)]
pub struct Stream {
    /// The driver's; 0 where there is none.
    pub handle: usize,
    /// Whether the legacy default stream and it wait for each other.
    pub blocking: bool,
    /// Copies from the guest that its work waits for ([`super::cuda`]).
    pub(super) behind: AtomicU64,
    ended: AtomicBool,
}

impl Stream {
    #[must_use]
    pub const fn new(handle: usize, blocking: bool) -> Self {
        Self { handle, blocking, behind: AtomicU64::new(0), ended: AtomicBool::new(false) }
    }

    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }

    /// It has been destroyed.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// An event: when it was recorded last, on the monotonic clock.
#[derive(Debug)]
pub struct Event {
    /// The driver's; 0 where there is none.
    pub handle: usize,
    /// Whether its time may be asked for.
    pub timed: bool,
    nanoseconds: AtomicU64,
    given: AtomicBool,
    ended: AtomicBool,
}

impl Event {
    #[must_use]
    pub const fn new(handle: usize, timed: bool) -> Self {
        Self {
            handle,
            timed,
            nanoseconds: AtomicU64::new(0),
            given: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }
    }

    /// It is now.
    pub fn record(&self) {
        self.nanoseconds.store(monotonic(), Ordering::Relaxed);
        self.given.store(false, Ordering::Relaxed);
    }

    /// It was then: on another host, or by compiled code, which says when. A driver knows nothing of it.
    pub fn give(&self, nanoseconds: u64) {
        self.nanoseconds.store(nanoseconds, Ordering::Relaxed);
        self.given.store(true, Ordering::Relaxed);
    }

    /// Whether its time was given to it.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.given.load(Ordering::Relaxed)
    }

    /// `None`: it was never recorded.
    #[must_use]
    pub fn nanoseconds(&self) -> Option<u64> {
        Some(self.nanoseconds.load(Ordering::Relaxed)).filter(|&time| time != 0)
    }

    #[must_use]
    pub fn is_alive(&self) -> bool {
        !self.ended.load(Ordering::Relaxed)
    }

    /// It has been destroyed.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

/// Now, in nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the structure is ours. The clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}
