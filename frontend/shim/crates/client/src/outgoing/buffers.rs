//! The tape's buffers: one is written while those before it are on their way, and they come back.
//!
//! Locking: the buffers' lock is a leaf.

use parking_lot::Mutex;
use prost::bytes::Bytes;
use std::sync::Arc;

/// Buffers that were sent and can be written again.
#[derive(Debug)]
pub(crate) struct Buffers {
    capacity: usize,
    buffers: Mutex<Vec<Vec<u8>>>,
}

const MAX_BUFFERS: usize = 16;
/// Of all of them.
const MAX_BYTES: usize = 16 << 20;
/// A message may be kept for long: it holds no buffer that is much larger.
pub(super) const FEW_BYTES: usize = 16 << 10;
/// A buffer that bulk data has made larger than this is given back to the system.
const MAX_BUFFER_BYTES: usize = 4 << 20;

impl Buffers {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { capacity, buffers: Mutex::new(Vec::with_capacity(MAX_BUFFERS)) }
    }

    pub(crate) fn take(&self) -> Vec<u8> {
        self.buffers.lock().pop().unwrap_or_else(|| Vec::with_capacity(self.capacity))
    }

    /// `records` as shared bytes; the buffer comes back when the last message that holds a part of it is gone: at once
    /// where they are few.
    pub(crate) fn lend(self: Arc<Self>, records: Vec<u8>) -> Bytes {
        if records.len() <= FEW_BYTES {
            let copied = Bytes::copy_from_slice(&records);
            drop(Lent { records, buffers: self });
            return copied;
        }
        Bytes::from_owner(Lent { records, buffers: self })
    }
}

struct Lent {
    records: Vec<u8>,
    buffers: Arc<Buffers>,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.records
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut buffers = self.buffers.buffers.lock();
        let held: usize = buffers.iter().map(Vec::capacity).sum();
        let fits = self.records.capacity() <= MAX_BUFFER_BYTES && held + self.records.capacity() <= MAX_BYTES;
        if buffers.len() < MAX_BUFFERS && fits {
            buffers.push(std::mem::take(&mut self.records));
        }
    }
}
