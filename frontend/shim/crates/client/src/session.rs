//! The session as the rest of the shim sees it (signatures first; the engine follows).

use crate::{Config, Counters, Failure, Mode, OpenError, Welcome};
use tape::Writer;

/// What the guest says first.
#[derive(Debug, Clone)]
pub struct HelloInfo {
    pub program: String,
    pub pid: u32,
    pub module_digests: Vec<[u8; 32]>,
    pub mode: Mode,
}

/// The host's answer to one awaited operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The `cudaError_t` of the operation (0: success).
    pub error: i32,
    /// The VALUE; 0 for operations that answer with a status.
    pub value: u64,
}

/// Where a read goes: `height` rows of `width` bytes, `pitch` bytes apart.
#[derive(Debug, Clone, Copy)]
pub struct Destination {
    pub ptr: *mut u8,
    pub pitch: usize,
    pub width: usize,
    pub height: usize,
}

/// What the layer above counted, for the report.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallSummary {
    pub local: u64,
    pub deferred: u64,
    pub sync: u64,
    /// Names of the functions that were called and are not supported.
    pub unsupported: Vec<String>,
}

/// One open session. Shared by all threads of the program.
#[derive(Debug)]
pub struct Session {
    welcome: Welcome,
    counters: Counters,
}

#[allow(unused_variables)]
impl Session {
    /// Connects and shakes hands: one round trip.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong and what to do.
    pub fn open(config: &Config, hello: HelloInfo) -> Result<Self, OpenError> {
        unimplemented!()
    }

    /// What the host said about itself, the window, the quota and the devices.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    /// Appends records atomically; the order of appends is the order of the tape. May send a full group and then wait
    /// for credit. In mode none: waits until the host has replayed it, and returns the call's own error.
    ///
    /// # Errors
    /// [`Failure::Dead`]; in mode none the error of the call.
    pub fn defer(&self, write: impl FnOnce(&mut Writer)) -> Result<(), Failure> {
        unimplemented!()
    }

    /// Appends one record that answers into the slot, sends everything and waits: one round trip. The answer's own
    /// error is in the answer.
    ///
    /// # Errors
    /// [`Failure::Dead`].
    pub fn request(&self, write: impl FnOnce(&mut Writer, u32)) -> Result<Answer, Failure> {
        unimplemented!()
    }

    /// As `request` for a READ: the data is written into the destination as it arrives. One round trip.
    ///
    /// # Safety
    /// Every row of `destination` must be writable, and written by nobody else, until this returns.
    ///
    /// # Errors
    /// The error of the read, or [`Failure::Dead`]; then the destination may be partly written.
    pub unsafe fn read(&self, destination: Destination, write: impl FnOnce(&mut Writer, u32)) -> Result<(), Failure> {
        unimplemented!()
    }

    /// Sends what is recorded, without waiting for an answer.
    pub fn flush(&self) {
        unimplemented!()
    }

    /// Ends the session: sends what is recorded, waits (a bounded time) until the host has replayed it, says goodbye and
    /// writes the report. Later calls fail with cudaErrorCudartUnloading (4). Idempotent.
    pub fn finish(&self, calls: &CallSummary) {
        unimplemented!()
    }

    /// For the child of a fork: from now on this session answers [`Failure::Dead`] without touching a lock, and the
    /// child's copy of the connection is closed without a word to the host. Async-signal-safe.
    pub fn abandon_after_fork(&self) {
        unimplemented!()
    }

    /// The error that ruined the context, if one did.
    #[must_use]
    pub fn sticky(&self) -> Option<i32> {
        unimplemented!()
    }

    /// The first error of a deferred call that nobody has been told yet; telling it is the caller's job now.
    #[must_use]
    pub fn take_deferred_error(&self) -> Option<i32> {
        unimplemented!()
    }

    /// Forgets sticky and deferred errors: after a DEVICE_RESET that succeeded.
    pub fn clear_errors(&self) {
        unimplemented!()
    }

    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}
