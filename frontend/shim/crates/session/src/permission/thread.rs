//! What one thread knows of its calls: the site of the call under way, what its manifest permits there, and what the
//! thread owes for it.
//!
//! Only `permission`, the room around it, uses it; the counters and the ranges of outstanding copies are there.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::PoisonError;

use manifest::{COMPLETE_AT_CALL, DEFER_READ};

use super::loop_prediction::{self, Iteration};
use super::prediction::Predictions;
use super::{deciding, joining, stepping};
use super::{Copy, COMPLETED, DEFERRED_READS, FAILED, JOINED, OWING, RANGES, UNSYNCHRONIZED};
use crate::frame::{self, Part};
use crate::function::Operation;
use crate::manifests::{self, Found, Joining, Site};
use crate::{process, work};

/// Recently used sites of a thread.
const CACHE: usize = 64;

pub(crate) struct Thread {
    cache: RefCell<[(usize, Found); CACHE]>,
    /// Of the call under way.
    pub(super) site: Cell<Option<&'static Site>>,
    /// The call before that one was of the loop whose slice begins at `site`.
    pub(super) again: Cell<bool>,
    /// Address of the push that `site` and `predictions` are of.
    pushed: Cell<usize>,
    /// Not 0: the call's first record is the first of an iteration of this loop (its number and 1).
    pub(super) hint: Cell<u32>,
    /// Calls under way (a callback's within another): the clock is read by the shim, which may hold a lock, and not by
    /// the program.
    pub(super) inside: Cell<u32>,
    /// Copies whose data has not arrived, and the site in whose loop they were made.
    pub(super) reads: Cell<u64>,
    pub(super) reads_of: Cell<Option<&'static Site>>,
    /// The call under way is from outside that loop, and probably asks the host anyway.
    complete_after: Cell<bool>,
    /// The call under way is a copy to the host that may join the next call that waits.
    joining: Cell<Option<&'static Joining>>,
    /// The copy to the host under way joins.
    joins: Cell<bool>,
    /// Some of `reads` have joined.
    joined: Cell<bool>,
    /// Joined copies are to be complete when the call under way returns, unless it is no copy to the host.
    pub(super) completes_joined: Cell<bool>,
    /// A synchronization was answered locally, and has not happened.
    pub(super) unsynchronized: Cell<bool>,
    predictions: Predictions,
    /// The call under way is the first one of this.
    pub(super) predicted: Cell<Option<Box<Iteration>>>,
}

impl Thread {
    pub(crate) const fn new() -> Self {
        Thread {
            cache: RefCell::new([(0, Found { site: None, joining: None }); CACHE]),
            site: Cell::new(None),
            again: Cell::new(false),
            pushed: Cell::new(0),
            hint: Cell::new(0),
            inside: Cell::new(0),
            reads: Cell::new(0),
            reads_of: Cell::new(None),
            complete_after: Cell::new(false),
            joining: Cell::new(None),
            joins: Cell::new(false),
            joined: Cell::new(false),
            completes_joined: Cell::new(false),
            unsynchronized: Cell::new(false),
            predictions: Predictions::new(),
            predicted: Cell::new(None),
        }
    }
}

/// Whether copies may be completed after the call that makes it necessary, rather than before.
fn may_complete_after(operation: Operation) -> bool {
    // These wait for the host in most cases, and neither call the program nor tell it anything before.
    matches!(
        operation,
        Operation::DeviceSynchronize
            | Operation::StreamSynchronize
            | Operation::EventSynchronize
            | Operation::Memcpy
            | Operation::Memcpy2D
            | Operation::Memcpy3D
            | Operation::MemcpyFromSymbol
            | Operation::MemcpyAsync
            | Operation::Memcpy2DAsync
            | Operation::MemcpyFromSymbolAsync
    )
}

/// Its answer tells whether work is done.
fn asks_for_completion(operation: Operation) -> bool {
    matches!(operation, Operation::StreamQuery | Operation::EventQuery | Operation::EventElapsedTime)
}

impl Thread {
    pub(super) fn arrive(&self, operation: Operation) {
        self.inside.set(self.inside.get() + 1);
        let part = Part::of(operation);
        if matches!(part, Part::Stub | Part::Registration) {
            return;
        }
        let address = frame::site();
        let again = address != 0 && self.pushed.get() == address;
        let decided = again && part == Part::Launch;
        if decided && self.site.get().is_some() {
            return; // what it is was decided at the push: another call in between would have taken its place
        }
        if again && part == Part::Push && self.goes_round() {
            return;
        }
        self.arrive_elsewhere(operation, part, address, decided);
    }

