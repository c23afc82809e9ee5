//! Wakes the background thread, which otherwise sleeps until a descriptor is ready.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

/// An eventfd: rung by any thread, waited for by one.
#[derive(Debug)]
pub(crate) struct Bell(OwnedFd);

impl Bell {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: no pointers are passed; the result is checked before it is used.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a fresh descriptor that has no other owner.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(descriptor) }))
    }

    pub(crate) fn ring(&self) {
        let one = 1_u64;
        // SAFETY: writes 8 bytes of an 8-byte integer. It fails only where the bell rings already.
        unsafe { libc::write(self.0.as_raw_fd(), (&raw const one).cast(), size_of::<u64>()) };
    }

    /// Waits for the bell, for so long at most, or until one of the descriptors has one of its events. True: the bell has
    /// rung, or another descriptor than the first has.
    pub(crate) fn wait(&self, others: [(RawFd, libc::c_short); 3], limit: Option<Duration>) -> bool {
        let watch = |(fd, events)| libc::pollfd { fd, events, revents: 0 };
        let [first, second, third] = others;
        let mut watched = [watch((self.0.as_raw_fd(), libc::POLLIN)), watch(first), watch(second), watch(third)];
        let limit = limit.map(|limit| libc::timespec {
            tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: libc::c_long::from(limit.subsec_nanos().cast_signed()),
        });
        let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // SAFETY: four entries and a limit that live over the call. A call that fails is one that ends early.
        unsafe { libc::ppoll(watched.as_mut_ptr(), 4, limit, std::ptr::null()) };
        if watched[0].revents != 0 {
            let mut rings = 0_u64;
            // SAFETY: reads at most 8 bytes into an 8-byte integer; the descriptor does not block.
            unsafe { libc::read(self.0.as_raw_fd(), (&raw mut rings).cast(), size_of::<u64>()) };
        }
        [0, 2, 3].iter().any(|&number| watched[number].revents != 0)
    }
}

/// No descriptor: `poll` passes it over.
pub(crate) const NONE: (RawFd, libc::c_short) = (-1, 0);

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn a_ring_ends_a_wait_once() {
        let bell = Bell::new().expect("an eventfd");
        bell.ring();
        bell.ring();
        assert!(bell.wait([NONE; 3], None));
        let started = Instant::now();
        assert!(!bell.wait([NONE; 3], Some(Duration::from_millis(2))));
        assert!(started.elapsed() >= Duration::from_millis(2));
    }
}
