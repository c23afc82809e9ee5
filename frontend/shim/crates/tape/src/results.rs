//! Reads result records. The bytes come from a host that is not trusted: every length is checked, nothing panics.
//!
//! Strict where the page is strict: flags and reserved fields are 0, a record ends with its padding, a DATA record that
//! carries an error carries no data. After the first error the reader ends.

use crate::{ALIGNMENT, MAX_RECORD_BYTES};
use std::fmt;

const PREFIX_BYTES: usize = 16;
const VALUE_BYTES: usize = 24;
const DATA_BYTES: usize = 32;

const STATUS: u16 = 1;
const VALUE: u16 = 2;
const DATA: u16 = 3;

/// One result, borrowed from the message it came in. `error` is a `cudaError_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultRecord<'a> {
    Status { slot: u32, error: i32 },
    Value { slot: u32, error: i32, value: u64 },
    Data { slot: u32, error: i32, offset: u64, data: &'a [u8] },
}

impl ResultRecord<'_> {
    #[must_use]
    pub fn slot(&self) -> u32 {
        match *self {
            Self::Status { slot, .. } | Self::Value { slot, .. } | Self::Data { slot, .. } => slot,
        }
    }

    #[must_use]
    pub fn error(&self) -> i32 {
        match *self {
            Self::Status { error, .. } | Self::Value { error, .. } | Self::Data { error, .. } => error,
        }
    }
}

/// Why bytes are not result records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResultError {
    /// Fewer bytes are left than a result has.
    Truncated {
        left: usize,
    },
    /// The length field is no multiple of 8, too small for the kind, too large, or does not fit the data.
    Length {
        length: usize,
    },
    Kind(u16),
    Flags(u16),
    /// A reserved field is not 0.
    Reserved(u32),
    /// A DATA record with both an error and data.
    DataBesideError(i32),
}

impl fmt::Display for ResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { left } => write!(f, "truncated result record ({left} bytes left)"),
            Self::Length { length } => write!(f, "result record with an impossible length ({length})"),
            Self::Kind(kind) => write!(f, "unknown kind of result ({kind})"),
            Self::Flags(flags) => write!(f, "result record with unknown flags ({flags:#06x})"),
            Self::Reserved(value) => write!(f, "result record whose reserved field is {value:#x}"),
            Self::DataBesideError(error) => write!(f, "result record with error {error} and data"),
        }
    }
}

impl std::error::Error for ResultError {}

/// Iterates over the result records of one `Reply.results`.
#[derive(Debug, Clone)]
pub struct Results<'a> {
    rest: &'a [u8],
}

impl<'a> Results<'a> {
    #[must_use]
    pub fn new(results: &'a [u8]) -> Self {
        Self { rest: results }
    }

    fn take(&mut self) -> Result<ResultRecord<'a>, ResultError> {
        let left = self.rest.len();
        if left < PREFIX_BYTES {
            return Err(ResultError::Truncated { left });
        }
        let length = u32_at(self.rest, 0) as usize;
        if !length.is_multiple_of(ALIGNMENT) || !(PREFIX_BYTES..=MAX_RECORD_BYTES).contains(&length) {
            return Err(ResultError::Length { length });
        }
        if length > left {
            return Err(ResultError::Truncated { left });
        }
        let (record, rest) = self.rest.split_at(length);
        let parsed = parse(record)?;
        self.rest = rest;
        Ok(parsed)
    }
}

impl<'a> Iterator for Results<'a> {
    type Item = Result<ResultRecord<'a>, ResultError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let taken = self.take();
        if taken.is_err() {
            self.rest = &[];
        }
        Some(taken)
    }
}

/// The beginning of a DATA record without an error, whose data are not looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataHead {
    pub slot: u32,
    pub offset: u64,
    pub data_bytes: usize,
    /// The whole record's.
    pub record_bytes: usize,
}

impl DataHead {
    /// Its bytes in front of the data.
    pub const BYTES: usize = DATA_BYTES;

    /// `None`: what begins with these bytes is no such record.
    #[must_use]
    pub fn read(bytes: &[u8; DATA_BYTES]) -> Option<Self> {
        let (record_bytes, data_bytes) = (u32_at(bytes, 0) as usize, u32_at(bytes, 24) as usize);
        let sound = u16_at(bytes, 4) == DATA
            && [u16_at(bytes, 6).into(), u32_at(bytes, 12), u32_at(bytes, 28)] == [0; 3]
            && record_bytes <= MAX_RECORD_BYTES
            && data_bytes <= record_bytes
            && (DATA_BYTES + data_bytes).next_multiple_of(ALIGNMENT) == record_bytes;
        let head = Self { slot: u32_at(bytes, 8), offset: u64_at(bytes, 16), data_bytes, record_bytes };
        sound.then_some(head)
    }
}

/// `record` has exactly the bytes its length field says, at least the common prefix.
fn parse(record: &[u8]) -> Result<ResultRecord<'_>, ResultError> {
    let length = record.len();
    let kind = u16_at(record, 4);
    let flags = u16_at(record, 6);
    if flags != 0 {
        return Err(ResultError::Flags(flags));
    }
    let slot = u32_at(record, 8);
    let error = u32_at(record, 12).cast_signed();
    match kind {
        STATUS if length == PREFIX_BYTES => Ok(ResultRecord::Status { slot, error }),
        VALUE if length == VALUE_BYTES => Ok(ResultRecord::Value { slot, error, value: u64_at(record, 16) }),
        DATA if length >= DATA_BYTES => {
            let data_bytes = u32_at(record, 24) as usize;
            let reserved = u32_at(record, 28);
            if reserved != 0 {
                return Err(ResultError::Reserved(reserved));
            }
            if data_bytes > length || (DATA_BYTES + data_bytes).next_multiple_of(ALIGNMENT) != length {
                return Err(ResultError::Length { length });
            }
            if error != 0 && data_bytes != 0 {
                return Err(ResultError::DataBesideError(error));
            }
            let data = &record[DATA_BYTES..DATA_BYTES + data_bytes];
            Ok(ResultRecord::Data { slot, error, offset: u64_at(record, 16), data })
        }
        STATUS | VALUE | DATA => Err(ResultError::Length { length }),
        unknown => Err(ResultError::Kind(unknown)),
    }
}

// The callers have checked that `at` and the bytes behind it lie inside.

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}
