//! A run ahead: what the host does or has done, and how far the program has come in it. A call of the program is compared with what was done
//! there, byte for byte; an argument that the host computes, with the value that it says it used, as soon as that is here.

use super::fit::Fit;
use crate::body::Body;
use crate::layout;
use std::sync::Arc;

/// Iterations that the host does, or has done, ahead of the program. Their rows arrive while the program goes on.
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
    /// The rows that have arrived, and whether more of them will.
    pub(super) results: Vec<u8>,
    pub(super) ended: bool,
    /// Where the program is.
    pub(super) iteration: u64,
    pub(super) item: usize,
    /// Of the next read, in the row.
    pub(super) at: usize,
    /// Reads that the program has taken, and its records since the last of them.
    pub(super) reads: u32,
    pub(super) since: Vec<u8>,
    /// Arguments that the host was to compute, whose row was not here: where they stand in it, and what the program has passed.
    pub(super) claims: Vec<(usize, u64)>,
}

impl Flight {
    /// Whether a record is the one that the host has done, or will have, as far as that can be told.
    pub(super) fn expects(&mut self, record: &[u8], token: u64) -> bool {
        let body = self.body.clone();
        let Some(item) = body.items.get(self.item) else { return false };
        if item.token != token || record.len() != item.bytes().len() || !body.fits(item, record) {
            return false;
        }
        item.holes().all(|index| {
            let (hole, (fit, at)) = (body.holes[index], &self.fits[index]);
            let found = layout::read(record, hole.at() - item.start as usize, hole.width());
            let expected = fit.value(self.iteration, hole.width());
            match expected.or_else(|| self.is_here().then(|| layout::u64_at(self.current(), *at))) {
                Some(expected) => expected == found,
                None => {
                    self.claims.push((*at, found));
                    true
                }
            }
        })
    }

    /// Whether the host has used what the program has passed since the row of this iteration was missed. It is here now.
    pub(super) fn confirms(&mut self) -> bool {
        let claims = std::mem::take(&mut self.claims);
        claims.iter().all(|(at, value)| layout::u64_at(self.current(), *at) == *value)
    }

    /// What the iteration yields has arrived.
    pub(super) fn is_here(&self) -> bool {
        (usize::try_from(self.iteration).unwrap_or(usize::MAX).saturating_add(1)).saturating_mul(self.row)
            <= self.results.len()
    }

    /// No row will come for the iteration that the program is in.
    pub(super) fn is_over(&self) -> bool {
        (self.ended || self.iteration >= self.count) && !self.is_here()
    }

    /// The row of the iteration.
    pub(super) fn current(&self) -> &[u8] {
        let start = usize::try_from(self.iteration).unwrap_or(usize::MAX / 2).saturating_mul(self.row);
        self.results.get(start..start.saturating_add(self.row)).unwrap_or_default()
    }

    /// The record was what was expected.
    pub(super) fn advance(&mut self) {
        self.item += 1;
        if self.item == self.body.items.len() {
            (self.item, self.iteration, self.at) = (0, self.iteration + 1, self.computed_bytes());
        }
    }

    fn computed_bytes(&self) -> usize {
        8 * self.fits.iter().filter(|(fit, _)| fit.is_computed()).count()
    }
}
