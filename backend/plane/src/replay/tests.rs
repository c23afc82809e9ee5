//! The walk over records with a control plane that makes nothing: what is done here, what is asked for, and hostile bytes.

use super::control::{Attempt, Control, End, GroupEnd, Outcome, Step};
use super::errors::{CudaError, Standing};
use super::results::DATA_LIMIT;
use super::{Bounds, Replay, Sink};
use crate::call::Gone;
use crate::device::cuda::fake;
use crate::device::direct::Direct;
use crate::device::host::Host;
use crate::device::launch::{Entry, Launch};
use crate::device::objects::{Moment, Stream};
use crate::device::ranges::Ranges;
use crate::device::work::{Fault, Work};
use std::sync::Arc;
use tape::operations as write;
use tape::{Record, Results, Writer, VERSION};

const KNOWN: u32 = 1; // the one stream there is

/// Answers everything; REPEAT stands for a FENCE, and a REPEAT inside of one for nothing.
struct Fake {
    direct: Arc<Direct>,
    asked: Vec<&'static str>,
    event: Arc<Moment>,
}

type Never = std::convert::Infallible;

impl Control for Fake {
    type Abort = Never;
    type Pieces = u64;
    type Launch = ();
    type Steps = Vec<Step>;

    fn operate(&mut self, record: &Record<'_>, inside: bool) -> Attempt<Outcome<Self>, Never> {
        self.asked.push(record.row.name);
        Ok(Ok(match record.row.name {
            "LAUNCH" => Outcome::Launched(()),
            "READ" => Outcome::Reading(record.u64(24).min(3 << 20), record.u64(24).min(3 << 20)),
            "FREE" => return Ok(Err(CudaError { code: 1, message: "no".into(), sticky: record.u64(8) == 666 })),
            "REPEAT" | "CONDITIONAL" if inside => Outcome::Steps(vec![]),
            "REPEAT" | "CONDITIONAL" => Outcome::Steps(vec![Step::Records(record.bytes.to_vec()), fence_step()]),
            _ if record.slot().is_some() => Outcome::Number(0),
            _ => Outcome::Done,
        }))
    }

    fn piece(&mut self, left: &mut u64, out: &mut Vec<u8>) -> Attempt<Option<usize>, Never> {
        let size = (*left).min(DATA_LIMIT as u64);
        *left -= size;
        out.resize(out.len() + size as usize, 7);
        Ok(Ok((size > 0).then_some(size as usize)))
    }

    fn launch(&mut self, (): &(), _: &[u8], _: usize, _: usize) -> Attempt<Option<Arc<Entry>>, Never> {
        self.asked.push("again");
        Ok(Ok(Some(Arc::new(self.direct.entry(Launch::Counted)))))
    }

    fn failure(&mut self, _: &Entry) -> Result<CudaError, Never> {
        unreachable!()
    }

    fn fault(&mut self, fault: Fault) -> Result<CudaError, Never> {
        Ok(CudaError { code: fault.code, message: fault.call.into(), sticky: fault.code >= 700 })
    }

    fn account(&mut self, _: &Entry, _: u64) -> Result<(), Never> {
        Ok(())
    }

    fn stream(&mut self, number: u32) -> Attempt<Arc<Stream>, Never> {
        let unknown = CudaError { code: 400, message: "no such stream".into(), sticky: false };
        Ok(if number == KNOWN { Ok(Arc::new(Stream::new(0, true))) } else { Err(unknown) })
    }

    fn event(&mut self, number: u32) -> Attempt<Arc<Moment>, Never> {
        let unknown = CudaError { code: 400, message: "no such event".into(), sticky: false };
        Ok(if number == KNOWN { Ok(self.event.clone()) } else { Err(unknown) })
    }

    fn step(&mut self, steps: &mut Vec<Step>) -> Attempt<Step, Never> {
        Ok(Ok(steps.pop().unwrap_or(Step::Over)))
    }

