//! Pinned memory that bytes go through on their way to a GPU.
//!
//! Chunks are filled one after another with what the guest sends. A chunk is filled anew only when the copies out of it are over, which an
//! event on each stream that used it tells. Small writes cost no event: the events are recorded when the chunk is full.
//!
//! Copies from pinned memory are asynchronous, those from other memory are not: that is what the copying in between buys.
//! Source: CUDA programming guide, "Page-Locked Host Memory".

use super::functions::Functions;
use crate::device::work::{Fault, PIECE};
use std::collections::VecDeque;

/// Chunks of a session, each of [`PIECE`] bytes.
pub const CHUNKS: usize = 16;
const ALIGNMENT: usize = 256;

/// Pinned memory. `events` end with the copies out of it.
struct Chunk {
    address: usize,
    filled: usize,
    streams: Vec<usize>,
    events: Vec<usize>,
}

/// See the module's page.
#[derive(Default)]
pub(super) struct Outgoing {
    /// Oldest first.
    full: VecDeque<Chunk>,
    open: Option<Chunk>,
}

impl Outgoing {
    /// Keeps at most [`PIECE`] bytes and returns their address; the caller issues the copy on that stream next.
    pub(super) fn put(&mut self, functions: &Functions, data: &[u8], stream: usize) -> Result<usize, Fault> {
        let place = self.reserve(functions, data.len(), stream)?;
        // SAFETY: the chunk is ours, has so much room, and nothing is copied out of it there any more.
        unsafe { data.as_ptr().copy_to_nonoverlapping(place as *mut u8, data.len()) };
        Ok(place)
    }

    /// Room for at most [`PIECE`] bytes, which the caller fills before it issues the copy on that stream, and before it asks for more.
    pub(super) fn reserve(&mut self, functions: &Functions, size: usize, stream: usize) -> Result<usize, Fault> {
        assert!(size <= PIECE, "a chunk is smaller");
        let mut chunk = match self.open.take() {
            Some(open) if open.filled + size <= PIECE => open,
            open => {
                if let Some(open) = open {
                    self.close(functions, open)?;
                }
                self.take(functions)?
            }
        };
        let place = chunk.address + chunk.filled;
        chunk.filled = (chunk.filled + size).next_multiple_of(ALIGNMENT);
        if !chunk.streams.contains(&stream) {
            chunk.streams.push(stream);
        }
        self.open = Some(chunk);
        Ok(place)
    }

    /// The stream ends: after this nothing can be recorded on it.
    pub(super) fn leave(&mut self, functions: &Functions, stream: usize) -> Result<(), Fault> {
        if let Some(open) = &mut self.open {
            if let Some(at) = open.streams.iter().position(|&used| used == stream) {
                open.streams.swap_remove(at);
                mark(functions, open, stream)?;
            }
        }
        Ok(())
    }

    fn close(&mut self, functions: &Functions, mut chunk: Chunk) -> Result<(), Fault> {
        let streams = std::mem::take(&mut chunk.streams);
        let marked = streams.into_iter().try_for_each(|stream| mark(functions, &mut chunk, stream));
        self.full.push_back(chunk);
        marked
    }

    /// A chunk that nothing is copied out of. Only when all are in use does it wait, for the oldest.
    fn take(&mut self, functions: &Functions) -> Result<Chunk, Fault> {
        let free = match self.full.front() {
            None => false,
            Some(oldest) => {
                self.full.len() >= CHUNKS || oldest.events.iter().all(|&event| functions.query_event(event).is_ok())
            }
        };
        if !free {
            let address = functions.pinned(PIECE)?;
            return Ok(Chunk { address, filled: 0, streams: vec![], events: vec![] });
        }
        let oldest = &mut self.full[0];
        while let Some(&event) = oldest.events.last() {
            functions.synchronize_event(event)?;
            oldest.events.pop();
            functions.destroy_event(event)?;
        }
        oldest.filled = 0;
        Ok(self.full.pop_front().expect("it is there"))
    }

    /// Gives the memory back. No work runs, or the context is lost, and what is in it ends with it.
    pub(super) fn end(&mut self, functions: &Functions) {
        for chunk in self.full.drain(..).chain(self.open.take()) {
            for event in chunk.events {
                let _ = functions.destroy_event(event);
            }
            let _ = functions.free_pinned(chunk.address);
        }
    }
}

fn mark(functions: &Functions, chunk: &mut Chunk, stream: usize) -> Result<(), Fault> {
    let event = functions.event()?;
    chunk.events.push(event);
    functions.record_event(event, stream)
}
