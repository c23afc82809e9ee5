//! A session whose control plane makes nothing, and a guest that reads its replies.

use crate::call::Gone;
use crate::device::direct::Direct;
use crate::device::host::Host;
use crate::device::launch::{Entry, Launch};
use crate::device::objects::{Event, Stream};
use crate::device::ranges::Ranges;
use crate::device::work::{Fault, Work};
use crate::replay::control::{Attempt, Control, End, GroupEnd, Outcome, Stop};
use crate::replay::errors::{CudaError, Standing};
use crate::replay::handles::{Known, Object, Table};
use crate::replay::loops::columns::Columns;
use crate::replay::loops::plans::{Plan, Worth};
use crate::replay::loops::template::Template;
use crate::replay::loops::Prices;
use crate::replay::payloads::Payloads;
use crate::replay::results::DATA_LIMIT;
use crate::replay::{Bounds, Replay, Shared, Sink};
use std::sync::Arc;
use tape::operations as write;
use tape::{Record, Results, Writer, VERSION};

pub(in crate::replay) const KNOWN: u32 = 1; // the one stream there is

/// Answers everything. A CONDITIONAL chooses the templates 0 and 1, and then nothing.
pub(in crate::replay) struct Fake {
    pub(in crate::replay) direct: Arc<Direct>,
    pub(in crate::replay) asked: Vec<&'static str>,
    /// What templates are made into, and how far the device gets.
    pub(in crate::replay) paths: Option<Vec<Vec<u64>>>,
    pub(in crate::replay) stops: Vec<Stop>,
    pub(in crate::replay) wants_to_know: bool,
    pub(in crate::replay) expected: Vec<Vec<u8>>,
    chosen: std::cell::Cell<u32>,
}

type Never = std::convert::Infallible;

impl Control for Fake {
    type Abort = Never;
    type Pieces = u64;
    type Launch = ();
    type Condition = ();
    type Plan = ();