    fn look_ahead(&mut self, _: &[u8]) -> Result<(), Never> {
        Ok(())
    }

    fn looks_ahead(&self) -> bool {
        false
    }

    fn end_group(&mut self) -> Result<GroupEnd, Never> {
        self.asked.push("end");
        Ok(GroupEnd { nanoseconds: 5, ..GroupEnd::default() })
    }

    fn note(&mut self, _: &str, _: &CudaError, _: bool) {}
}

fn fence_step() -> Step {
    let mut writer = Writer::with_capacity(16);
    write::fence(&mut writer, 9);
    Step::Records(writer.as_slice().to_vec())
}

#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl Sink for Kept {
    fn send(&mut self, parts: &[&[u8]], _: bool) -> Result<(), Gone> {
        self.0.push(parts.concat());
        Ok(())
    }
}

struct Session {
    replay: Replay<()>,
    fake: Fake,
    standing: Arc<Standing>,
    memory: Vec<u8>,
    group: u64,
}

impl Session {
    fn new(backed: bool) -> Self {
        Self::on(Box::new(Host { backed }))
    }

    fn on(work: Box<dyn Work>) -> Self {
        let memory = vec![0; 2 << 20];
        let ranges = Arc::new(Ranges::default());
        ranges.add(memory.as_ptr() as u64, (memory.as_ptr() as usize + memory.len()) as u64);
        let direct = Arc::new(Direct::new(ranges, work));
        let standing = Arc::new(Standing::default());
        let bounds = Bounds { message_bytes: 1 << 20, credit_bytes: 4 << 20 };
        let replay = Replay::new(VERSION, bounds, direct.clone(), standing.clone());
        Self { replay, fake: Fake { direct, asked: vec![], event: Arc::default() }, standing, memory, group: 0 }
    }

    fn base(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    fn submit(&mut self, records: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        self.group += 1;
        let mut sink = Kept::default();
        match self.replay.submit(&mut self.fake, &mut sink, self.group, records, true) {
            Ok(()) => Ok(sink.0),
            Err(End::Broken(rule)) => Err(rule),
            Err(End::Gone) => unreachable!(),
        }
    }

    /// (slot, error, data) of each result.
    fn results(&mut self, records: &[u8]) -> Vec<(u32, i32, Vec<u8>)> {
        let mut found = vec![];
        for reply in self.submit(records).unwrap() {
            for result in Results::new(results_of(&reply)) {
                let result = result.unwrap();
                found.push((result.slot(), result.error(), data_of(&result)));
            }
        }
        found
    }
}

/// The field `results` of a HostMessage with a reply.
fn results_of(message: &[u8]) -> &[u8] {
    let mut at = 0;
    let varint = |at: &mut usize| {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = message[*at];
            *at += 1;
            value |= u64::from(byte & 0x7F) << shift;
            shift += 7;
            if byte < 0x80 {
                return value as usize;
            }
        }
    };
    assert_eq!(varint(&mut at), 0x1A);
    assert_eq!(varint(&mut at), message.len() - at);
    while at < message.len() {
        let tag = varint(&mut at);
        let value = varint(&mut at);
        if tag == 0x12 {
            return &message[at..at + value];
        }
        if tag & 7 == 2 {
            at += value;
        }
    }
    &[]
}

fn data_of(result: &tape::ResultRecord<'_>) -> Vec<u8> {
    match result {
        tape::ResultRecord::Data { data, .. } => data.to_vec(),
        _ => vec![],
    }
}

fn records(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::with_capacity(256);
    write(&mut writer);
    writer.as_slice().to_vec()
}

fn launch(w: &mut Writer, grid: u32) {
    write::launch(w, 16, KNOWN, [grid, 1, 1], [32, 1, 1], 0, false, 0, &[0; 16]);
}

