//! Whether the program waits so often that no loop gets worth a REPEAT: then none is recorded until a stretch is longer than the last ones.
//!
//! A stretch is what is recorded between two waits. To open a run in each, and to give back what it holds, costs the program's thread more
//! than the records themselves.

use crate::folder::{LEAST_BYTES, LEAST_RECORDS};

/// So many stretches in a row without a REPEAT are short ones.
const MOST_FRUITLESS: u32 = 4;
/// One in so many is recorded nevertheless.
const TRIED_AGAIN: u32 = 64;

#[derive(Debug, Default)]
pub(crate) struct Stretches {
    /// Records of this one that went by, and their bytes.
    records: usize,
    bytes: usize,
    /// Stretches in a row without a REPEAT.
    fruitless: u32,
    /// Iterations of all REPEATs when the last one ended.
    iterations: u64,
}

impl Stretches {
    /// Whether a run that begins now will probably have to give back what it takes.
    #[inline]
    pub(crate) fn are_short(&self) -> bool {
        self.fruitless >= MOST_FRUITLESS
            && !self.fruitless.is_multiple_of(TRIED_AGAIN)
            && self.records < LEAST_RECORDS
            && self.bytes < LEAST_BYTES
    }

    /// A record goes by.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.records += 1;
        self.bytes += bytes;
    }

    /// The program waits. `held`: a run held something. `iterations`: of all REPEATs so far.
    pub(crate) fn end(&mut self, held: bool, iterations: u64) {
        if iterations > self.iterations {
            (self.fruitless, self.iterations) = (0, iterations);
        } else if held || self.records > 0 {
            self.fruitless = self.fruitless.saturating_add(1);
        }
        (self.records, self.bytes) = (0, 0);
    }
}
