//! Running ahead: where a program waits in every iteration for a value that decides how it goes on, the host does iterations that the
//! program has not come to, and sends what their reads yield as it goes. The program's calls are compared with them.
//!
//! Nothing is trusted: a call that is not what the host did (the loop's end, another argument) has the host put memory back to where the
//! program's last read was, and everything since then goes to the tape as it was called. The host does so only where it can undo
//! (memory alone has changed), stops in front of whatever fails, and says which values it has used.
//!
//! idle -> active (`issue`: RUN_AHEAD is on the tape; `arrived`: some of what it yields is here) -> idle (`settle`, or all of it was taken).
//! Between RUN_AHEAD and KEEP_AHEAD nothing else stands on the tape. The host ends a run when KEEP_AHEAD arrives, so what is done in vain at a
//! loop's end is what it does in a round trip, and an iteration.
//!
//! How far is a matter of time (`pace`). A run that was of no use, or in which the program waited longer than its reads would have taken one by
//! one, ends in a pause, which grows where that happens again; in a long one nothing is watched.
//!
//! Source: `protos/tape.md`, "Running ahead".

mod fit;
mod flight;
mod pace;
mod plan;
mod watch;

use crate::layout::operation;
use crate::templates::Templates;
use crate::Origin;
use flight::Flight;
use pace::Pace;
use plan::{plan, Memory, Plan};
use tape::operations::{self, code};
use tape::Writer;
use watch::{opens, plain, read_bytes, Watch, MOST_EVIDENCE, MOST_READS};

/// Iterations of one run: as many as the host does at once.
const MOST_ITERATIONS: u64 = 1024;
/// A read of an iteration; what all of a run yields.
const MOST_READ: usize = 4096;
const MOST_RESULT: usize = 256 << 10;
/// Reads to wait after a run that was of no use.
const FIRST_PAUSE: u64 = 4;
const MOST_PAUSE: u64 = 1024;
/// So many before its end watching begins again: then everything is told that can be.
const WATCHED_PAUSE: u64 = (MOST_EVIDENCE * MOST_READS) as u64;

