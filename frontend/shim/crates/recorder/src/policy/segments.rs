//! Whether the program waits so often that no loop gets worth a REPEAT: then none is recorded until a segment is longer
//! than the last ones.
//!
//! A segment is what is recorded between two waits. A host replays few records one by one either way; what a REPEAT,
//! and the TEMPLATE in front of it, ask of it besides comes when its caches have forgotten how that is done, and takes
//! it as long as a dozen launches. To open a run in each short segment, and to give back what it holds, costs the
//! program's thread more than the records themselves.

/// A segment of fewer records than this, of fewer bytes, is short.
const SHORT_RECORDS: u64 = 32;
const SHORT_BYTES: usize = 3 << 10;

#[derive(Debug)]
pub(crate) struct Segments {
    /// Records of this one that no run has kept, and their bytes.
    passed: u64,
    bytes: usize,
    /// Records that runs had kept when it began.
    in_loops: u64,
    /// Records of the longest segment of late: half as many with every shorter one.
    longest: u64,
}

impl Default for Segments {
    fn default() -> Self {
        Self { passed: 0, bytes: 0, in_loops: 0, longest: SHORT_RECORDS }
    }
}

impl Segments {
    /// Whether a run that begins now will probably have to give back what it takes: this one is short so far, as those
    /// before were.
    #[inline]
    pub(crate) fn are_short(&self) -> bool {
        self.longest < SHORT_RECORDS && self.passed < SHORT_RECORDS && self.bytes < SHORT_BYTES
    }

    /// A record that could be part of a loop goes by.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.passed += 1;
        self.bytes += bytes;
    }

    /// The program waits. `in_loops`: records that runs have kept so far.
    pub(crate) fn end(&mut self, in_loops: u64) {
        let records = self.passed + in_loops.saturating_sub(self.in_loops);
        if records == 0 {
            return; // only what is part of no loop, such as a module that is loaded and checked: it says nothing of loops
        }
        self.longest = records.max(self.longest / 2);
        (self.passed, self.bytes, self.in_loops) = (0, 0, in_loops);
    }
}
