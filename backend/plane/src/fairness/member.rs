//! A session, as the listener knows it: its terms, what its slot says, what the system says of its process.
//!
//! What a session says is charged as it says it; an operation that has not ended is charged by the listener's clock until then.

use super::policy::Has;
use super::process::Process;
use super::slot::{self, Page};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{io, mem};

/// Between two looks at processes' processor time.
const CLOCKS: Duration = Duration::from_millis(5);
/// A session that is so long between two operations gives way as an idle one.
const LINGERS: Duration = Duration::from_millis(1);

/// What a session is to have of the device.
#[derive(Clone, Debug)]
pub struct Terms {
    pub priority: u8,
    pub weight: f64,
    /// The part of the time that all sessions of `owner` may use together.
    pub share: Option<f64>,
    pub owner: String,
}

/// What a session has had.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Nanoseconds on the device, and of waiting for it.
    pub service: u64,
    pub waited: u64,
    /// How often its process was stopped.
    pub stopped: u64,
    pub waits: bool,
}

pub(super) struct Member {
    pub(super) number: u64,
    pub(super) page: Arc<Page>,
    pub(super) terms: Terms,
    pub(super) process: Option<Process>,
    /// What it was charged since the last look at its process.
    charged: i64,
    pub(super) virtual_time: f64,
    pub(super) granted: bool,
    /// It was asked to leave, and has not been seen without work since.
    pub(super) asked: bool,
    pub(super) active: bool,
    pub(super) state: u32,
    pub(super) yields: bool,
    pub(super) used: u64,
    /// Charged for an operation that has not ended.
    pub(super) ahead: u64,
    pub(super) waits_since: Option<Instant>,
    /// Between two operations since then, as far as was seen; for long.
    pub(super) ready_since: Option<Instant>,
    pub(super) lingers: bool,
    pub(super) served: Served,
}

impl Member {
    pub(super) fn new(number: u64, page: Arc<Page>, terms: Terms, process: Option<libc::pid_t>) -> io::Result<Self> {
        let process = process.map(Process::new).transpose()?;
        let used = page.slot().used.load(Ordering::Relaxed);
        Ok(Self {
            number,
            page,
            terms,
            process,
            charged: 0,
            virtual_time: 0.0,
            granted: false,
            asked: false,
            active: false,
            state: slot::IDLE,
            yields: false,
            used,
            ahead: 0,
            waits_since: None,
            ready_since: None,
            lingers: false,
            served: Served::default(),
        })
    }

    /// A process that works on without a place is stopped: it waits for one from now on.
    pub(super) fn stop_overrun(&mut self) {
        if let (false, Some(process)) = (self.granted, &mut self.process) {
            self.served.stopped += u64::from(process.stop_overrun());
        }
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.process.as_ref().is_some_and(Process::is_stopped)
    }

    pub(super) fn waits(&self) -> bool {
        !self.granted && (self.state == slot::WAITS || self.is_stopped())
    }

    pub(super) fn has(&self) -> Has {
        match (self.granted, self.state) {
            (true, slot::IDLE) => Has::Idle,
            (true, slot::READY) if self.lingers => Has::Idle,
            (true, _) => Has::Works,
            (false, _) if self.asked && !self.yields && !self.is_stopped() => Has::Leaves,
            (false, _) => Has::Nothing, // one that has begun to work will see that it may not
        }
    }

    /// Whether it is in an operation now.
    pub(super) fn works(&mut self) -> bool {
        self.state = self.page.slot().state.load(Ordering::SeqCst);
        let works = self.state == slot::WORKS;
        self.yields = works && self.page.slot().yields.load(Ordering::SeqCst) != 0;
        self.asked &= works;
        works
    }

    /// The nanoseconds that are to be charged, where `elapsed` have passed since the last time. Less than 0: what was charged for an
    /// operation before it ended was too much.
    pub(super) fn cost(&mut self, now: Instant, elapsed: u64) -> i64 {
        self.works();
        let slot = self.page.slot();
        let used = slot.used.load(Ordering::Relaxed);
        let said = used.saturating_sub(self.used);
        self.used = used;
        let mut cost = 0;
        if said > 0 {
            cost = signed(said) - signed(mem::take(&mut self.ahead));
        }
        let works = self.state == slot::WORKS || (self.state == slot::WAITS && self.granted);
        if works && said == 0 && !self.is_stopped() {
            cost = signed(elapsed);
            self.ahead += elapsed;
        }
        self.ready_since = (self.state == slot::READY && said == 0).then(|| self.ready_since.unwrap_or(now));
        self.lingers = self.ready_since.is_some_and(|since| now.duration_since(since) >= LINGERS);
        let granted = self.granted;
        if let Some(process) = &mut self.process {
            self.charged += cost;
            if now.duration_since(process.looked()) >= CLOCKS {
                let worked = process.look(now, granted);
                cost += signed(worked.saturating_sub(mem::take(&mut self.charged).max(0).unsigned_abs()));
            }
        }
        cost
    }

    pub(super) fn leave(&mut self) {
        self.page.slot().stop.store(1, Ordering::SeqCst);
        self.granted = false;
        self.asked = true;
    }

    /// It has a place: its session is to be woken, by what is returned.
    #[must_use]
    pub(super) fn enter(&mut self, now: Instant) -> Arc<Page> {
        if let Some(process) = &mut self.process {
            process.enter();
        }
        if let Some(since) = self.waits_since.take() {
            self.served.waited += nanoseconds(now.duration_since(since));
        }
        self.granted = true;
        self.asked = false;
        self.page.give();
        self.page.clone()
    }
}

fn signed(nanoseconds: u64) -> i64 {
    i64::try_from(nanoseconds).unwrap_or(i64::MAX)
}

pub(super) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
