//! A connected socket: TCP, TCP whose bytes are encrypted, or Unix.

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
        }
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Whether the peer may see this machine's memory. Not where its connection is encrypted: what it shows to be let
    /// in there holds for that connection alone.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.peer_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback()),
            Self::Tls(_) => false,
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
            Self::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Box::new(tokio::net::UnixStream::from_std(stream)?)
            }
        })
    }
}
