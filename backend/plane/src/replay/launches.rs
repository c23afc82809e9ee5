//! Launches that were seen before, as long as no object ends.
//!
//! They are remembered whole: programs launch the same kernel with the same shape thousands
//! of times. They are found by the fixed bytes of their records; the parameters, which follow, are the device's to
//! check.

use super::errors::Standing;
use crate::device::launch::Entry;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use tape::Record;

/// Bytes of a launch's header and fields.
pub(crate) const FIXED: usize = 48;
/// Different launches that a session remembers.
const LIMIT: usize = 4096;

/// A launch as it can be done again.
pub(crate) struct Known<L> {
    /// Of the record.
    pub(crate) length: usize,
    /// Where its parameters end.
    pub(crate) end: usize,
    /// How the control plane does it.
    pub(crate) launch: Arc<L>,
    /// How it is done without.
    pub(crate) entry: Option<Arc<Entry>>,
}

/// A hash of few instructions. A guest that makes its keys collide slows its own session down.
#[derive(Default)]
pub(crate) struct Folded(u64);

/// Tables of numbers that a guest chooses.
pub(crate) type Hashed = BuildHasherDefault<Folded>;

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            self.write_u64(u64::from_le_bytes(word.try_into().unwrap_or_default()));
        }
        words.remainder().iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_u64(&mut self, word: u64) {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let product = u128::from(self.0 ^ word) * u128::from(ODD);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// See the module's page.
pub(crate) struct Launches<L> {
    standing: Arc<Standing>,
    /// `Standing::resolved` when they were.
    resolved: u64,
    known: HashMap<[u8; FIXED], Known<L>, Hashed>,
}

impl<L> Launches<L> {
    pub(crate) fn new(standing: Arc<Standing>) -> Self {
        Self { standing, resolved: 0, known: HashMap::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn clear(&mut self) {
        self.known.clear();
    }

    fn current(&mut self) {
        let resolved = self.standing.resolved.load(Ordering::Relaxed);
        if resolved != self.resolved {
            self.resolved = resolved;
            self.clear();
        }
    }

    /// What records that begin so launch.
    pub(crate) fn find(&mut self, fixed: &[u8; FIXED]) -> Option<&mut Known<L>> {
        self.current();
        self.known.get_mut(fixed)
    }

    pub(crate) fn remember(&mut self, record: &Record<'_>, launch: L) {
        self.current();
        if self.known.len() >= LIMIT {
            self.known.clear();
        }
        if let Some(fixed) = record.bytes.first_chunk::<FIXED>() {
            let end = FIXED + record.tail().len();
            let known = Known { length: record.bytes.len(), end, launch: Arc::new(launch), entry: None };
            self.known.insert(*fixed, known);
        }
    }
}
