//! A loop that the host leads: what was sent of it, and the program that follows, call by call.
//!
//! The host evaluates the loop's slice and makes the loop's records (tape.md, "Slices"); the program executes its own
//! instructions all the same. Each record that it makes meanwhile is compared with what the slice says, byte for byte,
//! and not sent; each result comes from the stream that the host sends. `Following` evaluates the slice a second time,
//! with the same results, so the host need not say what it has done.
//!
//! How far the host leads: each WHILE is as many iterations as the window, or 50 ms (`Config::lead_time`). When the first result of one has
//! come, the next one is sent, so that one is under way and one waits. The first waits for a few iterations with that:
//! many loops are short. The window and the time grow as the program keeps up.
//!
//! Where the program's records differ from the slice's, the proof of the slice is broken, and the session ends.

use crate::incoming::waiter::Waiter;
use crate::report::Section;
use slices::form::{Slice, Spot};
use slices::{Evaluation, Event};
use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tape::generated_operations as operation;
use tape::{Answer, Writer};

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
/// Templates of led loops: those above are the graphs', those below the recorder's.
const FIRST_TEMPLATE: u32 = 2816;
const MOST: usize = 256;
const MAX_BODY: usize = 64 << 10;
const MAX_HOLES: usize = 4096;
/// Iterations without a call that are looked at.
const MOST_SILENT: u32 = 1 << 20;
/// No record is made by a call.
const NO_RECORD: u32 = u32::MAX;

/// Where a record's bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeadHole {
    /// In the body.
    pub offset: usize,
    pub width: u8,
    pub call: u16,
    /// Which of the call's arguments; `None`: the bytes that it copies to the device.
    pub argument: Option<u8>,
    /// In the argument.
    pub at: u16,
}

/// A loop that the host is to lead.
#[derive(Debug)]
pub struct Lead {
    /// For messages: where it is.
    pub name: String,
    /// What tells slices of a process apart.
    pub key: u64,
    pub slice: Arc<Slice>,
    pub slice_bytes: &'static [u8],
    /// Of each call, in the process; 0: it is not known.
    pub sites: Vec<u64>,
    /// The records of the calls, one behind the other, with zeros in the holes.
    pub body: Vec<u8>,
    /// Of each call; `None` where it makes none.
    pub records: Vec<Option<Range<usize>>>,
    /// In rising order.
    pub holes: Vec<LeadHole>,
    /// Of the slice.
    pub inputs: Vec<Vec<u8>>,
    pub thread: u64,
    /// The bytes of results of one iteration, at most.
    pub result_bytes: u64,
}

impl Lead {
    fn template(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(self.holes.len() * 8 + self.body.len());
        for hole in &self.holes {
            content.extend_from_slice(&u32::try_from(hole.offset).unwrap_or(u32::MAX).to_le_bytes());
            content.extend_from_slice(&[hole.width, 0, 0, 0]);
        }
        content.extend_from_slice(&self.body);
        content
    }

    fn content(&self) -> Vec<u8> {
        let mut content = self.slice_bytes.to_vec();
        content.resize(content.len().next_multiple_of(8), 0);
        let mut records: Vec<&Range<usize>> = self.records.iter().flatten().collect();
        records.sort_unstable_by_key(|range| range.start);
        for record in &self.records {
            let index = record.as_ref().and_then(|range| records.iter().position(|other| *other == range));
            let index = index.and_then(|index| u32::try_from(index).ok()).unwrap_or(NO_RECORD);
            content.extend_from_slice(&index.to_le_bytes());
        }
        content.resize(content.len().next_multiple_of(8), 0);
        for hole in &self.holes {
            content.extend_from_slice(&hole.call.to_le_bytes());
            content.extend_from_slice(&[u8::from(hole.argument.is_none()), hole.argument.unwrap_or(0)]);
            content.extend_from_slice(&hole.at.to_le_bytes());
            content.extend_from_slice(&[0; 2]);
        }
        content
    }
}

/// The slices that the host knows.
#[derive(Debug, Default)]
pub(crate) struct Leads {
    /// Number, template and content by key.
    known: HashMap<u64, (u32, Vec<u8>, Vec<u8>)>,
    pub(crate) counts: Counts,
}

/// For the report.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Counts {
    pub(crate) loops: u64,
    pub(crate) iterations: u64,
    pub(crate) calls: u64,
    pub(crate) reads: u64,
}

