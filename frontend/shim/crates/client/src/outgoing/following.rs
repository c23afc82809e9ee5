//! A loop that the host leads: what was sent of it, and the program that follows, call by call.
//!
//! The host evaluates the loop's slice and makes the loop's records (tape.md, "Slices"); the program executes its own
//! instructions all the same. Each record that it makes meanwhile is compared with what the slice says, byte for byte,
//! and not sent; each result comes from the stream that the host sends. `Following` evaluates the slice a second time,
//! with the same results, so the host need not say what it has done.
//!
//! How far the host leads: each WHILE is as many iterations as the window, or 50 ms (`Config::lead_time`). When the
//! first result of one has come, the next one is sent, so that one is under way and one waits. The first waits for a few
//! iterations with that: many loops are short. The window and the time grow as the program keeps up.
//!
//! Where the program's records differ from the slice's, the proof of the slice is broken, and the session ends.

use crate::incoming::waiter::Waiter;
use crate::outgoing::lead::{Counts, Lead};
use slices::{Evaluation, Event, Filling, Prepared};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tape::Answer;

/// Iterations of the first WHILE, and of the largest.
const FIRST_WINDOW: u64 = 1000;
const LAST_WINDOW: u64 = 1 << 16;
/// A loop of fewer iterations is done with its first WHILE.
const SHORT: u64 = 3;
/// Bytes of results that one WHILE may have on their way.
const WINDOW_BYTES: u64 = 4 << 20;
/// The longest time of one WHILE, where it has a bound.
const LAST_TIME: Duration = Duration::from_secs(1);
/// An iteration that takes as long is no short one.
const SLOW: Duration = Duration::from_millis(2);
/// Iterations without a call that are looked at.
const MOST_SILENT: u32 = 1 << 20;
/// What the slice says comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    Call(usize),
    /// The loop is left; or an operation has no result, and the slice says nothing more.
    Left,
    /// No call, for ever.
    Nowhere,
}

/// What became of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The host makes it.
    Yes,
    /// So it does, and its result comes from the stream.
    Question,
    /// The loop is over, or the host does not lead any more.
    Over,
    /// The proof is broken.
    Broken(String),
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Following {
    lead: Lead,
    pub(crate) number: u32,
    /// The program makes the calls, and each is compared.
    pub(crate) verifies: bool,
    evaluation: Evaluation,
    body: Vec<u8>,
    /// Of each call.
    fillings: Vec<Vec<Filling>>,
    next: Option<Next>,
    /// The call whose result is waited for, and its record.
    asked: usize,
    pub(crate) question: Vec<u8>,
    /// Streams of the WHILEs under way, and whether something of the first one has come.
    pub(crate) streams: VecDeque<Arc<Waiter>>,
    pub(crate) fresh: bool,
    /// Iterations that the host has begun, as far as it has said; it goes no further.
    pub(crate) begun: u64,
    pub(crate) over: bool,
    /// The slice does not know how the loop goes on.
    stuck: bool,
    window: u64,
    widest: u64,
    /// Zero: no bound.
    time: Duration,
    /// When the first WHILE was made.
    since: Instant,
    /// The iteration of the call that comes next, and that of the last result.
    called_in: u64,
    asked_in: u64,
    /// STATUS results that the program did not ask for.
    pub(crate) skipped: u32,
    /// Calls that have failed before they made a record, and whether one was passed over.
    failures: u32,
    pub(crate) unsure: bool,
    /// Another thread wants to use CUDA.
    pub(crate) wanted: bool,
    /// The host stops behind this iteration.
    last: Option<u64>,
    pub(crate) reads: u64,
    calls: u64,
}

