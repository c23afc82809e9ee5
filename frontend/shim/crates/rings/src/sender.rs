//! The sending end of a ring.

use std::time::Instant;

use crate::copying;
use crate::error::Error;
use crate::half::{padding, Half, LENGTH_BYTES, LONGEST};
use crate::spin::Counters;

/// Bytes of the ring, lent to copy to or from: until the next call of the half that lent them.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    pub start: *mut u8,
    pub length: usize,
}

/// Sends messages, in order. One thread at a time.
pub struct Sender {
    half: Half<true>,
    unwritten: u64,
    padding: u64,
}

impl Sender {
    pub(crate) fn new(half: Half<true>) -> Self {
        Sender { half, unwritten: 0, padding: 0 }
    }

    /// Sends one message, whose bytes are those of the slices, and waits while the ring is full.
    ///
    /// `TimedOut` and `Interrupted` may come after a part was sent: then [`Sender::unwritten`] says how many bytes
    /// are left, and [`Sender::write`] sends them.
    pub fn send(&mut self, slices: &[&[u8]], deadline: Option<Instant>) -> Result<(), Error> {
        self.begin(slices.iter().map(|slice| slice.len() as u64).sum(), deadline)?;
        // SAFETY: slices may be read.
        slices.iter().try_for_each(|slice| unsafe { self.append(slice.as_ptr(), slice.len(), deadline) })
    }

    /// Sends one message if the ring has room for all of it; else sends nothing and returns false.
    pub fn try_send(&mut self, slices: &[&[u8]]) -> Result<bool, Error> {
        let length = slices.iter().map(|slice| slice.len() as u64).sum();
        if !self.has_room(length)? {
            return Ok(false);
        }
        self.put_length(length);
        for slice in slices {
            // SAFETY: a slice may be read, and there is room.
            unsafe { self.put(slice.as_ptr(), slice.len()) };
        }
        Ok(true)
    }

    /// Begins a message of that length. [`Sender::write`], or [`Sender::space`] and [`Sender::filled`], give its bytes.
    pub fn begin(&mut self, length: u64, deadline: Option<Instant>) -> Result<(), Error> {
        self.may_begin()?;
        if length > LONGEST {
            return Err(Error::TooMuch);
        }
        if self.free() < LENGTH_BYTES {
            let whole = LENGTH_BYTES + length + padding(length);
            self.wait_for(LENGTH_BYTES, whole, deadline)?;
        }
        self.put_length(length);
        Ok(())
    }

    /// How many bytes the message lacks that was begun.
    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// Writes the next bytes of the message that was begun, and waits while the ring is full. The other side sees
    /// them at once, not only when the message is complete.
    pub fn write(&mut self, bytes: &[u8], deadline: Option<Instant>) -> Result<(), Error> {
        // SAFETY: a slice may be read.
        unsafe { self.write_from(bytes.as_ptr(), bytes.len(), deadline) }
    }

    /// As [`Sender::write`], from memory that other threads may be writing to.
    ///
    /// # Safety
    /// `length` bytes from `from` on can be read and are not part of the rings.
    pub unsafe fn write_from(
        &mut self,
        from: *const u8,
        length: usize,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        self.half.enter()?;
        if length as u64 > self.unwritten {
            return Err(Error::TooMuch);
        }
        // SAFETY: the caller's.
        unsafe { self.append(from, length, deadline) }?;
        self.half.publish();
        Ok(())
    }

    /// Publishes whole pieces and the message's end only.
    ///
    /// # Safety
    /// As above, and the message has so many bytes left.
    unsafe fn append(&mut self, from: *const u8, length: usize, deadline: Option<Instant>) -> Result<(), Error> {
        let mut done = 0;
        while done < length {
            let step = self.half.piece().min((length - done) as u64);
            self.wait_room(step, deadline)?;
            // SAFETY: `done + step` is at most `length`, and there is room.
            unsafe { self.put(from.add(done), step as usize) };
            done += step as usize;
        }
        Ok(())
    }

    /// Lends the next bytes of the ring for the message that was begun: at least one unless the message is complete,
    /// which [`Sender::filled`] counts as written.
    pub fn space(&mut self, deadline: Option<Instant>) -> Result<Piece, Error> {
        self.half.enter()?;
        self.wait_room(self.half.piece().min(self.unwritten), deadline)?;
        let length = self.room().min(self.unwritten) as usize;
        let (start, length) = self.half.ring.places(self.half.own, length).0;
        Ok(Piece { start, length })
    }

    /// The first `length` bytes of [`Sender::space`] are filled.
    pub fn filled(&mut self, length: usize) -> Result<(), Error> {
        self.half.enter()?;
        if length as u64 > self.room().min(self.unwritten) {
            return Err(Error::TooMuch);
        }
        self.advance(length as u64);
        self.half.publish();
        Ok(())
    }

