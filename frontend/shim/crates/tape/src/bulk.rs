//! A plain WRITE apart from its data: the sender of bulk data takes it from where it is, the receiver puts it where it belongs.
//!
//! Source: `protos/tape.md`, "Records"; `tape.toml`, WRITE.

use crate::operations::{code, fixed_bytes, write};
use crate::{Writer, ALIGNMENT, MAX_RECORD_BYTES, MAX_TAIL_BYTES};

/// Data of so many bytes are worth a message of their own, which the receiver takes while the sender still writes it.
pub const BULK_BYTES: usize = 64 << 10;

/// The fields of a WRITE without flags, whose data are so many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteHead {
    pub address: u64,
    pub pitch: u64,
    pub width: u64,
    pub height: u64,
    pub stream: u32,
    pub data_bytes: usize,
}

impl WriteHead {
    pub const BYTES: usize = fixed_bytes::WRITE;

    /// The record's length: head, data and padding.
    #[must_use]
    pub const fn record_bytes(&self) -> usize {
        (Self::BYTES + self.data_bytes).next_multiple_of(ALIGNMENT)
    }

    /// Zeros behind the data.
    #[must_use]
    pub const fn padding(&self) -> usize {
        self.record_bytes() - Self::BYTES - self.data_bytes
    }

    /// The record's bytes in front of the data. `None`: they are too many for a record.
    #[must_use]
    pub fn to_bytes(&self) -> Option<[u8; Self::BYTES]> {
        if self.data_bytes > MAX_TAIL_BYTES {
            return None;
        }
        let mut writer = Writer::with_capacity(2 * Self::BYTES);
        write(&mut writer, self.address, self.pitch, self.width, self.height, self.stream, false, false, &[]);
        let mut bytes: [u8; Self::BYTES] = *writer.as_slice().first_chunk()?;
        bytes[..4].copy_from_slice(&u32::try_from(self.record_bytes()).ok()?.to_le_bytes());
        bytes[44..].copy_from_slice(&u32::try_from(self.data_bytes).ok()?.to_le_bytes());
        Some(bytes)
    }

    /// What `to_bytes` writes. `None`: another record, flags, or lengths that contradict each other.
    #[must_use]
    pub fn read(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let u32_at = |at: usize| u32::from_le_bytes(std::array::from_fn(|number| bytes[at + number]));
        let u64_at = |at: usize| u64::from_le_bytes(std::array::from_fn(|number| bytes[at + number]));
        let head = Self {
            address: u64_at(8),
            pitch: u64_at(16),
            width: u64_at(24),
            height: u64_at(32),
            stream: u32_at(40),
            data_bytes: u32_at(44) as usize,
        };
        let plain = u32_at(4) == u32::from(code::WRITE);
        (plain && u32_at(0) as usize == head.record_bytes() && head.record_bytes() <= MAX_RECORD_BYTES).then_some(head)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_the_beginning_of_the_record() {
        for size in [0, 1, 8, 65_537, MAX_TAIL_BYTES] {
            let head =
                WriteHead { address: 1 << 40, pitch: 0, width: size as u64, height: 1, stream: 9, data_bytes: size };
            let data = vec![7; size];
            let mut writer = Writer::new();
            write(&mut writer, head.address, 0, head.width, 1, 9, false, false, &data);
            let bytes = head.to_bytes().unwrap();
            let whole = [&bytes[..], &data, &vec![0; head.padding()]].concat();
            assert!(whole == writer.as_slice(), "{size} bytes");
            assert_eq!(WriteHead::read(&bytes), Some(head));
        }
        let long = WriteHead { address: 0, pitch: 0, width: 0, height: 1, stream: 0, data_bytes: MAX_TAIL_BYTES + 1 };
        assert_eq!(long.to_bytes(), None);
    }

    #[test]
    fn what_is_no_plain_write_is_none() {
        let head = WriteHead { address: 0x5000, pitch: 0, width: 100, height: 1, stream: 1, data_bytes: 100 };
        let bytes = head.to_bytes().unwrap();
        for (at, byte) in [(0, 1), (3, 1), (4, 0x12), (5, 1), (6, 1), (44, 109), (47, 1)] {
            let mut changed = bytes;
            changed[at] = byte;
            assert_eq!(WriteHead::read(&changed), None, "byte {at}");
        }
    }
}