#[test]
fn copies_and_synchronizations_are_done_here() {
    let mut session = Session::new(true);
    let base = session.base();
    let tape = records(|w| {
        write::write(w, base, 0, 5, 1, KNOWN, false, false, b"hello");
        write::copy(w, base + 8, 0, base, 0, 5, 1, KNOWN);
        write::memset(w, base + 10, 0, 2, 1, u32::from(b'x'), 1, KNOWN);
        write::read(w, base + 8, 0, 5, 1, KNOWN, 3);
        write::stream_synchronize(w, KNOWN, 4);
        write::device_synchronize(w, 5);
    });
    let expected = vec![(3, 0, b"hexxo".to_vec()), (4, 0, vec![]), (5, 0, vec![])];
    assert_eq!(session.results(&tape), expected);
    assert_eq!(session.fake.asked, ["end"], "once, to begin with");
    assert_eq!(session.results(&tape), expected);
    assert_eq!(session.fake.asked, ["end"]);
}

#[test]
fn events_are_recorded_here() {
    let mut session = Session::new(true);
    let tape = records(|w| {
        write::event_record(w, KNOWN, KNOWN, 0);
        write::stream_wait_event(w, KNOWN, KNOWN);
        write::event_synchronize(w, KNOWN, 3);
        write::event_query(w, KNOWN, 4);
        write::event_query(w, 99, 5);
    });
    assert_eq!(session.results(&tape), [(3, 0, vec![]), (4, 0, vec![]), (5, 400, vec![])]);
    assert_eq!(session.fake.asked, ["end"]);
    let first = session.fake.event.nanoseconds().unwrap();
    session.results(&tape);
    assert!(session.fake.event.nanoseconds().unwrap() > first);
    session.results(&records(|w| write::event_record(w, 99, KNOWN, 0)));
    assert_eq!(session.fake.asked, ["end", "EVENT_RECORD", "end"]);
}

#[test]
fn what_is_not_plain_is_asked_for() {
    let mut session = Session::new(true);
    let base = session.base();
    session.results(&records(|w| {
        write::write(w, base - 1, 0, 5, 1, KNOWN, false, false, b"hello");
        write::write(w, base, 0, 5, 1, 99, false, false, b"hello");
        write::write(w, base, 0, 5, 1, KNOWN, true, false, b"hello");
        write::write(w, 1 << 63, 0, 5, 1, KNOWN, false, false, b"hello");
    }));
    session.standing.poisoned.store(true, std::sync::atomic::Ordering::Relaxed);
    session.results(&records(|w| write::memset(w, base, 0, 2, 1, 0, 1, KNOWN)));
    assert_eq!(session.fake.asked, ["WRITE", "WRITE", "WRITE", "WRITE", "end", "MEMSET", "end"]);
    assert!(session.memory.iter().all(|&byte| byte == 0));
}

#[test]
fn a_launch_is_asked_for_twice_and_then_done_here() {
    let mut session = Session::new(false);
    let tape = records(|w| (0..5).for_each(|_| launch(w, 1)));
    session.submit(&tape).unwrap();
    assert_eq!(session.fake.asked, ["LAUNCH", "again", "end"]);
    assert_eq!(session.fake.direct.launches(), 3);
    session.standing.resolved.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    session.submit(&tape).unwrap();
    assert_eq!(session.fake.asked.len(), 6, "an object has ended");
    let cut = &tape[..tape.len() - 8];
    assert!(session.submit(cut).unwrap_err().contains("left"));
}

#[test]
fn a_large_read_leaves_in_pieces_and_its_end_with_the_group() {
    let mut session = Session::new(true);
    let base = session.base();
    session.memory.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8);
    let size = (1 << 20) + 100_001;
    let replies = session.submit(&records(|w| write::read(w, base, 0, size, 1, KNOWN, 3))).unwrap();
    assert_eq!(replies.len(), 2);
    let data: Vec<u8> = replies
        .iter()
        .flat_map(|reply| Results::new(results_of(reply)).map(|result| data_of(&result.unwrap())))
        .flatten()
        .collect();
    assert_eq!(data, session.memory[..size as usize]);
    let both = records(|w| {
        write::read(w, base, 0, size, 1, KNOWN, 3);
        write::fence(w, 4);
    });
    assert_eq!(session.submit(&both).unwrap().len(), 3);
}