impl Following {
    /// `None`: the inputs are not those of the slice.
    pub(crate) fn new(lead: Lead, number: u32, verifies: bool, time: Duration) -> Option<Self> {
        let mut fillings: Vec<Vec<Filling>> = vec![Vec::new(); lead.slice.calls.len()];
        for hole in &lead.holes {
            let number = usize::from(hole.call);
            let call = lead.slice.calls.get(number)?;
            fillings[number].push(Filling::new(call, hole.value(), hole.at, hole.offset, hole.width).ok()?);
        }
        let prepared = Prepared::new(lead.slice.clone(), &fillings);
        let inputs: Vec<&[u8]> = lead.inputs.iter().map(Vec::as_slice).collect();
        let evaluation = Evaluation::begin(Arc::new(prepared), &inputs)?;
        let widest = LAST_WINDOW.min((WINDOW_BYTES / lead.result_bytes.max(1)).max(1));
        Some(Self {
            body: lead.body.clone(),
            lead,
            number,
            verifies,
            fillings,
            evaluation,
            next: None,
            asked: 0,
            question: Vec::new(),
            streams: VecDeque::new(),
            fresh: true,
            begun: 0,
            over: false,
            stuck: false,
            window: FIRST_WINDOW.min(widest),
            widest,
            time,
            since: Instant::now(),
            called_in: 0,
            asked_in: 0,
            skipped: 0,
            failures: 0,
            unsure: false,
            wanted: false,
            last: None,
            reads: 0,
            calls: 0,
        })
    }

    pub(crate) fn thread(&self) -> u64 {
        self.lead.thread
    }

    pub(crate) fn key(&self) -> u64 {
        self.lead.key
    }

    pub(crate) fn inputs(&self) -> Vec<u8> {
        self.lead.inputs.concat()
    }

    pub(crate) fn count(&self, counts: &mut Counts) {
        counts.loops += 1;
        counts.iterations += self.evaluation.iterations();
        counts.calls += self.calls;
        counts.reads += self.reads;
    }

    /// Nothing was gained: the slice was stuck as soon as it had a result.
    pub(crate) fn was_in_vain(&self) -> bool {
        self.stuck && self.reads <= 1
    }

    /// Leading has saved no round trip: nothing was asked behind the first result, and that was the loop's.
    pub(crate) fn was_short(&self) -> bool {
        self.reads <= 1 && !self.lead.again
    }

    /// The bounds of the next WHILE: iterations and microseconds.
    pub(crate) fn bounds(&mut self) -> (u64, u32) {
        let (window, time) = (self.window, self.time);
        self.window = (window * 2).min(self.widest);
        self.time = (time * 2).min(LAST_TIME);
        (window, u32::try_from(time.as_micros()).unwrap_or(u32::MAX))
    }

    /// The bounds of the last WHILE before another thread may use CUDA: to the end of the iteration under way.
    pub(crate) fn last_bounds(&mut self) -> (u64, u32) {
        let now = self.evaluation.iterations();
        self.last = Some(now);
        (now.saturating_sub(self.begun).max(1), 0)
    }

    /// A call of the program has failed and made no record.
    pub(crate) fn failed(&mut self) {
        self.failures += 1;
    }

    fn peek(&mut self) -> Next {
        let Self { lead, evaluation, next, called_in, stuck, .. } = self;
        *next.get_or_insert_with(|| {
            let mut silent = 0;
            loop {
                *called_in = evaluation.iterations();
                match evaluation.step() {
                    Ok(Event::Called(call)) if lead.records.get(call).is_some_and(Option::is_some) => {
                        return Next::Call(call);
                    }
                    Ok(Event::Called(_)) => {}
                    Ok(Event::Again) if silent < MOST_SILENT => silent += 1,
                    Ok(Event::Again) => return Next::Nowhere,
                    Ok(Event::Left(_)) => return Next::Left,
                    Err(_) => {
                        *stuck = true;
                        return Next::Left;
                    }
                }
            }
        })
    }

    /// Whether the program is in the loop, as it comes to its entry.
    pub(crate) fn goes_on(&mut self) -> bool {
        matches!(self.peek(), Next::Call(_)) && !self.is_past_the_last()
    }

