//! What a slice's calls put into the holes of records: the same bytes on the host, which makes the records, and in the guest, which compares
//! them.

use crate::form::{Call, Place, Spot};
use crate::Evaluation;

/// A hole, and what a call puts into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Filling {
    from: Spot,
    /// Bits of the value below the hole's.
    shift: u32,
    /// In the records.
    at: usize,
    width: usize,
}

impl Filling {
    /// `width` bytes at `at` in the records are those at `offset` in a value of the call: part 0, an argument; part 1 (with the argument 0),
    /// what it copies to the device.
    ///
    /// # Errors
    /// What is wrong: the call has no such value, or that not as many bytes.
    pub fn new(call: &Call, (part, argument): (u8, u8), offset: u16, at: usize, width: u8) -> Result<Self, String> {
        let value = match (part, argument) {
            (0, _) => call.arguments.get(usize::from(argument)).map(|argument| argument.value),
            (1, 0) => call.source.map(Spot::Memory),
            _ => None,
        };
        let value = value.ok_or_else(|| format!("the call has no part {part} with the argument {argument}"))?;
        let size = value.size();
        let bytes = u16::from(width);
        if offset.checked_add(bytes).is_none_or(|end| end > size) {
            return Err(format!("{bytes} bytes at {offset} of a value of {size}"));
        }
        let (from, shift) = match value {
            Spot::Register { .. } => (value, 8 * u32::from(offset)),
            Spot::Memory(place) => (Spot::Memory(Place { offset: place.offset + offset, size: bytes }), 0),
        };
        Ok(Self { from, shift, at, width: width.into() })
    }

    /// The value that it asks a call for.
    #[must_use]
    pub const fn asked(&self) -> Spot {
        self.from
    }

    /// Puts the value, as the call is made, into the records.
    pub fn fill(&self, evaluation: &Evaluation, records: &mut [u8]) {
        let value = evaluation.number(self.from).unwrap_or_default() >> self.shift;
        records[self.at..self.at + self.width].copy_from_slice(&value.to_le_bytes()[..self.width]);
    }
}
