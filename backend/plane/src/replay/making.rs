//! Streams and events that are made and ended without the control plane: on devices where they are no more than their objects.

use super::control::{Control, End};
use super::errors::CudaError;
use super::handles::{Known, Object, Refused, Table};
use super::walk::Walk;
use super::work::Done;
use crate::device::objects::{Event, Stream};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use tape::operations::code;
use tape::Record;

const DISABLE_TIMING: u32 = 2; // cudaEventDisableTiming

impl<C: Control> Walk<'_, C> {
    /// The stream; `None`: what there is, or that there is none, is the control plane's to say.
    pub(super) fn stream(&self, number: u32) -> Option<Arc<Stream>> {
        self.replay.streams.stream(number)
    }

    /// The event, as [`Self::stream`].
    pub(super) fn event(&self, number: u32) -> Option<Arc<Event>> {
        self.replay.events.event(number)
    }

    /// Makes or ends a stream or an event. `None`: it is the control plane's.
    pub(super) fn make_object(&self, record: &Record<'_>) -> Result<Done, End<C::Abort>> {
        let handle = record.u32(8);
        let replay = &*self.replay;
        if !replay.direct.makes_objects() {
            return Ok(None);
        }
        let done = match record.row.code {
            code::STREAM_CREATE => claimed(&replay.streams, handle, || Known::Stream(Arc::new(Stream::new(0, true))))?,
            code::EVENT_CREATE => {
                let timed = record.u32(12) & DISABLE_TIMING == 0;
                claimed(&replay.events, handle, || Known::Event(Arc::new(Event::new(0, timed))))?
            }
            code::STREAM_DESTROY => {
                replay.standing.resolved.fetch_add(1, Ordering::Relaxed); // launches were resolved to it
                released(&replay.streams, handle)
            }
            _ => released(&replay.events, handle),
        };
        replay.direct.count_object();
        Ok(Some(done))
    }
}

fn claimed<A>(table: &Table, handle: u32, make: impl FnOnce() -> Known) -> Result<Result<(), CudaError>, End<A>> {
    match table.claim(handle) {
        Ok(()) => table.fill(handle, Object { known: make(), control: None }),
        Err(Refused::Failed(error)) => return Ok(Err(error)),
        Err(Refused::Broken(rule)) => return Err(End::Broken(rule)),
    }
    Ok(Ok(()))
}

fn released(table: &Table, handle: u32) -> Result<(), CudaError> {
    match table.release(handle)?.map(|object| object.known) {
        Some(Known::Stream(stream)) => stream.end(),
        Some(Known::Event(event)) => event.end(),
        Some(Known::Nothing) | None => {}
    }
    Ok(())
}
