//! What is awaited of a group: one result or a run of them, and how a host can break the protocol with what it answers.

use crate::incoming::waiter::Waiter;
use std::fmt;
use std::sync::Arc;
use tape::ResultError;

#[derive(Debug)]
pub(crate) struct Awaited {
    pub(crate) slot: u32,
    pub(crate) waiter: Arc<Waiter>,
    /// A thread takes its error.
    pub(super) watched: bool,
    /// A thread waits for it from now on.
    pub(super) waited_for: bool,
    /// The group of its first record, and that of its last.
    pub(super) first_group: u64,
    pub(super) group: u64,
    /// It is several results.
    pub(super) run: Option<Run>,
}

/// The rest of a run of results whose slots and destinations are evenly spaced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) left: u64,
    pub(crate) slot_step: u32,
    pub(crate) step: isize,
}

impl Awaited {
    pub(crate) fn new(slot: u32, waiter: Arc<Waiter>) -> Self {
        Self { slot, waiter, watched: true, waited_for: true, first_group: 0, group: 0, run: None }
    }

    /// A result that is to be filled, but that no thread waits for.
    pub(crate) fn unwatched(slot: u32, waiter: Arc<Waiter>) -> Self {
        Self { watched: false, waited_for: false, ..Self::new(slot, waiter) }
    }

    /// A stream of results, which a thread takes one by one, when it comes to them.
    pub(crate) fn streamed(slot: u32, waiter: Arc<Waiter>) -> Self {
        Self { waited_for: false, ..Self::new(slot, waiter) }
    }

    /// A thread waits for it from now on.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.waited_for
    }

    /// Its results may be in several groups.
    pub(crate) fn is_several(&self) -> bool {
        self.run.is_some()
    }

    /// It is the first of a run of results.
    pub(crate) fn followed_by(self, run: Run) -> Self {
        Self { run: Some(run), ..self }
    }
}

/// What has its results. Dropped, it wakes those who wait for them.
#[derive(Debug, Default)]
pub(crate) struct Answered(pub(super) Vec<Awaited>);

impl Drop for Answered {
    fn drop(&mut self) {
        self.0.iter().for_each(|awaited| awaited.waiter.wake());
    }
}

/// The host broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Violation {
    Record(ResultError),
    Slot(u32),
    Result(u32, &'static str),
    Missing(u32),
    Group { got: u64, expected: Option<u64> },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Record(error) => write!(f, "{error}"),
            Self::Slot(slot) => write!(f, "a result for slot {slot}, which no call awaits"),
            Self::Result(slot, what) => write!(f, "{what} (slot {slot})"),
            Self::Missing(slot) => write!(f, "the group of slot {slot} was acknowledged without its result"),
            Self::Group { got, expected: Some(expected) } => write!(f, "a reply to group {got} instead of {expected}"),
            Self::Group { got, expected: None } => write!(f, "a reply to group {got}, but no group is open"),
        }
    }
}

impl From<ResultError> for Violation {
    fn from(error: ResultError) -> Self {
        Self::Record(error)
    }
}
