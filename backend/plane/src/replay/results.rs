//! Result records, and the replies that carry them.
//!
//! A large piece of device memory is not copied here: it is kept as a place until its reply is sent, which is before anything else is done.
//!
//! Source: protos/tape.md, "Results"; protos/farlane/v1/session.proto, Reply; protobuf encoding (tag, varint, length-delimited).

use super::{Sink, CHUNK_BYTES};
use crate::call::Gone;
use crate::device::direct::Direct;
use crate::device::ranges::Rows;
use crate::device::work::PIECE;
use tape::operations::result_kind;
use tape::ResultRecord;

/// Bytes of one DATA record.
pub const DATA_LIMIT: usize = PIECE;
const HEADER: usize = 16;
const DATA_HEADER: usize = 32;
const PADDING: [u8; 8] = [0; 8];

const HOST_REPLY: u8 = 0x1A; // HostMessage.reply
const GROUP: u8 = 0x08;
const RESULTS: u8 = 0x12;
const LAST: u8 = 0x18;
const ERROR: u8 = 0x20;
const STICKY: u8 = 0x28;
const MESSAGE: u8 = 0x32;
const NANOSECONDS: u8 = 0x38;
const PRINTED: u8 = 0x42;
const COMPLAINTS: u8 = 0x4A;

/// What the last reply of a group says beside its results.
#[derive(Debug, Default)]
pub(crate) struct Closing {
    pub(crate) error: i32,
    pub(crate) sticky: bool,
    pub(crate) message: String,
    pub(crate) nanoseconds: u64,
    pub(crate) printed: Vec<u8>,
    pub(crate) complaints: Vec<u8>,
}

/// Device memory that is shown as a record's last bytes.
#[derive(Debug)]
struct Shown {
    rows: Rows,
    from: u64,
    size: usize,
}

/// Results that were not sent yet.
#[derive(Debug, Default)]
pub(crate) struct Results {
    buffer: Vec<u8>,
    /// Behind them.
    shown: Option<Shown>,
}

/// Where a DATA record begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Begun(usize);

impl Results {
    pub(crate) fn len(&self) -> usize {
        self.buffer.len() + self.shown.as_ref().map_or(0, |shown| shown.size)
    }

