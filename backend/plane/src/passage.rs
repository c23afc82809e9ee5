//! Sessions in processes of their own: the host hands a guest's second connection on to the session's process.
//!
//! The first connection stays with the host: it admits the session there and says how it ends. The Welcome names a
//! ticket. A guest without rings connects to the same address again and says `PREAMBLE` and the ticket, before anything
//! else. The host reads these bytes alone and passes the connection's descriptor on. From then on no message of the
//! session goes through the host. HTTP/2 begins with another byte (`PRI *`), and so does TLS (22), so each connection's
//! first byte tells what it is. The ticket is said before TLS begins, and TLS is the other process's: a ticket that was
//! overheard ends a session's way there, but lets its finder into nothing (`Welcome.process_token`).
//!
//! Source: protos/tape.md, "Processes" and "TLS"; RFC 9113, 3.4.

use crate::listening::Kind;
use crate::ring::{Ticket, PATIENCE, TICKET_BYTES};
use crate::server::Inner;
use crate::socket::Socket;
use std::io::{self, ErrorKind, Read};
use std::net::TcpStream;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

const PREAMBLE: [u8; 8] = *b"FARLANE\0";

/// Gives the connection back where it is HTTP/2's, and hands it on where it shows a ticket.
pub(crate) fn pass(inner: &Arc<Inner>, socket: Socket) -> io::Result<Option<Socket>> {
    socket.block()?;
    if first_byte(socket.as_raw_fd())? != Some(PREAMBLE[0]) {
        return Ok(Some(socket));
    }
    let Some(ticket) = socket.ticket()? else {
        return Err(io::Error::new(ErrorKind::InvalidData, "it begins with a ticket that is none"));
    };
    let Some(call) = inner.take_passage(&ticket) else {
        return Err(io::Error::new(ErrorKind::PermissionDenied, "a ticket that no session has"));
    };
    let (connection, kind): (OwnedFd, Kind) = match socket {
        Socket::Tcp(stream) => (stream.into(), Kind::Tcp),
        Socket::Tls(stream) => (stream.into(), Kind::Tls),
        Socket::Unix(stream) => (stream.into(), Kind::Unix),
        Socket::Vsock(stream) => (stream.into(), Kind::Vsock),
        Socket::VsockTls(stream) => (stream.into(), Kind::VsockTls),
    };
    inner.hand(&call, connection, kind);
    Ok(None)
}

/// The byte stays in the socket. `None`: none comes in time, or the connection has ended.
fn first_byte(socket: RawFd) -> io::Result<Option<u8>> {
    let mut byte = 0_u8;
    // SAFETY: one byte, which is this function's.
    match unsafe { libc::recv(socket, (&raw mut byte).cast(), 1, libc::MSG_PEEK) } {
        1 => Ok(Some(byte)),
        0 => Ok(None),
        _ => match io::Error::last_os_error() {
            error if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            error => Err(error),
        },
    }
}

impl Socket {
    /// Reads wait, for as long as a guest may take to say its ticket.
    fn block(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) | Self::Tls(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(PATIENCE))
            }
            Self::Unix(stream) | Self::Vsock(stream) | Self::VsockTls(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_read_timeout(Some(PATIENCE))
            }
        }
    }

    /// `None`: it says something else.
    fn ticket(&self) -> io::Result<Option<Ticket>> {
        let mut said = [0; PREAMBLE.len() + TICKET_BYTES];
        match self {
            Self::Tcp(stream) | Self::Tls(stream) => <&TcpStream>::read_exact(&mut &*stream, &mut said)?,
            Self::Unix(stream) | Self::Vsock(stream) | Self::VsockTls(stream) => {
                <&UnixStream>::read_exact(&mut &*stream, &mut said)?;
            }
        }
        Ok(said.strip_prefix(&PREAMBLE).and_then(|ticket| ticket.try_into().ok()))
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) | Self::Tls(stream) => stream.as_raw_fd(),
            Self::Unix(stream) | Self::Vsock(stream) | Self::VsockTls(stream) => stream.as_raw_fd(),
        }
    }
}
