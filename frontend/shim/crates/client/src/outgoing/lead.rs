//! A loop that the host is to lead, as the layer above describes it, and what the host gets of it: TEMPLATE and SLICE.
//!
//! Source: protos/tape.md, "Slices".

use crate::report::Section;
use recorder::MAX_NUMBERS;
use slices::form::Slice;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tape::generated_operations as operation;
use tape::{Writer, MAX_BODY_BYTES, MAX_HOLES};

/// Led loops whose templates have numbers, behind those of the recorder and in front of the program's graphs'.
const MOST: u32 = 256;
/// After so many times in vain, a loop is not led any more.
const MOST_IN_VAIN: u32 = 3;
/// After so many executions that ended in their first iteration, a loop is led from the second one on.
const MOST_SHORT: u32 = 3;
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

impl LeadHole {
    /// Part and argument, as tape.md has them.
    pub(crate) fn value(&self) -> (u8, u8) {
        self.argument.map_or((1, 0), |argument| (0, argument))
    }
}

/// A loop that the host is to lead.
#[derive(Debug)]
pub struct Lead {
    /// For messages: where it is.
    pub name: &'static str,
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
    /// The program has made an iteration of this execution by itself.
    pub again: bool,
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
            let (part, argument) = hole.value();
            content.extend_from_slice(&[part, argument]);
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
    /// How often in a row a loop was led in vain, by key.
    vain: HashMap<u64, u32>,
    /// How often in a row it ended in its first iteration, by key.
    short: HashMap<u64, u32>,
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

    /// A loop was led, in vain or not, for no more than its first iteration or for longer.
    pub(crate) fn ended(&mut self, key: u64, in_vain: bool, short: bool) {
        for (times, once_more) in [(&mut self.vain, in_vain), (&mut self.short, short)] {
            if once_more {
                *times.entry(key).or_default() += 1;
            } else {
                times.remove(&key);
            }
        }
    }

    /// Whether a loop is not led in its first iteration: that would cost as many round trips as the program's own calls.
    pub(crate) fn is_short(&self, key: u64) -> bool {
        self.short.get(&key).is_some_and(|times| *times >= MOST_SHORT)
    }

    /// Whether a loop is not led any more: each time would cost a round trip and bring nothing.
    pub(crate) fn gives_up(&self, key: u64) -> bool {
        self.vain.get(&key).is_some_and(|times| *times >= MOST_IN_VAIN)
    }

    /// Writes what the host has to know of a loop; its number. `None`: there are too many, or it is too large.
    pub(crate) fn define(&mut self, lead: &Lead, w: &mut Writer) -> Option<u32> {
        if lead.body.is_empty() || lead.body.len() > MAX_BODY_BYTES || lead.holes.len() > MAX_HOLES {
            return None;
        }
        let (template, content) = (lead.template(), lead.content());
        let known = self.known.get(&lead.key);
        let number = match known {
            Some((number, ..)) => *number,
            None => u32::try_from(self.known.len()).ok().filter(|number| *number < MOST)?,
        };
        if known.is_none_or(|known| known.1 != template || known.2 != content) {
            let numbered = u32::from(MAX_NUMBERS) + number;
            let holes = u32::try_from(lead.holes.len()).ok()?;
            operation::template(w, numbered, holes, &template);
            let slice_bytes = u32::try_from(lead.slice_bytes.len()).ok()?;
            operation::slice(w, number, numbered, slice_bytes, &content);
            self.known.insert(lead.key, (number, template, content));
        }
        Some(number)
    }
}