    /// Where records are added.
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.shown.is_none(), "it was to be sent first");
        &mut self.buffer
    }

    fn header(&mut self, length: usize, kind: u16, slot: u32, error: i32) {
        let buffer = self.buffer();
        buffer.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes());
        buffer.extend_from_slice(&kind.to_le_bytes());
        buffer.extend_from_slice(&[0; 2]);
        buffer.extend_from_slice(&slot.to_le_bytes());
        buffer.extend_from_slice(&error.to_le_bytes());
    }

    pub(crate) fn status(&mut self, slot: u32, error: i32) {
        self.header(HEADER, result_kind::STATUS, slot, error);
    }

    pub(crate) fn value(&mut self, slot: u32, error: i32, value: u64) {
        self.header(HEADER + 8, result_kind::VALUE, slot, error);
        self.buffer.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn no_data(&mut self, slot: u32, error: i32) {
        self.data_header(slot, error, 0, 0);
    }

    fn data_header(&mut self, slot: u32, error: i32, offset: u64, size: usize) {
        self.header(DATA_HEADER + padded(size), result_kind::DATA, slot, error);
        self.buffer.extend_from_slice(&offset.to_le_bytes());
        self.buffer.extend_from_slice(&u32::try_from(size).unwrap_or(u32::MAX).to_le_bytes());
        self.buffer.extend_from_slice(&[0; 4]);
    }

    /// Begins a DATA record whose bytes are added next.
    pub(crate) fn begin_data(&mut self) -> Begun {
        let begun = Begun(self.buffer().len());
        self.buffer.extend_from_slice(&[0; DATA_HEADER]);
        begun
    }

    pub(crate) fn drop_data(&mut self, begun: Begun) {
        self.buffer.truncate(begun.0);
    }

    pub(crate) fn end_data(&mut self, begun: Begun, slot: u32, offset: u64) {
        let size = self.buffer.len() - begun.0 - DATA_HEADER;
        let end = self.buffer.len();
        self.data_header(slot, 0, offset, size);
        self.buffer.copy_within(end.., begun.0);
        self.buffer.truncate(end);
        self.buffer.extend_from_slice(&PADDING[..padded(size) - size]);
    }

    /// A DATA record of device memory that was fetched. Large pieces are to be sent before anything else is done: the caller sees it by `len`.
    pub(crate) fn show(&mut self, direct: &Direct, slot: u32, rows: &Rows, from: u64, size: usize) -> bool {
        let begun = self.buffer().len();
        self.data_header(slot, 0, from, size);
        if size >= CHUNK_BYTES {
            self.shown = Some(Shown { rows: *rows, from, size });
            return true;
        }
        let shown = direct.show(rows, from..from + size as u64, |bytes| self.buffer.extend_from_slice(bytes));
        if shown.is_none() {
            self.buffer.truncate(begun);
            return false;
        }
        self.buffer.extend_from_slice(&PADDING[..padded(size) - size]);
        true
    }

    /// The error of the last record, a STATUS.
    pub(crate) fn last_status(&self) -> i32 {
        self.buffer.last_chunk().map_or(0, |error| i32::from_le_bytes(*error))
    }

    /// The bytes of the DATA records from the `begun`th byte of all on.
    pub(crate) fn data_from(&self, begun: usize) -> impl Iterator<Item = &[u8]> {
        tape::Results::new(self.buffer.get(begun..).unwrap_or_default()).map_while(|result| match result {
            Ok(ResultRecord::Data { data, error: 0, .. }) => Some(data),
            _ => None,
        })
    }

    /// Sends what there is; gives the bytes of it.
    pub(crate) fn reply(
        &mut self,
        direct: &Direct,
        group: u64,
        closing: Option<&Closing>,
        sink: &mut dyn Sink,
    ) -> Result<usize, Gone> {
        let shown = self.shown.take();
        let padded_shown = shown.as_ref().map_or(0, |shown| padded(shown.size));
        let size = self.buffer.len() + padded_shown;
        let head = head(group, size, closing);
        let sent = match &shown {
            None => sink.send(&[&head, &self.buffer], closing.is_some()),
            Some(shown) => {
                let padding = &PADDING[..padded_shown - shown.size];
                let part = shown.from..shown.from + shown.size as u64;
                let send = |bytes: &[u8]| sink.send(&[&head, &self.buffer, bytes, padding], closing.is_some());
                direct.show(&shown.rows, part, send).unwrap_or(Err(Gone))
            }
        };
        self.buffer.clear();
        if self.buffer.capacity() > 4 * CHUNK_BYTES {
            self.buffer = Vec::new();
        }
        sent.map(|()| head.len() + size)
    }
}

/// Sends printed text by itself.
pub(crate) fn output(group: u64, printed: &[u8], complaints: &[u8], sink: &mut dyn Sink) -> Result<(), Gone> {
    let mut fields = vec![GROUP];
    varint(&mut fields, group);
    block(&mut fields, PRINTED, printed);
    block(&mut fields, COMPLAINTS, complaints);
    sink.send(&[&message(fields, 0)], false)
}

/// A reply without its results, of which `size` bytes follow.
fn head(group: u64, size: usize, closing: Option<&Closing>) -> Vec<u8> {
    let mut fields = Vec::with_capacity(48);
    fields.push(GROUP);
    varint(&mut fields, group);
    if let Some(closing) = closing {
        fields.extend_from_slice(&[LAST, 1]);
        if closing.nanoseconds != 0 {
            fields.push(NANOSECONDS);
            varint(&mut fields, closing.nanoseconds);
        }
        if closing.error != 0 {
            fields.push(ERROR);
            varint(&mut fields, i64::from(closing.error).cast_unsigned());
        }
        if closing.sticky {
            fields.extend_from_slice(&[STICKY, 1]);
        }
        block(&mut fields, MESSAGE, closing.message.as_bytes());
        block(&mut fields, PRINTED, &closing.printed);
        block(&mut fields, COMPLAINTS, &closing.complaints);
    }
    if size > 0 {
        fields.push(RESULTS);
        varint(&mut fields, size as u64);
    }
    message(fields, size)
}

/// A HostMessage with these fields of its reply, of which `more` bytes follow.
fn message(fields: Vec<u8>, more: usize) -> Vec<u8> {
    let mut message = Vec::with_capacity(fields.len() + 11);
    message.push(HOST_REPLY);
    varint(&mut message, (fields.len() + more) as u64);
    message.extend_from_slice(&fields);
    message
}

fn block(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    if !bytes.is_empty() {
        out.push(tag);
        varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

const fn padded(size: usize) -> usize {
    (size + 7) & !7
}
