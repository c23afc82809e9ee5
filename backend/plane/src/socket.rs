//! A connected socket, TCP or Unix.

use hyper_util::rt::TokioIo;
use std::io;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use tokio::io::{AsyncRead, AsyncWrite};

/// An accepted socket.
#[derive(Debug)]
pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// What HTTP/2 goes over.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Socket {
    pub(crate) fn peer(&self) -> String {
        match self {
            Self::Tcp(stream) => {
                stream.peer_addr().map_or_else(|_| "tcp:".to_owned(), |address| format!("tcp:{address}"))
            }
            Self::Unix(_) => "unix:".to_owned(),
        }
    }

    /// Whether the peer may see this machine's memory.
    pub(crate) fn is_of_this_machine(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.peer_addr().is_ok_and(|address| address.ip().to_canonical().is_loopback()),
            Self::Unix(_) => true,
        }
    }

    /// For the runtime that the calling thread is in.
    ///
    /// # Errors
    /// The system's.
    pub fn adopt(self) -> io::Result<TokioIo<Box<dyn Stream>>> {
        let stream: Box<dyn Stream> = match self {
            Self::Tcp(stream) => {
                stream.set_nodelay(true)?;
                stream.set_nonblocking(true)?;
                Box::new(tokio::net::TcpStream::from_std(stream)?)
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Box::new(tokio::net::UnixStream::from_std(stream)?)
            }
        };
        Ok(TokioIo::new(stream))
    }
}
