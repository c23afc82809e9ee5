//! What a call of this crate returns when it does not succeed.

use std::fmt;
use std::io;

/// Why a call did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// The other side broke a rule. Each later call of the same half returns the same error.
    Violation(Violation),
    /// The other side has closed its socket or has ended, and nothing is left to be received.
    PeerGone,
    /// The deadline has passed. Nothing is lost: the call can be repeated.
    TimedOut,
    /// [`crate::Handle::interrupt`] was called and [`crate::Handle::resume`] was not. Nothing is lost.
    Interrupted,
    /// This process is a child of the one that made the rings.
    Forked,
    /// A message was begun and is not written to its end.
    Unfinished,
    /// More bytes than the message has left, or than the ring can hold at once.
    TooMuch,
    /// A system call failed: its name and `errno`.
    System(&'static str, i32),
}

/// The rule that the other side broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Violation {
    /// An index became smaller.
    IndexBackwards { seen: u64, now: u64 },
    /// An index is further ahead than the ring allows.
    IndexTooFar { limit: u64, now: u64 },
    /// A message is longer than the receiver's limit.
    MessageTooLong { limit: u64, length: u64 },
    /// The index stands inside the padding behind a message.
    IndexInPadding { end: u64, now: u64 },
    /// The agreement does not begin with the magic number.
    Magic(u64),
    /// The agreement has a version that this side does not know.
    Version(u32),
    /// A capacity is no power of two, or too small or too large.
    Capacity(u64),
    /// Not exactly one descriptor came with the agreement.
    Descriptors(usize),
    /// The descriptor is no file in ordinary shared memory.
    NoSharedMemory,
    /// The file's seals do not forbid all changes of its size, or forbid writing.
    Seals(i32),
    /// The file's size is not what the capacities need.
    Size { needed: u64, size: u64 },
}

impl Error {
    /// The error of the system call that has just failed.
    pub(crate) fn last(call: &'static str) -> Self {
        Error::System(call, io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

impl From<Violation> for Error {
    fn from(violation: Violation) -> Self {
        Error::Violation(violation)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Violation(violation) => write!(f, "the other side broke a rule of the rings: {violation}"),
            Error::PeerGone => f.write_str("the other side of the rings is gone"),
            Error::TimedOut => f.write_str("the deadline of a wait at the rings has passed"),
            Error::Interrupted => f.write_str("a wait at the rings was interrupted"),
            Error::Forked => f.write_str("the rings belong to the parent of this process"),
            Error::Unfinished => f.write_str("the message before is not written to its end"),
            Error::TooMuch => f.write_str("more bytes than the message has left or the ring can hold"),
            Error::System(call, number) => write!(f, "{call}: {}", io::Error::from_raw_os_error(*number)),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Violation::IndexBackwards { seen, now } => write!(f, "an index went back from {seen} to {now}"),
            Violation::IndexTooFar { limit, now } => write!(f, "an index is {now}, at most {limit} is possible"),
            Violation::MessageTooLong { limit, length } => {
                write!(f, "a message has {length} bytes, at most {limit} are allowed")
            }
            Violation::IndexInPadding { end, now } => {
                write!(f, "an index is {now}, inside the padding of the message that ends at {end}")
            }
            Violation::Magic(magic) => write!(f, "the agreement begins with {magic:#x}"),
            Violation::Version(version) => write!(f, "the agreement has version {version}"),
            Violation::Capacity(capacity) => write!(f, "a ring of {capacity} bytes is not allowed"),
            Violation::Descriptors(count) => write!(f, "{count} descriptors came with the agreement, not one"),
            Violation::NoSharedMemory => f.write_str("the descriptor is not ordinary shared memory"),
            Violation::Seals(seals) => write!(f, "the shared memory has the seals {seals:#x}"),
            Violation::Size { needed, size } => write!(f, "the shared memory has {size} bytes, not {needed}"),
        }
    }
}

impl std::error::Error for Error {}
