//! A session's process, as the system sees it: what it uses of the processors while it has no part of the device, and its stops.

use super::member::nanoseconds;
use std::time::Instant;
use std::{io, mem};

/// Processor time that a process without a place may use: at once, and as a part of the time that passes.
const OVERRUN: f64 = 50e6;
const BACKGROUND: f64 = 0.05;

/// A child of this process that was not waited for.
pub struct Process {
    id: libc::pid_t,
    clock: libc::clockid_t,
    used: u64,
    looked: Instant,
    overrun: f64,
    stopped: bool,
}

impl Process {
    /// # Errors
    /// There is no such process.
    pub fn new(id: libc::pid_t) -> io::Result<Self> {
        let mut clock = 0;
        // SAFETY: the clock is written there.
        let failed = unsafe { libc::clock_getcpuclockid(id, &raw mut clock) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        let (used, looked) = (processor_time(clock), Instant::now());
        Ok(Self { id, clock, used, looked, overrun: 0.0, stopped: false })
    }

    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    #[must_use]
    pub fn looked(&self) -> Instant {
        self.looked
    }

    /// Nanoseconds of the processors that it has used since the last look. `granted`: it was to use them.
    pub fn look(&mut self, now: Instant, granted: bool) -> u64 {
        let passed = nanoseconds(now.duration_since(mem::replace(&mut self.looked, now)));
        let used = processor_time(self.clock);
        let worked = used.saturating_sub(mem::replace(&mut self.used, used));
        if !granted {
            self.overrun = (self.overrun + worked as f64 - BACKGROUND * passed as f64).max(0.0);
        }
        worked
    }

    /// Stops it where it has used too much without being granted that. Whether it was stopped now.
    pub fn stop_overrun(&mut self) -> bool {
        let stops = !self.stopped && self.overrun > OVERRUN;
        if stops {
            self.stopped = true;
            self.signal(libc::SIGSTOP);
        }
        stops
    }

    /// It is its turn: it goes on.
    pub fn enter(&mut self) {
        self.overrun = 0.0;
        if mem::take(&mut self.stopped) {
            self.signal(libc::SIGCONT);
        }
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: a plain call; the process is a child that was not waited for.
        unsafe { libc::kill(self.id, signal) };
    }
}

fn processor_time(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written there. Where the process has ended, it stays 0.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}
