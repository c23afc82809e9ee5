//! Reads on the tape being written that no thread waits for: where their data will go.
//!
//! A loop's reads are kept as runs: from one place in the program, of one shape, with evenly spaced slots and
//! destinations. What does not fit a run begins a new one, and when there are many runs the tape is sent, so that
//! memory is bounded whatever the program does.

use crate::incoming::awaited::{Awaited, Run};
use crate::incoming::destination::Destination;
use crate::incoming::waiter::Waiter;
use std::sync::Arc;

/// With more runs than this the tape is sent.
const MOST_RUNS: usize = 1024;
/// Places in the program whose runs can grow at a time.
const OPEN_RUNS: usize = 32;

#[derive(Debug, Default)]
pub(crate) struct Reads {
    runs: Vec<Open>,
}

#[derive(Debug)]
struct Open {
    from: usize,
    first_slot: u32,
    last_slot: u32,
    last: Destination,
    waiter: Arc<Waiter>,
    run: Run,
}

// SAFETY: the destination is compared, never followed.
unsafe impl Send for Open {}

impl Reads {
    pub(crate) fn add(&mut self, slot: u32, destination: Destination, waiter: Waiter, from: usize) {
        if self
            .runs
            .iter_mut()
            .rev()
            .take(OPEN_RUNS)
            .find(|run| run.from == from)
            .is_some_and(|run| run.take(slot, destination))
        {
            return;
        }
        self.runs.push(Open {
            from,
            first_slot: slot,
            last_slot: slot,
            last: destination,
            waiter: Arc::new(waiter),
            run: Run { left: 0, slot_step: 0, step: 0 },
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.runs.len() > MOST_RUNS
    }

    pub(crate) fn take(&mut self) -> impl Iterator<Item = Awaited> {
        let runs = std::mem::take(&mut self.runs).into_iter();
        runs.map(|open| Awaited::unwatched(open.first_slot, open.waiter).followed_by(open.run))
    }
}

impl Open {
    /// Whether the read continues the run.
    fn take(&mut self, slot: u32, destination: Destination) -> bool {
        let shape = |of: &Destination| (of.pitch, of.width, of.height);
        if shape(&self.last) != shape(&destination) {
            return false;
        }
        let slot_step = slot.wrapping_sub(self.last_slot);
        let step = (destination.ptr as isize).wrapping_sub(self.last.ptr as isize);
        if self.run.left > 0 && (slot_step, step) != (self.run.slot_step, self.run.step) {
            return false;
        }
        self.run = Run { left: self.run.left + 1, slot_step, step };
        (self.last, self.last_slot) = (destination, slot);
        true
    }
}
