//! Copies, sets and reads of rows that allocations hold.

use super::Direct;
use crate::counter::Counter;
use crate::device::objects::Stream;
use crate::device::ranges::Rows;
use crate::device::work::{Fault, Timed, Tried, Work};
use std::ops::Range;
use std::time::Instant;

impl Direct {
    /// Copies packed rows there.
    ///
    /// # Errors
    /// The driver's, here and below.
    pub fn write(&self, rows: &Rows, data: &[u8], stream: &Stream) -> Tried {
        if rows.size() != Some(data.len() as u64) {
            return Ok(false);
        }
        self.work(&[rows], &self.counters.writes, |work| work.write(rows, data, stream))
    }

    /// Where the bytes of rows that follow each other without a gap may be written, as long as the gate is held; `None`: nowhere.
    #[must_use]
    pub fn place(&self, rows: &Rows, stream: &Stream) -> Option<*mut u8> {
        self.may_read(rows).then(|| self.work.place(rows, stream)).flatten()
    }

    /// The bytes are where `place` said, and nothing was done since.
    ///
    /// # Errors
    /// The driver's.
    pub fn arrived(&self, rows: &Rows, stream: &Stream) -> Result<(), Fault> {
        let _held = self.gate.work();
        self.counters.writes.add(1);
        self.work.arrived(rows, stream)
    }

    /// Copies rows to rows.
    ///
    /// # Errors
    /// The driver's.
    pub fn copy(&self, to: &Rows, from: &Rows, stream: &Stream) -> Tried {
        self.work(&[to, from], &self.counters.copies, |work| work.copy(to, from, stream))
    }

    /// Sets rows to the low bytes of a value.
    ///
    /// # Errors
    /// The driver's.
    pub fn set(&self, rows: &Rows, value: u32, element: u32, stream: &Stream) -> Tried {
        let wide = u64::from(element);
        if !matches!(element, 1 | 2 | 4)
            || !rows.width.is_multiple_of(wide)
            || !rows.address.is_multiple_of(wide)
            || !rows.pitch.is_multiple_of(wide)
        {
            return Ok(false);
        }
        self.work(&[rows], &self.counters.sets, |work| work.set(rows, value, element, stream))
    }

    /// Whether these rows may be read here: one after the other without a gap, in one allocation.
    #[must_use]
    pub fn may_read(&self, rows: &Rows) -> bool {
        rows.contiguous() && rows.span().is_some_and(|span| self.is_enabled() && self.ranges.holds(rows.address, span))
    }

    /// Brings a piece of rows that may be read to where `show` finds it.
    ///
    /// # Errors
    /// The driver's.
    pub fn fetch(&self, rows: &Rows, from: u64, stream: &Stream) -> Tried {
        if from == 0 {
            self.counters.reads.add(1);
        }
        self.waiting(|work| work.fetch(rows, from, stream))
    }

    /// Gives bytes of rows that may be read, and were fetched; `None` where they may be no longer.
    pub fn show<T>(&self, rows: &Rows, part: Range<u64>, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let _held = self.gate.work();
        if !self.may_read(rows) {
            return None;
        }
        let (mut look, mut shown) = (Some(look), None);
        self.work.show(rows, part, &mut |bytes| shown = look.take().map(|look| look(bytes)));
        shown
    }

    /// Does something with rows that allocations hold, one each.
    fn work<const N: usize>(
        &self,
        rows: &[&Rows; N],
        counter: &Counter,
        work: impl FnOnce(&dyn Work) -> Tried,
    ) -> Tried {
        let _held = self.gate.work();
        let held = |rows: &&Rows| rows.span().is_some_and(|span| self.ranges.holds(rows.address, span));
        if !self.is_enabled() || !rows.iter().all(held) {
            return Ok(false);
        }
        let started = (self.timed == Timed::Work).then(Instant::now);
        let done = work(&*self.work);
        if let Some(started) = started {
            self.since(started);
        }
        if done != Ok(false) {
            counter.add(1);
        }
        done
    }
}
