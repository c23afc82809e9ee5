//! The engine: runs within runs, and what becomes of a record. What a run sends is `sending`'s.
//!
//! Open runs form a stack: each but the lowest is an iteration's part of the one below, which expects its REPEAT. A record goes to the top
//! run. What that one does not take closes it: its REPEAT, and then the records of its unfinished iteration, go to the run below like
//! records of the program, and so on down to the tape. So order never changes, and a closed loop is one record in the search for
//! outer loops. Records that were given back begin nothing, which is why this ends.
//!
//! At the bottom a record either begins a loop that is known (by the token of its first record), or goes to the tape and into the
//! thread's history, which may find that it repeats.

use crate::ahead::{Ahead, Found};
use crate::body::{Body, Nested};
use crate::history::{History, MAX_RECORD};
use crate::layout::{self, operation, u32_at, u64_at};
use crate::run::{Run, Verdict};
use crate::stretches::Stretches;
use crate::templates::Templates;
use crate::{mix, AheadCounts, Counts, Origin, Read, Reason};
use std::sync::Arc;
use tape::{record_length, Writer, HEADER_BYTES};

mod sending;

/// Threads whose histories are kept.
const MAX_THREADS: usize = 16;
/// The token of what no loop may hold.
const NO_TOKEN: u64 = 0;

#[derive(Debug)]
struct Recorder {
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
    /// Given back by a run: it begins none.
    settled: bool,
}

/// Folds the records of one session. See the crate's and the module's comments.
#[derive(Debug)]
pub struct Folder {
    templates: Templates,
    #[allow(clippy::vec_box)] // a run moves on and off the stack, and is large
    stack: Vec<Box<Run>>,
    recorders: Vec<Recorder>,
    /// The recorder of the thread that appended last.
    current: usize,
    thread: u64,
    births: u64,
    clock: u64,
    pending: u64,
    counts: Counts,
    scratch: Vec<u8>,
    ahead: Ahead,
    stretches: Stretches,
}

