//! What work waits for that CUDA's own rules do not order on a GPU.
//!
//! A copy from the guest in the legacy stream is over, for the guest, when the call returns: a synchronous one of pageable memory, or managed
//! and mapped memory that changes sides. Here it is on its way then ([`super::outgoing`]). So work of a non-blocking stream, which does not
//! wait for the legacy one, waits for such copies: an event for each run of them that such work follows.
//!
//! Memory that the guest has freed is had back at the same addresses, by a record that names no stream, while work of any stream may still use
//! it (natively `cudaFree` waits for all work, and a pool gives memory to another stream behind an event). So an allocation there joins the
//! streams: the legacy stream waits for the non-blocking ones, and its own rule does the rest.
//!
//! Source: CUDA runtime API, "Stream synchronization behavior", "Stream Ordered Memory Allocator".

use super::functions::Functions;
use super::LEGACY;
use crate::device::objects::Stream;
use crate::device::work::Fault;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Counts of copies from the guest in the legacy stream, and of times that the streams were joined.
#[derive(Default)]
pub(super) struct Order {
    writes: u64,
    /// Those before the mark.
    marked: u64,
    /// Those that are over.
    done: u64,
    /// The event behind them; 0: there is none yet.
    mark: usize,
    /// What was freed since all work was waited for or joined lies in here.
    freed: Option<Range<u64>>,
    /// The event behind one non-blocking stream; 0: there is none yet.
    last: usize,
}

impl Order {
    /// The stream's work waits for the copies so far.
    pub(super) fn follow(&mut self, functions: &Functions, stream: &Stream) -> Result<(), Fault> {
        if stream.behind.swap(self.writes, Ordering::Relaxed) == self.writes || self.done == self.writes {
            return Ok(());
        }
        self.mark(functions)?;
        functions.wait_event(stream.handle, self.mark, 0)
    }

    /// The mark is behind all writes.
    fn mark(&mut self, functions: &Functions) -> Result<(), Fault> {
        if self.mark == 0 {
            self.mark = functions.event()?;
        }
        if self.marked != self.writes {
            functions.record_event(self.mark, LEGACY)?;
            self.marked = self.writes;
        }
        Ok(())
    }

    /// The range is free, and work that was issued before may still use it.
    pub(super) fn freed(&mut self, range: &Range<u64>) {
        self.freed = Some(match self.freed.take() {
            Some(before) => before.start.min(range.start)..before.end.max(range.end),
            None => range.clone(),
        });
    }

    /// What is issued from now on waits for all that was issued, in these non-blocking streams and in all blocking ones.
    pub(super) fn join(&mut self, functions: &Functions, streams: &[usize]) -> Result<(), Fault> {
        if self.last == 0 {
            self.last = functions.event()?;
        }
        for &stream in streams {
            functions.record_event(self.last, stream)?;
            functions.wait_event(LEGACY, self.last, 0)?;
        }
        self.writes += 1;
        self.mark(functions)
    }

    /// The range is allocated: what may still use an earlier allocation of it goes before what is issued from now on.
    pub(super) fn allocated(
        &mut self,
        functions: &Functions,
        range: &Range<u64>,
        streams: &[usize],
    ) -> Result<(), Fault> {
        if self.freed.as_ref().is_some_and(|freed| freed.start < range.end && range.start < freed.end) {
            self.join(functions, streams)?;
            self.freed = None;
        }
        Ok(())
    }

    pub(super) fn wrote(&mut self) {
        self.writes += 1;
    }

    /// All work was waited for.
    pub(super) fn synchronized(&mut self) {
        self.done = self.writes;
        self.freed = None;
    }

    pub(super) fn end(&mut self, functions: &Functions) {
        for event in [self.mark, self.last] {
            if event != 0 {
                let _ = functions.destroy_event(event); // of a lost context: it has ended with it
            }
        }
        *self = Self::default();
    }
}
