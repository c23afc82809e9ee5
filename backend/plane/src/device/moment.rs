//! When an event was recorded, on the monotonic clock.

use std::sync::atomic::{AtomicU64, Ordering};

/// The time of an event's latest record. Any thread may use it.
#[derive(Debug, Default)]
pub struct Moment(AtomicU64);

impl Moment {
    /// It is now.
    pub fn record(&self) {
        let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the structure is ours. The clock is always there.
        unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
        self.set(now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned());
    }

    pub fn set(&self, nanoseconds: u64) {
        self.0.store(nanoseconds, Ordering::Relaxed);
    }

    /// `None`: it was never recorded.
    #[must_use]
    pub fn nanoseconds(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&time| time != 0)
    }
}
