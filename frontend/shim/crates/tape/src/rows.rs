//! How a host reads a record: its header, and what the table alone says of it.
//!
//! Every record that breaks the table is refused here, by the rule that it broke; what fields mean is the caller's to
//! know. Source: protos/tape.md, "Records"; protos/tape.toml.

use crate::generated_rows::{place, ROWS};
use crate::{ALIGNMENT, HEADER_BYTES, MAX_RECORD_BYTES};

/// What an operation yields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    None,
    Status,
    Value,
    Data,
}

/// What an operation does to the plans of loops: work that a device repeats by itself, with the objects that it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plans {
    /// Every object of a plan is still there, and every launch still passes its checks.
    Keeps,
    /// It adds to what plans may be made of.
    Adds,
    /// An object of a plan may have ended.
    Ends,
}

/// One operation. Places are offsets from the record's start.
#[derive(Debug)]
pub struct Row {
    pub name: &'static str,
    pub code: u16,
    /// Bytes of header and fields.
    pub fixed: usize,
    /// Where the length of the tail stands (a u32), which follows the fields.
    pub tail: Option<usize>,
    pub reserved: Option<usize>,
    pub slot: Option<usize>,
    /// The record flags that are defined.
    pub flags: u16,
    pub answer: Answer,
    /// It touches no device.
    pub host_only: bool,
    /// Where there are several contexts, the error of one does not stop it.
    pub bookkeeping: bool,
    /// It may stand in a template's body.
    pub loops: bool,
    pub plans: Plans,
    /// The tape version that has it, and its flags.
    pub since: u32,
    pub flags_since: u32,
}

/// The row of an operation.
#[must_use]
pub fn row(code: u16) -> Option<&'static Row> {
    place(code).map(|place| &ROWS[place])
}

/// A record that obeys the table.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    pub row: &'static Row,
    pub flags: u16,
    /// All of it.
    pub bytes: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at `at`, which lies in `buffer` as a whole.
    ///
    /// # Errors
    /// The rule that it breaks, for a session of this tape version.
    pub fn read(buffer: &'a [u8], at: usize, version: u32) -> Result<Self, String> {
        let rest = &buffer[at..];
        let Some(header) = rest.first_chunk::<HEADER_BYTES>() else {
            return Err(format!("{} bytes where a record should begin", rest.len()));
        };
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let code = u16::from_le_bytes([header[4], header[5]]);
        let flags = u16::from_le_bytes([header[6], header[7]]);
        if length < HEADER_BYTES || !length.is_multiple_of(ALIGNMENT) || length > MAX_RECORD_BYTES {
            return Err(format!("a record of {length} bytes"));
        }
        if length > rest.len() {
            return Err(format!("a record of {length} bytes where {} are left", rest.len()));
        }
        let Some(row) = row(code) else {
            return Err(format!("unknown operation {code:#06x}"));
        };
        if version < if flags == 0 { row.since } else { row.flags_since } {
            return Err(format!("{} (flags {flags:#x}) in a session of tape version {version}", row.name));
        }
        let record = Self { row, flags, bytes: &rest[..length] };
        match record.broken() {
            None => Ok(record),
            Some(rule) => {
                Err(format!("malformed {} record at byte {at} (length {length}, flags {flags:#x}): {rule}", row.name))
            }
        }
    }

    fn broken(&self) -> Option<&'static str> {
        let (row, length) = (self.row, self.bytes.len());
        let fits = if row.tail.is_some() { length >= row.fixed } else { length == padded(row.fixed) };
        if !fits || self.flags & !row.flags != 0 {
            return Some("length or flags");
        }
        if row.reserved.is_some_and(|at| self.u32(at) != 0) {
            return Some("reserved is not 0");
        }
        if row.tail.is_some_and(|at| padded(row.fixed + self.u32(at) as usize) != length) {
            return Some("length of the tail");
        }
        None
    }

    /// The u32 at `at`.
    ///
    /// # Panics
    /// It is not in the record.
    #[must_use]
    pub fn u32(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.bytes[at..at + 4].try_into().unwrap_or_default())
    }

    /// The u64 at `at`.
    ///
    /// # Panics
    /// It is not in the record.
    #[must_use]
    pub fn u64(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().unwrap_or_default())
    }

    /// The slot that the result goes to.
    #[must_use]
    pub fn slot(&self) -> Option<u32> {
        self.row.slot.map(|at| self.u32(at))
    }

    /// What follows the fields, without padding.
    #[must_use]
    pub fn tail(&self) -> &'a [u8] {
        match self.row.tail {
            Some(at) => &self.bytes[self.row.fixed..self.row.fixed + self.u32(at) as usize],
            None => &[],
        }
    }
}

