//! When what a loop holds is sent: the recorder of a session, and what its age asks for.
//!
//! A flush (a call that waits, the end of a loop that the manifest knows, exit) sends everything. Otherwise a loop's
//! iterations cost nothing while they are held, and a part of them costs some 40 bytes however many they are. So the
//! timer sends a part only where at most one group is on its way, and one of these holds:
//!
//! - the tape holds other work, or nothing of this loop was sent yet (it is 200 us old);
//! - the host would need more than 50 us, and more than the loop's *patience*, for what is held;
//! - the program has made no call for longer than the loop's patience. If that goes on for 2 ms and half of the loop's
//!   age, an unfinished iteration goes too, which costs more than a part: a program that was only descheduled has to be
//!   recognised again.
//!
//! The patience is a share of the loop's age: 1/64 for the first parts, then 1/8, then 1/2. Holding back can cost that
//! share of the time, and no more; and as each part multiplies the age, their number grows with the logarithm of the
//! loop's time only: some 25 parts, 1 KB, for a loop of a second with the one host that is just as fast as the program.
//! A host that takes less than half the program's time gets the last part with the flush; one that takes more has two
//! groups to do when a part falls due, and nothing is held back from it.
//!
//! The host's time for a call is measured (`incoming::pace`). A recorded read that nothing waits for is sent together
//! with its record: a part is put off while the unfinished iteration holds one.

use crate::report::Section;
use recorder::{Reason, Recorder};
use std::time::{Duration, Instant};
use tape::operations::code;
use tape::Writer;

const LEAST_WORK: Duration = Duration::from_micros(50);
/// (up to this many parts, the divisor of the age that makes the patience): a loop that lasts is sent in few.
const PATIENCE: [(u32, u32); 3] = [(4, 64), (8, 8), (u32::MAX, 2)];
/// The least time without a call after which an unfinished iteration is sent.
const UNFINISHED: Duration = Duration::from_millis(2);
/// However fast the host is: a REPEAT counts to 2^40.
const MOST_CALLS: u64 = 1 << 32;

#[derive(Debug, Default)]
pub(crate) struct Loops {
    pub(crate) recorder: Recorder,
    /// When a loop was first found to be held, while parts of it are sent.
    since: Option<Instant>,
    /// The recorder's progress at the last expiry of the timer, and since when it is that.
    progress: u64,
    still: Option<Instant>,
    /// Whether the program's silence has made a part already.
    parted: bool,
    /// Parts of the loop that were sent.
    parts: u32,
    /// Calls in the parts that the next group holds.
    work: u64,
}

impl Loops {
    pub(crate) fn holds(&self) -> bool {
        self.recorder.holds()
    }

    /// The counts, for the report.
    pub(crate) fn section(&self) -> Section {
        let counts = self.recorder.counts();
        let closed = |reason: Reason| counts.closed[reason as usize];
        Section {
            name: "loops",
            counts: vec![
                ("templates", counts.templates),
                ("predicted", counts.predicted),
                ("repeats", counts.repeats),
                ("iterations", counts.iterations),
                ("calls_in_loops", counts.in_loops()),
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
        self.work += self.recorder.pending();
        self.recorder.flush(tape, reason);
        self.since = None;
    }

    /// The timer expired.
    pub(crate) fn tick(&mut self) {
        let progress = self.recorder.progress();
        if progress == self.progress {
            self.still.get_or_insert_with(Instant::now);
        } else {
            (self.progress, self.still, self.parted) = (progress, None, false);
        }
        if self.since.is_none() {
            (self.since, self.parts) = (Some(Instant::now()), 0);
        }
    }

    /// The host has little to do: sends what is worth it. `reads`: some are recorded, and none of them may be left
    /// behind in a loop when others are sent.
    pub(crate) fn age(&mut self, tape: &mut Writer, reads: bool, pace: Duration) {
        let pending = self.recorder.pending();
        let age = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        let still = self.still.map(|still| still.elapsed());
        if self.parted && still.is_some_and(|still| still >= UNFINISHED.max(age / 2)) {
            self.flush(tape);
            return;
        }
        if reads && self.recorder.holds_operation(code::READ, true) {
            if still.is_some_and(|still| still >= UNFINISHED.max(age / 2)) {
                self.flush(tape);
            }
            return;
        }
        let held = pace.saturating_mul(u32::try_from(pending).unwrap_or(u32::MAX));
        let patience = age / PATIENCE.iter().find(|(parts, _)| self.parts < *parts).map_or(2, |(_, divisor)| *divisor);
        let silent = !self.parted && still.is_some_and(|still| still >= patience);
        let worth = held > LEAST_WORK.max(patience) || pending > MOST_CALLS;
        if self.parts == 0 || worth || silent || !tape.is_empty() {
            self.parts = self.parts.saturating_add(1);
            if self.recorder.part(tape) {
                self.work += pending;
                self.parted = still.is_some();
            } else if silent {
                self.flush(tape);
            }
        }
    }

    /// Everything goes for its age. The loop may go on (the program may only have been descheduled): its age and its
    /// parts count on.
    fn flush(&mut self, tape: &mut Writer) {
        self.work += self.recorder.pending();
        self.recorder.flush(tape, Reason::Age);
    }

    pub(crate) fn take_work(&mut self) -> u64 {
        std::mem::take(&mut self.work)
    }
}
