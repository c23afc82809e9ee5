//! A guest's message as far as the plane reads it: a Tape, whose records are most of what arrives. All else goes on as it is.
//!
//! Source: protos/farlane/v1/session.proto; protobuf encoding (tag, varint, length-delimited).

use bytes::Bytes;

const TAPE: u8 = 0x12; // GuestMessage.tape
const GROUP: u8 = 0x08;
const RECORDS: u8 = 0x12;
const LAST: u8 = 0x18;
const RECEIVED: u8 = 0x2A; // GuestMessage.received
const MESSAGES: u8 = 0x08;
const RESUMED: u8 = 0x22; // HostMessage.resumed
const TICKET: u8 = 0x12;

/// A Tape message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tape {
    pub group: u64,
    pub records: Bytes,
    pub last: bool,
}

/// A Tape whose fields stand in order and at most once each, as every protobuf library writes them; `None` for all else.
#[must_use]
pub fn tape(message: &Bytes) -> Option<Tape> {
    let mut rest = Reader { message, at: 0 };
    if rest.byte()? != TAPE || rest.varint()? != rest.left() as u64 {
        return None;
    }
    let group = if rest.takes(GROUP) { rest.varint()? } else { 0 };
    let records = if rest.takes(RECORDS) { message.slice(rest.block()?) } else { Bytes::new() };
    let last = rest.takes(LAST) && rest.varint()? != 0;
    (rest.left() == 0).then_some(Tape { group, records, last })
}

/// Whether it is a Tape, in whatever form.
#[must_use]
pub fn is_tape(message: &[u8]) -> bool {
    message.first() == Some(&TAPE)
}

/// How many messages the guest says that it has; `None`: it is another message.
#[must_use]
pub fn received(message: &[u8]) -> Option<u64> {
    let mut rest = Reader { message, at: 0 };
    if rest.byte()? != RECEIVED || rest.varint()? != rest.left() as u64 {
        return None;
    }
    let count = if rest.takes(MESSAGES) { rest.varint()? } else { 0 };
    (rest.left() == 0).then_some(count)
}

/// A HostMessage that says how many Tapes there were, and where the session goes on.
#[must_use]
pub fn resumed(tapes: u64, ticket: &[u8]) -> Bytes {
    let mut fields = vec![MESSAGES];
    let mut left = tapes;
    while left >= 0x80 {
        fields.push(left as u8 | 0x80);
        left >>= 7;
    }
    fields.push(left as u8);
    if !ticket.is_empty() {
        fields.extend_from_slice(&[TICKET, u8::try_from(ticket.len()).unwrap_or(u8::MAX)]);
        fields.extend_from_slice(ticket);
    }
    let length = u8::try_from(fields.len()).unwrap_or(u8::MAX);
    [&[RESUMED, length], fields.as_slice()].concat().into()
}

/// The beginning of a Tape of this length: its group, where its records begin, and their size; `None`: it is in another form, or longer.
#[must_use]
pub fn head(beginning: &[u8], length: usize) -> Option<(u64, usize, usize)> {
    let mut rest = Reader { message: beginning, at: 0 };
    if rest.byte()? != TAPE || rest.varint()? != (length - rest.at) as u64 {
        return None;
    }
    let group = if rest.takes(GROUP) { rest.varint()? } else { 0 };
    if !rest.takes(RECORDS) {
        return None;
    }
    let size = usize::try_from(rest.varint()?).ok()?;
    (size <= length - rest.at).then_some((group, rest.at, size))
}

struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn left(&self) -> usize {
        self.message.len() - self.at
    }

    fn byte(&mut self) -> Option<u8> {
        let byte = *self.message.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    /// Whether the next byte is this tag; takes it then.
    fn takes(&mut self, tag: u8) -> bool {
        let found = self.message.get(self.at) == Some(&tag);
        self.at += usize::from(found);
        found
    }

    /// At most ten bytes, of which the last one has one bit.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            if shift == 63 && byte > 1 {
                return None;
            }
            value |= u64::from(byte & 0x7F) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn block(&mut self) -> Option<std::ops::Range<usize>> {
        let size = usize::try_from(self.varint()?).ok()?;
        if size > self.left() {
            return None;
        }
        let begin = self.at;
        self.at += size;
        Some(begin..self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(message: &[u8]) -> Option<Tape> {
        tape(&Bytes::copy_from_slice(message))
    }

    #[test]
    fn a_tape_is_read() {
        let expected = Tape { group: 300, records: Bytes::from_static(b"abc"), last: true };
        assert_eq!(read(b"\x12\x0a\x08\xac\x02\x12\x03abc\x18\x01"), Some(expected));
        assert_eq!(read(b"\x12\x00"), Some(Tape { group: 0, records: Bytes::new(), last: false }));
        assert_eq!(read(b"\x12\x02\x18\x00"), Some(Tape { group: 0, records: Bytes::new(), last: false }));
    }

    #[test]
    fn all_else_is_left_to_protobuf() {
        let others: [&[u8]; 9] = [
            b"",
            b"\x0a\x00",                                                 // a Hello
            b"\x12",                                                     // cut off
            b"\x12\x05\x08\x01",                                         // shorter than it says
            b"\x12\x02\x08\x01\x00",                                     // longer
            b"\x12\x04\x18\x01\x08\x01",                                 // another order
            b"\x12\x04\x12\xff\xff\x03",                                 // more records than there are
            b"\x12\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x02",     // no u64
            b"\x12\x0c\x08\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", // over-long
        ];
        for message in others {
            assert_eq!(read(message), None, "{message:x?}");
        }
    }

    #[test]
    fn counts_are_read_and_written() {
        assert_eq!(received(b"\x2a\x03\x08\xac\x02"), Some(300));
        assert_eq!(received(b"\x2a\x00"), Some(0));
        for other in [&b""[..], b"\x2a", b"\x2a\x01", b"\x2a\x02\x08", b"\x2a\x03\x08\x01\x00", b"\x12\x00"] {
            assert_eq!(received(other), None, "{other:x?}");
        }
        assert_eq!(resumed(300, &[]), &b"\x22\x03\x08\xac\x02"[..]);
        assert_eq!(resumed(0, &[]), &b"\x22\x02\x08\x00"[..]);
        assert_eq!(resumed(u64::MAX, &[7; 16]).len(), 31);
    }

    /// Whatever comes, it is read or left alone; what is read is inside of what came.
    #[test]
    fn arbitrary_bytes_do_no_harm() {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..100_000 {
            let mut bytes = [0_u8; 24];
            for byte in &mut bytes {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                *byte = [TAPE, GROUP, RECORDS, LAST, 0x80, 0xFF, 1, (state >> 40) as u8][(state >> 61) as usize];
            }
            let length = (state >> 33) as usize % 25;
            bytes[1] = if state & 1 == 0 { length.saturating_sub(2) as u8 } else { bytes[1] };
            if let Some(found) = read(&bytes[..length]) {
                assert!(found.records.len() < length);
            }
        }
    }
}
