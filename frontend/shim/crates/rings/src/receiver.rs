//! The receiving end of a ring.

use std::time::Instant;

use crate::copying;
use crate::error::{Error, Violation};
use crate::half::{padding, Half, LENGTH_BYTES, LONGEST};
use crate::sender::Piece;
use crate::spin::Counters;

/// What a length makes us reserve at most before its bytes are there.
const PROMISED: u64 = 4 << 20;

/// Receives messages, in order. One thread at a time.
pub struct Receiver {
    half: Half<false>,
    limit: u64,
    remaining: u64,
    padding: u64,
}

impl Receiver {
    pub(crate) fn new(half: Half<false>, limit: u64) -> Self {
        Receiver { half, limit: limit.min(LONGEST), remaining: 0, padding: 0 }
    }

    /// The longest message that is accepted from now on.
    pub fn set_limit(&mut self, limit: u64) {
        self.limit = limit.min(LONGEST);
    }

    /// Whether a message's beginning has arrived that [`Receiver::next`] has not returned yet. Does not wait. In the
    /// middle of a message: whether more of it has arrived.
    pub fn arrived(&mut self) -> Result<bool, Error> {
        self.half.enter()?;
        let least = if self.remaining == 0 { LENGTH_BYTES } else { 1 };
        Ok(self.available() >= least || self.half.look()? - self.half.own >= least)
    }

    /// Waits for the next message and returns its length. What is left of the one before is skipped first.
    pub fn next(&mut self, deadline: Option<Instant>) -> Result<u64, Error> {
        self.skip(deadline)?;
        if self.available() < LENGTH_BYTES {
            let end = self.half.own + LENGTH_BYTES;
            self.half.wait(end, end, deadline)?;
        }
        let length = self.half.ring.load_length(self.half.own);
        if length > self.limit {
            return Err(self.half.violated(Violation::MessageTooLong { limit: self.limit, length }));
        }
        self.half.own += LENGTH_BYTES;
        self.remaining = length;
        self.padding = padding(length);
        if length == 0 {
            self.half.publish();
        }
        Ok(length)
    }

    /// As [`Receiver::next`], without waiting: None if no message has arrived.
    #[cfg(test)]
    pub fn try_next(&mut self) -> Result<Option<u64>, Error> {
        self.half.enter()?;
        self.skip_arrived()?;
        if self.remaining != 0 || !self.arrived()? {
            return Ok(None);
        }
        self.next(None).map(Some)
    }

    /// How many bytes of the message have not been read.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// Reads the message's next bytes, all that `to` has room for, and waits for them.
    ///
    /// After `TimedOut`, `Interrupted` and `PeerGone` the bytes by which [`Receiver::remaining`] has become less are
    /// in `to`.
    pub fn read(&mut self, to: &mut [u8], deadline: Option<Instant>) -> Result<(), Error> {
        // SAFETY: a slice may be written.
        unsafe { self.read_to(to.as_mut_ptr(), to.len(), deadline) }
    }

    /// As [`Receiver::read`], to memory that other threads may be using.
    ///
    /// # Safety
    /// `length` bytes from `to` on can be written and are not part of the rings.
    pub unsafe fn read_to(&mut self, to: *mut u8, length: usize, deadline: Option<Instant>) -> Result<(), Error> {
        self.half.enter()?;
        if length as u64 > self.remaining {
            return Err(Error::TooMuch);
        }
        let mut done = 0;
        while done < length {
            let left = (length - done) as u64;
            let step = self.wait_bytes(left, deadline)?.min(left).min(self.half.piece()) as usize;
            // SAFETY: `done + step` is at most `length`, and so many bytes are there.
            unsafe { copying::out_of_ring(&self.half.ring, self.half.own, to.add(done), step) };
            self.advance(step as u64)?;
            done += step;
            if done < length {
                self.half.may_go_on(step as u64, deadline)?;
            }
        }
        Ok(())
    }

    /// Waits for the next message and puts it into `to`, whose contents it replaces.
    ///
    /// After an error in the middle of a message its beginning is in `to`.
    pub fn receive(&mut self, to: &mut Vec<u8>, deadline: Option<Instant>) -> Result<(), Error> {
        to.clear();
        self.next(deadline)?;
        self.rest(to, deadline)
    }