/// What became of running ahead, for the report.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AheadCounts {
    pub runs: u64,
    /// Reads that made no round trip, and those of them that were waited for: the host was not yet done.
    pub reads: u64,
    pub waits: u64,
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
    pace: Pace,
    /// Of the last run.
    key: u64,
    /// Reads to let pass before the next run, and how many were of no use.
    pause: u64,
    failures: u32,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Active(Box<Flight>),
}

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// It is to be recorded.
    New,
    /// The host does it; of a read, this is what it has yielded.
    Done(Vec<u8>),
    /// A read that the host is about to do. The record was taken off the tape: it is to be appended anew when more has arrived.
    Waits,
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
        if waits && self.pause > 0 {
            self.pause -= 1;
        }
        if self.sleeps() {
            return Found::New;
        }
        if self.is_active() {
            if let Some(found) = self.compared(tape, *mark, origin, waits, token_of) {
                return found;
            }
            let records = tape.as_slice().get(*mark..).unwrap_or_default().to_vec();
            tape.truncate(*mark);
            self.settle(tape);
            *mark = tape.len();
            tape.records(&records);
        }
        let records = tape.as_slice().get(*mark..).unwrap_or_default();
        if tape::record_length(records) == Some(records.len()) && !opens(records) {
            self.watch.note(records, token_of(records, origin.site), origin.thread);
        } else {
            self.note_several(records, origin, token_of);
        }
        if waits {
            self.watch.read(origin.thread);
        }
        self.doze();
        Found::New
    }

    /// What became of the records behind `mark`, if they are the one that the host does next.
    fn compared(
        &mut self,
        tape: &mut Writer,
        mark: usize,
        origin: Origin,
        waits: bool,
        token_of: fn(&[u8], u64) -> u64,
    ) -> Option<Found> {
        let State::Active(flight) = &mut self.state else { return None };
        let mut record = tape.as_slice().get(mark..)?.to_vec();
        if tape::record_length(&record) != Some(record.len()) {
            return None;
        }
        let token = token_of(&record, origin.site);
        plain(&mut record);
        let is_read = operation(&record) == code::READ;
        let claims = flight.claims.len();
        if is_read != waits || flight.thread != origin.thread || !flight.expects(&record, token) || flight.is_over() {
            return None;
        }
        if is_read && !flight.is_here() {
            flight.claims.truncate(claims);
            tape.truncate(mark);
            return Some(Found::Waits);
        }
        if is_read && !flight.confirms() {
            return None;
        }
        tape.truncate(mark);
        Some(Found::Done(self.taken(&record, token, is_read)))
    }

    /// A record of the program is what the host does; what it has yielded, if it is a read.
    fn taken(&mut self, record: &[u8], token: u64, is_read: bool) -> Vec<u8> {
        let State::Active(flight) = &mut self.state else { return Vec::new() };
        let thread = flight.thread;
        let mut data = Vec::new();
        if is_read {
            let bytes = read_bytes(record);
            data.extend_from_slice(flight.current().get(flight.at..flight.at + bytes).unwrap_or_default());
            flight.at += bytes.next_multiple_of(8);
            flight.reads += 1;
            flight.since.clear();
        } else {
            flight.since.extend_from_slice(record);
        }
        flight.advance();
        self.watch.note(record, token, thread);
        if is_read {
            self.counts.reads += 1;
            self.watch.read(thread);
            self.watch.answered(&data);
        }
        data
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

    /// Calls of the program that the host may not have done, and that are not on the tape.
    pub(crate) fn holds(&self) -> bool {
        matches!(&self.state, State::Active(flight) if !flight.since.is_empty() && !flight.is_here())
    }

    fn doze(&mut self) {
        self.awake = self.watch.on || !matches!(self.state, State::Idle);
    }

    /// Nothing is watched in a long pause.
    fn sleeps(&self) -> bool {
        self.pause > WATCHED_PAUSE && matches!(self.state, State::Idle)
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

    /// How long the program has waited for a read by itself.
    pub(crate) fn waited(&mut self, nanoseconds: u64) {
        if self.pace.alone(nanoseconds) {
            self.memory.judge(self.key, false);
            self.failed();
        }
    }

    /// How long the program has waited for what the host was about to do.
    pub(crate) fn waited_ahead(&mut self, nanoseconds: u64) {
        self.counts.waits += 1;
        self.pace.ahead(nanoseconds);
    }

    /// Behind a read that the program will wait for: has the host run ahead, where that is promising. `nanoseconds`: what a round trip
    /// takes. The most bytes that the slot will receive.
    pub(crate) fn issue(
        &mut self,
        tape: &mut Writer,
        templates: &mut Templates,
        slot: u32,
        nanoseconds: u64,
    ) -> Option<usize> {
        if !matches!(self.state, State::Idle) || self.pause > 0 {
            return None;
        }
        // A loop that was of no use lately has to be plain to see.
        let pattern = match self.failures {
            0 => self.watch.pattern(0).or_else(|| self.memory.again(&self.watch))?,
            _ => self.watch.pattern(MOST_EVIDENCE)?,
        };
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
        let count = MOST_ITERATIONS.min((MOST_RESULT / row.max(1)) as u64);
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
        self.key = pattern.key;
        self.state = State::Active(Box::new(Flight {
            thread: self.watch.thread(),
            key: pattern.key,
            body,
            fits: placed,
            count,
            row,
            results: Vec::new(),
            ended: false,
            iteration: 0,
            item: 0,
            at: computed,
            reads: 0,
            since: Vec::new(),
            claims: Vec::new(),
        }));
        self.doze();
        usize::try_from(count).ok().map(|count| count * row)
    }

    /// What the host has done since: whole rows. `ended`: it does no more.
    pub(crate) fn arrived(&mut self, tape: &mut Writer, rows: &[u8], ended: bool) {
        let State::Active(flight) = &mut self.state else { return };
        flight.results.extend_from_slice(rows);
        flight.ended |= ended;
        if flight.is_over() {
            self.settle(tape);
        }
    }

    /// Brings the host to where the program is.
    pub(crate) fn settle(&mut self, tape: &mut Writer) {
        let State::Active(flight) = std::mem::take(&mut self.state) else { return };
        operations::keep_ahead(tape, flight.reads);
        tape.records(&flight.since);
        let undone = !flight.is_over();
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
        if self.sleeps() {
            self.watch.forget();
        }
        self.doze();
    }
}
