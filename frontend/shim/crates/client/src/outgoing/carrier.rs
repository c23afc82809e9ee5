//! What carries messages to the host: the gRPC stream, or rings in shared memory where the host is on this machine (tape.md, "Rings").

use crate::connection::bell::Bell;
use crate::connection::connect::Address;
use crate::connection::posting::Poster;
use crate::connection::signals;
use crate::generated_farlane_v1::{guest_message::Kind, GuestMessage, Tape};
use crate::outgoing::outbox::Bulk;
use crate::report::counters::Counters;
use crate::{log, Config, Endpoint, OpenError, OpenReason, Transport, Welcome};
use prost::bytes::{BufMut, Bytes};
use prost::encoding::{encode_varint, encoded_len_varint};
use prost::Message;
use std::ffi::OsString;
use std::fmt;
use std::io::Write;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tape::ALIGNMENT;

/// The rings' socket lies beside the host's own.
const SUFFIX: &str = ".rings";
/// How the names of abstract sockets for rings begin.
const NAME: &str = "farlane-rings-";
const TICKET_BYTES: usize = 16;
/// How long the host may take to give rings.
const PATIENCE: Duration = Duration::from_secs(2);
/// The largest message taken from a host.
pub(crate) const MAX_REPLY_BYTES: usize = 16 << 20;

/// The way to the host. The gRPC stream stays open beside the rings: its end is the session's.
pub(crate) enum Carrier {
    Stream(Poster, Arc<Bell>),
    Rings { sender: rings::Sender, _stream: Poster },
}

impl fmt::Debug for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stream(..) => "Stream",
            Self::Rings { .. } => "Rings",
        })
    }
}

impl Carrier {
    /// Sends a message; through rings it waits while these are full. What cannot be sent any more is dropped: threads that wait learn it from
    /// the end of the session.
    pub(crate) fn post(&mut self, kind: Kind, counters: &Counters) {
        match self {
            Self::Stream(stream, _) => post(stream, kind, counters),
            Self::Rings { sender, .. } => {
                counters.bytes_up.add(send(sender, &[&GuestMessage { kind: Some(kind) }.encode_to_vec()]));
            }
        }
        self.wake();
    }

    /// Nothing follows. Our thread may have sent the last message already: it is woken to see the end.
    pub(crate) fn end(self) {
        if let Self::Stream(stream, bell) = self {
            drop(stream);
            bell.ring();
        }
    }

    /// Whether messages go through shared memory.
    #[inline]
    pub(crate) fn is_rings(&self) -> bool {
        matches!(self, Self::Rings { .. })
    }

    /// Sends a part of a group's records, which a stream takes out of `lent`. `awaited`: the calling thread waits for the
    /// answer next, and wakes and drives the stream itself.
    pub(crate) fn post_tape(
        &mut self,
        group: u64,
        records: &[u8],
        lent: Option<&Bytes>,
        last: bool,
        awaited: bool,
        counters: &Counters,
    ) {
        match self {
            Self::Rings { sender, .. } => {
                counters.bytes_up.add(send_tape(sender, group, [records, &[], &[]], last));
            }
            Self::Stream(stream, _) => {
                let records = lent.map_or_else(|| Bytes::copy_from_slice(records), |lent| lent.slice_ref(records));
                post(stream, Kind::Tape(Tape { group, records, last }), counters);
                if !awaited {
                    self.wake();
                }
            }
        }
    }

    fn wake(&self) {
        if let Self::Stream(stream, bell) = self {
            stream.queue().wake();
            bell.ring();
        }
    }

    /// Sends a WRITE, the last record of its group, through rings.
    pub(crate) fn post_bulk(&mut self, group: u64, bulk: Bulk<'_>, counters: &Counters) {
        if let Self::Rings { sender, .. } = self {
            let padding = &[0; ALIGNMENT][..bulk.head.padding()];
            counters.bytes_up.add(send_tape(sender, group, [bulk.bytes, bulk.data, padding], true));
        }
    }
}

/// The message's bytes; 0 when it was not sent.
fn send(sender: &mut rings::Sender, slices: &[&[u8]]) -> u64 {
    match sender.send(slices, None) {
        Ok(()) => slices.iter().map(|slice| slice.len() as u64).sum(),
        Err(_) => 0,
    }
}

/// The most bytes in front of a Tape's records: three keys and three numbers.
const HEAD_BYTES: usize = 3 * 11;

/// A GuestMessage whose Tape's records are taken from where they are.
fn send_tape(sender: &mut rings::Sender, group: u64, records: [&[u8]; 3], last: bool) -> u64 {
    let bytes: usize = records.iter().map(|part| part.len()).sum();
    let tail: &[u8] = if last { &[0x18, 1] } else { &[] };
    let fields = [(0x08, group), (0x12, bytes as u64)].into_iter().filter(|&(_, number)| number != 0);
    let before: usize = fields.clone().map(|(_, number)| 1 + encoded_len_varint(number)).sum();
    let mut head = [0; HEAD_BYTES];
    let mut left = &mut head[..];
    for (key, number) in [(0x12, (before + bytes + tail.len()) as u64)].into_iter().chain(fields) {
        left.put_u8(key);
        encode_varint(number, &mut left);
    }
    let used = HEAD_BYTES - left.len();
    let [first, second, third] = records;
    send(sender, &[&head[..used], first, second, third, tail])
}

