//! The functions of both APIs' tables, as calls are counted, traced and permitted by.

pub use crate::generated_functions::{Function, Operation};

/// How the API table has a function executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Answered in the guest.
    Local = 0,
    /// Recorded on the tape.
    Deferred = 1,
    /// Waits for the host's answer, where there is something to wait for.
    Sync = 2,
}

/// Which default stream a null stream argument means: the plain symbols' or the `_ptsz`/`_ptds` ones'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultStream {
    Legacy,
    PerThread,
}
