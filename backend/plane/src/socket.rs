//! A connected socket: TCP, a Unix socket or vsock; the bytes of TCP and of vsock may be encrypted.
//!
//! The libraries have no type for a vsock stream. A `UnixStream` is used: it reads, writes, polls and shuts down a
//! descriptor as every stream socket takes it. Its addresses alone are asked for by `socket2`.

use socket2::SockRef;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use tokio::io::{AsyncRead, AsyncWrite};

/// An accepted socket.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Tls(TcpStream),
    Unix(UnixStream),
    Vsock(UnixStream),
    VsockTls(UnixStream),
}

/// What HTTP/2 goes over.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Socket {
    pub(crate) fn peer(&self) -> String {
        let of = |kind: &str, stream: &TcpStream| {
            stream.peer_addr().map_or_else(|_| kind.to_owned(), |address| format!("{kind}{address}"))
        };
        match self {
            Self::Tcp(stream) => of("tcp:", stream),
            Self::Tls(stream) => of("tls:", stream),
            Self::Unix(_) => "unix:".to_owned(),
            Self::Vsock(stream) => vsock_peer("vsock", stream),
            Self::VsockTls(stream) => vsock_peer("tls:vsock", stream),
        }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::VsockTls(_))
    }

    /// Whether the peer may see this machine's memory. Not where its connection is encrypted: what it shows to be let
    /// in there holds for that connection alone. A peer by vsock is another machine.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.peer_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback()),
            Self::Tls(_) | Self::Vsock(_) | Self::VsockTls(_) => false,
            Self::Unix(_) => true,
        }
    }

    /// For the runtime that the calling thread is in. As it comes: what is encrypted is still.
    ///
    /// # Errors
    /// The system's.
    pub fn adopt(self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(stream) | Self::Tls(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Box::new(tokio::net::TcpStream::from_std(stream)?)
            }
            Self::Unix(stream) | Self::Vsock(stream) | Self::VsockTls(stream) => {
                stream.set_nonblocking(true)?;
                Box::new(tokio::net::UnixStream::from_std(stream)?)
            }
        })
    }
}

fn vsock_peer(kind: &str, stream: &UnixStream) -> String {
    let address = SockRef::from(stream).peer_addr().ok().and_then(|address| address.as_vsock_address());
    address.map_or_else(|| format!("{kind}:"), |(cid, port)| format!("{kind}:{cid}:{port}"))
}
