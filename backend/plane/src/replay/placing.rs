//! Large copies to the device, from the ring to their place: a message that begins with a plain WRITE is not kept, its data go where they
//! belong as they arrive, while the guest still writes the rest of them.
//!
//! All that is judged is read once, before: framing, group, the record's fields, the allocation. The data are not judged.

use super::Replay;
use crate::call::{Call, Gone, Received};
use crate::device::objects::Stream;
use crate::device::ranges::Rows;
use crate::message::{head, Tape};
use crate::placing::Place;
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tape::{WriteHead, BULK_BYTES};
use tonic::Status;

/// A WRITE whose data go to their place.
#[derive(Debug, PartialEq, Eq)]
struct Bulk {
    group: u64,
    head: WriteHead,
    rows: Rows,
    /// Where in the message its data begin.
    start: usize,
    /// Bytes of all the message's records.
    records: usize,
}

/// A WRITE whose data have gone to their place: what is left to do with the message that it began.
pub(super) struct Placed {
    pub rows: Rows,
    pub stream: Arc<Stream>,
    /// Of its record.
    pub bytes: usize,
}

impl<L, H> Replay<L, H> {
    /// The next message, waited for at most for so long. What of it has gone to its place is replayed with it.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn receive(&mut self, call: &Call, timeout: Option<Duration>) -> Result<Received, Gone> {
        if !call.has_rings() {
            return call.receive(timeout);
        }
        let direct = self.direct.clone();
        let (mut held, mut found) = (None, None);
        let received = call.receive_placing(timeout, &mut |message, length| {
            let (bulk, stream) = self.bulk(message, length)?;
            held = Some(direct.gate.hold());
            let to = direct.place(&bulk.rows, &stream)?;
            let place = Place { start: bulk.start, size: bulk.head.data_bytes, to };
            found = Some((bulk, stream));
            Some(place)
        });
        drop(held);
        match (received?, found) {
            (Received::Placed(rest), Some((bulk, stream))) => {
                let rest = bulk.rest(rest);
                self.placed = Some(Placed { rows: bulk.rows, stream, bytes: bulk.head.record_bytes() });
                Ok(rest.map_or_else(|| Received::Refused(Status::internal("a malformed Tape")), Received::Tape))
            }
            (received, _) => Ok(received),
        }
    }

    /// What a message of this length, which begins so, has for its place.
    fn bulk(&mut self, message: &[u8], length: usize) -> Option<(Bulk, Arc<Stream>)> {
        let bulk = Bulk::read(message, length)?;
        let fits = bulk.records <= self.bounds.message_bytes
            && self.group_bytes + bulk.records <= self.bounds.credit_bytes
            && bulk.group == self.group;
        let plain = !self.errors.is_lost() && self.plain(&bulk.rows);
        let stream = self.streams.stream(bulk.head.stream)?;
        (fits && plain).then_some((bulk, stream))
    }
}

impl Bulk {
    fn read(message: &[u8], length: usize) -> Option<Self> {
        let (group, at, records) = head(message, length)?;
        let head = WriteHead::read(message.get(at..)?.first_chunk()?)?;
        let WriteHead { address, pitch, width, height, data_bytes, .. } = head;
        let rows = Rows { address, pitch, width, height };
        let worth_it = data_bytes >= BULK_BYTES && head.record_bytes() <= records;
        let plain = rows.contiguous() && rows.size() == Some(data_bytes as u64);
        (worth_it && plain).then_some(Self { group, head, rows, start: at + WriteHead::BYTES, records })
    }

    /// The message without what has gone to its place, which `rest` follows.
    fn rest(&self, rest: Bytes) -> Option<Tape> {
        let padding = self.head.padding();
        let end = padding + (self.records - self.head.record_bytes());
        let last = match rest.get(end..)? {
            [] | [0x18, 0] => false,
            [0x18, 1] => true,
            _ => return None,
        };
        Some(Tape { group: self.group, records: rest.slice(padding..end), last })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(data: &[u8], more: &[u8], last: bool) -> Vec<u8> {
        let mut writer = tape::Writer::with_capacity(data.len() + 64);
        tape::operations::write(&mut writer, 0x5000, 0, data.len() as u64, 1, 1, false, false, data);
        let records = [writer.as_slice(), more].concat();
        let mut body = vec![0x08, 7, 0x12];
        varint(&mut body, records.len());
        body.extend_from_slice(&records);
        if last {
            body.extend_from_slice(&[0x18, 1]);
        }
        let mut message = vec![0x12];
        varint(&mut message, body.len());
        message.extend_from_slice(&body);
        message
    }

    fn varint(out: &mut Vec<u8>, mut value: usize) {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    #[test]
    fn a_message_is_what_it_was_without_its_data() {
        for (size, more, last) in
            [(BULK_BYTES, &b""[..], true), (BULK_BYTES + 3, b"12345678", true), (BULK_BYTES + 1, b"12345678", false)]
        {
            let data: Vec<u8> = (0..size).map(|at| at as u8).collect();
            let message = message(&data, more, last);
            let bulk = Bulk::read(&message[..128], message.len()).unwrap();
            assert_eq!((bulk.group, bulk.rows.address, bulk.head.data_bytes), (7, 0x5000, size));
            assert_eq!(message[bulk.start..bulk.start + size], data);
            let rest = Bytes::copy_from_slice(&message[bulk.start + size..]);
            assert_eq!(bulk.rest(rest), Some(Tape { group: 7, records: Bytes::copy_from_slice(more), last }));
        }
    }

    #[test]
    fn what_is_not_plain_is_left_alone() {
        let whole = message(&[1; BULK_BYTES], b"", true);
        assert_eq!(Bulk::read(&whole[..128], whole.len() + 1), None);
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..100_000 {
            let mut changed = whole[..128].to_vec();
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            changed[(state >> 33) as usize % 64] = (state >> 24) as u8;
            if let Some(bulk) = Bulk::read(&changed, whole.len()) {
                assert!(bulk.start + bulk.head.data_bytes <= whole.len() && bulk.head.record_bytes() <= bulk.records);
                let _ = bulk.rest(Bytes::copy_from_slice(&whole[bulk.start + bulk.head.data_bytes..]));
                // its end may be broken
            }
        }
    }
}
