//! Running ahead: where a program waits in every iteration for a value that decides how it goes on, the host does iterations that the
//! program has not come to, and sends what their reads yield. The program's calls are then compared with them.
//!
//! Nothing is trusted: a call that is not what the host did (the loop's end, another argument) has the host put memory back to where the
//! program's last read was, and everything since then goes to the tape as it was called. The host does so only where it can undo
//! (memory alone has changed), stops in front of whatever fails, and says which values it has used.
//!
//! idle -> issued (`issue`: RUN_AHEAD is on the tape) -> active (`arrived`: what it yielded is here) -> idle (`settle`, or all of it was taken).
//! Between RUN_AHEAD and KEEP_AHEAD nothing else stands on the tape.
//!
//! How far is a matter of time (`pace`): a run may take what an iteration takes, and half of what was saved so far. One that was undone, or that took
//! longer than its reads would have taken one by one, ends in a pause, which grows where that happens again. So what is done in vain is a share of
//! what was saved.
//!
//! Source: `protos/tape.md`, "Running ahead".

mod fit;
mod flight;
mod pace;
mod plan;
mod watch;

use crate::layout::{self, operation};
use crate::templates::Templates;
use crate::Origin;
use flight::Flight;
use pace::Pace;
use plan::{plan, Memory, Plan};
use tape::operations::{self, code};
use tape::Writer;
use watch::{opens, plain, read_bytes, Watch, MOST_EVIDENCE};

/// Iterations of one run.
const MOST_ITERATIONS: u64 = 64;
/// A read of an iteration; what all of a run yields.
const MOST_READ: usize = 4096;
const MOST_RESULT: usize = 256 << 10;
/// Reads to wait after a run that was of no use.
const FIRST_PAUSE: u64 = 4;
const MOST_PAUSE: u64 = 1024;

/// What became of running ahead, for the report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AheadCounts {
    pub runs: u64,
    /// Reads that were answered at once.
    pub reads: u64,
    /// Runs that were undone in part.
    pub undone: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Ahead {
    /// Something is to be done with each record.
    pub(crate) awake: bool,
    pub(crate) counts: AheadCounts,
    watch: Watch,
    state: State,
    memory: Memory,
    /// Iterations that the last run has done.
    came: u64,
    pace: Pace,
    /// Reads to let pass before the next run, and how many were of no use.
    pause: u64,
    failures: u32,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Issued(Flight),
    Active(Flight),
}

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is to be recorded.
    New,
    /// The host has done it; of a read, this is what it yielded.
    Done(Vec<u8>),
}

impl Ahead {
    /// The records behind `mark` were appended. `waits`: the last one is a read that the program waits for.
    pub(crate) fn appended(
        &mut self,
        tape: &mut Writer,
        mark: &mut usize,
        origin: Origin,
        waits: bool,
        token_of: fn(&[u8], u64) -> u64,
    ) -> Found {
        let mut record = tape.as_slice().get(*mark..).unwrap_or_default().to_vec();
        let one = tape::record_length(&record) == Some(record.len());
        let token = token_of(&record, origin.site);
        if let State::Active(flight) = &mut self.state {
            plain(&mut record);
            let is_read = operation(&record) == code::READ;
            if one && is_read == waits && flight.thread == origin.thread && flight.expects(&record, token) {
                tape.truncate(*mark);
                let mut data = Vec::new();
                if is_read {
                    let bytes = read_bytes(&record);
                    data.extend_from_slice(flight.current().get(flight.at..flight.at + bytes).unwrap_or_default());
                    flight.at += bytes.next_multiple_of(8);
                    flight.reads += 1;
                    flight.since.clear();
                } else {
                    flight.since.extend_from_slice(&record);
                }
                let done = flight.advance();
                self.watch.note(&record, token, origin.thread);
                if is_read {
                    self.counts.reads += 1;
                    self.watch.read(origin.thread);
                    self.watch.answered(&data);
                }
                if done {
                    self.settle(tape);
                }
                return Found::Done(data);
            }
            record.copy_from_slice(&tape.as_slice()[*mark..]);
        }
        if !matches!(self.state, State::Idle) {
            tape.truncate(*mark);
            self.settle(tape);
            *mark = tape.len();
            tape.records(&record);
        }
        if one && !opens(&record) {
            self.watch.note(&record, token, origin.thread);
        } else {
            self.note_several(&record, origin, token_of);
        }
        if waits {
            self.watch.read(origin.thread);
        }
        self.doze();
        Found::New
    }

    /// What one call has appended: a kernel's first launch opens it, which is no part of the loop.
    fn note_several(&mut self, mut records: &[u8], origin: Origin, token_of: fn(&[u8], u64) -> u64) {
        let mut others = 0;
        while let Some(length) = tape::record_length(records).filter(|length| (1..=records.len()).contains(length)) {
            let (record, rest) = records.split_at(length);
            records = rest;
            if !opens(record) {
                others += 1;
                self.watch.note(record, token_of(record, origin.site), origin.thread);
            }
        }
        if others > 1 {
            self.watch.forget();
        }
    }

