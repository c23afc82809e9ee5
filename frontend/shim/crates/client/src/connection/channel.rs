//! A gRPC channel over one socket, and what a broken one says.

use crate::connection::connect::Socket;
use crate::connection::signals::discard_pipe_signal;
use crate::Endpoint;
use hyper_util::rt::TokioIo;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tonic::transport::{Channel, Uri};
use tonic::Status;

/// Bytes the host may send ahead of us: bulk data must not wait for window updates.
const STREAM_WINDOW_BYTES: u32 = 8 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;
/// The largest HTTP/2 frame the host may send: bulk data in few pieces.
const FRAME_BYTES: u32 = 256 << 10;
/// Freed blocks of up to so many bytes are the C library's to use again.
const KEPT_BYTES: usize = 8 << 20;

/// Has the C library keep what HTTP/2 frees: each frame and each message of bulk data has a buffer of its own. A program
/// that never freed a large block has glibc give such buffers back to the system, and fault their pages in again for
/// each copy. After this block glibc keeps as much as after one of the program's own, unless the user has set its
/// thresholds. Source: mallopt(3), M_MMAP_THRESHOLD.
pub(crate) fn keep_freed_blocks() {
    // SAFETY: nothing is read from the block or written to it.
    unsafe { libc::free(std::hint::black_box(libc::malloc(KEPT_BYTES))) };
}

/// A channel over this one connection; it never connects again.
pub(crate) async fn open_channel(
    endpoint: &Endpoint,
    stream: Box<dyn Bytes>,
) -> Result<Channel, tonic::transport::Error> {
    let authority = match endpoint {
        // Whether it is encrypted has been seen to.
        Endpoint::Tcp { host, port, .. } => {
            let plain = Endpoint::Tcp { host: host.clone(), port: *port, tls: false };
            plain.to_string().replacen("grpc://", "http://", 1)
        }
        Endpoint::Unix(_) | Endpoint::Vsock { .. } => "http://localhost".to_owned(),
    };
    let mut stream = Some(stream);
    let connector = tower::service_fn(move |_: Uri| {
        let taken = stream.take();
        async move { taken.map(TokioIo::new).ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected)) }
    });
    Channel::from_shared(authority)
        .unwrap_or_else(|_| Channel::from_static("http://localhost")) // a name that no URI can hold
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .connect_with_connector(connector)
        .await
}

/// What HTTP/2 goes over.
pub(crate) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

/// For the runtime that the calling thread is in. `full` says whether the socket took less than it was to send.
pub(crate) fn adopt(socket: Socket, full: Arc<AtomicBool>) -> io::Result<Gauged> {
    let socket: Box<dyn Bytes> = match socket {
        Socket::Tcp(stream) => Box::new(TcpStream::from_std(stream)?),
        Socket::Unix(stream) | Socket::Vsock { stream, .. } => Box::new(UnixStream::from_std(stream)?),
    };
    Ok(Gauged { socket, full })
}

/// A socket that tells whether its buffer is full.
pub(crate) struct Gauged {
    socket: Box<dyn Bytes>,
    full: Arc<AtomicBool>,
}

impl Gauged {
    fn note<T>(&self, sent: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if let Poll::Ready(Err(error)) = &sent {
            if error.kind() == io::ErrorKind::BrokenPipe {
                discard_pipe_signal();
            }
        }
        self.full.store(sent.is_pending(), Ordering::Release);
        sent
    }
}

impl AsyncRead for Gauged {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, to: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, to)
    }
}

impl AsyncWrite for Gauged {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.note(sent)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.socket).poll_write_vectored(cx, bytes);
        self.note(sent)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

/// A gRPC status in words: what the connection suffered from, or what the host said.
pub(crate) fn describe(status: &Status) -> String {
    match std::error::Error::source(status) {
        Some(cause) => root_cause(cause),
        None if status.message().is_empty() => status.code().to_string(),
        None => status.message().to_owned(),
    }
}

pub(crate) fn root_cause(error: &dyn std::error::Error) -> String {
    let mut cause = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let text = cause.to_string();
    // HTTP/2's and rustls's words for it, which carry no kind of error that could be asked for.
    let ended = ["broken pipe", "connection reset", "unexpected end of file", "close_notify"];
    let ended = ended.iter().any(|words| text.contains(words));
    if ended {
        "the host closed the connection".to_owned()
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages that the calling thread had to have mapped so far.
    fn faults() -> libc::c_long {
        // SAFETY: zeroed is a valid value, and the call fills it.
        let mut usage = unsafe { std::mem::zeroed::<libc::rusage>() };
        // SAFETY: the structure is this function's.
        assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) }, 0);
        usage.ru_minflt
    }

    #[test]
    fn freed_blocks_are_used_again() {
        let frames =
            || drop(std::hint::black_box(std::array::from_fn::<_, 40, _>(|_| vec![1_u8; FRAME_BYTES as usize])));
        keep_freed_blocks();
        frames();
        let before = faults();
        for _ in 0..10 {
            frames();
        }
        let pages = 10 * 40 * libc::c_long::from(FRAME_BYTES) / 4096;
        let found = faults() - before;
        assert!(found < pages / 10, "{found} faults for {pages} pages");
    }
}
