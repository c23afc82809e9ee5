//! What work of non-blocking streams waits for.
//!
//! A copy from the guest in the legacy stream is over, for the guest, when the call returns: a synchronous one of pageable memory, or managed
//! and mapped memory that changes sides. Here it is on its way then ([`super::outgoing`]). So work of a non-blocking stream, which does not
//! wait for the legacy one, waits for such copies: an event for each run of them that such work follows.
//!
//! Source: CUDA runtime API, "Stream synchronization behavior".

use super::functions::Functions;
use super::LEGACY;
use crate::device::objects::Stream;
use crate::device::work::Fault;
use std::sync::atomic::Ordering;

/// Counts of copies from the guest in the legacy stream.
#[derive(Default)]
pub(super) struct Order {
    writes: u64,
    /// Those before the mark.
    marked: u64,
    /// Those that are over.
    done: u64,
    /// The event behind them; 0: there is none yet.
    mark: usize,
}

impl Order {
    /// The stream's work waits for the copies so far.
    pub(super) fn follow(&mut self, functions: &Functions, stream: &Stream) -> Result<(), Fault> {
        if stream.behind.swap(self.writes, Ordering::Relaxed) == self.writes || self.done == self.writes {
            return Ok(());
        }
        if self.mark == 0 {
            self.mark = functions.event()?;
        }
        if self.marked != self.writes {
            functions.record_event(self.mark, LEGACY)?;
            self.marked = self.writes;
        }
        functions.wait_event(stream.handle, self.mark, 0)
    }

    pub(super) fn wrote(&mut self) {
        self.writes += 1;
    }

    /// All work was waited for.
    pub(super) fn synchronized(&mut self) {
        self.done = self.writes;
    }

    pub(super) fn end(&mut self, functions: &Functions) {
        if self.mark != 0 {
            let _ = functions.destroy_event(self.mark); // of a lost context: it has ended with it
        }
        *self = Self::default();
    }
}
