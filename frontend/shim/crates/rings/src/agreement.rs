//! The agreement: 32 bytes and one descriptor, sent by the offering side as the first thing on the socket.
//!
//! ```text
//! magic (u64) | version (u32) | 0 (u32) | capacity of the ring to the accepting side (u64) | of the other ring (u64)
//! ```
//!
//! Little endian. The accepting side sends nothing back: it closes the socket if it refuses.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Instant;

use crate::error::{Error, Violation};
use crate::layout::Capacities;

pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"FARLRING");
pub(crate) const VERSION: u32 = 1;
pub(crate) const BYTES: usize = 32;

/// Room for control messages with a descriptor more than is allowed, so that a second one is seen, aligned as they
/// need it.
#[repr(C, align(8))]
struct Ancillary([u8; 64]);

pub(crate) fn encode(capacities: Capacities) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[16..24].copy_from_slice(&(capacities.0[0] as u64).to_le_bytes());
    bytes[24..].copy_from_slice(&(capacities.0[1] as u64).to_le_bytes());
    bytes
}

pub(crate) fn decode(bytes: &[u8; BYTES], largest: usize) -> Result<Capacities, Violation> {
    let word = |place: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[place + n]));
    if word(0) != MAGIC {
        return Err(Violation::Magic(word(0)));
    }
    // The word behind the version is zero in version 1.
    if word(8) != u64::from(VERSION) {
        return Err(Violation::Version(word(8) as u32));
    }
    let capacity = |place| usize::try_from(word(place)).map_err(|_| Violation::Capacity(word(place)));
    Capacities([capacity(16)?, capacity(24)?]).check(largest)
}

/// Waits until the socket can be read or written.
fn ready(socket: &UnixStream, events: libc::c_short, deadline: Option<Instant>) -> Result<(), Error> {
    loop {
        let milliseconds = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
            None => -1,
            Some(time) if time.is_zero() => return Err(Error::TimedOut),
            Some(time) => i32::try_from(time.as_millis()).unwrap_or(i32::MAX - 1) + 1,
        };
        let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events, revents: 0 };
        // SAFETY: one structure, which is this function's.
        match unsafe { libc::poll(&mut poll, 1, milliseconds) } {
            0 => return Err(Error::TimedOut),
            1.. => return Ok(()),
            _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
            _ => return Err(Error::last("poll")),
        }
    }
}

/// What a call on the socket returned: Some bytes, or None where it is to be tried again.
fn outcome(call: &'static str, result: isize) -> Result<Option<usize>, Error> {
    if let Ok(count) = usize::try_from(result) {
        return Ok(Some(count));
    }
    match io::Error::last_os_error().raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR) => Ok(None),
        Some(libc::EPIPE | libc::ECONNRESET) => Err(Error::PeerGone),
        _ => Err(Error::last(call)),
    }
}

fn header(bytes: &mut libc::iovec, ancillary: &mut Ancillary, length: usize) -> libc::msghdr {
    // SAFETY: zeroed is an empty header.
    let mut header = unsafe { std::mem::zeroed::<libc::msghdr>() };
    header.msg_iov = bytes;
    header.msg_iovlen = 1;
    header.msg_control = ancillary.0.as_mut_ptr().cast();
    header.msg_controllen = length as _;
    header
}

/// Sends the agreement, and the descriptor with its first byte.
pub(crate) fn send(
    socket: &UnixStream,
    capacities: Capacities,
    file: &OwnedFd,
    deadline: Option<Instant>,
) -> Result<(), Error> {
    let bytes = encode(capacities);
    let mut sent = 0;
    while sent < BYTES {
        let rest = &bytes[sent..];
        let mut vector = libc::iovec { iov_base: rest.as_ptr().cast_mut().cast(), iov_len: rest.len() };
        let mut ancillary = Ancillary([0; 64]);
        // SAFETY: the length of a control message with one descriptor.
        let (space, length) = unsafe { (libc::CMSG_SPACE(4), libc::CMSG_LEN(4)) };
        let header = header(&mut vector, &mut ancillary, if sent == 0 { space as usize } else { 0 });
        if sent == 0 {
            // SAFETY: the header's control buffer has room for one such message.
            unsafe {
                let control = libc::CMSG_FIRSTHDR(&header);
                (*control).cmsg_level = libc::SOL_SOCKET;
                (*control).cmsg_type = libc::SCM_RIGHTS;
                (*control).cmsg_len = length as _;
                libc::CMSG_DATA(control).cast::<RawFd>().write_unaligned(file.as_raw_fd());
            }
        }
        ready(socket, libc::POLLOUT, deadline)?;
        // SAFETY: the header names buffers of this function.
        let result = unsafe { libc::sendmsg(socket.as_raw_fd(), &header, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
        sent += outcome("sendmsg", result)?.unwrap_or(0);
    }
    Ok(())
}

/// Receives the agreement and the one descriptor.
pub(crate) fn receive(
    socket: &UnixStream,
    largest: usize,
    deadline: Option<Instant>,
) -> Result<(Capacities, OwnedFd), Error> {
    let mut bytes = [0; BYTES];
    let mut descriptors = Vec::new();
    let mut received = 0;
    while received < BYTES {
        ready(socket, libc::POLLIN, deadline)?;
        let rest = &mut bytes[received..];
        let mut vector = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        let mut ancillary = Ancillary([0; 64]);
        let mut header = header(&mut vector, &mut ancillary, 64);
        let flags = libc::MSG_CMSG_CLOEXEC | libc::MSG_DONTWAIT;
        // SAFETY: the header names buffers of this function.
        let Some(count) = outcome("recvmsg", unsafe { libc::recvmsg(socket.as_raw_fd(), &mut header, flags) })? else {
            continue;
        };
        take_descriptors(&header, &mut descriptors);
        if header.msg_flags & libc::MSG_CTRUNC != 0 {
            return Err(Violation::Descriptors(descriptors.len() + 1).into());
        }
        if count == 0 {
            return Err(Error::PeerGone);
        }
        received += count;
    }
    let capacities = decode(&bytes, largest)?;
    match descriptors.len() {
        1 => Ok((capacities, descriptors.remove(0))),
        count => Err(Violation::Descriptors(count).into()),
    }
}

/// Each descriptor gets an owner, so that none stays open whatever else is wrong.
fn take_descriptors(header: &libc::msghdr, descriptors: &mut Vec<OwnedFd>) {
    // SAFETY: the kernel has filled the control buffer, and its macros walk it. Each descriptor in it is new and ours.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(header);
        while !control.is_null() {
            if (*control).cmsg_level == libc::SOL_SOCKET && (*control).cmsg_type == libc::SCM_RIGHTS {
                let bytes = (*control).cmsg_len as usize - libc::CMSG_LEN(0) as usize;
                let data = libc::CMSG_DATA(control).cast::<RawFd>();
                for number in 0..bytes / size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(number).read_unaligned()));
                }
            }
            control = libc::CMSG_NXTHDR(header, control);
        }
    }
}