    fn operate(&mut self, record: &Record<'_>) -> Attempt<Outcome<Self>, Never> {
        self.asked.push(record.row.name);
        Ok(Ok(match record.row.name {
            "LAUNCH" => Outcome::Launched(()),
            "READ" => Outcome::Reading(record.u64(24).min(3 << 20), record.u64(24).min(3 << 20)),
            "FREE" => return Ok(Err(CudaError { code: 1, message: "no".into(), sticky: record.u64(8) == 666 })),
            "CONDITIONAL" => {
                self.chosen.set(0);
                Outcome::Condition(())
            }
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

    fn plan(&mut self, _: &Arc<Template>, _: &[(usize, u64)]) -> Result<Option<Plan<()>>, Never> {
        self.asked.push("plan");
        Ok(self.paths.clone().map(|paths| Plan::new((), paths, true)))
    }

    fn repeat(
        &mut self,
        (): &(),
        _: &Arc<Columns>,
        _: u64,
        left: u64,
        _: bool,
        _: &mut Vec<u8>,
    ) -> Attempt<Option<Stop>, Never> {
        self.asked.push("repeat");
        let whole = Stop { iterations: left, step: None, error: None, again: true };
        Ok(Ok(Some(self.stops.pop().unwrap_or(whole))))
    }

    fn choose(&mut self, (): &()) -> Attempt<Option<u32>, Never> {
        let chosen = self.chosen.get();
        self.chosen.set(chosen + 1);
        Ok(Ok((chosen < 2).then_some(chosen)))
    }

    fn expect(&mut self, launches: &[Vec<u8>]) -> Result<(), Never> {
        self.expected = launches.to_vec();
        self.asked.push("expect");
        Ok(())
    }

    fn looks_ahead(&self) -> bool {
        self.wants_to_know
    }

    fn end_group(&mut self) -> Result<GroupEnd, Never> {
        self.asked.push("end");
        Ok(GroupEnd { nanoseconds: 5, ..GroupEnd::default() })
    }

    fn note(&mut self, _: &str, _: &CudaError, _: bool) {}
}

/// A guest that goes after so many replies: a mutated loop may have no end.
const PATIENCE: usize = 16;

#[derive(Default)]
struct Kept(Vec<Vec<u8>>);

impl Sink for Kept {
    fn send(&mut self, parts: &[&[u8]], _: bool) -> Result<(), Gone> {
        self.0.push(parts.concat());
        if self.0.len() < PATIENCE {
            Ok(())
        } else {
            Err(Gone)
        }
    }
}

pub(in crate::replay) struct Session {
    pub(in crate::replay) replay: Replay<(), ()>,
    pub(in crate::replay) fake: Fake,
    pub(in crate::replay) standing: Arc<Standing>,
    pub(in crate::replay) memory: Vec<u8>,
    /// The one event there is.
    pub(in crate::replay) event: Arc<Event>,
    group: u64,
}

impl Session {
    pub(in crate::replay) fn new(backed: bool) -> Self {
        Self::on(Box::new(Host { backed }))
    }

    pub(in crate::replay) fn on(work: Box<dyn Work>) -> Self {
        let memory = vec![0; 2 << 20];
        let ranges = Arc::new(Ranges::default());
        ranges.add(memory.as_ptr() as u64, (memory.as_ptr() as usize + memory.len()) as u64);
        let direct = Arc::new(Direct::new(ranges, work, None));
        let standing = Arc::new(Standing::default());
        let bounds = Bounds { message_bytes: 1 << 20, credit_bytes: 4 << 20 };
        let worth = Worth { planning: 400, planning_record: 16, asking: 100 };
        let prices = Prices { by_plane: worth, by_control: worth };
        let (streams, events) = (Arc::new(Table::new("stream")), Arc::new(Table::new("event")));
        let event = Arc::new(Event::new(0, true));
        streams.fill(KNOWN, Object { known: Known::Stream(Arc::new(Stream::new(0, true))), control: None });
        events.fill(KNOWN, Object { known: Known::Event(event.clone()), control: None });
        let payloads = Arc::new(Payloads::new(1 << 20));
        let shared = Shared { direct: direct.clone(), standing: standing.clone(), payloads, streams, events };
        let replay = Replay::new(VERSION, bounds, prices, shared, false);
        let fake = Fake {
            direct,
            asked: vec![],
            paths: None,
            stops: vec![],
            wants_to_know: false,
            expected: vec![],
            chosen: std::cell::Cell::new(0),
        };
        Self { replay, fake, standing, memory, event, group: 0 }
    }

    pub(in crate::replay) fn base(&self) -> u64 {
        self.memory.as_ptr() as u64
    }

    pub(in crate::replay) fn submit(&mut self, records: &[u8]) -> Result<Vec<Vec<u8>>, String> {
        self.group += 1;
        let mut sink = Kept::default();
        match self.replay.submit(&mut self.fake, &mut sink, self.group, records, true) {
            Ok(()) => Ok(sink.0),
            Err(End::Broken(rule)) => Err(rule),
            Err(End::Gone) => Err("gone".into()),
            Err(End::Interrupted) => unreachable!(),
        }
    }

    /// (slot, error, data) of each result.
    pub(in crate::replay) fn results(&mut self, records: &[u8]) -> Vec<(u32, i32, Vec<u8>)> {
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
pub(in crate::replay) fn results_of(message: &[u8]) -> &[u8] {
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

pub(in crate::replay) fn data_of(result: &tape::ResultRecord<'_>) -> Vec<u8> {
    match result {
        tape::ResultRecord::Data { data, .. } => data.to_vec(),
        _ => vec![],
    }
}

pub(in crate::replay) fn records(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::with_capacity(256);
    write(&mut writer);
    writer.as_slice().to_vec()
}

pub(in crate::replay) fn launch(w: &mut Writer, grid: u32) {
    write::launch(w, 16, KNOWN, [grid, 1, 1], [32, 1, 1], 0, false, 0, &[0; 16]);
}