#[test]
fn errors_are_told_as_the_tape_says() {
    let mut session = Session::new(true);
    let told = session.results(&records(|w| {
        write::free(w, 1);
        write::fence(w, 3);
        write::fence(w, 4);
        write::stream_synchronize(w, 77, 5);
    }));
    assert_eq!(told, [(3, 1, vec![]), (4, 0, vec![]), (5, 400, vec![])]);
    let lost = session.results(&records(|w| {
        write::free(w, 666);
        write::device_synchronize(w, 3);
        write::read(w, 0, 0, 4, 1, KNOWN, 4);
        write::device_reset(w, 5);
        write::device_synchronize(w, 6);
    }));
    assert_eq!(lost, [(3, 1, vec![]), (4, 1, vec![]), (5, 0, vec![]), (6, 0, vec![])]);
}

/// Bytes of all kinds: the session ends by a rule or goes on, and what it answers is whole. FARLANE_FUZZ_INPUTS says how many.
#[test]
fn hostile_tapes_do_no_harm() {
    hostile_tapes(1, || Session::new(true));
}

#[test]
fn hostile_tapes_do_no_harm_on_a_driver() {
    let cuda = fake::cuda();
    hostile_tapes(4, || Session::on(Box::new(cuda.clone())));
    for name in ["cuMemcpyDtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuStreamSynchronize"] {
        assert!(fake::calls(name) > 100, "{name}");
    }
}

fn hostile_tapes(share: u64, new: impl Fn() -> Session) {
    let inputs =
        std::env::var("FARLANE_FUZZ_INPUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(100_000) / share;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut session = new();
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..inputs {
        let base = session.base();
        let mut tape = records(|w| {
            for _ in 0..next() % 6 {
                let (at, size) = (base + next() % (1 << 21), next() % 300);
                match next() % 10 {
                    0 => write::write(w, at, next() % 64, 5, 1 + next() % 3, KNOWN, false, false, &[1; 10]),
                    1 => write::read(w, at, next() % 400, size, next() % 5, KNOWN, 3),
                    2 => write::copy(
                        w,
                        at,
                        next() % 400,
                        base + next() % (1 << 21),
                        next() % 400,
                        size,
                        next() % 5,
                        KNOWN,
                    ),
                    3 => write::memset(w, at, next() % 400, size, next() % 5, 7, 1 << (next() % 3), KNOWN),
                    4 => write::free(w, [1, 666][next() as usize % 2]),
                    5 => launch(w, next() as u32 % 4),
                    6 => write::repeat(w, 1, 5, false, &[0; 8]),
                    7 => write::device_reset(w, 4),
                    8 => write::context(w, 16 + next() as u32 % 3, false),
                    _ => write::stream_synchronize(w, next() as u32 % 3, 3),
                }
            }
        });
        for _ in 0..next() % 4 {
            if !tape.is_empty() {
                let at = next() as usize % tape.len();
                tape[at] = [0, 1, 8, 0x7F, 0x80, 0xFF, next() as u8, next() as u8][next() as usize % 8];
            }
        }
        match session.submit(&tape) {
            Ok(replies) => {
                answered += 1;
                for reply in replies {
                    assert!(Results::new(results_of(&reply)).all(|result| result.is_ok()));
                }
            }
            Err(_) => {
                refused += 1;
                session = new();
            }
        }
        session.fake.asked.clear();
    }
    assert!(answered > inputs / 10 && refused > inputs / 20, "{answered} answered, {refused} refused");
}