    /// Whether calls are compared with what the host has done.
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.state, State::Active(_))
    }

    fn doze(&mut self) {
        self.awake = self.watch.on || !matches!(self.state, State::Idle);
    }

    /// What follows is nothing that can be compared: an answer that is no read's.
    pub(crate) fn forget(&mut self, tape: &mut Writer) {
        if self.awake {
            self.settle(tape);
            self.watch.forget();
            self.doze();
        }
    }

    /// The read that the program waited for is answered.
    pub(crate) fn answered(&mut self, data: &[u8]) {
        self.watch.answered(data);
    }

    /// How long the program has waited for that.
    pub(crate) fn waited(&mut self, nanoseconds: u64) {
        match self.state {
            State::Issued(_) => self.pace.ahead(nanoseconds),
            _ => self.pace.alone(nanoseconds),
        }
    }

    /// Behind a read that the program will wait for: has the host run ahead, where that is promising. `nanoseconds`: what a round trip
    /// takes. The bytes that the slot will receive.
    pub(crate) fn issue(
        &mut self,
        tape: &mut Writer,
        templates: &mut Templates,
        slot: u32,
        nanoseconds: u64,
    ) -> Option<usize> {
        if !matches!(self.state, State::Idle) {
            return None;
        }
        // A loop that was of no use lately has to be plain to see.
        let pattern = match self.failures {
            0 => self.watch.pattern(0).or_else(|| self.memory.again(&self.watch))?,
            _ => self.watch.pattern(MOST_EVIDENCE)?,
        };
        if self.pause > 0 {
            self.pause -= 1;
            return None;
        }
        let (place, fits) = match plan(&mut self.memory, &self.watch, templates, pattern) {
            Plan::Ready(place, fits) => (place, fits),
            Plan::Unclear => return None,
            Plan::Never => {
                self.failures += 1; // twice as much: a loop whose arguments follow from nothing that was read goes on like that
                self.failed();
                return None;
            }
        };
        let body = templates.get(place.place)?.body.clone();
        let read = |item: &crate::body::Item| {
            let record = &body.bytes[item.bytes()];
            (operation(record) == code::READ).then(|| read_bytes(record).next_multiple_of(8))
        };
        let computed = 8 * fits.iter().filter(|fit| fit.is_computed()).count();
        let row = computed + body.items.iter().filter_map(read).sum::<usize>();
        // Room for twice what came last time: what is not used is sent all the same.
        let count = (2 * self.came).clamp(4, MOST_ITERATIONS).min((MOST_RESULT / row.max(1)) as u64);
        let known = templates.get(place.place)?.number.is_some();
        let number = match templates.get(place.place)?.number {
            Some(number) => number,
            None => templates.publish(place.place)?,
        };
        if !known {
            operations::template(tape, number.into(), body.holes.len() as u32, &body.content());
        }
        templates.touch(place.place);
        let mut columns = Vec::new();
        for value in self.watch.values() {
            columns.extend_from_slice(&value.to_le_bytes());
        }
        let mut at = 0;
        let mut placed = Vec::with_capacity(fits.len());
        for (fit, hole) in fits.into_iter().zip(&body.holes) {
            fit.encode(hole.width(), &mut columns);
            let place = at;
            at += if fit.is_computed() { 8 } else { 0 };
            placed.push((fit, place));
        }
        let allowed = self.pace.allowed(nanoseconds, pattern.reads as u64);
        operations::run_ahead(tape, number.into(), count, allowed, slot, &columns);
        self.counts.runs += 1;
        self.state = State::Issued(Flight {
            thread: self.watch.thread(),
            key: pattern.key,
            body,
            fits: placed,
            count,
            row,
            results: Vec::new(),
            iterations: 0,
            iteration: 0,
            item: 0,
            at: computed,
            reads: 0,
            since: Vec::new(),
        });
        self.doze();
        usize::try_from(count).ok().map(|count| 8 + count * row)
    }

    /// What the host has done: the number of iterations, then what each has yielded.
    pub(crate) fn arrived(&mut self, tape: &mut Writer, results: Vec<u8>) {
        let State::Issued(mut flight) = std::mem::take(&mut self.state) else { return };
        flight.iterations = layout::u64_at(&results, 0).min(flight.count);
        flight.results = results;
        self.came = flight.iterations;
        let nothing = flight.iterations == 0;
        self.state = State::Active(flight);
        if nothing {
            self.settle(tape);
        }
        self.doze();
    }

    /// Brings the host to where the program is.
    pub(crate) fn settle(&mut self, tape: &mut Writer) {
        let (flight, undone) = match std::mem::take(&mut self.state) {
            State::Idle => return,
            State::Issued(flight) => (flight, true),
            State::Active(flight) => {
                let undone = flight.iteration < flight.iterations;
                (flight, undone)
            }
        };
        operations::keep_ahead(tape, flight.reads);
        tape.records(&flight.since);
        self.counts.undone += u64::from(undone);
        let good = self.pace.settle(flight.reads.into(), undone) && flight.reads > 0;
        self.memory.judge(flight.key, good);
        if good {
            self.failures = 0;
        } else {
            self.failed();
        }
        self.doze();
    }

    fn failed(&mut self) {
        self.pause = (FIRST_PAUSE << self.failures.min(16)).min(MOST_PAUSE);
        self.failures += 1;
    }
}
