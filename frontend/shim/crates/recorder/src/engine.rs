//! The engine: runs within runs, and what becomes of a record. How runs begin and end is `opening`'s, what they send
//! `sending`'s, and loops that are known before they have begun `loop_prediction`'s. Whether it is worth it is the
//! policy's.
//!
//! Open runs form a stack: each but the lowest is an iteration's part of the one below, which expects its REPEAT. A
//! record goes to the top run. What that one does not take closes it: its REPEAT, and then the records of its
//! unfinished iteration, go to the run below like records of the program, and so on down to the tape. So order never
//! changes, and a closed loop is one record in the search for outer loops. Records that were given back begin nothing,
//! which is why this ends.
//!
//! At the bottom a record either begins a loop that is known (by the token of its first record), or goes to the tape
//! and into the thread's history, which may find that it repeats.

use crate::body::Nested;
use crate::history::{History, MAX_RECORD};
use crate::layout::{self, operation, u32_at, u64_at};
use crate::policy::{Ending, Policy};
use crate::run::{Run, Verdict};
use crate::templates::Templates;
use crate::{mix, Counts, Origin, Reason};
use std::sync::Arc;
use tape::{record_length, Writer, HEADER_BYTES};

mod loop_prediction;
mod opening;
mod sending;

pub use loop_prediction::PredictedLaunch;

/// Threads whose histories are kept.
const MAX_THREADS: usize = 16;
/// The token of what no loop may hold.
const NO_TOKEN: u64 = 0;

#[derive(Debug)]
struct ThreadHistory {
    thread: u64,
    used: u64,
    history: History,
}

/// A record on its way down the stack.
#[derive(Debug, Clone, Copy)]
struct Offer<'a> {
    record: &'a [u8],
    token: u64,
    nested: Option<Nested>,
    /// Given back by a run, which had so many records in its body: it begins none that is known. 0: it is the
    /// program's.
    given_back: usize,
}

/// Records the loops of one session. See the crate's and the module's comments.
#[derive(Debug)]
pub struct Recorder {
    templates: Templates,
    #[allow(clippy::vec_box)] // a run moves on and off the stack, and is large
    stack: Vec<Box<Run>>,
    histories: Vec<ThreadHistory>,
    /// The history of the thread that appended last.
    current: usize,
    thread: u64,
    births: u64,
    clock: u64,
    pending: u64,
    counts: Counts,
    scratch: Vec<u8>,
    policy: Policy,
}

impl Default for Recorder {
    fn default() -> Self {
        Self::new()
    }
}

/// What a record has in common with those that may take its place in a loop; `NO_TOKEN` when it may stand in none.
#[inline]
fn token_of(record: &[u8], site: u64) -> u64 {
    let Some(layout) = layout::layout(operation(record)) else { return NO_TOKEN };
    if record.len() > MAX_RECORD {
        return NO_TOKEN;
    }
    let mut token = mix(u64_at(record, 0), site);
    if let Some((length_at, _)) = layout.tail {
        token = mix(token, u32_at(record, length_at.into()).into());
    }
    if let Some(identity) = layout.identity {
        token = mix(token, u32_at(record, identity.into()).into());
    }
    token.max(1)
}

