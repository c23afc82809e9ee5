//! The loop recorder: a program's records in, the same records with TEMPLATE and REPEAT in place of loops out.
//!
//! Owns the search for repetition, the templates that the host knows, and the runs that are open. Knows the operations'
//! fields (`layout`), neither CUDA nor the connection nor the time: who appends decides when to flush. Every family of
//! calls takes part without knowing it. Nothing is lost, repeated or brought into another order: what the host replays
//! is, byte for byte, what was recorded (tests/property.rs expands it again).
//!
//! From outside in: `engine` (runs within runs; `opening`: how they begin and end, `sending`: what they send,
//! `loop_prediction`: loops known at their first call), `policy` (whether it is worth it; its `segments`: how long the
//! program goes without a wait), `run` (one loop's iterations, the fast path), `column` (one hole's values), `body`
//! (records and holes), `templates` (what the session has given), `history` (the search), `layout` (where holes may
//! lie).
//!
//! Work per record is bounded: a comparison on the fast path; a look into two tables where nothing repeats; columns
//! change their form in a run's first 32 iterations only. Memory is bounded by the limits of tape.md and the constants
//! of `history` and `templates`.
//! Locking: none; the caller's lock (the outbox's) covers the recorder and the tape it writes to, which decides the
//! order.
//!
//! Sources: `protos/tape.md`, "Loops". Columns in place of patterns are ScalaTrace's regular section descriptors, with
//! call sites for signatures.

mod body;
mod column;
mod engine;
mod history;
mod layout;
mod policy;
mod run;
mod templates;

pub use engine::{PredictedLaunch, Recorder};
pub use templates::MAX_NUMBERS;

/// Where a record comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Origin {
    /// Tells the program's threads apart.
    pub thread: u64,
    /// Tells call sites apart; 0 where it is not known. Records of different sites are of different loops.
    pub site: u64,
    /// Not 0: the record is the first of an iteration of the loop of this number, by the manifest. The period then
    /// needs no search, and the loop is recorded from its second iteration on. A wrong hint costs time, never
    /// correctness.
    pub hint: u32,
}

/// Why a run was closed, or sent so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The program called something else.
    Deviation,
    /// A call that waits for the host.
    Sync,
    /// The tape was full.
    Size,
    /// The host had nothing to do.
    Age,
    /// Another thread appended.
    Thread,
    /// The caller knew that the loop had ended.
    Hint,
    /// The session's end.
    Exit,
}

pub const REASONS: usize = 7;

/// What the recorder counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    pub templates: u64,
    /// Of these, the ones that the host was told at a loop's first call.
    pub predicted: u64,
    /// REPEAT records on the tape itself.
    pub repeats: u64,
    pub iterations: u64,
    /// Records that runs have taken, and those that had to be given back.
    pub taken: u64,
    pub returned: u64,
    /// By [`Reason`].
    pub closed: [u64; REASONS],
}

impl Counts {
    fn closed(&mut self, reason: Reason) {
        self.closed[reason as usize] += 1;
    }

    /// Calls that are on the tape as part of a REPEAT only.
    #[must_use]
    pub fn in_loops(&self) -> u64 {
        self.taken.saturating_sub(self.returned)
    }
}

/// One step of a hash of 64-bit words.
#[inline]
pub(crate) fn mix(hash: u64, word: u64) -> u64 {
    (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ hash.rotate_left(17)
}