const fn padded(size: usize) -> usize {
    (size + ALIGNMENT - 1) & !(ALIGNMENT - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operations::{code, write};
    use crate::{Writer, VERSION};

    fn written() -> Vec<u8> {
        let mut writer = Writer::with_capacity(64);
        write(&mut writer, 0x1000, 8, 5, 1, 1, false, false, b"hello");
        writer.as_slice().to_vec()
    }

    #[test]
    fn a_record_is_read() {
        let bytes = written();
        let record = Record::read(&bytes, 0, VERSION).unwrap();
        assert_eq!((record.row.code, record.u64(8), record.tail()), (code::WRITE, 0x1000, &b"hello"[..]));
    }

    #[test]
    fn every_row_is_found_by_its_code() {
        for row in &ROWS {
            assert_eq!(super::row(row.code).map(|found| found.name), Some(row.name));
        }
    }

    /// A record of zeros, with a tail of 13 bytes where the operation has one.
    fn plain(row: &Row) -> Vec<u8> {
        let size = if row.tail.is_some() { 13 } else { 0 };
        let mut bytes = vec![0; padded(row.fixed + size)];
        let length = bytes.len() as u32;
        bytes[..4].copy_from_slice(&length.to_le_bytes());
        bytes[4..6].copy_from_slice(&row.code.to_le_bytes());
        if let Some(at) = row.tail {
            bytes[at] = size as u8;
        }
        bytes
    }

    #[test]
    fn records_that_break_the_table_are_refused() {
        for row in &ROWS {
            let whole = plain(row);
            let read = |bytes: &[u8]| Record::read(bytes, 0, VERSION).map(|record| record.tail().len());
            assert_eq!(read(&whole), Ok(if row.tail.is_some() { 13 } else { 0 }), "{}", row.name);
            for change in [-8_i32, 8, 16] {
                let mut changed = whole.clone();
                changed.resize(whole.len() + 16, 0);
                changed[..4].copy_from_slice(&(whole.len() as i32 + change).to_le_bytes());
                assert!(read(&changed).is_err(), "{} of {change} bytes more", row.name);
            }
            for bit in 0..16 {
                let mut changed = whole.clone();
                changed[6 + bit / 8] |= 1 << (bit % 8);
                assert_eq!(read(&changed).is_ok(), row.flags & (1 << bit) != 0, "{}, flag {bit}", row.name);
            }
            for at in row.reserved.into_iter().flat_map(|at| at..at + 4) {
                let mut changed = whole.clone();
                changed[at] = 1;
                assert!(read(&changed).unwrap_err().ends_with("reserved is not 0"), "{}", row.name);
            }
            let slack = whole.len() - row.fixed;
            for size in 0..=255 {
                let Some(at) = row.tail else { break };
                let mut changed = whole.clone();
                changed[at] = size as u8;
                let fits = padded(row.fixed + size) == whole.len();
                assert!(!fits || size <= slack, "{}", row.name);
                assert_eq!(read(&changed).ok(), fits.then_some(size), "{} with a tail of {size}", row.name);
            }
        }
    }

    /// Whatever bytes come, what is read lies inside of them.
    #[test]
    fn arbitrary_bytes_do_no_harm() {
        let valid = written();
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..100_000 {
            let mut bytes = valid.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 24) as u8;
            }
            bytes.truncate((state >> 40) as usize % (bytes.len() + 1));
            if let Ok(record) = Record::read(&bytes, 0, VERSION) {
                assert!(record.row.fixed + record.tail().len() <= record.bytes.len());
            }
        }
    }
}
