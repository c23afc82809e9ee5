//! What is on its way: groups not yet acknowledged (credit) and results not yet received.
//!
//! The thread that reads replies completes groups here; threads of the program enter what they send and wait for credit.
//! Locking: the ledger's lock is taken under the outbox's, never the other way round, and never held while waiting for
//! anything but credit. A waiter's lock is taken under none.

use crate::incoming::awaited::{Answered, Awaited, Run, Violation};
use crate::incoming::pace::{Pace, MEASURED};
use crate::report::spans;
use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use tape::{DataHead, Results};

#[derive(Debug)]
pub(crate) struct Ledger {
    credit_bytes: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    in_flight: VecDeque<Sent>,
    in_flight_bytes: u64,
    awaited: VecDeque<Awaited>,
    /// Where the last result was awaited: the next one is nearby.
    cursor: usize,
    /// The last error a result of the group that is being answered has delivered.
    delivered: i32,
    /// The first error of a result that no thread waits for.
    unwatched: i32,
    closed: bool,
    pace: Pace,
    /// When the group before the first one in flight was acknowledged, where that one's work is measured.
    preceded: Option<Instant>,
}

#[derive(Debug)]
struct Sent {
    group: u64,
    /// What its records are of.
    context: u32,
    bytes: u64,
    /// Calls in it that a loop had held, and when it was sent.
    work: u64,
    /// Of those that are measured, or whose span is kept.
    sent: Option<Instant>,
}

/// How long a sender waits for credit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Patience {
    Unlimited,
    Until(Instant),
    None,
}

/// What became of a group that was to be entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    Entered { waited: bool },
    NoCredit,
    Closed,
}

impl State {
    /// The index of what a result is awaited by. Results come in the order of their operations, nearly that of the
    /// entries.
    fn find(&self, group: u64, slot: u32) -> Option<usize> {
        let wanted = |index: &usize| {
            let awaited = &self.awaited[*index];
            awaited.slot == slot && awaited.first_group <= group
        };
        let cursor = self.cursor.min(self.awaited.len());
        (cursor..self.awaited.len()).find(wanted).or_else(|| (0..cursor).find(wanted))
    }
}

impl Ledger {
    pub(crate) fn new(credit_bytes: u64) -> Self {
        Self { credit_bytes, state: Mutex::default(), changed: Condvar::new() }
    }

    pub(crate) fn credit_bytes(&self) -> u64 {
        self.credit_bytes
    }

    /// Enters a group that is about to be sent, once there is credit for it, and what is awaited from it.
    pub(crate) fn enter(
        &self,
        group: u64,
        bytes: u64,
        work: u64,
        awaited: Option<Awaited>,
        patience: Patience,
        context: u32,
    ) -> Entry {
        let mut state = self.state.lock();
        let mut waited = false;
        while !state.closed && !state.in_flight.is_empty() && state.in_flight_bytes + bytes > self.credit_bytes {
            waited = true;
            match patience {
                Patience::Unlimited => self.changed.wait(&mut state),
                Patience::Until(deadline) => {
                    if self.changed.wait_until(&mut state, deadline).timed_out() {
                        return Entry::NoCredit;
                    }
                }
                Patience::None => return Entry::NoCredit,
            }
        }
        if state.closed {
            return Entry::Closed;
        }
        // The first groups tell the way there and back, and later one in as many.
        let measured = work >= MEASURED || group <= MEASURED || group.is_multiple_of(MEASURED);
        let sent = spans::begin().or_else(|| measured.then(Instant::now));
        state.in_flight.push_back(Sent { group, context, bytes, work, sent });
        state.in_flight_bytes += bytes;
        if let Some(awaited) = awaited {
            state.awaited.push_back(Awaited { first_group: group, group, ..awaited });
        }
        Entry::Entered { waited }
    }

    /// Enters what no thread waits for, before the groups that it comes from are entered.
    pub(crate) fn expect(&self, first_group: u64, group: u64, reads: impl Iterator<Item = Awaited>) {
        let mut state = self.state.lock();
        if !state.closed {
            state.awaited.extend(reads.map(|read| Awaited { first_group, group, ..read }));
        }
    }

    /// What a call of a loop took the host, as far as that is known; else zero.
    pub(crate) fn pace(&self) -> Duration {
        self.state.lock().pace.of_a_call()
    }

    /// Groups and bytes sent and not acknowledged.
    pub(crate) fn in_flight(&self) -> (usize, u64) {
        let state = self.state.lock();
        (state.in_flight.len(), state.in_flight_bytes)
    }

