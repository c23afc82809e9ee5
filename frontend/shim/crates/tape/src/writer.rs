//! Appends records to a reusable buffer.
//!
//! A record is written by `record`, whose tail the caller fills, or it is `begin`, its fields in the table's order, at
//! most one tail (in one or more pieces), `end`. Generated encoders call these; hand-written code uses the latter where
//! a tail is gathered from several places. A record that turns out too long is not there afterwards, and remembered
//! until `take_oversized`, so that encoders need no error path and nothing that a host would refuse is ever sent.

use crate::{ALIGNMENT, HEADER_BYTES, MAX_RECORD_BYTES};
use std::fmt;

/// A record was longer than [`MAX_RECORD_BYTES`] and was not recorded: a caller forgot to cut bulk data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oversized {
    pub operation: u16,
    pub length: usize,
}

impl fmt::Display for Oversized {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { operation, length } = self;
        write!(f, "record of operation {operation:#06x} has {length} bytes, the limit is {MAX_RECORD_BYTES}")
    }
}

impl std::error::Error for Oversized {}

/// Bytes behind a record's fields that are zeroed whatever it has.
const SHORT: usize = 64;

/// Whole records, one behind the other, and perhaps one that is being written.
#[derive(Debug, Default)]
pub struct Writer {
    buffer: Vec<u8>,
    start: usize,
    oversized: Option<Oversized>,
}

impl Writer {
    #[must_use]
    pub const fn new() -> Self {
        Self { buffer: Vec::new(), start: 0, oversized: None }
    }

    #[must_use]
    pub fn with_capacity(bytes: usize) -> Self {
        Self { buffer: Vec::with_capacity(bytes), start: 0, oversized: None }
    }

