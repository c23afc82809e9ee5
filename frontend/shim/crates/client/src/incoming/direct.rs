//! A message from a ring. Bulk data goes from there to where it belongs, without a stop.
//!
//! A large reply begins with a DATA record as a rule. Its head is copied and judged like any other; then its data are
//! read from the ring into the memory that awaits them, and what is left is the message without that record.
//! Source: protos/tape.md, "Results" and "Rings".

use crate::shared::Shared;
use prost::encoding::{decode_varint, encode_varint};
use rings::{Error, Receiver};
use std::time::Instant;
use tape::DataHead;

/// Shorter messages are read whole.
const BULK: u64 = 8 << 10;
/// At least what stands in front of a reply's first data: keys and lengths of the message, the reply, its group and its
/// results, and the record's head.
const FRONT: usize = 64;

const REPLY: u8 = 0x1a; // HostMessage.reply
const GROUP: u8 = 0x08;
const RESULTS: u8 = 0x12;

/// The next message, if it begins in time; without the data that were delivered meanwhile.
pub(super) fn receive(shared: &Shared, receiver: &mut Receiver, until: Option<Instant>) -> Result<Vec<u8>, Error> {
    let length = receiver.next(until)?;
    let mut message = Vec::new();
    if length >= BULK {
        let mut front = [0; FRONT];
        receiver.read(&mut front, None)?;
        if let Some(reply) = Front::of(&front, length) {
            let early = &front[reply.data_at..];
            let read = |to: *mut u8| {
                // SAFETY: `deliver_directly` gives a place for all of the record's data, more than `early` has.
                unsafe {
                    std::ptr::copy_nonoverlapping(early.as_ptr(), to, early.len());
                    receiver.read_to(to.add(early.len()), reply.head.data_bytes - early.len(), None)
                }
            };
            if let Some(read) = shared.ledger.deliver_directly(reply.group, &reply.head, read) {
                read?;
                let mut rest = Vec::new();
                receiver.rest(&mut rest, None)?;
                let message = reply.without_record(&rest);
                shared.counters.bytes_down.add(length - message.len() as u64);
                return Ok(message);
            }
        }
        message.extend_from_slice(&front);
    }
    receiver.rest(&mut message, None)?;
    Ok(message)
}

/// What stands in front of a reply's first data.
struct Front {
    group: u64,
    /// Bytes of results behind the first record.
    others: usize,
    head: DataHead,
    /// Where the data begin.
    data_at: usize,
}

impl Front {
    /// `None`: what begins like this is no reply whose first result is bulk data.
    fn of(front: &[u8; FRONT], length: u64) -> Option<Self> {
        let mut left = &front[..];
        key(&mut left, REPLY)?;
        let reply = number(&mut left)?;
        if reply.checked_add((FRONT - left.len()) as u64)? != length {
            return None;
        }
        key(&mut left, GROUP)?;
        let group = number(&mut left)?;
        key(&mut left, RESULTS)?;
        let results = number(&mut left)?;
        let results_end = results.checked_add((FRONT - left.len()) as u64)?;
        let head = DataHead::read(left.first_chunk()?)?;
        let others = usize::try_from(results).ok()?.checked_sub(head.record_bytes)?;
        let data_at = FRONT - left.len() + DataHead::BYTES;
        let sound = results_end <= length && head.data_bytes >= FRONT;
        sound.then_some(Self { group, others, head, data_at })
    }

    /// The message without its first result; `rest` is what follows the data.
    fn without_record(&self, rest: &[u8]) -> Vec<u8> {
        let padding = self.head.record_bytes - DataHead::BYTES - self.head.data_bytes;
        let rest = rest.get(padding..).unwrap_or_default();
        let mut reply = Vec::with_capacity(rest.len() + 32);
        reply.push(GROUP);
        encode_varint(self.group, &mut reply);
        reply.push(RESULTS);
        encode_varint(self.others as u64, &mut reply);
        reply.extend_from_slice(rest);
        let mut message = Vec::with_capacity(reply.len() + 16);
        message.push(REPLY);
        encode_varint(reply.len() as u64, &mut message);
        message.append(&mut reply);
        message
    }
}

fn key(left: &mut &[u8], wanted: u8) -> Option<()> {
    let (first, rest) = left.split_first()?;
    *left = rest;
    (*first == wanted).then_some(())
}

fn number(left: &mut &[u8]) -> Option<u64> {
    decode_varint(left).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated_farlane_v1::{host_message::Kind, HostMessage, Reply};
    use prost::Message;

    fn record(data: &[u8]) -> Vec<u8> {
        let length = (DataHead::BYTES + data.len()).next_multiple_of(8);
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&(length as u32).to_le_bytes());
        bytes.extend_from_slice(&[3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&16_u64.to_le_bytes());
        bytes.extend_from_slice(&(data.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(data);
        bytes.resize(length, 0);
        bytes
    }

    fn split(reply: Reply) -> Option<(Front, Vec<u8>)> {
        let bytes = HostMessage { kind: Some(Kind::Reply(reply)) }.encode_to_vec();
        let front = Front::of(bytes.first_chunk()?, bytes.len() as u64)?;
        let rest = bytes[front.data_at + front.head.data_bytes..].to_vec();
        Some((front, rest))
    }

    #[test]
    fn what_is_left_is_the_reply_without_its_first_record() {
        for (size, others) in [(70_001, 0), (70_000, 24), (64, 70_000)] {
            let behind = vec![5; others];
            let results = [record(&vec![1; size]), behind.clone()].concat();
            let reply = Reply { group: 300, results: results.into(), last: true, error: 9, ..Reply::default() };
            let (front, rest) = split(reply.clone()).expect("bulk data");
            assert_eq!((front.group, front.head.slot, front.head.offset), (300, 7, 16));
            assert_eq!(front.head.data_bytes, size);
            let left = HostMessage::decode(front.without_record(&rest).as_slice()).expect("a message");
            assert_eq!(left.kind, Some(Kind::Reply(Reply { results: behind.into(), ..reply })));
        }
    }

    #[test]
    fn what_is_not_sound_is_left_to_who_says_why() {
        let good = record(&[1; 100]);
        for (at, byte) in [(0, 0), (4, 2), (6, 1), (12, 1), (24, 1), (27, 0xff), (28, 1)] {
            let mut bad = good.clone();
            bad[at] = byte;
            let reply = Reply { group: 1, results: bad.into(), ..Reply::default() };
            assert!(split(reply).is_none(), "byte {at}");
        }
        let short = Reply { group: 1, results: good[..80].to_vec().into(), ..Reply::default() };
        assert!(split(short).is_none(), "the record is longer than the results");
    }
}
