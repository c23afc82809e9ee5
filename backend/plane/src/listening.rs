//! The sockets that listen, and the thread that accepts.
//!
//! The same thread looks after the calls whose threads are busy (`server`).

use crate::ring;
use crate::server::{Inner, LOOK};
use crate::socket::Socket;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

/// A socket that listens.
#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Tls(TcpListener),
    Unix(UnixListener),
    Vsock(socket2::Socket),
    VsockTls(socket2::Socket),
    /// Where guests come to their rings.
    Rings(UnixListener),
}

/// What a listening socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Tcp,
    /// TCP whose bytes are encrypted (`security`).
    Tls,
    Unix,
    Vsock,
    VsockTls,
    Rings,
}

impl Kind {
    pub const ALL: [Self; 6] = [Self::Tcp, Self::Tls, Self::Unix, Self::Vsock, Self::VsockTls, Self::Rings];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Tls => "tls",
            Self::Unix => "unix",
            Self::Vsock => "vsock",
            Self::VsockTls => "vsock+tls",
            Self::Rings => "rings",
        }
    }
}

impl Listener {
    /// Takes a listening socket over.
    ///
    /// # Safety
    /// The descriptor is open, listens, and belongs to the caller alone from now on.
    ///
    /// # Errors
    /// It cannot be made one that does not block.
    pub unsafe fn adopt(descriptor: RawFd, kind: Kind) -> io::Result<Self> {
        // SAFETY: the caller's promise.
        let owned = unsafe { OwnedFd::from_raw_fd(descriptor) };
        let listener = socket2::Socket::from(owned);
        listener.set_nonblocking(true)?;
        Ok(match kind {
            Kind::Tcp => Self::Tcp(listener.into()),
            Kind::Tls => Self::Tls(listener.into()),
            Kind::Unix => Self::Unix(listener.into()),
            Kind::Vsock => Self::Vsock(listener),
            Kind::VsockTls => Self::VsockTls(listener),
            Kind::Rings => Self::Rings(listener.into()),
        })
    }

    fn accept(&self, inner: &Arc<Inner>) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => inner.connect(Socket::Tcp(listener.accept()?.0)),
            Self::Tls(listener) => inner.connect(Socket::Tls(listener.accept()?.0)),
            Self::Unix(listener) => inner.connect(Socket::Unix(listener.accept()?.0)),
            Self::Vsock(listener) => inner.connect(Socket::Vsock(OwnedFd::from(listener.accept()?.0).into())),
            Self::VsockTls(listener) => inner.connect(Socket::VsockTls(OwnedFd::from(listener.accept()?.0).into())),
            Self::Rings(listener) => ring::admit(inner, listener.accept()?.0),
        }
        Ok(())
    }

    fn descriptor(&self) -> RawFd {
        match self {
            Self::Tcp(listener) | Self::Tls(listener) => listener.as_raw_fd(),
            Self::Unix(listener) | Self::Rings(listener) => listener.as_raw_fd(),
            Self::Vsock(listener) | Self::VsockTls(listener) => listener.as_raw_fd(),
        }
    }
}

/// The listening thread.
pub(crate) fn listen(inner: &Arc<Inner>, accepting: &AtomicBool, listeners: &[Listener], woken: &io::PipeReader) {
    let mut polled: Vec<libc::pollfd> = listeners
        .iter()
        .map(Listener::descriptor)
        .chain([woken.as_raw_fd()])
        .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
        .collect();
    let mut looked = Instant::now();
    while accepting.load(Ordering::Acquire) {
        let left = LOOK.saturating_sub(looked.elapsed()).as_millis();
        let timeout = libc::c_int::try_from(left).unwrap_or(0) + 1;
        // SAFETY: the array is ours, and as long as is said.
        let ready = unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, timeout) };
        if ready > 0 {
            for listener in listeners {
                match listener.accept(inner) {
                    Ok(()) => {}
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    Err(error) => {
                        inner.warn(format_args!("a connection cannot be accepted: {error}"));
                        thread::sleep(Duration::from_millis(10)); // no descriptors: others give some back
                    }
                }
            }
        }
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            inner.look();
        }
    }
}