impl Default for Folder {
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

impl Folder {
    #[must_use]
    pub fn new() -> Self {
        Self {
            templates: Templates::default(),
            stack: Vec::new(),
            recorders: Vec::new(),
            current: 0,
            thread: 0,
            births: 0,
            clock: 0,
            pending: 0,
            counts: Counts::default(),
            scratch: Vec::new(),
            ahead: Ahead::default(),
            stretches: Stretches::default(),
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

    /// The records behind `mark` were appended to the tape. Those that a run holds are taken off it, and so are those that the host
    /// has done ahead.
    #[inline(always)]
    pub fn appended(&mut self, tape: &mut Writer, mut mark: usize, origin: Origin) {
        if self.ahead.awake && self.ahead.appended(tape, &mut mark, origin, false, token_of) != Found::New {
            return;
        }
        self.record(tape, mark, origin);
    }

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

    #[inline(always)]
    fn record(&mut self, tape: &mut Writer, mark: usize, origin: Origin) {
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
        if origin.thread != self.thread || self.recorders.is_empty() {
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
                self.offer(Offer { record, token, nested: None, settled: false }, tape);
            }
            self.scratch = appended;
            return;
        }
    }

    /// With no run open: leaves a record where it is, unless it begins a loop.
    fn pass(&mut self, tape: &Writer, at: usize, length: usize, origin: Origin) -> bool {
        if !self.stack.is_empty() {
            return false;
        }
        let Some(record) = tape.as_slice().get(at..at + length) else { return false };
        let token = token_of(record, origin.site);
        if self.stretches.are_short() {
            self.stretches.pass(length);
            self.note(record, token, None);
            return true;
        }
        if token != NO_TOKEN && self.templates.starting_with(token).is_some() {
            return false;
        }
        if origin.hint != 0 {
            let history = &mut self.recorders[self.current].history;
            let body = history.begin_hinted(origin.hint).and_then(|period| history.body(period));
            if let Some(body) = body.filter(|body| body.items.first().is_some_and(|item| item.token == token)) {
                self.begin(body);
                return false;
            }
        }
        self.stretches.pass(length);
        self.remember(record, token, None);
        true
    }

    /// The runs go; they hold nothing.
    fn retire_all(&mut self) {
        while let Some(run) = self.stack.pop() {
            self.retire(&run, false);
        }
    }

    fn switch(&mut self, thread: u64) {
        self.thread = thread;
        self.clock += 1;
        if let Some(index) = self.recorders.iter().position(|recorder| recorder.thread == thread) {
            self.current = index;
        } else if self.recorders.len() < MAX_THREADS {
            self.recorders.push(Recorder { thread, used: 0, history: History::new() });
            self.current = self.recorders.len() - 1;
        } else {
            let oldest = self.recorders.iter().enumerate().min_by_key(|(_, recorder)| recorder.used);
            self.current = oldest.map_or(0, |(index, _)| index);
            self.recorders[self.current] = Recorder { thread, used: 0, history: History::new() };
        }
        self.recorders[self.current].used = self.clock;
    }

    /// Puts a record that went to the tape into the history; opens a run when it is seen to repeat.
    fn remember(&mut self, record: &[u8], token: u64, nested: Option<Nested>) {
        let Some(period) = self.note(record, token, nested) else { return };
        if self.stack.is_empty() {
            if let Some(body) = self.recorders[self.current].history.body(period) {
                self.begin(body);
            }
        }
    }

    /// Puts a record into the history: the period with which it repeats, if it is seen to.
    fn note(&mut self, record: &[u8], token: u64, nested: Option<Nested>) -> Option<u64> {
        let history = &mut self.recorders.get_mut(self.current)?.history;
        if token == NO_TOKEN {
            history.interrupt();
            return None;
        }
        history.push(token, record, nested)
    }

    /// Opens a run of a body that nobody knows yet.
    fn begin(&mut self, body: Body) {
        let Some(place) = self.templates.add(Arc::new(body)) else { return };
        if let Some(run) = self.open(place) {
            self.stack.push(run);
        }
    }

    fn open(&mut self, place: u32) -> Option<Box<Run>> {
        self.templates.touch(place);
        self.births += 1;
        let template = self.templates.get_mut(place).filter(|template| !template.open)?;
        template.open = true;
        let sealed = template.number.is_some();
        Some(Box::new(Run::new(self.births, place, template.body.clone(), sealed, &template.steps)))
    }

    /// A run that has nothing left to send goes. `failed`: the program did something else than the template said.
    fn retire(&mut self, run: &Run, failed: bool) {
        let Some(template) = self.templates.get_mut(run.place) else { return };
        template.open = false;
        let worthwhile = run.repeated || template.uses == 0;
        if run.k > 0 && worthwhile || run.sealed && !failed {
            template.steps = run.steps();
            self.templates.succeeded(run.place);
            self.templates.register(run.place);
        } else if run.pos == 0 && self.templates.register_first(run.place) {
            return; // it has repeated, and ended there: perhaps it comes again
        } else if failed || run.k > 0 {
            self.templates.missed(run.place);
        }
        if self.templates.get(run.place).is_some_and(|t| t.uses == 0) {
            self.templates.drop_private(run.place);
        }
    }

    fn offer(&mut self, offer: Offer, tape: &mut Writer) {
        while let Some(mut run) = self.stack.pop() {
            match self.feed(&mut run, offer) {
                Verdict::Taken => {
                    if run.is_due() {
                        self.send_iterations(&mut run, tape, false);
                        run.rebase();
                    }
                    self.stack.push(run);
                    return;
                }
                Verdict::Restart(wider) => {
                    self.send_iterations(&mut run, tape, false);
                    run.rebase();
                    if wider.is_none_or(|wider| self.widen(&mut run, wider)) {
                        self.stack.push(run);
                    } else {
                        self.close(run, tape, true);
                    }
                }
                Verdict::Other => {
                    let mut inner = if offer.settled { None } else { run.body.items[run.pos].nested };
                    if inner.is_some_and(|inner| self.templates.is_superseded(inner)) {
                        self.templates.unregister(run.place);
                        inner = None;
                    }
                    self.stack.push(run);
                    if inner.is_some_and(|inner| self.enter(inner, offer)) {
                        return;
                    }
                    if let Some(run) = self.stack.pop() {
                        self.counts.closed(Reason::Deviation);
                        self.close(run, tape, true);
                    }
                }
            }
        }
        self.settle(offer, tape);
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

    /// A template that takes the place of the run's, with more holes. The run holds its unfinished iteration only.
    fn widen(&mut self, run: &mut Run, wider: Arc<Body>) -> bool {
        let Some(place) = self.templates.add(wider.clone()) else { return false };
        let mut ancestor = None;
        if let Some(template) = self.templates.get_mut(run.place) {
            template.open = false;
            ancestor = Some(Nested { place: run.place, birth: template.birth, levels: wider.levels });
        }
        if let Some(template) = self.templates.get_mut(place) {
            template.open = true;
            template.ancestor = ancestor;
        }
        run.adopt(place, wider);
        true
    }

    /// Opens a run of the template that is expected here, if the record begins it.
    fn enter(&mut self, nested: Nested, offer: Offer) -> bool {
        let current = !self.templates.is_superseded(nested);
        let Some(run) = current.then(|| self.open(nested.place)).flatten() else { return false };
        self.start(run, offer)
    }

    /// The first record of a run that was just opened.
    fn start(&mut self, mut run: Box<Run>, offer: Offer) -> bool {
        let mut verdict = self.feed(&mut run, offer);
        if let Verdict::Restart(Some(wider)) = verdict {
            if !self.widen(&mut run, wider) {
                self.retire(&run, true);
                return false;
            }
            verdict = self.feed(&mut run, offer);
        }
        if matches!(verdict, Verdict::Taken) {
            self.stack.push(run);
            return true;
        }
        let inner = run.body.items[run.pos].nested;
        self.stack.push(run);
        if inner.is_some_and(|inner| self.enter(inner, offer)) {
            return true;
        }
        if let Some(run) = self.stack.pop() {
            self.retire(&run, true);
        }
        false
    }

    /// No run has taken the record: it begins a known loop, or goes to the tape.
    fn settle(&mut self, offer: Offer, tape: &mut Writer) {
        if !offer.settled && offer.token != NO_TOKEN {
            let known = self.templates.starting_with(offer.token);
            if let Some(run) = known.and_then(|place| self.open(place)) {
                if self.start(run, offer) {
                    return;
                }
            }
        }
        if offer.nested.is_none() {
            self.stretches.pass(offer.record.len());
        }
        tape.records(offer.record);
        self.remember(offer.record, offer.token, offer.nested);
    }
}
