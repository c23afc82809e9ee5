//! Slices on the tape: a SLICE's content, checked once, and the slices of a session.
//!
//! What a slice computes, and the rules of its form, are the crate `slices`'. Here is how its calls make the records of a template's body.
//!
//! Source: protos/tape.md, "Slices".

use super::template::Template;
use slices::form::{Place, Spot};
use slices::{Evaluation, Filling, Slice};
use std::collections::HashMap;
use std::sync::Arc;
use tape::operations::code;
use tape::{Answer, Record, Writer};

pub const MAX_NUMBER: u32 = 1023;
/// Bytes of a session's slices.
const MAX_CONTENT: usize = 16 << 20;
const NO_RECORD: u32 = u32::MAX;
const ENTRY: usize = 8;

/// The record that a call makes.
#[derive(Debug)]
pub(crate) struct Made {
    /// Its place among the template's.
    pub(crate) record: usize,
    fillings: Box<[Filling]>,
    /// Where its bytes go.
    pub(crate) fills: Option<Place>,
}

impl Made {
    /// Puts the call's arguments into the body.
    pub(crate) fn fill(&self, evaluation: &Evaluation, body: &mut [u8]) {
        for filling in &self.fillings {
            filling.fill(evaluation, body);
        }
    }
}

/// A checked SLICE.
#[derive(Debug)]
pub(crate) struct Sliced {
    pub(crate) number: u32,
    pub(crate) template: Arc<Template>,
    pub(crate) slice: Arc<Slice>,
    /// For each call of the slice.
    pub(crate) calls: Box<[Option<Made>]>,
    /// Where the slots of the body's records are that yield results.
    slots: Box<[usize]>,
    /// What it came from, and how many of its bytes are the slice's own.
    content: Box<[u8]>,
    slice_bytes: usize,
}

impl Sliced {
    /// Checks a SLICE's content.
    ///
    /// # Errors
    /// The rule of tape.md that it breaks.
    pub(crate) fn read(
        number: u32,
        template: Arc<Template>,
        slice_bytes: usize,
        content: &[u8],
    ) -> Result<Self, String> {
        if number > MAX_NUMBER {
            return Err(format!("slice {number} is over {MAX_NUMBER}"));
        }
        let wrong = |rule: String| format!("slice {number}: {rule}");
        let mut rest = content;
        let slice =
            Slice::read(taken(&mut rest, slice_bytes).map_err(wrong)?).map_err(|rule| wrong(rule.to_string()))?;
        let records = taken(&mut rest, 4 * slice.calls.len()).map_err(wrong)?;
        let entries = taken(&mut rest, ENTRY * template.holes.len()).map_err(wrong)?;
        if !rest.is_empty() {
            return Err(wrong(format!("{} bytes behind its content", rest.len())));
        }
        let slots = answering(&template).map_err(wrong)?;
        let mut calls = read_calls(&slice, &template, records).map_err(wrong)?;
        for (index, entry) in entries.as_chunks::<ENTRY>().0.iter().enumerate() {
            read_filling(&slice, &template, &mut calls, index, *entry)
                .map_err(|rule| wrong(format!("hole {index}: {rule}")))?;
        }
        let calls = calls
            .into_iter()
            .map(|made| made.map(|(record, fillings, fills)| Made { record, fillings: fillings.into(), fills }));
        let calls = calls.collect();
        Ok(Self {
            number,
            template,
            slice: Arc::new(slice),
            calls,
            slots: slots.into(),
            content: content.into(),
            slice_bytes,
        })
    }

    /// Begins the loop with these inputs.
    ///
    /// # Errors
    /// They are not as many bytes as the slice takes.
    pub(crate) fn begin(&self, inputs: &[u8]) -> Result<Evaluation, String> {
        let mut rest = inputs;
        let mut each = Vec::with_capacity(self.slice.inputs.len());
        for input in &self.slice.inputs {
            let Some((bytes, behind)) = rest.split_at_checked(input_size(&input.to)) else {
                break;
            };
            each.push(bytes);
            rest = behind;
        }
        let evaluation = if rest.is_empty() { Evaluation::begin(self.slice.clone(), &each) } else { None };
        evaluation.ok_or_else(|| format!("{} bytes of inputs are not those of slice {}", inputs.len(), self.number))
    }

    /// The loop with inputs that are all 0.
    pub(super) fn begin_blank(&self) -> Option<Evaluation> {
        let sizes = self.slice.inputs.iter().map(|input| input_size(&input.to));
        let blank: Vec<Vec<u8>> = sizes.map(|size| vec![0; size]).collect();
        Evaluation::begin(self.slice.clone(), &blank.iter().map(Vec::as_slice).collect::<Vec<_>>())
    }

    /// The SLICE that it came from.
    pub(super) fn record(&self) -> Vec<u8> {
        let mut writer = Writer::with_capacity(self.content.len() + 64);
        tape::operations::slice(&mut writer, self.number, self.template.number, self.slice_bytes as u32, &self.content);
        writer.as_slice().to_vec()
    }

    /// Makes the body's records answer into a slot.
    pub(crate) fn answer_into(&self, slot: u32, body: &mut [u8]) {
        for &at in &self.slots {
            body[at..at + 4].copy_from_slice(&slot.to_le_bytes());
        }
    }
}

const fn input_size(to: &Spot) -> usize {
    match to {
        Spot::Register { .. } => 8,
        Spot::Memory(place) => place.size as usize,
    }
}

