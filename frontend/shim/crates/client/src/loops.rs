//! When what a loop holds is sent: the folder of a session, and what its age asks for.
//!
//! A flush (a call that waits, the end of a loop that the manifest knows, exit) sends everything. Otherwise a loop's iterations cost
//! nothing while they are held, and a part of them costs some 40 bytes however many they are. So the timer sends a part only where the host has
//! nothing to do, and one of these holds:
//!
//! - the program has made no call since the last expiry: nothing more may come, so everything goes, an unfinished iteration too;
//! - the tape holds other work, or nothing of this loop was sent yet (it is 200 us old);
//! - the host would need more than 50 us, and more than 1/64 of the loop's age (1/8 after eight parts), for what is held. Holding it back
//!   can cost that share of the time, and no more. Each part multiplies the age, so their number grows with the logarithm of the loop's time
//!   only, and is largest (some 60 parts, 2 KB, for a loop of a second) where the host is just as fast as the program.
//!
//! The host's time for a call is measured: what the last part's acknowledgement took, less the way there and back (`ledger`).
//! Reads that were recorded, and that nobody waits for, go with everything.

use crate::report::Section;
use fold::{Folder, Reason};
use std::time::{Duration, Instant};
use tape::Writer;

const LEAST_WORK: Duration = Duration::from_micros(50);
const SHARE: u32 = 64;
/// After this many parts a larger share is risked: a loop that lasts is sent in few.
const PROMPT_PARTS: u32 = 8;
const LATER_SHARE: u32 = 8;
/// However fast the host is: a REPEAT counts to 2^40.
const MOST_CALLS: u64 = 1 << 32;

#[derive(Debug, Default)]
pub(crate) struct Loops {
    pub(crate) folder: Folder,
    /// When a loop was first found to be held, while parts of it are sent.
    since: Option<Instant>,
    /// The folder's progress at the last expiry of the timer, and at the one before.
    progress: u64,
    still: bool,
    /// Parts of the loop that were sent.
    parts: u32,
    /// Calls in the parts that the next group holds.
    work: u64,
}

impl Loops {
    pub(crate) fn holds(&self) -> bool {
        self.folder.holds()
    }

    /// The counts, for the report.
    pub(crate) fn section(&self) -> Section {
        let counts = self.folder.counts();
        let closed = |reason: Reason| counts.closed[reason as usize];
        Section {
            name: "loops",
            counts: vec![
                ("templates", counts.templates),
                ("repeats", counts.repeats),
                ("iterations", counts.iterations),
                ("folded_calls", counts.folded()),
                ("left", closed(Reason::Deviation)),
                ("flushed_sync", closed(Reason::Sync)),
                ("flushed_size", closed(Reason::Size)),
                ("flushed_age", closed(Reason::Age)),
                ("flushed_thread", closed(Reason::Thread)),
                ("flushed_hint", closed(Reason::Hint)),
                ("flushed_exit", closed(Reason::Exit)),
            ],
        }
    }

    /// Everything goes to the tape.
    pub(crate) fn close(&mut self, tape: &mut Writer, reason: Reason) {
        self.work += self.folder.pending();
        self.folder.flush(tape, reason);
        self.since = None;
    }

    /// The timer expired.
    pub(crate) fn tick(&mut self) {
        let progress = self.folder.progress();
        self.still = progress == self.progress;
        self.progress = progress;
        if self.since.is_none() {
            (self.since, self.parts) = (Some(Instant::now()), 0);
        }
    }

    /// The host has nothing to do: sends what is worth it. `all`: nothing may be left behind.
    pub(crate) fn age(&mut self, tape: &mut Writer, all: bool, pace: Duration) {
        let pending = self.folder.pending();
        if all || self.still {
            // The loop may go on (the program may only have been descheduled): its age and its parts count on.
            self.work += pending;
            self.folder.flush(tape, Reason::Age);
            return;
        }
        let age = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let held = pace.saturating_mul(u32::try_from(pending).unwrap_or(u32::MAX));
        let share = if self.parts < PROMPT_PARTS { SHARE } else { LATER_SHARE };
        let worth = held > LEAST_WORK.max(age / share) || pending > MOST_CALLS;
        if self.parts == 0 || worth || !tape.is_empty() {
            self.parts += 1;
            if self.folder.part(tape) {
                self.work += pending;
            }
        }
    }

    pub(crate) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }
}
