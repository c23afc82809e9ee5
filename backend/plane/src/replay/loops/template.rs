//! A loop's body: a TEMPLATE's content, checked once, and filled for each iteration.
//!
//! Every rule of tape.md about a template that its bytes alone decide is checked here, and never again: holes are
//! neither in headers nor in lengths. What the records do is not known here; which templates a session has is the
//! store's.
//!
//! Source: protos/tape.md, "Loops".

use super::columns::{check_repetitions, read_headers, Header};
use std::collections::BTreeSet;
use std::sync::Arc;
use tape::operations::code;
use tape::{Answer, Record, Row, Writer, HEADER_BYTES, MAX_BODY_BYTES, MAX_HOLES, MAX_LEVELS};

pub const MAX_NUMBER: u32 = 4095;
/// REPEAT's flag.
pub const CONTINUED: u16 = 1;
/// Bytes of a REPEAT's header and fields.
pub const REPEAT_FIXED: usize = 24;
/// Where a REPEAT's count is.
pub const REPEAT_COUNT: usize = 16;
/// Where a REPEAT names its template, a field that no hole may change.
const REPEAT_TEMPLATE: usize = 8;
const HOLE: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hole {
    /// In the body.
    pub offset: usize,
    pub width: u8,
    /// Which record it lies in.
    pub record: usize,
}

/// A REPEAT in a body.
#[derive(Debug)]
pub struct Inner {
    pub template: Arc<Template>,
    pub headers: Box<[Header]>,
}

/// One record of a body.
#[derive(Debug)]
pub struct Part {
    pub offset: usize,
    pub length: usize,
    pub row: &'static Row,
    pub flags: u16,
    /// Of a REPEAT.
    pub inner: Option<Inner>,
    /// A hole may put something into its reserved field.
    guarded: bool,
}

impl Part {
    /// The record of an iteration, whose records are `body`.
    ///
    /// # Errors
    /// The rule that it breaks with what the holes hold.
    pub fn record<'a>(&self, body: &'a [u8], version: u32) -> Result<Record<'a>, String> {
        let end = self.offset + self.length;
        if self.guarded {
            return Record::read(&body[..end], self.offset, version);
        }
        Ok(Record { row: self.row, flags: self.flags, bytes: &body[self.offset..end] })
    }
}

/// A checked body.
#[derive(Debug)]
pub struct Template {
    pub number: u32,
    pub body: Box<[u8]>,
    pub holes: Box<[Hole]>,
    pub parts: Box<[Part]>,
    /// Of the holes.
    pub widths: Box<[u8]>,
    /// Of the content it came from.
    pub size: usize,
    /// Whether its records yield results.
    pub answers: bool,
    pub launches: bool,
    /// Whether its records make allocations, or end them.
    pub allocates: bool,
    pub levels: usize,
}

impl Template {
    /// Checks a TEMPLATE's content. `known` finds the templates of inner loops.
    ///
    /// # Errors
    /// The rule of tape.md that it breaks.
    pub fn read(
        number: u32,
        holes: u32,
        content: &[u8],
        version: u32,
        known: impl Fn(u32) -> Result<Arc<Template>, String>,
    ) -> Result<Self, String> {
        if number > MAX_NUMBER {
            return Err(format!("template {number} is over {MAX_NUMBER}"));
        }
        let entries = holes as usize * HOLE;
        if holes as usize > MAX_HOLES || entries > content.len() {
            return Err(format!("template {number} of {} bytes has {holes} holes", content.len()));
        }
        let (entries, body) = content.split_at(entries);
        if body.is_empty() || body.len() > MAX_BODY_BYTES {
            return Err(format!("template {number} has a body of {} bytes", body.len()));
        }
        let mut parts = read_parts(body, version, known)?;
        let holes = read_holes(entries, body, &mut parts)?;
        let any = |of: &dyn Fn(&Part) -> bool| parts.iter().any(of);
        let inner = |part: &Part, of: &dyn Fn(&Template) -> bool| part.inner.as_ref().map(|inner| of(&inner.template));
        let template = Self {
            number,
            answers: any(&|part| inner(part, &|inner| inner.answers).unwrap_or(part.row.answer != Answer::None)),
            launches: any(&|part| inner(part, &|inner| inner.launches).unwrap_or(part.row.code == code::LAUNCH)),
            allocates: any(&|part| {
                let own = matches!(part.row.code, code::ALLOCATE | code::FREE);
                inner(part, &|inner| inner.allocates).unwrap_or(own)
            }),
            levels: 1 + parts.iter().flat_map(|part| &part.inner).map(|inner| inner.template.levels).max().unwrap_or(0),
            body: body.into(),
            widths: holes.iter().map(|hole| hole.width).collect(),
            holes: holes.into(),
            parts: parts.into(),
            size: content.len(),
        };
        if template.levels > usize::from(MAX_LEVELS) {
            return Err(format!("template {number} is a loop of {} levels", template.levels));
        }
        template.check_inner_counts()?;
        Ok(template)
    }