    /// Whether the host may stop before the loop's end: the slice has left the loop (or says nothing more) in a later
    /// iteration than the last result's, and a WHILE's bound stops between iterations.
    pub(crate) fn may_stop_early(&mut self) -> bool {
        self.peek() == Next::Left && self.evaluation.iterations() != self.asked_in
    }

    /// Whether the next WHILE is to be sent, as a result of the first one under way has come.
    pub(crate) fn wants_more(&mut self) -> bool {
        let short = self.begun == 0 && self.evaluation.iterations() < SHORT && self.since.elapsed() < SLOW;
        self.fresh && !short && !self.wanted && !self.over
    }

    fn is_past_the_last(&self) -> bool {
        self.last.is_some_and(|last| self.evaluation.iterations() > last)
    }

    /// The program has made a record, at a site.
    pub(crate) fn take(&mut self, record: &[u8], site: u64) -> Taken {
        loop {
            let call = match self.peek() {
                Next::Left => return Taken::Over,
                Next::Nowhere => return self.broken(None, record),
                Next::Call(_) if self.is_past_the_last() => return Taken::Over,
                Next::Call(call) => call,
            };
            let Some(range) = self.lead.records[call].clone() else { return self.broken(None, record) };
            for filling in &self.fillings[call] {
                filling.fill(&self.evaluation, &mut self.body);
            }
            let expected = &self.body[range];
            let row = tape::rows::row(operation_of(expected));
            let answer = row.map_or(Answer::None, |row| row.answer);
            let slot = row.and_then(|row| row.slot);
            let at = self.lead.sites[call];
            if (at == 0 || at == site) && is_same(record, expected, slot) {
                self.next = None;
                self.calls += 1;
                if answer == Answer::None {
                    return Taken::Yes;
                }
                (self.asked, self.asked_in) = (call, self.called_in);
                self.question.clear();
                self.question.extend_from_slice(record);
                return Taken::Question;
            }
            if answer == Answer::Status {
                self.skipped += 1; // the program knew that it has nothing to wait for
            } else if self.failures > 0 {
                self.failures -= 1;
                self.unsure = true;
            } else {
                return self.broken(Some(call), record);
            }
            self.next = None;
        }
    }

    /// A copy to the host has brought these bytes. False: they are not as many as the slice says.
    pub(crate) fn arrived(&mut self, bytes: &[u8]) -> bool {
        self.reads += 1;
        self.lead.slice.calls[self.asked].fills.is_none_or(|place| self.evaluation.fill(place, bytes))
    }

    fn broken(&mut self, expected: Option<usize>, record: &[u8]) -> Taken {
        let made = tape::rows::row(operation_of(record)).map_or("an operation", |row| row.name);
        let wanted = expected.map_or_else(
            || "no call".to_owned(),
            |call| {
                let range = self.lead.records[call].clone().unwrap_or_default();
                let differs = self.body[range].iter().zip(record).position(|(left, right)| left != right);
                let name = &self.lead.slice.calls[call].name;
                format!("{name} (call {call}; byte {} of its record differs)", differs.unwrap_or(0))
            },
        );
        Taken::Broken(format!(
            "{}: in iteration {} the program makes a {made} where its slice says {wanted}: the analysis of this build is \
             wrong (set FARLANE_LOOPS=off to run without, and report it)",
            self.lead.name,
            self.evaluation.iterations()
        ))
    }
}

/// The operation of a record.
fn operation_of(record: &[u8]) -> u16 {
    record.get(4..6).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Whether records are the same but for their slots.
fn is_same(record: &[u8], expected: &[u8], slot: Option<usize>) -> bool {
    match slot {
        None => record == expected,
        Some(at) => {
            record.len() == expected.len()
                && record[..at] == expected[..at]
                && record.get(at + 4..) == expected.get(at + 4..)
        }
    }
}

#[cfg(test)]
mod tests;
