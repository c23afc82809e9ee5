//! A count that one thread makes and any may read.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// By the one thread.
    pub(crate) fn add(&self, number: u64) {
        self.0.store(self.0.load(Ordering::Relaxed) + number, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