    /// Waits for room for a message of at most that length, to be filled in place. Its real length is known at
    /// [`Reservation::commit`]. Nothing is sent before.
    pub fn reserve(&mut self, at_most: usize, deadline: Option<Instant>) -> Result<Reservation<'_>, Error> {
        if !self.has_room(at_most as u64)? {
            let whole = LENGTH_BYTES + at_most as u64 + padding(at_most as u64);
            self.wait_for(whole, whole, deadline)?;
        }
        Ok(Reservation { sender: self, at_most, length: 0 })
    }

    pub fn counters(&self) -> Counters {
        self.half.counters
    }

    /// The ring that this side sends to, for tests that play a hostile peer.
    #[cfg(test)]
    pub(crate) fn test_ring(&self) -> crate::layout::Ring {
        self.half.ring.again()
    }

    fn may_begin(&self) -> Result<(), Error> {
        self.half.enter()?;
        if self.unwritten == 0 {
            Ok(())
        } else {
            Err(Error::Unfinished)
        }
    }

    /// Whether a whole message fits now.
    fn has_room(&mut self, length: u64) -> Result<bool, Error> {
        self.may_begin()?;
        if length > self.half.ring.capacity() - LENGTH_BYTES {
            return Err(Error::TooMuch);
        }
        let whole = LENGTH_BYTES + length + padding(length);
        if self.free() < whole {
            self.half.look()?;
        }
        Ok(self.free() >= whole)
    }

    #[inline]
    fn free(&self) -> u64 {
        self.half.ring.capacity() - (self.half.own - self.half.seen)
    }

    /// The free bytes, less those that the padding may need.
    #[inline]
    fn room(&self) -> u64 {
        self.free().saturating_sub(7)
    }

    #[inline]
    fn wait_room(&mut self, step: u64, deadline: Option<Instant>) -> Result<(), Error> {
        if self.room() < step {
            self.wait_for(step + 7, self.unwritten + 7, deadline)?;
        }
        Ok(())
    }

    /// Waits until `least` bytes are free. A sleep ends when `wanted` are, or half the ring.
    fn wait_for(&mut self, least: u64, wanted: u64, deadline: Option<Instant>) -> Result<(), Error> {
        let capacity = self.half.ring.capacity();
        let wanted = wanted.min(capacity / 2).max(least);
        let index = |free: u64| (self.half.own + free).saturating_sub(capacity);
        self.half.wait(index(least), index(wanted), deadline)
    }

    /// Room for it was checked. Published with the first bytes.
    #[inline]
    fn put_length(&mut self, length: u64) {
        self.half.ring.store_length(self.half.own, length);
        self.half.own += LENGTH_BYTES;
        self.unwritten = length;
        self.padding = padding(length);
        if length == 0 {
            self.half.publish();
        }
    }

    /// # Safety
    /// The bytes can be read, and room for them was checked.
    #[inline]
    unsafe fn put(&mut self, from: *const u8, length: usize) {
        if length != 0 {
            // SAFETY: the caller's.
            unsafe { copying::into_ring(&self.half.ring, self.half.own, from, length) };
            self.advance(length as u64);
        }
    }

    #[inline]
    fn advance(&mut self, length: u64) {
        self.half.own += length;
        self.unwritten -= length;
        if self.unwritten == 0 && length != 0 {
            self.half.own += self.padding;
            self.half.publish();
        } else {
            self.half.publish_piece();
        }
    }
}

/// Room for one message. Dropped without [`Reservation::commit`], nothing is sent.
pub struct Reservation<'a> {
    sender: &'a mut Sender,
    at_most: usize,
    length: usize,
}

impl Reservation<'_> {
    /// Appends bytes.
    pub fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() > self.at_most - self.length {
            return Err(Error::TooMuch);
        }
        if !bytes.is_empty() {
            // SAFETY: a slice may be read; the room is reserved.
            unsafe { copying::into_ring(&self.sender.half.ring, self.next(), bytes.as_ptr(), bytes.len()) };
            self.length += bytes.len();
        }
        Ok(())
    }

    /// The room that is left, to be filled in place: up to the ring's end, and from its beginning.
    pub fn pieces(&self) -> [Piece; 2] {
        let (first, second) = self.sender.half.ring.places(self.next(), self.at_most - self.length);
        [first, second].map(|(start, length)| Piece { start, length })
    }

    /// The next `length` bytes of [`Reservation::pieces`] are filled.
    pub fn filled(&mut self, length: usize) -> Result<(), Error> {
        if length > self.at_most - self.length {
            return Err(Error::TooMuch);
        }
        self.length += length;
        Ok(())
    }

    /// Sends what was put and filled as one message.
    #[cfg(test)]
    pub fn commit(self) {
        self.sender.put_length(self.length as u64);
        self.sender.advance(self.length as u64);
    }

    fn next(&self) -> u64 {
        self.sender.half.own + LENGTH_BYTES + self.length as u64
    }
}
