//! The other side's life, seen through the socket, and this side's interrupt flag. Both halves share one `Peer`.

use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::futex;
use crate::layout::{Bell, Ring};

/// What waits look at besides the ring.
pub(crate) struct Peer {
    /// None in tests under Miri, which has no `poll` for sockets.
    socket: Option<UnixStream>,
    gone: AtomicBool,
    interrupted: AtomicBool,
}

impl Peer {
    pub fn new(socket: Option<UnixStream>) -> Self {
        Peer { socket, gone: AtomicBool::new(false), interrupted: AtomicBool::new(false) }
    }

    pub fn socket(&self) -> Option<&UnixStream> {
        self.socket.as_ref()
    }

    /// Looks at the socket without waiting; what was seen once holds for ever.
    pub fn is_gone(&self) -> bool {
        if self.gone.load(Ordering::Relaxed) {
            return true;
        }
        let Some(socket) = &self.socket else { return false };
        let mut poll = libc::pollfd { fd: socket.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: one structure, which is this function's.
        let count = unsafe { libc::poll(&mut poll, 1, 0) };
        let ends = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
        let gone = count > 0 && poll.revents & ends != 0;
        if gone {
            self.gone.store(true, Ordering::Relaxed);
        }
        gone
    }

    /// Whether that has been seen already: no system call.
    #[inline]
    pub fn was_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub fn leave(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    #[inline]
    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::SeqCst)
    }
}

/// What any thread may do with a side's rings. Copies of it are the same.
#[derive(Clone)]
pub struct Handle {
    peer: Arc<Peer>,
    rings: Arc<[Ring; 2]>,
}

impl Handle {
    /// `outgoing` and `incoming` are this side's.
    pub(crate) fn new(peer: Arc<Peer>, outgoing: Ring, incoming: Ring) -> Self {
        Handle { peer, rings: Arc::new([outgoing, incoming]) }
    }

    /// Ends the waits of this side's sender and receiver, and all later ones until [`Handle::resume`].
    pub fn interrupt(&self) {
        self.peer.interrupted.store(true, Ordering::SeqCst);
        let [outgoing, incoming] = &*self.rings;
        if outgoing.memory.is_here() {
            // Whatever the flags say: the other side may have written them.
            wake(&outgoing.control().sender.0);
            wake(&incoming.control().receiver.0);
        }
    }

    /// Waits are possible again.
    pub fn resume(&self) {
        self.peer.interrupted.store(false, Ordering::SeqCst);
    }

    /// Looks at the socket: whether the other side has ended or closed it.
    pub fn peer_is_gone(&self) -> bool {
        self.peer.is_gone()
    }

    /// For the handler of a fork in the child: the child lets go of its copy of the socket, so that the other side
    /// notices when the parent ends. It only makes system calls. In the process that made the rings it does nothing.
    pub fn close_in_child(&self) {
        let (Some(socket), false) = (self.peer.socket(), self.rings[0].memory.is_here()) else { return };
        // The number stays taken, so that dropping the socket closes nothing of the child's.
        // SAFETY: system calls on a path that ends with zero and on descriptors of this process.
        unsafe {
            let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC);
            if nothing >= 0 {
                libc::dup3(nothing, socket.as_raw_fd(), libc::O_CLOEXEC);
                libc::close(nothing);
            }
        }
    }
}

fn wake(bell: &Bell) {
    bell.flag.store(0, Ordering::SeqCst);
    futex::wake(&bell.flag);
}
