//! A session over vsock, by the loopback of machines that have it (the kernel's module vsock_loopback).
//!
//! Where there is none the tests end without a word on it, unless FARLANE_NEEDS_VSOCK is set: `make test-vm` sets it and
//! runs them in a virtual machine.

use super::fake_host::{pattern, Behaviour, FakeHost};
use super::round_trips::{memset, read};
use super::{hello, open};
use crate::{Config, Endpoint, Failure, Mode, OpenReason, Session};
use socket2::{Domain, SockAddr, Socket, Type};
use std::io;
use std::os::fd::OwnedFd;
use std::thread;
use tape::operations;
use tokio::net::UnixStream;
use tokio::sync::mpsc::unbounded_channel;
use tokio_stream::wrappers::UnboundedReceiverStream;

const LOOPBACK: u32 = 1;
const ANY: u32 = u32::MAX;

/// A socket that listens there.
fn loopback() -> Option<Socket> {
    let bound = Socket::new(Domain::VSOCK, Type::STREAM, None).and_then(|socket| {
        socket.bind(&SockAddr::vsock(LOOPBACK, ANY))?;
        socket.listen(8)?;
        Ok(socket)
    });
    match bound {
        Ok(socket) => Some(socket),
        Err(error) if std::env::var_os("FARLANE_NEEDS_VSOCK").is_none() => {
            println!("not run: this machine has no loopback of vsock ({error})");
            None
        }
        Err(error) => panic!("this machine has no loopback of vsock: {error}"),
    }
}

pub(super) fn endpoint(listener: &Socket) -> Endpoint {
    let (cid, port) = listener.local_addr().expect("an address").as_vsock_address().expect("vsock");
    Endpoint::Vsock { cid, port, tls: false }
}

/// What connects there.
pub(super) fn incoming(listener: Socket) -> UnboundedReceiverStream<io::Result<UnixStream>> {
    let (connected, stream) = unbounded_channel();
    let runtime = tokio::runtime::Handle::current();
    thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            let _inside = runtime.enter();
            let adopted =
                socket.set_nonblocking(true).and_then(|()| UnixStream::from_std(OwnedFd::from(socket).into()));
            if connected.send(adopted).is_err() {
                break;
            }
        }
    });
    UnboundedReceiverStream::new(stream)
}

#[test]
fn a_session_goes_over_vsock_until_its_host_dies() {
    let Some(listener) = loopback() else { return };
    let mut host = FakeHost::start_vsock(Behaviour::default(), listener);
    assert!(host.endpoint().to_string().starts_with("vsock://1:"), "{}", host.endpoint());
    let session = open(&host, Mode::Calls);
    for number in 0..10_000 {
        memset(&session, number);
    }
    let expected: Vec<u8> = (0..1 << 20).map(pattern).collect();
    assert_eq!(read(&session, 1 << 10, 1 << 10, 1 << 10), Ok(expected));
    assert_eq!(session.counters().round_trips.get(), 2, "the handshake, and the read");
    assert_eq!(host.codes().len(), 10_001);
    host.kill();
    assert_eq!(session.request(operations::device_synchronize), Err(Failure::Dead));
}

#[test]
fn a_port_on_which_no_host_listens_is_told() {
    let Some(listener) = loopback() else { return };
    let config = Config::new(endpoint(&listener));
    drop(listener);
    let error = Session::open(&config, hello).expect_err("no host");
    assert_eq!(error.reason, OpenReason::Unreachable);
    assert!(error.message.contains("no host listens there"), "{error}");
}
