//! Pinned memory that bytes go through on their way from a GPU: pieces in turns, so that the GPU fills one while the other is sent.

use super::functions::Functions;
use crate::device::ranges::Rows;
use crate::device::work::{Fault, PIECE};
use std::ops::Range;

const TURNS: u64 = 3;
const PIECE_BYTES: u64 = PIECE as u64;

/// A place for a piece, and the event of the copy to it.
struct Place {
    address: usize,
    event: usize,
}

/// See the module's page.
#[derive(Default)]
pub(super) struct Incoming {
    places: Vec<Place>,
    /// Of the read that runs: pieces whose copy was issued, and those that have come.
    issued: u64,
    taken: u64,
    stream: usize,
}

impl Incoming {
    /// Waits for the piece that begins at `from`. Up to two are on their way while one is looked at.
    pub(super) fn fetch(&mut self, functions: &Functions, rows: &Rows, from: u64, stream: usize) -> Result<(), Fault> {
        let pieces = rows.size().unwrap_or_default().div_ceil(PIECE_BYTES);
        let number = from / PIECE_BYTES;
        if number == 0 {
            self.begin(functions, pieces, stream)?;
        }
        if pieces == 1 {
            self.issue(functions, rows, 0, stream)?;
            return functions.synchronize_stream(stream);
        }
        while self.issued < pieces.min(number + TURNS - 1) {
            let turn = self.issued;
            self.issue(functions, rows, turn, stream)?;
            functions.record_event(self.place(turn).event, stream)?;
            self.issued += 1;
        }
        functions.synchronize_event(self.place(number).event)?;
        self.taken = number + 1;
        Ok(())
    }

    /// A read of so many pieces begins. One that was given up halfway is waited for: its places must be free.
    fn begin(&mut self, functions: &Functions, pieces: u64, stream: usize) -> Result<(), Fault> {
        let given_up = self.issued > self.taken;
        (self.issued, self.taken) = (0, 0);
        if given_up {
            functions.synchronize_stream(self.stream)?;
        }
        self.stream = stream;
        while (self.places.len() as u64) < pieces.min(TURNS) {
            let (address, event) = (functions.pinned(PIECE)?, functions.event()?);
            self.places.push(Place { address, event });
        }
        Ok(())
    }

    fn issue(&self, functions: &Functions, rows: &Rows, number: u64, stream: usize) -> Result<(), Fault> {
        let from = number * PIECE_BYTES;
        let size = (rows.size().unwrap_or_default() - from).min(PIECE_BYTES);
        functions.copy_to_host(self.place(number).address, rows.address + from, size as usize, stream)
    }

    fn place(&self, number: u64) -> &Place {
        &self.places[(number % TURNS) as usize]
    }

    /// The bytes of a piece that has come.
    pub(super) fn fetched(&self, part: &Range<u64>) -> &[u8] {
        let size = ((part.end - part.start) as usize).min(PIECE);
        let place = self.place(part.start / PIECE_BYTES);
        // SAFETY: the place has PIECE bytes, which the driver has filled, and fills anew with a later `fetch` only.
        unsafe { std::slice::from_raw_parts(place.address as *const u8, size) }
    }

    /// Gives the memory back. No work runs, or the context is lost, and what is in it ends with it.
    pub(super) fn end(&mut self, functions: &Functions) {
        for place in self.places.drain(..) {
            let _ = functions.free_pinned(place.address);
            let _ = functions.destroy_event(place.event);
        }
        (self.issued, self.taken) = (0, 0);
    }
}
