//! What a session counts. Counts are exact: they depend on what the program did, not on the machine.

use std::sync::atomic::{AtomicU64, Ordering};

/// One count, read and written without ordering: nothing is published through it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// The counts of one session.
#[derive(Debug, Default)]
pub struct Counters {
    /// Times a thread of the program waited for the host's answer; the handshake is one of them, the wait at exit is
    /// not.
    pub round_trips: Counter,
    /// Groups sent.
    pub groups: Counter,
    /// Bytes of the protobuf messages sent on the session's stream.
    pub bytes_up: Counter,
    /// Bytes of the protobuf messages received on the session's stream.
    pub bytes_down: Counter,
    /// Times a thread waited because the bytes in flight had reached the host's bound.
    pub flow_waits: Counter,
    /// Time the device has worked for this session, as the host last reported.
    pub device_nanoseconds: Counter,
}