/// Sends a message by the stream, as soon as its queue is woken.
pub(crate) fn post(stream: &Poster, kind: Kind, counters: &Counters) {
    let message = GuestMessage { kind: Some(kind) };
    let bytes = message.encoded_len() as u64;
    if stream.put(message) {
        counters.bytes_up.add(bytes);
    }
}

/// The session's rings, where the host offers some and the settings want them.
///
/// # Errors
/// The settings want nothing else, and there are none.
pub(crate) fn join(config: &Config, address: &Address, welcome: &Welcome) -> Result<Option<rings::Rings>, OpenError> {
    let wanted = config.transport;
    if wanted == Transport::Grpc {
        return Ok(None);
    }
    match try_join(config, address, welcome) {
        Ok(rings) => {
            signals::look();
            log::info(format_args!("messages go through shared memory"));
            Ok(Some(rings))
        }
        Err(why) if wanted == Transport::Shm => Err(OpenError::new(OpenReason::Local, format!(
            "there is no shared memory with the host at {}: {why}. Leave FARLANE_TRANSPORT unset, or start the host on a Unix socket \
             or the loopback of this machine",
            config.endpoint
        ))),
        Err(why) => {
            log::debug(format_args!("no shared memory with {}: {why}", config.endpoint));
            Ok(None)
        }
    }
}

/// Where the host offers rings. A name that it says is believed where the host is on this machine, and for nothing else's.
fn place(config: &Config, address: &Address, welcome: &Welcome) -> Result<SocketAddr, String> {
    if welcome.rings_ticket.len() != TICKET_BYTES {
        return Err("the host offers none".to_owned());
    }
    match (&config.endpoint, address) {
        (Endpoint::Unix(path), _) => {
            let mut beside = OsString::from(path);
            beside.push(SUFFIX);
            SocketAddr::from_pathname(PathBuf::from(beside)).map_err(|error| error.to_string())
        }
        (_, Address::Vsock { .. }) => Err("it is reached by vsock, and is another machine".to_owned()),
        (_, Address::Tcp(peer)) if !peer.ip().to_canonical().is_loopback() => {
            Err("it is reached by another address than this machine's loopback".to_owned())
        }
        _ if welcome.rings_name.starts_with(NAME) => {
            SocketAddr::from_abstract_name(&welcome.rings_name).map_err(|error| error.to_string())
        }
        _ => Err("the host names no socket for it".to_owned()),
    }
}

fn try_join(config: &Config, address: &Address, welcome: &Welcome) -> Result<rings::Rings, String> {
    let beside = place(config, address, welcome)?;
    let tell = |error: std::io::Error| format!("{beside:?}: {error}");
    let mut socket = UnixStream::connect_addr(&beside).map_err(tell)?;
    socket.write_all(&welcome.rings_ticket).map_err(tell)?;
    let options = rings::Options { limit: MAX_REPLY_BYTES as u64, ..rings::Options::default() };
    rings::accept(socket, &options, Some(Instant::now() + PATIENCE)).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_believed_of_this_machine_only() {
        let config = |endpoint: &str| Config::new(endpoint.parse().expect("an endpoint"));
        let (near, far) = ("127.0.0.1:1".parse().expect("an address"), "192.0.2.7:1".parse().expect("an address"));
        let welcome = |name: &str| Welcome {
            rings_ticket: vec![1; TICKET_BYTES],
            rings_name: name.to_owned(),
            ..Welcome::default()
        };
        let tcp = config("grpc://localhost:1");
        let found = place(&tcp, &Address::Tcp(near), &welcome("farlane-rings-1")).expect("a place");
        assert_eq!(found.as_abstract_name(), Some(&b"farlane-rings-1"[..]));
        for (address, name) in [(far, "farlane-rings-1"), (near, ""), (near, "/run/docker.sock"), (near, "other")] {
            assert!(place(&tcp, &Address::Tcp(address), &welcome(name)).is_err(), "{address} {name}");
        }
        assert!(place(&tcp, &Address::Tcp(near), &welcome(&"farlane-rings-".repeat(20))).is_err(), "too long");
        let vsock = Address::Vsock { cid: 2, port: 1 };
        assert!(place(&config("vsock://2:1"), &vsock, &welcome("farlane-rings-1")).is_err(), "another machine");
        let unix = place(&config("unix:///tmp/a"), &Address::Unix("/tmp/a".into()), &welcome("farlane-rings-1"));
        assert_eq!(unix.expect("a place").as_pathname(), Some("/tmp/a.rings".as_ref()));
    }

    #[test]
    fn a_tape_is_the_message_that_protobuf_writes() {
        let (mut ours, mut other) = rings::pair(&rings::Options::default()).expect("rings");
        for (group, size, last) in [(0, 0, false), (1, 8, true), (300, 70_000, true), (u64::MAX, 1, false)] {
            let tape = Tape { group, records: vec![7; size].into(), last };
            let (first, second) = tape.records.split_at(size / 3);
            let sent = send_tape(&mut ours.sender, group, [first, second, &[]], last);
            let mut message = Vec::new();
            other.receiver.receive(&mut message, None).expect("a message");
            let expected = GuestMessage { kind: Some(Kind::Tape(tape)) }.encode_to_vec();
            assert_eq!((message.len() as u64, &message), (sent, &expected));
        }
    }
}
