//! The age timer: wakes the background thread when the oldest record of a group has waited long enough.
//!
//! A timerfd, because arming one costs a thread that appends a single short system call and wakes no other, and because
//! the runtime's own timers count in milliseconds. It is armed at most once per expiry, never per record (see
//! `outbox`).

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// When to look again at a tape that another thread was just working on.
pub(crate) const RETRY: Duration = Duration::from_micros(50);

#[derive(Debug)]
pub(crate) struct AgeTimer {
    descriptor: OwnedFd,
}

impl AgeTimer {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed; the result is checked before it is used.
        let descriptor = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC | libc::TFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that has no other owner.
        Ok(Self { descriptor: unsafe { OwnedFd::from_raw_fd(descriptor) } })
    }

    /// Fires once, `after` from now, however often it was armed before. `after` must not be zero.
    pub(crate) fn arm(&self, after: Duration) {
        let value = libc::timespec {
            tv_sec: libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(after.subsec_nanos().cast_signed()),
        };
        let setting = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // SAFETY: `setting` lives over the call; the old setting is not asked for. It can fail only for invalid
        // arguments, which these are not.
        unsafe { libc::timerfd_settime(self.descriptor.as_raw_fd(), 0, &raw const setting, std::ptr::null_mut()) };
    }

    /// Takes an expiry, so that the descriptor is unreadable again. False: there is none.
    pub(crate) fn clear(&self) -> bool {
        let mut expiries = 0_u64;
        // SAFETY: reads at most 8 bytes into an 8-byte integer. Not ready is fine: the descriptor does not block.
        unsafe { libc::read(self.descriptor.as_raw_fd(), (&raw mut expiries).cast(), size_of::<u64>()) };
        expiries > 0
    }
}

impl AsRawFd for AgeTimer {
    fn as_raw_fd(&self) -> RawFd {
        self.descriptor.as_raw_fd()
    }
}