    /// The TEMPLATE that it came from.
    pub(super) fn record(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(self.size);
        for hole in &self.holes {
            content.extend_from_slice(&(hole.offset as u32).to_le_bytes());
            content.extend_from_slice(&[hole.width, 0, 0, 0]);
        }
        content.extend_from_slice(&self.body);
        let mut writer = Writer::with_capacity(content.len() + 64);
        tape::operations::template(&mut writer, self.number, self.holes.len() as u32, &content);
        writer.as_slice().to_vec()
    }

    /// The numbers of the templates that it repeats.
    pub(super) fn contains(&self) -> BTreeSet<u32> {
        self.parts.iter().flat_map(|part| &part.inner).map(|inner| inner.template.number).collect()
    }

    /// An inner loop's count, where it is no hole.
    fn check_inner_counts(&self) -> Result<(), String> {
        for part in &self.parts {
            let Some(inner) = &part.inner else {
                continue;
            };
            let at = part.offset + REPEAT_COUNT;
            let next = self.holes.partition_point(|hole| hole.offset < at);
            if self.holes.get(next).is_none_or(|hole| hole.offset >= at + 8) {
                check_repetitions(&inner.headers, u64_at(&self.body, at))?;
            }
        }
        Ok(())
    }
}

pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}

fn read_parts(
    body: &[u8],
    version: u32,
    known: impl Fn(u32) -> Result<Arc<Template>, String>,
) -> Result<Vec<Part>, String> {
    let mut parts = vec![];
    let mut at = 0;
    while at < body.len() {
        let left = body.len() - at;
        let Some(header) = body[at..].first_chunk::<HEADER_BYTES>() else {
            return Err(format!("{left} bytes of a template's body where a record should begin"));
        };
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let operation = u16::from_le_bytes([header[4], header[5]]);
        let flags = u16::from_le_bytes([header[6], header[7]]);
        if length < HEADER_BYTES || !length.is_multiple_of(8) || length > left {
            return Err(format!("a record of {length} bytes where a template's body has {left} left"));
        }
        let Some(row) = tape::rows::row(operation) else {
            return Err(format!("unknown operation {operation:#06x} in a template"));
        };
        if !row.loops || (operation == code::REPEAT && flags & CONTINUED != 0) {
            return Err(format!("{} (flags {flags:#x}) has no place in a template", row.name));
        }
        let record = Record::read(body, at, version)?;
        let inner = if operation == code::REPEAT {
            let template = known(record.u32(REPEAT_TEMPLATE))?;
            let headers = read_headers(record.tail(), &template.widths)?.into();
            Some(Inner { template, headers })
        } else {
            None
        };
        parts.push(Part { offset: at, length, row, flags, inner, guarded: false });
        at += length;
    }
    Ok(parts)
}

fn read_holes(entries: &[u8], body: &[u8], parts: &mut [Part]) -> Result<Vec<Hole>, String> {
    let mut holes: Vec<Hole> = Vec::with_capacity(entries.len() / HOLE);
    let (mut end, mut record) = (0, 0);
    let mut allowed = vec![];
    let mut spans = usize::MAX; // the record that `allowed` is of
    for (index, entry) in entries.chunks_exact(HOLE).enumerate() {
        let offset = u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]) as usize;
        let width = entry[4];
        if !matches!(width, 1 | 2 | 4 | 8) || !offset.is_multiple_of(usize::from(width)) || entry[5..] != [0; 3] {
            return Err(format!("hole {index}: {width} bytes at {offset}"));
        }
        let begin = end;
        end = offset + usize::from(width);
        if offset < begin || end > body.len() {
            return Err(format!("hole {index} at {offset} is out of order, or beyond the body's {} bytes", body.len()));
        }
        while offset >= parts[record].offset + parts[record].length {
            record += 1;
        }
        let part = &mut parts[record];
        if spans != record {
            (allowed, spans) = (places(body, part), record);
        }
        if !allowed.iter().any(|&(first, last)| first <= offset && end <= last) {
            return Err(format!("hole {index} at {offset} lies where {} may have none", part.row.name));
        }
        if body[offset..end].iter().any(|&byte| byte != 0) {
            return Err(format!("hole {index} at {offset} is not 0 in the body"));
        }
        part.guarded |= part.row.reserved.is_some_and(|at| offset < part.offset + at + 4 && end > part.offset + at);
        holes.push(Hole { offset, width, record });
    }
    Ok(holes)
}

/// The ranges of the body in which a record may have holes: not its header, not the length of its tail, not the
/// template of a REPEAT.
fn places(body: &[u8], part: &Part) -> Vec<(usize, usize)> {
    let (start, row) = (part.offset, part.row);
    let fixed = start + row.fixed;
    let Some(length) = row.tail else {
        return vec![(start + HEADER_BYTES, fixed)];
    };
    let Some(inner) = &part.inner else {
        let at = start + length;
        let size = u32::from_le_bytes(body[at..at + 4].try_into().unwrap_or_default()) as usize;
        return vec![(start + HEADER_BYTES, at), (at + 4, fixed + size)]; // the tail is directly behind the fields
    };
    let values = inner.headers.iter().map(|header| (fixed + header.begin as usize, fixed + header.end as usize));
    std::iter::once((start + REPEAT_COUNT, fixed)).chain(values).collect()
}