impl Recorder {
    #[must_use]
    pub fn new() -> Self {
        Self {
            templates: Templates::default(),
            stack: Vec::new(),
            histories: Vec::new(),
            current: 0,
            thread: 0,
            births: 0,
            clock: 0,
            pending: 0,
            counts: Counts::default(),
            scratch: Vec::new(),
            policy: Policy::default(),
        }
    }

    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Whether anything is held that is not on the tape.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.stack.iter().any(|run| run.holds())
    }

    /// Whether a record of this operation is held. `unfinished`: by what `part` would leave behind.
    #[must_use]
    pub fn holds_operation(&self, code: u16, unfinished: bool) -> bool {
        self.stack.iter().enumerate().any(|(level, run)| {
            let all = run.complete() > 0 && !(unfinished && level == 0);
            let items = &run.body.items[..if all { run.body.items.len() } else { run.pos }];
            items.iter().any(|item| item.nested.is_some() || operation(&run.body.bytes[item.bytes()]) == code)
        })
    }

    /// Records held since the last part was sent.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.pending
    }

    /// Records that runs have taken so far: it stands still when the program makes no calls.
    #[must_use]
    pub fn progress(&self) -> u64 {
        self.counts.taken
    }

    /// The records behind `mark` were appended to the tape. Those that a run holds are taken off it.
    #[inline(always)]
    pub fn appended(&mut self, tape: &mut Writer, mark: usize, origin: Origin) {
        if let Some(run) = self.stack.last_mut() {
            let record = tape.as_slice().get(mark..).unwrap_or_default();
            if origin.thread == self.thread && run.take_predicted(record) {
                tape.truncate(mark);
                self.pending += 1;
                self.counts.taken += 1;
                return;
            }
        }
        self.examine(tape, mark, origin);
    }

    #[inline(never)]
    fn examine(&mut self, tape: &mut Writer, mark: usize, origin: Origin) {
        let mut at = mark;
        if origin.thread != self.thread || self.histories.is_empty() {
            let mut appended = std::mem::take(&mut self.scratch);
            appended.clear();
            appended.extend_from_slice(&tape.as_slice()[mark..]);
            tape.truncate(mark);
            self.end_all(tape, Reason::Thread);
            at = tape.len();
            tape.records(&appended);
            self.scratch = appended;
            self.switch(origin.thread);
        }
        while let Some(length) = record_length(&tape.as_slice()[at..]) {
            if self.pass(tape, at, length, origin) {
                at += length;
                continue;
            }
            let mut appended = std::mem::take(&mut self.scratch);
            appended.clear();
            appended.extend_from_slice(&tape.as_slice()[at..]);
            tape.truncate(at);
            let mut rest = &appended[..];
            while let Some(length) =
                record_length(rest).filter(|length| *length >= HEADER_BYTES && *length <= rest.len())
            {
                let (record, behind) = rest.split_at(length);
                rest = behind;
                let token = token_of(record, origin.site);
                self.offer(Offer { record, token, nested: None, given_back: 0 }, tape);
            }
            self.scratch = appended;
            return;
        }
    }

    /// A record that stands in no loop is about to be sent, behind what the tape holds.
    pub fn interrupt(&mut self, tape: &mut Writer, origin: Origin) {
        let same = origin.thread == self.thread && !self.histories.is_empty();
        self.end_all(tape, if same { Reason::Deviation } else { Reason::Thread });
        if !same {
            self.switch(origin.thread);
        }
        if let Some(each) = self.histories.get_mut(self.current) {
            each.history.interrupt();
        }
    }

    /// With no run open: leaves a record where it is, unless it begins a loop.
    fn pass(&mut self, tape: &Writer, at: usize, length: usize, origin: Origin) -> bool {
        if !self.stack.is_empty() {
            return false;
        }
        let Some(record) = tape.as_slice().get(at..at + length) else { return false };
        let token = token_of(record, origin.site);
        if self.policy.segments.are_short() {
            if token != NO_TOKEN {
                self.policy.segments.pass(length);
            }
            self.note(record, token, None);
            return true;
        }
        if token != NO_TOKEN && self.templates.starting_with(token).is_some() {
            return false;
        }
        if origin.hint != 0 {
            let history = &mut self.histories[self.current].history;
            let body = history.begin_hinted(origin.hint).and_then(|period| history.body(period));
            if let Some(body) = body.filter(|body| body.items.first().is_some_and(|item| item.token == token)) {
                self.begin(body);
                return false;
            }
        }
        if token != NO_TOKEN {
            self.policy.segments.pass(length);
        }
        self.remember(record, token, None, 0);
        true
    }

    fn switch(&mut self, thread: u64) {
        self.thread = thread;
        self.clock += 1;
        if let Some(index) = self.histories.iter().position(|each| each.thread == thread) {
            self.current = index;
        } else if self.histories.len() < MAX_THREADS {
            self.histories.push(ThreadHistory { thread, used: 0, history: History::new() });
            self.current = self.histories.len() - 1;
        } else {
            let oldest = self.histories.iter().enumerate().min_by_key(|(_, each)| each.used);
            self.current = oldest.map_or(0, |(index, _)| index);
            self.histories[self.current] = ThreadHistory { thread, used: 0, history: History::new() };
        }
        self.histories[self.current].used = self.clock;
    }

    /// Puts a record that went to the tape into the history; opens a run when it is seen to repeat. `given_back`: not
    /// with that period, which has just ended.
    fn remember(&mut self, record: &[u8], token: u64, nested: Option<Nested>, given_back: usize) {
        let Some(period) = self.note(record, token, nested) else { return };
        if self.stack.is_empty() && period != given_back as u64 {
            if let Some(body) = self.histories[self.current].history.body(period) {
                self.begin(body);
            }
        }
    }

    /// Puts a record into the history: the period with which it repeats, if it is seen to.
    fn note(&mut self, record: &[u8], token: u64, nested: Option<Nested>) -> Option<u64> {
        let history = &mut self.histories.get_mut(self.current)?.history;
        if token == NO_TOKEN {
            history.interrupt();
            return None;
        }
        history.push(token, record, nested)
    }

    fn offer(&mut self, offer: Offer, tape: &mut Writer) {
        while let Some(mut run) = self.stack.pop() {
            match self.feed(&mut run, offer) {
                Verdict::Taken => {
                    if run.is_due() {
                        self.send_iterations(&mut run, tape, false, Ending::GoesOn);
                        run.rebase();
                    }
                    self.stack.push(run);
                    return;
                }
                Verdict::Restart(wider) => {
                    self.send_iterations(&mut run, tape, false, Ending::GoesOn);
                    run.rebase();
                    if wider.is_none_or(|wider| self.widen(&mut run, wider)) {
                        self.stack.push(run);
                    } else {
                        self.close(run, tape, true, Ending::Over);
                    }
                }
                Verdict::Other => {
                    let mut inner = if offer.given_back > 0 { None } else { run.body.items[run.pos].nested };
                    if inner.is_some_and(|inner| self.templates.is_superseded(inner)) {
                        self.templates.outdate(run.place);
                        inner = None;
                    }
                    self.stack.push(run);
                    if inner.is_some_and(|inner| self.enter(inner, offer)) {
                        return;
                    }
                    if let Some(run) = self.stack.pop() {
                        self.counts.closed(Reason::Deviation);
                        self.close(run, tape, true, Ending::Over);
                    }
                }
            }
        }
        self.record_or_begin(offer, tape);
    }

    fn feed(&mut self, run: &mut Run, offer: Offer) -> Verdict {
        let templates = &self.templates;
        let before = Arc::as_ptr(&run.body);
        let widths = || offer.nested.map_or_else(Vec::new, |nested| templates.widths(nested));
        let verdict = run.take(offer.record, offer.token, widths);
        if before != Arc::as_ptr(&run.body) {
            self.templates.replace_body(run.place, &run.body);
        }
        if matches!(verdict, Verdict::Taken) && offer.nested.is_none() {
            self.pending += 1;
            self.counts.taken += 1;
        }
        verdict
    }

    /// No run has taken the record: it begins a known loop, or goes to the tape.
    fn record_or_begin(&mut self, offer: Offer, tape: &mut Writer) {
        if offer.given_back == 0 && offer.token != NO_TOKEN {
            let known = self.templates.starting_with(offer.token);
            if let Some(run) = known.and_then(|place| self.open(place)) {
                if self.start(run, offer) {
                    return;
                }
            }
        }
        if offer.nested.is_none() && offer.token != NO_TOKEN {
            self.policy.segments.pass(offer.record.len());
        }
        tape.records(offer.record);
        self.remember(offer.record, offer.token, offer.nested, offer.given_back);
    }
}