    /// Bytes recorded so far, always a multiple of [`ALIGNMENT`] between records.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.buffer
    }

    /// Nothing has been begun that was not ended.
    #[inline]
    #[must_use]
    pub fn is_between_records(&self) -> bool {
        self.start == self.buffer.len()
    }

    /// Takes the records out and goes on with `empty` (cleared, its capacity kept).
    pub fn replace(&mut self, mut empty: Vec<u8>) -> Vec<u8> {
        empty.clear();
        self.start = 0;
        std::mem::replace(&mut self.buffer, empty)
    }

    /// Forgets everything behind `length`, which was a value of [`Writer::len`] between two records.
    pub fn truncate(&mut self, length: usize) {
        self.buffer.truncate(length);
        self.start = self.buffer.len();
    }

    /// Appends records that were written, whole, by another writer (or this one).
    #[inline]
    pub fn records(&mut self, whole: &[u8]) {
        self.buffer.extend_from_slice(whole);
        self.start = self.buffer.len();
    }

    /// The first record that `end` had to take back since the last call.
    #[inline]
    pub fn take_oversized(&mut self) -> Option<Oversized> {
        self.oversized.take()
    }

    /// Writes a record whole but for its tail: `tail` bytes, zero until the caller fills them. `None`: it would be too
    /// long.
    #[inline]
    pub fn record<const N: usize>(
        &mut self,
        operation: u16,
        flags: u16,
        fields: &[u8; N],
        tail: usize,
    ) -> Option<&mut [u8]> {
        if tail > MAX_RECORD_BYTES - HEADER_BYTES - N {
            self.refuse_long(operation, tail.saturating_add(HEADER_BYTES + N + ALIGNMENT - 1));
            return None;
        }
        let length = (HEADER_BYTES + N + tail).next_multiple_of(ALIGNMENT);
        let header = length as u64 | u64::from(operation) << 32 | u64::from(flags) << 48;
        let start = self.buffer.len();
        let behind = length - HEADER_BYTES - N;
        self.buffer.reserve(length + SHORT);
        // SAFETY: there is room for `length` bytes and `SHORT` more behind what is there; the `length` bytes are
        // written before they count.
        unsafe {
            let at = self.buffer.as_mut_ptr().add(start);
            at.cast::<[u8; HEADER_BYTES]>().write(header.to_le_bytes());
            at.add(HEADER_BYTES).cast::<[u8; N]>().write(*fields);
            // A fixed number of stores, without a call, for nearly all.
            at.add(HEADER_BYTES + N).write_bytes(0, SHORT);
            if behind > SHORT {
                at.add(HEADER_BYTES + N + SHORT).write_bytes(0, behind - SHORT);
            }
            self.buffer.set_len(start + length);
        }
        self.start = start + length;
        self.buffer.get_mut(start + HEADER_BYTES + N..start + HEADER_BYTES + N + tail)
    }

    #[cold]
    fn refuse_long(&mut self, operation: u16, length: usize) {
        self.oversized.get_or_insert(Oversized { operation, length: length / ALIGNMENT * ALIGNMENT });
    }

    /// Starts a record. `flags` is 0 unless the operation defines some.
    #[inline]
    pub fn begin(&mut self, operation: u16, flags: u16) {
        self.start = self.buffer.len();
        let header = u64::from(operation) << 32 | u64::from(flags) << 48;
        self.buffer.extend_from_slice(&header.to_le_bytes());
    }

    #[inline]
    pub fn u8(&mut self, value: u8) {
        self.buffer.push(value);
    }

    #[inline]
    pub fn u16(&mut self, value: u16) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    pub fn i32(&mut self, value: i32) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    #[inline]
    pub fn f32(&mut self, value: f32) {
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    /// A field of type `u32[N]`.
    #[inline]
    pub fn u32s<const N: usize>(&mut self, values: [u32; N]) {
        for value in values {
            self.u32(value);
        }
    }

    /// A field of type `bytes[N]`, or a piece of the tail.
    #[inline]
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// `length` bytes of the tail to be filled in by the caller; zero until then.
    #[inline]
    pub fn space(&mut self, length: usize) -> &mut [u8] {
        let at = self.buffer.len();
        self.buffer.resize(at + length, 0);
        &mut self.buffer[at..]
    }

    /// Pads the record and fills in its length, or takes it back when it is too long.
    #[inline]
    pub fn end(&mut self) {
        let end = self.buffer.len().next_multiple_of(ALIGNMENT);
        let length = end - self.start;
        if !(HEADER_BYTES..=MAX_RECORD_BYTES).contains(&length) {
            self.refuse(length);
            return;
        }
        if end != self.buffer.len() {
            self.buffer.resize(end, 0);
        }
        let start = self.start;
        #[allow(clippy::cast_possible_truncation)] // at most MAX_RECORD_BYTES
        self.buffer[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
        self.start = end;
    }

    #[cold]
    fn refuse(&mut self, length: usize) {
        let operation = match self.buffer.get(self.start + 4..self.start + 6) {
            Some(code) => u16::from_le_bytes([code[0], code[1]]),
            None => 0, // `end` without `begin`
        };
        self.oversized.get_or_insert(Oversized { operation, length });
        self.buffer.truncate(self.start);
    }
}

/// The length field of the record that starts `records`.
#[must_use]
pub fn record_length(records: &[u8]) -> Option<usize> {
    let bytes = records.first_chunk::<4>()?;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

/// Bytes of the longest run of whole records at the start of `records` that has at most `limit` bytes.
#[must_use]
pub fn whole_records(records: &[u8], limit: usize) -> usize {
    if records.len() <= limit {
        return records.len();
    }
    let mut end = 0;
    while let Some(length) = record_length(&records[end..]) {
        if length < HEADER_BYTES || end + length > limit || end + length > records.len() {
            break;
        }
        end += length;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_padded_and_its_length_filled_in() {
        let mut writer = Writer::new();
        writer.begin(0x0042, 0);
        writer.u32(3);
        writer.u32(0);
        writer.bytes(b"abc");
        writer.end();
        let expected = [24, 0, 0, 0, 0x42, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c', 0, 0, 0, 0, 0];
        assert_eq!(writer.as_slice(), expected);
    }

    #[test]
    fn a_record_at_once_has_the_bytes_of_one_in_pieces() {
        let (mut whole, mut pieces) = (Writer::new(), Writer::new());
        // What was there before is not what a tail holds.
        whole.bytes(&[0xff; 4096]);
        whole.truncate(0);
        for tail in [0, 1, 7, 8, 40, 55, 56, 57, 64, 65, 200, 1000] {
            let filled: Vec<u8> = (0..tail).map(|index| index as u8 | 1).collect();
            for gap in [0, tail / 2] {
                let room = whole.record(0x0050, 2, &[9; 12], tail).expect("not too long");
                assert!(room.len() == tail && room.iter().all(|byte| *byte == 0), "{tail}");
                room[gap..].copy_from_slice(&filled[gap..]);
                pieces.begin(0x0050, 2);
                pieces.bytes(&[9; 12]);
                pieces.space(tail)[gap..].copy_from_slice(&filled[gap..]);
                pieces.end();
                assert!(whole.is_between_records());
                assert_eq!(whole.as_slice(), pieces.as_slice(), "{tail} {gap}");
            }
        }
    }

    #[test]
    fn a_record_that_would_be_too_long_is_not_written() {
        let mut writer = Writer::new();
        assert!(writer.record(3, 0, &[0; 16], MAX_RECORD_BYTES - HEADER_BYTES - 16).is_some());
        assert_eq!((writer.len(), writer.take_oversized()), (MAX_RECORD_BYTES, None), "exactly the limit is allowed");
        for tail in [MAX_RECORD_BYTES - HEADER_BYTES - 15, usize::MAX - 100] {
            assert!(writer.record(3, 0, &[0; 16], tail).is_none());
            let refused = writer.take_oversized().expect("refused");
            assert!(refused.operation == 3 && refused.length > MAX_RECORD_BYTES);
            assert!(writer.len() == MAX_RECORD_BYTES && writer.is_between_records());
        }
    }

    #[test]
    fn oversized_record_is_taken_back_and_named() {
        let mut writer = Writer::new();
        writer.begin(1, 0);
        writer.end();
        writer.begin(0x0042, 0);
        writer.space(MAX_RECORD_BYTES - HEADER_BYTES);
        writer.end();
        assert_eq!(writer.take_oversized(), None, "exactly the limit is allowed");
        writer.begin(0x0013, 7);
        writer.space(MAX_RECORD_BYTES - HEADER_BYTES + 1);
        writer.end();
        assert_eq!(writer.len(), 8 + MAX_RECORD_BYTES);
        let refused = writer.take_oversized().expect("refused");
        assert_eq!((refused.operation, refused.length), (0x0013, MAX_RECORD_BYTES + 8));
        assert_eq!(writer.take_oversized(), None);
        writer.begin(2, 1);
        writer.end();
        assert_eq!(&writer.as_slice()[8 + MAX_RECORD_BYTES..], [8, 0, 0, 0, 2, 0, 1, 0]);
    }

    #[test]
    fn end_without_begin_is_harmless() {
        let mut writer = Writer::new();
        writer.end();
        assert!(writer.take_oversized().is_some());
        assert!(writer.is_empty());
    }

    #[test]
    fn replace_keeps_the_capacity_of_the_spare() {
        let mut writer = Writer::new();
        writer.begin(1, 0);
        writer.end();
        let records = writer.replace(Vec::with_capacity(4096));
        assert_eq!(records.len(), 8);
        assert!(writer.is_empty());
        writer.begin(2, 0);
        writer.end();
        assert_eq!(writer.as_slice(), [8, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(writer.replace(Vec::new()).capacity(), 4096);
    }

    #[test]
    fn whole_records_cuts_between_records() {
        let mut writer = Writer::new();
        for size in [0, 8, 16] {
            writer.begin(1, 0);
            writer.space(size);
            writer.end();
        }
        let records = writer.as_slice();
        let cuts: Vec<usize> = [0, 7, 8, 23, 24, 47, 48, 100].iter().map(|&l| whole_records(records, l)).collect();
        assert_eq!(cuts, [0, 0, 8, 8, 24, 24, 48, 48]);
    }
}
