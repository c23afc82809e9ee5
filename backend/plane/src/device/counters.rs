//! What the plane has done for a context by itself, by kind. One thread counts; any may read.

use crate::counter::Counter;

#[derive(Default)]
pub(super) struct Counters {
    pub(super) launches: Counter,
    pub(super) writes: Counter,
    pub(super) reads: Counter,
    pub(super) copies: Counter,
    pub(super) sets: Counter,
    pub(super) records: Counter,
    pub(super) waits: Counter,
    pub(super) synchronizations: Counter,
    pub(super) queries: Counter,
    pub(super) graphs: Counter,
    /// Allocations, streams and events, made or ended.
    pub(super) objects: Counter,
}

impl Counters {
    pub(super) fn all(&self) -> [(&'static str, u64); 11] {
        [
            ("launches", &self.launches),
            ("writes", &self.writes),
            ("reads", &self.reads),
            ("copies", &self.copies),
            ("sets", &self.sets),
            ("records", &self.records),
            ("waits", &self.waits),
            ("synchronizations", &self.synchronizations),
            ("queries", &self.queries),
            ("graphs", &self.graphs),
            ("objects", &self.objects),
        ]
        .map(|(name, counter)| (name, counter.get()))
    }
}