    /// Who reads replies: hands the results of one reply to those who wait for them. The waiters are not woken before
    /// `acknowledge`, when the group's errors are known as well. True: there is an error that no thread waits for.
    pub(crate) fn deliver(&self, group: u64, results: &[u8]) -> Result<bool, Violation> {
        let state = self.state.lock();
        let open = state.in_flight.front().map(|sent| sent.group);
        if open != Some(group) {
            return Err(Violation::Group { got: group, expected: open });
        }
        let (mut first, mut unwatched) = (Some(state), false);
        for record in Results::new(results) {
            let record = record?;
            let slot = record.slot();
            let (waiter, index, run) = {
                let mut state = first.take().unwrap_or_else(|| self.state.lock());
                let index = state.find(group, slot).ok_or(Violation::Slot(slot))?;
                state.cursor = index;
                let Awaited { waiter, watched, run, .. } = &state.awaited[index];
                let (waiter, watched, run) = (waiter.clone(), *watched, *run);
                if record.error() != 0 {
                    state.delivered = record.error();
                    if !watched && state.unwatched == 0 {
                        (state.unwatched, unwatched) = (record.error(), true);
                    }
                }
                (waiter, index, run)
            };
            waiter.fill(&record).map_err(|unexpected| Violation::Result(slot, unexpected.0))?;
            if let Some(run) = run.filter(|run| run.left > 0 && waiter.advance(run.step)) {
                // This thread alone takes anything out: the index is still its.
                let awaited = &mut self.state.lock().awaited[index];
                awaited.slot = awaited.slot.wrapping_add(run.slot_step);
                awaited.run = Some(Run { left: run.left - 1, ..run });
            }
        }
        Ok(unwatched)
    }

    /// As `deliver`, for so many bytes of data for that slot, which `read` writes to where they belong. `None`: that is
    /// not how they can come (`Waiter::fill_directly`).
    pub(crate) fn deliver_directly<E>(
        &self,
        group: u64,
        head: &DataHead,
        read: impl FnOnce(*mut u8) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let waiter = {
            let mut state = self.state.lock();
            if state.in_flight.front().map(|sent| sent.group) != Some(group) {
                return None;
            }
            let index = state.find(group, head.slot)?;
            state.cursor = index;
            let Awaited { waiter, run: None, .. } = &state.awaited[index] else { return None };
            waiter.clone()
        };
        waiter.fill_directly(head.offset, head.data_bytes as u64, read)
    }

    /// The last error that a result of the open group delivered; 0 when none did.
    pub(crate) fn delivered_error(&self) -> i32 {
        self.state.lock().delivered
    }

    /// The context of the open group, and the first error, since the last call, of a result that no thread waits for; 0 when
    /// there is none.
    pub(crate) fn take_unwatched_error(&self) -> (u32, i32) {
        let mut state = self.state.lock();
        (state.in_flight.front().map_or(0, |sent| sent.context), std::mem::take(&mut state.unwatched))
    }

    /// Who reads replies: the group is done. Returns its credit; those who wait for its results have them, and are woken when the
    /// value that this gives is dropped.
    pub(crate) fn acknowledge(&self, group: u64) -> Result<Answered, Violation> {
        let mut state = self.state.lock();
        match state.in_flight.front() {
            Some(sent) if sent.group == group => {
                let (bytes, work, sent) = (sent.bytes, sent.work, sent.sent);
                state.in_flight_bytes -= bytes;
                if let Some(sent) = sent {
                    let (now, preceded) = (Instant::now(), state.preceded);
                    state.pace.measure(work, sent, preceded, now);
                    spans::group(group, bytes, now - sent);
                }
            }
            other => {
                let expected = other.map(|sent| sent.group);
                return Err(Violation::Group { got: group, expected });
            }
        }
        state.in_flight.pop_front();
        state.preceded = state.in_flight.front().filter(|next| next.work >= MEASURED).map(|_| Instant::now());
        state.delivered = 0;
        state.cursor = 0;
        let mut answered = Answered::default();
        while state.awaited.front().is_some_and(|awaited| awaited.group <= group) {
            answered.0.extend(state.awaited.pop_front());
        }
        drop(state);
        self.changed.notify_all();
        let mut missing = None;
        for awaited in answered.0.iter().filter(|awaited| !awaited.waiter.complete()) {
            awaited.waiter.abandon();
            missing.get_or_insert(awaited.slot);
        }
        missing.map_or(Ok(answered), |slot| Err(Violation::Missing(slot)))
    }