    /// What is known of the call before says nothing of this one. `decided`: but that it is the launch after its push.
    #[inline(never)]
    fn arrive_elsewhere(&self, operation: Operation, part: Part, address: usize, decided: bool) {
        let saved = frame::saves_arguments(); // before a manifest that is found now asks for it
        if asks_for_completion(operation) && UNSYNCHRONIZED.swap(false, Relaxed) {
            self.unsynchronized.set(false);
            work::finish_work();
        }
        let Found { site, joining } = self.find(address);
        self.joining.set(joining);
        self.completes_joined.set(self.joined.get() && joining.is_none() && may_complete_after(operation));
        if decided {
            // The manifest may have come since.
            if !same(self.site.replace(site), site) {
                self.predictions.forget_count();
            }
            return;
        }
        let before = self.site.replace(site);
        self.pushed.set(if part == Part::Push { address } else { 0 });
        self.hint.set(site.map_or(0, |site| site.begins));
        self.predictions.forget();
        self.complete_after.set(false);
        if let Some(of) = self.reads_of.get().filter(|_| self.reads.get() > 0) {
            if !site.is_some_and(|site| site.is_within_loop_of(of)) {
                if may_complete_after(operation) {
                    self.complete_after.set(true);
                } else {
                    self.complete();
                }
            }
        }
        if let Some(site) = site {
            if site.sliced().is_some() && self.joined.get() {
                self.complete(); // a loop that the host leads begins with nothing owed
            }
            if site.sliced().is_some() && saved && !FAILED.load(Acquire) {
                deciding::arrive(self, before.is_some_and(|before| before.is_within_loop_of(site)));
            }
            self.predictions.evaluate(site);
            if let Some(remaining) = self.predictions.remaining().filter(|_| site.begins != 0) {
                if site.in_loop().predictable.load(Relaxed) {
                    self.predicted.set(loop_prediction::at(site, remaining));
                }
            }
        }
    }

    /// The push at `site` follows one from there: whether the loop is in its middle, and nothing is owed or asked, so that
    /// only the count has changed.
    fn goes_round(&self) -> bool {
        let Some(site) = self.site.get().filter(|site| site.sliced().is_none() && self.reads.get() == 0) else {
            return false;
        };
        self.hint.set(site.begins);
        self.predictions.forget();
        self.predictions.goes_on(site)
    }

    /// The thread ends, and with it the storage that its copies may go to.
    pub(crate) fn end(&self) {
        self.inside.set(1);
        self.complete();
    }

    pub(super) fn leave(&self, part: Part) {
        if matches!(part, Part::Stub | Part::Registration | Part::Push) {
            return;
        }
        if self.complete_after.replace(false) || self.completes_joined.replace(false) {
            self.complete();
        }
        if self.predictions.is_last_of_all(self.site.get()) {
            work::ship();
        }
    }

    /// The site at an address, from the thread's recent ones if it is among them.
    fn find(&self, address: usize) -> Found {
        if !manifests::active() {
            return Found::default();
        }
        let mut cache = self.cache.borrow_mut();
        // Calls are at least 5 bytes long.
        let entry = &mut cache[(address >> 2) % CACHE];
        if entry.0 != address {
            *entry = (address, manifests::look_up(address));
        }
        entry.1
    }

    pub(super) fn has(&self, permission: u8) -> bool {
        self.site.get().is_some_and(|site| site.entry.permissions & permission != 0) && holds()
    }

    /// What may become of a copy to `[start, start + length)`.
    pub(super) fn copy_to_host(&self, start: usize, length: usize) -> Copy {
        self.joins.set(false);
        let site = self.site.get().filter(|_| self.has(DEFER_READ));
        let deferred =
            site.is_some_and(|site| site.entry.permissions & COMPLETE_AT_CALL != 0 || self.predictions.reached_again());
        let mut joins = false;
        if !deferred {
            // The last copy of a loop completes those before it, which joined copies do not.
            let may = self.joining.get().filter(|_| site.is_none() || self.reads_of.get().is_none());
            if !may.is_some_and(|joining| holds() && joining::may_join(joining, start, length)) {
                stepping::end(); // it waits
                return if site.is_some() { Copy::Now } else { Copy::Plain };
            }
            joins = true;
        }
        if self.complete_after.replace(false) {
            self.complete(); // those of another loop
        }
        if joins && stepping::is_on() {
            stepping::add(start, length);
            self.joined.set(true);
            JOINED.fetch_add(1, Relaxed);
            return Copy::Now;
        }
        self.joins.set(joins);
        Copy::Later
    }

    /// A copy to the host is recorded for later.
    pub(super) fn defer(&self) {
        if self.reads.replace(self.reads.get() + 1) == 0 {
            OWING.fetch_add(1, Release);
        }
        if self.joins.replace(false) {
            self.joined.set(true);
            JOINED.fetch_add(1, Relaxed);
        } else {
            self.reads_of.set(self.site.get());
            DEFERRED_READS.fetch_add(1, Relaxed);
        }
    }

    /// What the thread's copies were recorded for is there.
    pub(super) fn arrived(&self) {
        if self.reads.replace(0) > 0 {
            COMPLETED.fetch_add(1, Relaxed);
            self.reads_of.set(None);
            self.joined.set(false);
            if OWING.fetch_sub(1, Release) == 1 {
                RANGES.lock().unwrap_or_else(PoisonError::into_inner).clear_unless(|| OWING.load(Acquire) > 0);
            }
        }
    }

    /// Joined copies are done now.
    #[cfg(not(test))] // for `clock`, which is not in the tests
    pub(super) fn complete_joined(&self) {
        if self.joined.get() {
            self.inside.set(1);
            self.complete();
            self.inside.set(0);
        }
    }

    fn complete(&self) {
        stepping::end();
        self.joined.set(false);
        if self.reads.get() > 0 {
            work::fence();
            self.arrived(); // also when the session is over: nothing comes any more
        }
    }
}

/// Whether permissions hold, as things are.
fn holds() -> bool {
    !FAILED.load(Acquire) && !process::opened_session().is_some_and(client::Session::is_led)
}

fn same(left: Option<&'static Site>, right: Option<&'static Site>) -> bool {
    match (left, right) {
        (Some(left), Some(right)) => std::ptr::eq(left, right),
        (None, None) => true,
        _ => false,
    }
}
