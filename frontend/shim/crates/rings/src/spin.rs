//! The policy of waiting: when a wait spins before it sleeps, and for how long.

use crate::processors;
use std::convert::Infallible;
use std::future::{pending, poll_fn, Future};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// How waits go about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// A short spin where that pays, then sleep.
    #[default]
    Adaptive,
    /// Never spin. For measurements.
    Sleep,
    /// Never sleep. For measurements.
    Spin,
}

/// How often a half waited, and how: for measurements and reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Waits that ended while they spun.
    pub spun: u64,
    /// Spins that ended without success.
    pub failed: u64,
    /// Futex sleeps.
    pub slept: u64,
    /// Futex wake-ups of the other side.
    pub rang: u64,
    /// Moves to another processor.
    pub left: u64,
}

/// About what a sleep and a wake-up cost: a thread that spins as long loses at most as much again.
const LIMIT: Duration = Duration::from_micros(100);
const MOST_CREDIT: u32 = 32;
const EARNED: u32 = 8;
const TRY_AGAIN: u32 = 16;

/// Decides for one waiting thread at a time: also for waits at something else than a ring.
#[derive(Debug)]
pub struct Spin {
    waiting: Waiting,
    /// Spins that may fail before spinning stops.
    credit: u32,
    /// Waits without a spin since the last one.
    skipped: u32,
    /// Whether the thread that waits may use more than one processor; asked at the first wait and now and then.
    several: Option<bool>,
}

impl Spin {
    #[must_use]
    pub fn new(waiting: Waiting) -> Self {
        Spin { waiting, credit: EARNED, skipped: 0, several: None }
    }

    /// How long this wait spins; None: it does not.
    pub fn limit(&mut self) -> Option<Duration> {
        match self.waiting {
            Waiting::Sleep => return None,
            Waiting::Spin => return Some(Duration::MAX),
            Waiting::Adaptive => {}
        }
        if !*self.several.get_or_insert_with(processors::several) {
            return None;
        }
        if self.credit == 0 {
            self.skipped += 1;
            if self.skipped < TRY_AGAIN {
                return None;
            }
        }
        self.skipped = 0;
        Some(LIMIT)
    }

    /// What was waited for came while this spun.
    pub(crate) fn succeeded(&mut self) {
        self.credit = (self.credit + EARNED).min(MOST_CREDIT);
    }

    /// It did not.
    pub(crate) fn failed(&mut self) {
        self.credit = self.credit.saturating_sub(1);
    }

    /// Waits for something else than a ring. While this spins, the runtime goes round `pause` and does not sleep.
    pub async fn wait<T, P: Future<Output = ()>>(
        &mut self,
        awaited: impl Future<Output = T>,
        pause: impl Fn() -> P,
    ) -> T {
        let (started, limit) = (Instant::now(), self.limit());
        let spins = || limit.is_some_and(|limit| started.elapsed() < limit);
        let spinning = async {
            while spins() {
                pause().await;
            }
            pending::<Infallible>().await
        };
        let (mut awaited, mut spinning) = (pin!(awaited), pin!(spinning));
        let found = poll_fn(|context| {
            let found = awaited.as_mut().poll(context);
            if found.is_pending() {
                let Poll::Pending = spinning.as_mut().poll(context);
            }
            found
        })
        .await;
        match limit {
            Some(_) if spins() => self.succeeded(),
            Some(_) => self.failed(),
            None => {}
        }
        found
    }

    /// The next wait asks for the allowed processors again.
    pub fn forget_processors(&mut self) {
        self.several = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_stops_where_it_does_not_pay_and_is_tried_again() {
        let mut spin = Spin::new(Waiting::Adaptive);
        spin.several = Some(true);
        for _ in 0..EARNED {
            assert_eq!(spin.limit(), Some(LIMIT));
            spin.failed();
        }
        let tried: Vec<bool> = (0..2 * TRY_AGAIN).map(|_| spin.limit().inspect(|_| spin.failed()).is_some()).collect();
        let expected: Vec<bool> = (1..=2 * TRY_AGAIN).map(|n| n % TRY_AGAIN == 0).collect();
        assert_eq!(tried, expected);
        spin.succeeded();
        for _ in 0..EARNED {
            assert_eq!(spin.limit(), Some(LIMIT));
            spin.failed();
        }
        assert_eq!(spin.limit(), None);
    }

    #[test]
    fn one_processor_or_a_forced_policy_decide() {
        let mut spin = Spin::new(Waiting::Adaptive);
        spin.several = Some(false);
        assert_eq!(spin.limit(), None);
        assert_eq!(Spin::new(Waiting::Sleep).limit(), None);
        assert_eq!(Spin::new(Waiting::Spin).limit(), Some(Duration::MAX));
    }

    #[test]
    #[cfg(not(miri))]
    fn the_thread_that_waits_is_asked_for_its_processors() {
        std::thread::spawn(|| {
            // SAFETY: a set with this thread's first allowed processor, for this thread.
            unsafe {
                let mut set = std::mem::zeroed::<libc::cpu_set_t>();
                assert_eq!(libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set), 0);
                let first = (0..libc::CPU_SETSIZE as usize).find(|&n| libc::CPU_ISSET(n, &set)).unwrap();
                libc::CPU_ZERO(&mut set);
                libc::CPU_SET(first, &mut set);
                assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set), 0);
            }
            assert_eq!(Spin::new(Waiting::Adaptive).limit(), None);
        })
        .join()
        .unwrap();
    }
}
