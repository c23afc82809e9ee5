//! What a session has sent and got: counts that metrics show. One thread counts, once for a message, a group or a
//! loop; any may read.

use crate::counter::Counter;

/// See the module's page.
#[derive(Debug, Default)]
pub struct Counts {
    pub(crate) groups: Counter,
    /// Groups that were answered with results, for which a guest waits.
    pub(crate) round_trips: Counter,
    /// On the tape: a loop's REPEAT is one.
    pub(crate) records: Counter,
    /// Bytes of records.
    pub(crate) bytes_in: Counter,
    /// Bytes of replies.
    pub(crate) bytes_out: Counter,
    /// REPEATs on the tape.
    pub(crate) loops_repeated: Counter,
    /// Loops that a slice decides: WHILEs that begin.
    pub(crate) loops_led: Counter,
    /// Of both.
    pub(crate) iterations: Counter,
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
        .map(|(name, count)| (name, count.get()))
    }
}
