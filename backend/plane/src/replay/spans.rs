//! When the replay did what, for the timeline of a run (docs/howto/record-a-timeline.md): messages, loops, launches, what the
//! control plane does.
//!
//! Times are nanoseconds of CLOCK_MONOTONIC. Spans beyond a bound are counted, not kept. A session of
//! which no timeline is wanted has none. The session's thread adds them; another one, or the control plane in the middle of a record, may
//! read what there is.

use crate::device::objects::monotonic;

/// Spans of one session.
const MOST: usize = 200_000;

/// What a span is, and what its number means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A message of a group, by the group's number.
    Group,
    /// A launch, by its function's handle.
    Launch,
    /// A REPEAT, by its iterations.
    Repeat,
    /// A WHILE, by its iterations.
    While,
    /// A record that the control plane does, by its operation's code.
    Operation,
}

impl Kind {
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Launch => "launch",
            Self::Repeat => "repeat",
            Self::While => "while",
            Self::Operation => "operation",
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Span {
    pub kind: Kind,
    pub number: u64,
    pub began: u64,
    pub ended: u64,
}

/// See the module's page.
#[derive(Debug, Default)]
pub struct Spans {
    kept: Vec<Span>,
    dropped: u64,
}

impl Spans {
    pub(crate) fn add(&mut self, kind: Kind, number: u64, began: u64) {
        if self.kept.len() < MOST {
            self.kept.push(Span { kind, number, began, ended: monotonic() });
        } else {
            self.dropped += 1;
        }
    }

    /// What was kept, and how many spans were not.
    #[must_use]
    pub fn all(&self) -> (&[Span], u64) {
        (&self.kept, self.dropped)
    }
}
