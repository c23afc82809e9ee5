//! What a session has sent and got: counts that metrics show. One thread counts, once for a message, a group or a
//! loop; any may read.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// By the one thread that replays.
    pub(crate) fn add(&self, number: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + number, Ordering::Relaxed);
    }
}

/// See the module's page.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) groups: Count,
    /// Groups that were answered with results, for which a guest waits.
    pub(crate) round_trips: Count,
    /// On the tape: a loop's REPEAT is one.
    pub(crate) records: Count,
    /// Bytes of records.
    pub(crate) bytes_in: Count,
    /// Bytes of replies.
    pub(crate) bytes_out: Count,
    /// REPEATs on the tape.
    pub(crate) loops_repeated: Count,
    /// Loops that a slice decides: WHILEs that begin.
    pub(crate) loops_led: Count,
    /// Of both.
    pub(crate) iterations: Count,
}

impl Counts {
    #[must_use]
    pub fn all(&self) -> [(&'static str, u64); 8] {
        [
            ("groups", &self.groups),
            ("round_trips", &self.round_trips),
            ("records", &self.records),
            ("bytes_in", &self.bytes_in),
            ("bytes_out", &self.bytes_out),
            ("loops_repeated", &self.loops_repeated),
            ("loops_led", &self.loops_led),
            ("iterations", &self.iterations),
        ]
        .map(|(name, count)| (name, count.0.load(Ordering::Relaxed)))
    }
}