    /// Nothing will be acknowledged any more: releases everybody who waits, now and later.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let awaited = std::mem::take(&mut state.awaited);
        drop(state);
        self.changed.notify_all();
        for entry in awaited {
            entry.waiter.abandon();
        }
    }

    /// Waits until every group is acknowledged; false when `stall` passes without an acknowledgement, and that is not
    /// `excused`, or the ledger is closed first.
    pub(crate) fn drain(&self, stall: Duration, excused: impl Fn() -> bool) -> bool {
        let mut state = self.state.lock();
        while !state.closed && !state.in_flight.is_empty() {
            if self.changed.wait_for(&mut state, stall).timed_out() && !excused() {
                return false;
            }
        }
        state.in_flight.is_empty()
    }

    /// Waits until `close`; false when it took longer than `limit`.
    pub(crate) fn wait_closed(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut state = self.state.lock();
        while !state.closed && !self.changed.wait_until(&mut state, deadline).timed_out() {}
        state.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incoming::waiter::Waiter;
    use std::sync::Arc;

    fn value(slot: u32, error: i32, value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [24, 2, slot, error.cast_unsigned()] {
            bytes.extend_from_slice(&u32::to_le_bytes(word));
        }
        bytes.extend_from_slice(&value.to_le_bytes());
        bytes
    }

    fn awaited(slot: u32) -> (Awaited, Arc<Waiter>) {
        let waiter = Arc::new(Waiter::for_answer());
        (Awaited::new(slot, waiter.clone()), waiter)
    }

    const ENTERED: Entry = Entry::Entered { waited: false };

    #[test]
    fn results_reach_their_slots_and_wake_at_the_acknowledgement() {
        let ledger = Ledger::new(100);
        let (first, first_waiter) = awaited(1);
        let (second, second_waiter) = awaited(2);
        assert_eq!(ledger.enter(1, 50, 0, Some(first), Patience::None, 0), ENTERED);
        assert_eq!(ledger.enter(2, 50, 0, Some(second), Patience::None, 0), ENTERED);
        assert_eq!(ledger.deliver(1, &value(1, 700, 10)), Ok(false));
        assert_eq!(ledger.delivered_error(), 700);
        assert_eq!(ledger.acknowledge(1).map(drop), Ok(()));
        assert_eq!(ledger.delivered_error(), 0);
        assert_eq!(first_waiter.wait().map(|a| (a.error, a.value)), Some((700, 10)));
        assert_eq!(ledger.deliver(2, &value(2, 0, 20)), Ok(false));
        assert_eq!(ledger.acknowledge(2).map(drop), Ok(()));
        assert_eq!(second_waiter.wait().map(|a| a.value), Some(20));
        assert_eq!(ledger.in_flight(), (0, 0));
    }

    #[test]
    fn credit_bounds_the_bytes_in_flight() {
        let ledger = Arc::new(Ledger::new(100));
        assert_eq!(ledger.enter(1, 60, 0, None, Patience::None, 0), ENTERED);
        assert_eq!(ledger.enter(2, 41, 0, None, Patience::None, 0), Entry::NoCredit);
        assert_eq!(ledger.enter(2, 40, 0, None, Patience::None, 0), ENTERED);
        let deadline = Instant::now() + Duration::from_millis(10);
        assert_eq!(ledger.enter(3, 1, 0, None, Patience::Until(deadline), 0), Entry::NoCredit);
        let thread = std::thread::spawn({
            let ledger = ledger.clone();
            move || ledger.enter(3, 60, 0, None, Patience::Unlimited, 0)
        });
        std::thread::sleep(Duration::from_millis(5));
        assert_eq!(ledger.acknowledge(1).map(drop), Ok(()));
        assert_eq!(thread.join().expect("no panic"), Entry::Entered { waited: true });
        assert_eq!(ledger.in_flight(), (2, 100));
    }

    #[test]
    fn violations() {
        let ledger = Ledger::new(100);
        assert_eq!(ledger.deliver(1, &[]), Err(Violation::Group { got: 1, expected: None }));
        let (entry, waiter) = awaited(5);
        assert_eq!(ledger.enter(1, 8, 0, None, Patience::None, 0), ENTERED);
        assert_eq!(ledger.enter(2, 8, 0, Some(entry), Patience::None, 0), ENTERED);
        assert_eq!(ledger.acknowledge(2).map(drop), Err(Violation::Group { got: 2, expected: Some(1) }));
        assert_eq!(ledger.deliver(1, &value(5, 0, 0)), Err(Violation::Slot(5)), "before its operation was replayed");
        assert_eq!(ledger.acknowledge(1).map(drop), Ok(()));
        assert_eq!(ledger.deliver(2, &value(6, 0, 0)), Err(Violation::Slot(6)));
        assert!(matches!(ledger.deliver(2, &[1, 2, 3]), Err(Violation::Record(_))));
        assert_eq!(ledger.acknowledge(2).map(drop), Err(Violation::Missing(5)));
        assert_eq!(waiter.wait(), None);
    }

    #[test]
    fn closing_releases_everybody() {
        let ledger = Arc::new(Ledger::new(8));
        let (entry, waiter) = awaited(1);
        assert_eq!(ledger.enter(1, 8, 0, Some(entry), Patience::None, 0), ENTERED);
        let sender = std::thread::spawn({
            let ledger = ledger.clone();
            move || ledger.enter(2, 8, 0, None, Patience::Unlimited, 0)
        });
        let drainer = std::thread::spawn({
            let ledger = ledger.clone();
            move || ledger.drain(Duration::from_secs(60), || false)
        });
        std::thread::sleep(Duration::from_millis(5));
        ledger.close();
        assert_eq!(sender.join().expect("no panic"), Entry::Closed);
        assert!(!drainer.join().expect("no panic"));
        assert_eq!(waiter.wait(), None);
        assert_eq!(ledger.enter(3, 1, 0, None, Patience::Unlimited, 0), Entry::Closed);
        assert!(ledger.wait_closed(Duration::ZERO));
    }

    #[test]
    fn drain_gives_up_only_when_nothing_moves() {
        let ledger = Ledger::new(8);
        assert!(ledger.drain(Duration::ZERO, || false));
        assert_eq!(ledger.enter(1, 8, 0, None, Patience::None, 0), ENTERED);
        assert!(!ledger.drain(Duration::from_millis(5), || false));
    }
}
