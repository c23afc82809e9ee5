//! Whether the program waits so often that no loop gets worth a REPEAT: then none is recorded until a stretch is longer than
//! the last ones.
//!
//! A stretch is what is recorded between two waits. A host replays few records one by one either way; what a REPEAT, and the TEMPLATE in front of it, ask of
//! it besides comes when its caches have forgotten how that is done, and takes it as long as a dozen launches. To open a run in each short stretch, and to give
//! back what it holds, costs the program's thread more than the records themselves.

/// A stretch of fewer records than this, of fewer bytes, is short.
const SHORT_RECORDS: u64 = 32;
const SHORT_BYTES: usize = 3 << 10;

#[derive(Debug)]
pub(crate) struct Stretches {
    /// Records of this one that no run has kept, and their bytes.
    passed: u64,
    bytes: usize,
    /// Records that runs had kept when it began.
    folded: u64,
    /// Records of the longest stretch of late: half as many with every shorter one.
    longest: u64,
}

impl Default for Stretches {
    fn default() -> Self {
        Self { passed: 0, bytes: 0, folded: 0, longest: SHORT_RECORDS }
    }
}

impl Stretches {
    /// Whether a run that begins now will probably have to give back what it takes: this one is short so far, as those before were.
    #[inline]
    pub(crate) fn are_short(&self) -> bool {
        self.longest < SHORT_RECORDS && self.passed < SHORT_RECORDS && self.bytes < SHORT_BYTES
    }

    /// A record that could be folded goes by.
    pub(crate) fn pass(&mut self, bytes: usize) {
        self.passed += 1;
        self.bytes += bytes;
    }

    /// The program waits. `folded`: records that runs have kept so far.
    pub(crate) fn end(&mut self, folded: u64) {
        let records = self.passed + folded.saturating_sub(self.folded);
        if records == 0 {
            return; // only what is never folded, such as a module that is loaded and checked: it says nothing of loops
        }
        self.longest = records.max(self.longest / 2);
        (self.passed, self.bytes, self.folded) = (0, 0, folded);
    }
}
