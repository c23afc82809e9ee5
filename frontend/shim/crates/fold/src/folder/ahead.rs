//! What the host does ahead of the program, as the folder's callers see it. When that is worth it is `crate::ahead`'s to know.

use super::{token_of, Folder};
use crate::ahead::Found;
use crate::{AheadCounts, Origin, Read};
use tape::Writer;

impl Folder {
    /// As `appended`, for a READ that the program waits for.
    pub fn appended_read(&mut self, tape: &mut Writer, mut mark: usize, origin: Origin) -> Read {
        match self.ahead.appended(tape, &mut mark, origin, true, token_of) {
            Found::Done(data) => return Read::Done(data),
            Found::Waits => return Read::Coming,
            Found::New => {}
        }
        self.record(tape, mark, origin);
        Read::Recorded
    }

    /// In the group behind a READ that the program will wait for: has the host run ahead, where that is promising. The most bytes that
    /// will come for the slot. `nanoseconds`: what a round trip takes.
    pub fn run_ahead(&mut self, tape: &mut Writer, slot: u32, nanoseconds: u64) -> Option<usize> {
        if !self.ahead.awake || self.holds() {
            return None;
        }
        let bytes = self.ahead.issue(tape, &mut self.templates, slot, nanoseconds)?;
        // What the program does next is compared with what the host does, not with these.
        self.retire_all();
        Some(bytes)
    }

    /// How long the program has waited for its READ: told before `read_answered`, so that the host runs ahead only where that is faster.
    pub fn read_waited(&mut self, nanoseconds: u64) {
        self.ahead.waited(nanoseconds);
    }

    /// The same for one that the host was about to do ahead.
    pub fn coming_waited(&mut self, nanoseconds: u64) {
        self.ahead.waited_ahead(nanoseconds);
    }

    /// The READ that the program waited for has yielded this.
    pub fn read_answered(&mut self, data: &[u8]) {
        self.ahead.answered(data);
    }

    /// More of what the host does ahead is here; `ended`: it does no more.
    pub fn ahead_arrived(&mut self, tape: &mut Writer, rows: &[u8], ended: bool) {
        self.ahead.arrived(tape, rows, ended);
    }

    /// Whether there are calls that the host may not have done ahead, and that are not on the tape.
    #[must_use]
    pub fn holds_ahead(&self) -> bool {
        self.ahead.holds()
    }

    /// Whether what a READ yields is of interest (`read_answered`).
    #[must_use]
    pub fn watches(&self) -> bool {
        self.ahead.awake
    }

    /// A call comes that waits for something else, or whose answer comes later: nothing is ahead of it.
    pub fn forget_ahead(&mut self, tape: &mut Writer) {
        self.ahead.forget(tape);
    }

    #[must_use]
    pub fn ahead_counts(&self) -> AheadCounts {
        self.ahead.counts
    }
}
