//! Iterations of a loop's body, step by step.
//!
//! Python has resolved the body's handles, checked where its copies go, and computed the operands of each iteration (backend/device/plan.py).
//! What of it is not plain it does itself: `run` stops in front of that, and goes on behind it.

use crate::device::direct::Direct;
use crate::device::launch::{Entry, Ran};
use crate::device::objects::{Event, Stream};
use crate::device::ranges::Rows;
use crate::device::work::{Awaited, Fault, Tried, PIECE};
use std::sync::Arc;

/// One operation of the body. Its operands are those of plan.py's kind of that name.
pub enum Step {
    Launch(Arc<Entry>),
    Set(Arc<Stream>),
    Copy(Arc<Stream>),
    /// The data are operands.
    Write(Arc<Stream>),
    /// The data are where the operands say.
    Put(Arc<Stream>),
    /// Its bytes go to this place in the iteration's results.
    Read(Arc<Stream>, usize),
    Record(Arc<Event>, Arc<Stream>),
    /// Synchronizations that are answered.
    AwaitStream(Arc<Stream>),
    AwaitEvent(Arc<Event>),
    AwaitDevice,
    /// A synchronization that is not.
    Nothing,
    /// It is Python's.
    Left,
}

/// Bytes of all iterations, one after another: operands of a step, or results.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    pub address: usize,
    /// Bytes of one iteration.
    pub size: usize,
}

impl Table {
    fn row(&self, iteration: usize) -> *mut u8 {
        (self.address as *mut u8).wrapping_add(iteration * self.size)
    }

    /// # Safety
    /// The table is there, has this iteration, and is not written to meanwhile.
    pub(super) unsafe fn bytes(&self, iteration: usize) -> &[u8] {
        if self.size == 0 {
            return &[];
        }
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(self.row(iteration), self.size) }
    }
}

/// A place in the loop: the iteration, and the step in it.
pub type Place = (usize, usize);

/// Why `run` has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reached {
    End,
    /// The step there is Python's.
    Left(Place),
    /// The step there has failed.
    Failed(Place, Fault),
}

/// Does the steps from one place to another. `results` has a row for each iteration, where a step reads.
///
/// # Safety
/// The tables are there and have these iterations; where the operands name host memory, it is there.
pub unsafe fn run(
    direct: &Direct,
    steps: &[Step],
    operands: &[Table],
    results: Option<Table>,
    from: Place,
    to: Place,
) -> Reached {
    let mut place = from;
    while place < to {
        if place.1 == steps.len() {
            place = (place.0 + 1, 0);
            continue;
        }
        let results = results.map(|table| table.row(place.0));
        // SAFETY: the caller's promise.
        match unsafe { one(direct, &steps[place.1], operands[place.1].bytes(place.0), results) } {
            Ok(true) => place.1 += 1,
            Ok(false) => return Reached::Left(place),
            Err(fault) => return Reached::Failed(place, fault),
        }
    }
    Reached::End
}

/// # Safety
/// As of `run`.
unsafe fn one(direct: &Direct, step: &Step, data: &[u8], results: Option<*mut u8>) -> Tried {
    if !direct.is_enabled() {
        return Ok(false);
    }
    let number = |at: usize| data.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes);
    let short = |at: usize| number(at) as u32; // both are there, side by side
    let rows = || Rows { address: number(0), pitch: number(8), width: number(16), height: number(24) };
    match step {
        Step::Launch(entry) => match direct.launch(entry, data) {
            Ran::Done => Ok(true),
            Ran::Fault(fault) => Err(fault),
            Ran::Stale | Ran::Failed | Ran::Account { .. } => Ok(false),
        },
        Step::Set(stream) => direct.set(&rows(), short(32), (number(32) >> 32) as u32, stream),
        Step::Copy(stream) => {
            let of =
                |at: usize| Rows { address: number(at), pitch: number(at + 8), width: number(32), height: number(40) };
            direct.copy(&of(0), &of(16), stream)
        }
        Step::Write(stream) => direct.write(&rows(), data.get(32..).unwrap_or_default(), stream),
        Step::Put(stream) => {
            // SAFETY: the caller's promise.
            let kept = unsafe { std::slice::from_raw_parts(number(32) as *const u8, number(40) as usize) };
            direct.write(&rows(), kept, stream)
        }
        Step::Read(stream, at) => match results {
            // SAFETY: an iteration's results have room for what its step reads.
            Some(results) => unsafe { read(direct, &rows(), stream, results.add(*at)) },
            None => Ok(false),
        },
        Step::Record(event, stream) => direct.record(event, stream),
        Step::AwaitStream(stream) => direct.synchronize(Awaited::Stream(stream)),
        Step::AwaitEvent(event) => direct.synchronize(Awaited::Event(event)),
        Step::AwaitDevice => direct.synchronize(Awaited::Device),
        Step::Nothing => Ok(true),
        Step::Left => Ok(false),
    }
}

/// # Safety
/// There is room for the rows' bytes.
unsafe fn read(direct: &Direct, rows: &Rows, stream: &Stream, to: *mut u8) -> Tried {
    if !direct.may_read(rows) {
        return Ok(false);
    }
    let total = rows.size().unwrap_or_default();
    for from in (0..total).step_by(PIECE) {
        if !direct.fetch(rows, from, stream)? {
            return Ok(false);
        }
        let part = from..total.min(from + PIECE as u64);
        direct.show(rows, part, |bytes| {
            // SAFETY: the caller's promise.
            unsafe { bytes.as_ptr().copy_to_nonoverlapping(to.add(from as usize), bytes.len()) };
        });
    }
    Ok(true)
}
