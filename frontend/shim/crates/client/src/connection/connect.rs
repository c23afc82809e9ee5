//! Makes the connection: TCP, a Unix socket or vsock, with the options a session wants. Blocking; runs on the background
//! thread.
//!
//! The libraries have no type for a vsock stream. A `UnixStream` is used: it reads, writes, polls and shuts down a
//! descriptor as every stream socket takes it.

use crate::connection::security::Credentials;
use crate::error::{OpenError, OpenReason};
use crate::Endpoint;
use socket2::{Domain, SockAddr, Type};
use std::io::{self, ErrorKind, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A connected socket, not blocking.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    Vsock { stream: UnixStream, cid: u32, port: u32 },
}

/// Where a connection has led.
pub(crate) enum Address {
    /// Not its name: another host may have that, too.
    Tcp(SocketAddr),
    Unix(PathBuf),
    Vsock {
        cid: u32,
        port: u32,
    },
}

/// A connection that is being made, and what it is made with.
pub(crate) struct Way {
    /// Until HTTP/2 begins.
    pub(crate) socket: Option<Socket>,
    pub(crate) address: Address,
    pub(crate) credentials: Credentials,
    pub(crate) descriptor: RawFd,
    /// Whether the socket took less than it was to send.
    pub(crate) full: Arc<AtomicBool>,
}

/// # Errors
/// The host cannot be reached.
pub(crate) fn begin(endpoint: &Endpoint, deadline: Instant, credentials: Credentials) -> Result<Way, OpenError> {
    let socket = connect(endpoint, deadline)?;
    let address = socket.address().map_err(|error| explain(endpoint, &error))?;
    let descriptor = socket.as_raw_fd();
    Ok(Way { socket: Some(socket), address, credentials, descriptor, full: Arc::default() })
}

impl Socket {
    /// Where the other end is.
    pub(crate) fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(stream) => stream.peer_addr().map(Address::Tcp),
            Self::Unix(stream) => {
                let path = stream.peer_addr()?.as_pathname().map(PathBuf::from);
                path.map(Address::Unix).ok_or_else(|| ErrorKind::AddrNotAvailable.into())
            }
            &Self::Vsock { cid, port, .. } => Ok(Address::Vsock { cid, port }),
        }
    }
}

/// A further connection to the same place, on which `words` are said first.
pub(crate) fn connect_again(address: &Address, words: &[u8], deadline: Instant) -> io::Result<Socket> {
    match address {
        Address::Tcp(address) => {
            let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            let mut stream = TcpStream::connect_timeout(address, left)?;
            stream.write_all(words)?;
            prepare(&stream)?;
            Ok(Socket::Tcp(stream))
        }
        Address::Unix(path) => {
            let mut stream = UnixStream::connect(path)?;
            stream.write_all(words)?;
            stream.set_nonblocking(true)?;
            Ok(Socket::Unix(stream))
        }
        &Address::Vsock { cid, port } => {
            let mut stream = connect_vsock(cid, port, deadline)?;
            stream.write_all(words)?;
            stream.set_nonblocking(true)?;
            Ok(Socket::Vsock { stream, cid, port })
        }
    }
}

impl AsRawFd for Socket {
    fn as_raw_fd(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) | Self::Vsock { stream, .. } => stream.as_raw_fd(),
        }
    }
}

/// A peer that vanished without a word (machine or network down) is noticed after about this long, by the kernel:
/// keepalive probes while nothing is sent, the user timeout while something is. HTTP/2 pings are not used: a host may
/// take frequent ones for abuse and end the connection.
const KEEPALIVE_IDLE_SECONDS: libc::c_int = 15;
const KEEPALIVE_INTERVAL_SECONDS: libc::c_int = 5;
const KEEPALIVE_PROBES: libc::c_int = 4;
const USER_TIMEOUT_MILLISECONDS: libc::c_int = 35_000;

pub(crate) fn connect(endpoint: &Endpoint, deadline: Instant) -> Result<Socket, OpenError> {
    let result = match endpoint {
        Endpoint::Tcp { host, port, .. } => connect_tcp(host, *port, deadline).map(Socket::Tcp),
        Endpoint::Unix(path) => {
            UnixStream::connect(path).and_then(|stream| stream.set_nonblocking(true).map(|()| stream)).map(Socket::Unix)
        }
        &Endpoint::Vsock { cid, port, .. } => connect_vsock(cid, port, deadline).and_then(|stream| {
            stream.set_nonblocking(true)?;
            Ok(Socket::Vsock { stream, cid, port })
        }),
    };
    result.map_err(|error| explain(endpoint, &error))
}

fn connect_tcp(host: &str, port: u16, deadline: Instant) -> io::Result<TcpStream> {
    let mut last = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for address in (host, port).to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => {
                prepare(&stream)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Blocking. The system itself waits for two seconds at most.
fn connect_vsock(cid: u32, port: u32, deadline: Instant) -> io::Result<UnixStream> {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
    let socket = socket2::Socket::new(Domain::VSOCK, Type::STREAM, None)?;
    socket.connect_timeout(&SockAddr::vsock(cid, port), left)?;
    Ok(OwnedFd::from(socket).into())
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    for (level, option, value) in [
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, KEEPALIVE_IDLE_SECONDS),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, KEEPALIVE_INTERVAL_SECONDS),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, KEEPALIVE_PROBES),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, USER_TIMEOUT_MILLISECONDS),
    ] {
        let value: libc::c_int = value;
        #[allow(clippy::cast_possible_truncation)] // 4
        let length = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the option's value is an int that lives over the call, and its size is given.
        let result = unsafe { libc::setsockopt(stream.as_raw_fd(), level, option, (&raw const value).cast(), length) };
        if result != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn explain(endpoint: &Endpoint, error: &io::Error) -> OpenError {
    let start = "start one with `farlane serve`, or check FARLANE_HOST";
    let by_vsock = matches!(endpoint, Endpoint::Vsock { .. });
    let (reason, what) = match error.kind() {
        // A hypervisor answers for a port on which no process listens.
        ErrorKind::ConnectionReset if by_vsock => (OpenReason::Unreachable, format!("no host listens there; {start}")),
        _ if by_vsock
            && matches!(error.raw_os_error(), Some(libc::ENODEV | libc::EAFNOSUPPORT | libc::ENETUNREACH)) =>
        {
            let why = "this machine has no vsock: give it one (for QEMU -device vhost-vsock-pci, for libvirt <vsock>)";
            (OpenReason::Unreachable, format!("{why}, or use the host's network address"))
        }
        ErrorKind::ConnectionRefused => (OpenReason::Unreachable, format!("no host listens there; {start}")),
        ErrorKind::NotFound if matches!(endpoint, Endpoint::Unix(_)) => {
            (OpenReason::Unreachable, format!("there is no such socket; {start}"))
        }
        ErrorKind::TimedOut => (OpenReason::Timeout, format!("no answer in time; {start}, or raise FARLANE_TIMEOUT")),
        _ => (OpenReason::Unreachable, format!("{error}; check FARLANE_HOST and the network")),
    };
    OpenError::new(reason, format!("cannot connect to {endpoint}: {what}"))
}
