//! Streams and events, as the plane knows them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A stream. On a device without a driver there is one for all.
#[derive(Debug)]
pub struct Stream {
    /// The driver's; 0 where there is none.
    pub handle: usize,
    /// Whether the legacy default stream and it wait for each other.
    pub blocking: bool,
    /// Copies from the guest that its work waits for ([`super::cuda`]).
    pub(super) behind: AtomicU64,
}

impl Stream {
    #[must_use]
    pub const fn new(handle: usize, blocking: bool) -> Self {
        Self { handle, blocking, behind: AtomicU64::new(0) }
    }
}

/// An event: when it was recorded last, on the monotonic clock. Any thread may use it.
#[derive(Debug, Default)]
pub struct Moment {
    /// The driver's; 0 where there is none.
    pub handle: usize,
    nanoseconds: AtomicU64,
}

impl Moment {
    #[must_use]
    pub const fn new(handle: usize) -> Self {
        Self { handle, nanoseconds: AtomicU64::new(0) }
    }

    /// It is now.
    pub fn record(&self) {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the structure is ours. The clock is always there.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        self.set(now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned());
    }

    pub fn set(&self, nanoseconds: u64) {
        self.nanoseconds.store(nanoseconds, Ordering::Relaxed);
    }

    /// `None`: it was never recorded.
    #[must_use]
    pub fn nanoseconds(&self) -> Option<u64> {
        Some(self.nanoseconds.load(Ordering::Relaxed)).filter(|&time| time != 0)
    }
}