/// So many bytes, and behind them zeros up to a multiple of 8.
fn taken<'a>(rest: &mut &'a [u8], size: usize) -> Result<&'a [u8], String> {
    let left = rest.len();
    let whole = rest.split_at_checked(size.next_multiple_of(8)).map(|(part, behind)| (part.split_at(size), behind));
    let Some(((part, padding), behind)) = whole else {
        return Err(format!("{size} bytes, padded, where {left} are left"));
    };
    if padding.iter().any(|&byte| byte != 0) {
        return Err("padding that is not 0".to_owned());
    }
    *rest = behind;
    Ok(part)
}

/// Where the slots of its records are that yield results.
fn answering(template: &Template) -> Result<Vec<usize>, String> {
    let mut slots = vec![];
    for (index, part) in template.parts.iter().enumerate() {
        let answers = match part.row.answer {
            Answer::None => false,
            Answer::Status | Answer::Data => true,
            Answer::Value => return Err(format!("record {index} is a {}, which yields a VALUE", part.row.name)),
        };
        if matches!(part.row.code, code::REPEAT | code::CONDITIONAL) {
            return Err(format!("record {index} is a {}", part.row.name));
        }
        if let Some(slot) = part.row.slot.filter(|_| answers) {
            let at = part.offset + slot;
            if template.holes.iter().any(|hole| hole.offset < at + 4 && hole.offset + usize::from(hole.width) > at) {
                return Err(format!("a hole in the slot of record {index}"));
            }
            slots.push(at);
        }
    }
    Ok(slots)
}

type Begun = (usize, Vec<Filling>, Option<Place>);

/// Which records the calls make.
fn read_calls(slice: &Slice, template: &Template, records: &[u8]) -> Result<Vec<Option<Begun>>, String> {
    let mut made_by = vec![None; template.parts.len()];
    let mut calls = Vec::with_capacity(slice.calls.len());
    for (index, (call, record)) in slice.calls.iter().zip(records.chunks_exact(4)).enumerate() {
        let record = u32::from_le_bytes(record.try_into().unwrap_or_default());
        if record == NO_RECORD {
            if call.fills.is_some() {
                return Err(format!("call {index} fills memory and makes no record"));
            }
            calls.push(None);
            continue;
        }
        let record = record as usize;
        let Some(part) = template.parts.get(record) else {
            return Err(format!("call {index} makes record {record} of {}", template.parts.len()));
        };
        if let Some(other) = made_by[record].replace(index) {
            return Err(format!("the calls {other} and {index} make record {record}"));
        }
        if call.fills.is_some() && part.row.code != code::READ {
            return Err(format!("call {index} fills memory and makes a {}", part.row.name));
        }
        calls.push(Some((record, vec![], call.fills)));
    }
    Ok(calls)
}

/// What is put into a hole.
fn read_filling(
    slice: &Slice,
    template: &Template,
    calls: &mut [Option<Begun>],
    index: usize,
    entry: [u8; ENTRY],
) -> Result<(), String> {
    let [call, call_high, part, argument, offset, offset_high, reserved @ ..] = entry;
    if reserved != [0; 2] {
        return Err("fields that are not defined".to_owned());
    }
    let (call, offset) = (u16::from_le_bytes([call, call_high]), u16::from_le_bytes([offset, offset_high]));
    let Some(called) = slice.calls.get(usize::from(call)) else {
        return Err(format!("call {call} of {}", slice.calls.len()));
    };
    let hole = template.holes[index];
    let filling = Filling::new(called, (part, argument), offset, hole.offset, hole.width)?;
    let Some((record, fillings, _)) = &mut calls[usize::from(call)] else {
        return Err("the call makes no record".to_owned());
    };
    if hole.record != *record {
        return Err(format!("it lies in record {}, the call makes record {record}", hole.record));
    }
    fillings.push(filling);
    Ok(())
}

/// The slices of a session.
#[derive(Default)]
pub(crate) struct Slices {
    entries: HashMap<u32, Arc<Sliced>>,
    bytes: usize,
}

impl Slices {
    /// A SLICE.
    pub(crate) fn define(&mut self, record: &Record<'_>, template: Arc<Template>) -> Result<(), String> {
        let sliced = Sliced::read(record.u32(8), template, record.u32(16) as usize, record.tail())?;
        let number = sliced.number;
        self.bytes += sliced.content.len();
        if let Some(before) = self.entries.insert(number, Arc::new(sliced)) {
            self.bytes -= before.content.len();
        }
        if self.bytes > MAX_CONTENT {
            return Err(format!("the session's slices have more than {MAX_CONTENT} bytes"));
        }
        Ok(())
    }

    /// In the order of their numbers.
    pub(super) fn all(&self) -> Vec<Arc<Sliced>> {
        let mut found: Vec<_> = self.entries.values().cloned().collect();
        found.sort_by_key(|sliced| sliced.number);
        found
    }

    /// The slice of this number.
    pub(crate) fn get(&self, number: u32) -> Result<Arc<Sliced>, String> {
        self.entries.get(&number).cloned().ok_or_else(|| format!("slice {number} was not given"))
    }

    /// The template is given anew: its slices end with it.
    pub(crate) fn forget(&mut self, template: u32) {
        let bytes = &mut self.bytes;
        self.entries.retain(|_, sliced| {
            let stays = sliced.template.number != template;
            *bytes -= if stays { 0 } else { sliced.content.len() };
            stays
        });
    }
}
