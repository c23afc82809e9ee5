//! What of a record may change from one iteration to the next: where holes may lie.
//!
//! Source: `protos/tape.md`, "Loops", and `protos/tape.toml`, from which [`tape::operations::layout`] is generated.

use tape::operations::{code, fixed_bytes, Layout};
use tape::{ALIGNMENT, HEADER_BYTES};

/// Bytes `[start, end)` of a record in which holes of at most `width` bytes may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) width: usize,
}

/// Where REPEAT has its fields; its columns are described by its template.
pub(crate) const REPEAT_COLUMNS: usize = fixed_bytes::REPEAT;
pub(crate) const REPEAT_COUNT: usize = REPEAT_COLUMNS - 8;

/// The layout of an operation that may stand in a body; `None` for the others. REPEAT follows from its template.
pub(crate) const fn layout(operation: u16) -> Option<Layout> {
    if operation == code::REPEAT {
        None
    } else {
        tape::operations::layout(operation)
    }
}

/// The operation of a record.
#[inline]
pub(crate) fn operation(record: &[u8]) -> u16 {
    match record.get(4..6) {
        Some(bytes) => u16::from_le_bytes([bytes[0], bytes[1]]),
        None => 0,
    }
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The little-endian number of `width` bytes.
#[inline]
pub(crate) fn read(bytes: &[u8], at: usize, width: usize) -> u64 {
    match width {
        8 => u64_at(bytes, at),
        4 => u64::from(u32_at(bytes, at)),
        2 => u64::from(bytes[at]) | u64::from(bytes[at + 1]) << 8,
        _ => u64::from(bytes[at]),
    }
}

#[inline]
pub(crate) fn write(bytes: &mut [u8], at: usize, width: usize, value: u64) {
    let value = value.to_le_bytes();
    match width {
        // Nearly all holes: one store, no call.
        8 => bytes[at..at + 8].copy_from_slice(&value),
        4 => bytes[at..at + 4].copy_from_slice(&value[..4]),
        _ => bytes[at..at + width].copy_from_slice(&value[..width]),
    }
}

/// All ones in the low `width` bytes.
#[inline]
pub(crate) const fn mask(width: usize) -> u64 {
    match width {
        8 => u64::MAX,
        4 => 0xffff_ffff,
        2 => 0xffff,
        _ => 0xff,
    }
}

/// The zones of a record that is no REPEAT.
pub(crate) fn zones(record: &[u8], zones: &mut Vec<Zone>) {
    zones.clear();
    let Some(layout) = layout(operation(record)) else { return };
    let one = |&(start, end, width): &(u8, u8, u8)| Zone { start: start.into(), end: end.into(), width: width.into() };
    zones.extend(layout.fields.iter().map(one));
    if let Some((length_at, start)) = layout.tail {
        let end = usize::from(start) + u32_at(record, length_at.into()) as usize;
        zones.push(Zone { start: start.into(), end: end.min(record.len()), width: 8 });
    }
}

/// The zones of a REPEAT whose template's holes have these widths: its count, and the values of its columns.
pub(crate) fn repeat_zones(record: &[u8], widths: impl Iterator<Item = usize>, zones: &mut Vec<Zone>) {
    zones.clear();
    zones.push(Zone { start: REPEAT_COUNT, end: REPEAT_COUNT + 8, width: 8 });
    let mut at = REPEAT_COLUMNS;
    for width in widths {
        if at + HEADER_BYTES > record.len() {
            return;
        }
        let number = u32_at(record, at + 4) as usize;
        let values = at + 8;
        let (bytes, width) = match record[at] {
            0 => (16, 8),
            1 | 2 => (number * width, width),
            _ => (usize::from(record[at + 1]) * width, width),
        };
        zones.push(Zone { start: values, end: (values + bytes).min(record.len()), width });
        at = values + bytes.next_multiple_of(ALIGNMENT);
    }
}