impl Leads {
    pub(crate) fn section(&self) -> Option<Section> {
        let Counts { loops, iterations, calls, reads } = self.counts;
        let counts = vec![("loops", loops), ("iterations", iterations), ("calls", calls), ("reads", reads)];
        (loops > 0).then_some(Section { name: "decided", counts })
    }

    /// Writes what the host has to know of a loop; its number. `None`: there are too many, or it is too large.
    pub(crate) fn define(&mut self, lead: &Lead, w: &mut Writer) -> Option<u32> {
        if lead.body.is_empty() || lead.body.len() > MAX_BODY || lead.holes.len() > MAX_HOLES {
            return None;
        }
        let (template, content) = (lead.template(), lead.content());
        let next = self.known.len();
        let number = self.known.get(&lead.key).map_or(u32::try_from(next).ok()?, |known| known.0);
        if !self.known.contains_key(&lead.key) && next >= MOST {
            return None;
        }
        if self.known.get(&lead.key).is_none_or(|known| known.1 != template || known.2 != content) {
            let holes = u32::try_from(lead.holes.len()).ok()?;
            operation::template(w, FIRST_TEMPLATE + number, holes, &template);
            let slice_bytes = u32::try_from(lead.slice_bytes.len()).ok()?;
            operation::slice(w, number, FIRST_TEMPLATE + number, slice_bytes, &content);
            self.known.insert(lead.key, (number, template, content));
        }
        Some(number)
    }
}

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
    /// Of each call, its holes.
    holes: Vec<Vec<(Spot, LeadHole)>>,
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
    window: u64,
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
        let inputs: Vec<&[u8]> = lead.inputs.iter().map(Vec::as_slice).collect();
        let evaluation = Evaluation::begin(lead.slice.clone(), &inputs)?;
        let window = FIRST_WINDOW.min((WINDOW_BYTES / lead.result_bytes.max(1)).max(1));
        let mut holes = vec![Vec::new(); lead.slice.calls.len()];
        for hole in &lead.holes {
            let call = lead.slice.calls.get(usize::from(hole.call))?;
            let value = match hole.argument {
                Some(index) => call.arguments.get(usize::from(index))?.value,
                None => Spot::Memory(call.source?),
            };
            holes[usize::from(hole.call)].push((value, *hole));
        }
        Some(Self {
            body: lead.body.clone(),
            lead,
            number,
            verifies,
            holes,
            evaluation,
            next: None,
            asked: 0,
            question: Vec::new(),
            streams: VecDeque::new(),
            fresh: true,
            begun: 0,
            over: false,
            window,
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

    pub(crate) fn inputs(&self) -> Vec<u8> {
        self.lead.inputs.concat()
    }

    pub(crate) fn count(&self, counts: &mut Counts) {
        counts.loops += 1;
        counts.iterations += self.evaluation.iterations();
        counts.calls += self.calls;
        counts.reads += self.reads;
    }

    /// The bounds of the next WHILE: iterations and microseconds.
    pub(crate) fn bounds(&mut self) -> (u64, u32) {
        let (window, time) = (self.window, self.time);
        let most = LAST_WINDOW.min((WINDOW_BYTES / self.lead.result_bytes.max(1)).max(1));
        self.window = (window * 2).min(most);
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
        let Self { lead, evaluation, next, called_in, .. } = self;
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
                    Ok(Event::Left(_)) | Err(_) => return Next::Left,
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
            self.fill(call);
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

    fn fill(&mut self, call: usize) {
        let mut bytes = Vec::new();
        for (value, hole) in &self.holes[call] {
            bytes.clear();
            self.evaluation.put(*value, &mut bytes);
            let (at, width) = (usize::from(hole.at), usize::from(hole.width));
            if let Some(from) = bytes.get(at..at + width) {
                self.body[hole.offset..hole.offset + width].copy_from_slice(from);
            }
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
mod tests {
    use super::*;
    use slices::form::{Argument, Block, Call, Code, End, Input, Operation, Origin, Place};

    const SITE: u64 = 0x1000;

    /// `do { read(address, 4) -> value; address += 8; } while (value);`
    fn slice() -> Slice {
        let place = Place { offset: 0, size: 4 };
        let operation =
            |code, width, target, operands, immediate| Operation { code, width, target, operands, immediate };
        Slice {
            entry: SITE,
            registers: 3,
            memory: 4,
            inputs: vec![Input { origin: Origin::Register(3), to: Spot::Register { number: 0, width: 8 } }],
            blocks: vec![
                Block { operations: vec![], end: End::Called { call: 0, block: 1 } },
                Block {
                    operations: vec![
                        operation(Code::Constant, 8, Some(2), [0; 3], 8),
                        operation(Code::Add, 8, Some(0), [0, 2, 0], 0),
                        operation(Code::Load, 4, Some(1), [0; 3], 0),
                    ],
                    end: End::Branch { register: 1, then: 0, other: 2 },
                },
                Block { operations: vec![], end: End::Leave(0x2000) },
            ],
            calls: vec![Call {
                site: SITE,
                name: "cudaMemcpy".to_owned(),
                arguments: vec![Argument { number: 1, value: Spot::Register { number: 0, width: 8 } }],
                source: None,
                fills: Some(place),
            }],
            floating: false,
        }
    }

    fn record(address: u64, slot: u32) -> Vec<u8> {
        let mut writer = Writer::new();
        operation::read(&mut writer, address, 4, 4, 1, 1, slot);
        writer.as_slice().to_vec()
    }

    fn following() -> Following {
        let body = record(0, 0);
        let lead = Lead {
            name: "the loop of a test".to_owned(),
            key: 0,
            slice: Arc::new(slice()),
            slice_bytes: &[1, 2, 3],
            sites: vec![SITE],
            records: vec![Some(0..body.len())],
            body,
            holes: vec![LeadHole { offset: 8, width: 8, call: 0, argument: Some(0), at: 0 }],
            inputs: vec![64_u64.to_le_bytes().to_vec()],
            thread: 1,
            result_bytes: 4,
        };
        Following::new(lead, 0, false, Duration::from_millis(50)).expect("its inputs")
    }

    #[test]
    fn a_record_as_the_slice_says_is_taken_until_the_loop_is_left() {
        let mut following = following();
        for (address, value) in [(64, 5_u32), (72, 1), (80, 0)] {
            assert!(following.goes_on());
            assert_eq!(following.take(&record(address, 9), SITE), Taken::Question);
            assert!(following.arrived(&value.to_le_bytes()));
        }
        // The last result came in the iteration in which the loop is left: the host has left it, too.
        assert!(!following.goes_on() && !following.may_stop_early());
        assert_eq!(following.take(&record(88, 9), SITE), Taken::Over);
    }

    #[test]
    fn another_record_breaks_the_proof_and_names_the_loop() {
        for (bytes, site) in [(record(72, 0), SITE), (record(64, 0), SITE + 1)] {
            let Taken::Broken(why) = following().take(&bytes, site) else { panic!("it was taken") };
            assert!(
                why.contains("the loop of a test") && why.contains("iteration 1") && why.contains("cudaMemcpy"),
                "{why}"
            );
        }
    }

    #[test]
    fn a_call_that_failed_is_passed_over() {
        let mut following = following();
        following.failed();
        // What the host reads is another word than what comes next: the program asks by itself once it is told.
        assert!(matches!(following.take(&record(72, 0), SITE), Taken::Question | Taken::Over));
        assert!(following.unsure);
    }

    #[test]
    fn the_window_grows_to_its_bound() {
        let mut following = following();
        let (bounds, times): (Vec<u64>, Vec<u32>) = (0..8).map(|_| following.bounds()).unzip();
        assert_eq!((times[0], times[1], times[7]), (50_000, 100_000, 1_000_000));
        assert_eq!(bounds[..3], [FIRST_WINDOW, 2 * FIRST_WINDOW, 4 * FIRST_WINDOW]);
        assert_eq!(bounds[7], LAST_WINDOW);
    }

    #[test]
    fn the_host_learns_a_loop_once() {
        let (mut leads, mut writer) = (Leads::default(), Writer::new());
        let lead = |address: u64| Lead { body: record(address, 0), ..following().lead };
        assert_eq!(leads.define(&lead(0), &mut writer), Some(0));
        let first = writer.len();
        assert_eq!((leads.define(&lead(0), &mut writer), writer.len()), (Some(0), first));
        assert_eq!(leads.define(&Lead { key: 7, ..lead(0) }, &mut writer), Some(1));
        let second = writer.len();
        assert_eq!(leads.define(&lead(1 << 32), &mut writer), Some(0), "with other records");
        assert!(writer.len() > second);
    }
}
