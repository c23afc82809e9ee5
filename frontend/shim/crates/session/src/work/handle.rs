//! The values that the program holds as `cudaStream_t`, `cudaEvent_t`, `cudaMemPool_t` and the handles of graphs, and
//! the numbers they stand for.
//!
//! A value is a tag above a 32-bit number. The tags make it a non-canonical address on x86-64 and an unmapped one
//! elsewhere: a program that wrongly dereferences a handle faults at once instead of reading something. An event is
//! never taken for a stream. Numbers (`process::mint`) are never reused, so that a destroyed handle stays invalid.

const NUMBER_BITS: u32 = 32;
/// Numbers below are the tape's own.
const FIRST: u32 = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub enum Tag {
    Stream = 0x00F5_7A3E,
    Event = 0x00F5_7E7E,
    Pool = 0x00F5_7B0B,
    Graph = 0x00F5_6A9A,
    GraphNode = 0x00F5_6A0D,
    GraphExec = 0x00F5_6AEC,
    UserObject = 0x00F5_0B1E,
    Array = 0x00F5_A77A,
    MipmappedArray = 0x00F5_A717,
    Context = 0x00F5_C0C0,
}

/// The opaque value of a handle.
pub fn encode(tag: Tag, number: u32) -> usize {
    ((tag as u64) << NUMBER_BITS | u64::from(number)) as usize
}

/// The number, when the value is a handle of that kind (alive or not).
pub fn decode(tag: Tag, value: usize) -> Option<u32> {
    let value = value as u64;
    let number = (value & u64::from(u32::MAX)) as u32;
    (value >> NUMBER_BITS == tag as u64 && number >= FIRST).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn handles_keep_their_number_and_their_kind() {
        for number in [FIRST, 17, (1 << 31) - 1] {
            let value = encode(Tag::Stream, number);
            assert_eq!(decode(Tag::Stream, value), Some(number));
            assert_eq!(decode(Tag::Event, value), None);
            let top = value as u64 >> 47;
            assert!(top != 0 && top != 0x1FFFF, "{value:#x} is a canonical address");
        }
        for value in [0, 1, 2, 0x7fff_1234_5678, usize::MAX, encode(Tag::Stream, 0)] {
            assert_eq!(decode(Tag::Stream, value), None, "{value:#x}");
        }
    }
}