    /// Appends what is left of the message to `to`. The vector grows as the bytes arrive, at first to `PROMISED` bytes at most.
    ///
    /// As with [`Receiver::read`], nothing is lost by an error.
    pub fn rest(&mut self, to: &mut Vec<u8>, deadline: Option<Instant>) -> Result<(), Error> {
        self.half.enter()?;
        to.reserve(self.remaining.min(PROMISED) as usize);
        while self.remaining != 0 {
            let step = self.wait_bytes(self.remaining, deadline)?.min(self.remaining).min(self.half.piece()) as usize;
            to.reserve(step);
            // SAFETY: so many bytes are reserved and there; they are written before they count.
            unsafe {
                copying::out_of_ring(&self.half.ring, self.half.own, to.as_mut_ptr().add(to.len()), step);
                to.set_len(to.len() + step);
            }
            self.advance(step as u64)?;
            if self.remaining != 0 {
                self.half.may_go_on(step as u64, deadline)?;
            }
        }
        Ok(())
    }

    /// Lends the message's next bytes where they lie in the ring: at least one unless the message is read.
    /// [`Receiver::taken`] counts them as read.
    ///
    /// The other side can change them at any time, so copy from them, once, and judge the copy.
    pub fn piece(&mut self, deadline: Option<Instant>) -> Result<Piece, Error> {
        self.half.enter()?;
        let length = match self.remaining {
            0 => 0,
            remaining => self.wait_bytes(remaining, deadline)?.min(remaining) as usize,
        };
        let (start, length) = self.half.ring.places(self.half.own, length).0;
        Ok(Piece { start, length })
    }

    /// The first `length` bytes of [`Receiver::piece`] are read.
    pub fn taken(&mut self, length: usize) -> Result<(), Error> {
        self.half.enter()?;
        if length as u64 > self.available().min(self.remaining) {
            return Err(Error::TooMuch);
        }
        self.advance(length as u64)
    }

    /// Skips what is left of the message.
    pub fn skip(&mut self, deadline: Option<Instant>) -> Result<(), Error> {
        self.half.enter()?;
        while self.remaining != 0 {
            let before = self.remaining;
            self.wait_bytes(before, deadline)?;
            self.skip_arrived()?;
            if self.remaining != 0 {
                self.half.may_go_on(before - self.remaining, deadline)?;
            }
        }
        Ok(())
    }

    pub fn counters(&self) -> Counters {
        self.half.counters
    }

    /// Skips what has arrived of the message.
    fn skip_arrived(&mut self) -> Result<(), Error> {
        if self.remaining != 0 {
            self.half.look()?;
            self.advance(self.available().min(self.remaining))?;
        }
        Ok(())
    }

    /// The bytes that have arrived, by what was last seen.
    #[inline]
    fn available(&self) -> u64 {
        self.half.seen - self.half.own
    }

    /// Waits until some of the message's next `wanted` bytes are there; returns how many bytes are.
    #[inline]
    fn wait_bytes(&mut self, wanted: u64, deadline: Option<Instant>) -> Result<u64, Error> {
        if self.available() < wanted.min(self.half.piece()) {
            self.half.look()?;
        }
        if self.available() == 0 {
            let wanted = wanted.min(self.half.ring.capacity() / 2);
            self.half.wait(self.half.own + 1, self.half.own + wanted, deadline)?;
        }
        Ok(self.available())
    }

    /// Counts bytes as read that have arrived.
    #[inline]
    fn advance(&mut self, length: u64) -> Result<(), Error> {
        self.half.own += length;
        self.remaining -= length;
        if self.remaining != 0 {
            self.half.publish_piece();
        } else if length != 0 {
            // The sender publishes a message's last bytes together with the padding.
            let end = self.half.own + self.padding;
            if self.half.seen < end {
                return Err(self.half.violated(Violation::IndexInPadding { end, now: self.half.seen }));
            }
            self.half.own = end;
            self.half.publish();
        }
        Ok(())
    }
}
