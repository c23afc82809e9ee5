//! A run ahead: what the host does or has done, and how far the program has come in it. A call of the program is compared with what was done
//! there, byte for byte; an argument that the host computed, with the value that it says it used.

use super::fit::Fit;
use crate::body::Body;
use crate::layout;
use std::sync::Arc;

/// Iterations that the host does, or has done, ahead of the program.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) thread: u64,
    /// Of the pattern.
    pub(super) key: u64,
    pub(super) body: Arc<Body>,
    /// For each hole of the body; and where the host's value of a computed one stands in a row.
    pub(super) fits: Vec<(Fit, usize)>,
    pub(super) count: u64,
    /// Bytes of what an iteration yields: the computed holes, then the reads, each in multiples of 8.
    pub(super) row: usize,
    pub(super) results: Vec<u8>,
    pub(super) iterations: u64,
    /// Where the program is.
    pub(super) iteration: u64,
    pub(super) item: usize,
    /// Of the next read, in the row.
    pub(super) at: usize,
    /// Reads that the program has taken, and its records since the last of them.
    pub(super) reads: u32,
    pub(super) since: Vec<u8>,
}

impl Flight {
    /// Whether a record is the one that the host has done.
    pub(super) fn expects(&self, record: &[u8], token: u64) -> bool {
        let Some(item) = self.body.items.get(self.item) else { return false };
        if item.token != token || record.len() != item.bytes().len() || !self.body.fits(item, record) {
            return false;
        }
        item.holes().all(|index| {
            let (hole, (fit, at)) = (self.body.holes[index], &self.fits[index]);
            let found = layout::read(record, hole.at() - item.start as usize, hole.width());
            let expected = fit.value(self.iteration, hole.width());
            expected.unwrap_or_else(|| layout::u64_at(self.current(), *at)) == found
        })
    }

    /// What the iteration has yielded.
    pub(super) fn current(&self) -> &[u8] {
        let start = 8 + usize::try_from(self.iteration).unwrap_or(usize::MAX / 2) * self.row;
        self.results.get(start..start + self.row).unwrap_or_default()
    }

    /// The record was what was expected. True at the end of everything.
    pub(super) fn advance(&mut self) -> bool {
        self.item += 1;
        if self.item == self.body.items.len() {
            (self.item, self.iteration, self.at) = (0, self.iteration + 1, self.computed_bytes());
        }
        self.iteration == self.iterations
    }

    fn computed_bytes(&self) -> usize {
        8 * self.fits.iter().filter(|(fit, _)| fit.is_computed()).count()
    }
}
