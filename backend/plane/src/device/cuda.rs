//! A device behind a CUDA driver: the plane calls the driver's functions, whose addresses Python gives it.
//!
//! Work is issued to the driver's streams and not waited for. What waits, without Python's lock, is: a read, a synchronization, and a write
//! when all pinned memory is on its way. Left to Python are: reads of rows that are apart; cooperative launches; all
//! launches of a driver that does not tell the layout of parameters; arrays, which are in no range of [`Ranges`]; and a
//! synchronization of the device where memory is to be given back after it.
//!
//! This page has the calls, in the CUDA context of the session. [`functions`] has the driver's functions, [`kernel`] launches, [`outgoing`]
//! and [`incoming`] the pinned memory that bytes go through, and [`order`] what work of non-blocking streams waits for. [`repeat`]
//! and [`graph`] do iterations of a loop's body, one step after another or several iterations at once.
//!
//! One thread at a time works here. It makes the CUDA context its own at the begin of each message (`enter`).
//!
//! Source: CUDA driver API, "Stream Management", "Event Management", "Memory Management", "Execution Control".
//!
//! [`Ranges`]: super::ranges::Ranges

#[cfg(test)]
pub(crate) mod fake;
pub mod functions;
pub mod graph;
pub mod incoming;
pub mod kernel;
pub mod order;
pub mod outgoing;
pub mod repeat;
mod rows;
#[cfg(test)]
mod tests;

use super::objects::{Event, Stream};
use super::ranges::Rows;
use super::work::{Awaited, Fault, Timed, Tried, Work, PIECE};
use functions::Functions;
use incoming::Incoming;
use order::Order;
use outgoing::Outgoing;
use parking_lot::Mutex;
use rows::{Box2D, End};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;

/// The legacy default stream's handle.
pub const LEGACY: usize = 1;
/// A query's answer that is no error.
const NOT_READY: i32 = 600;

/// A session's share of a GPU.
pub struct Cuda {
    functions: Functions,
    context: AtomicUsize,
    order: Mutex<Order>,
    outgoing: Mutex<Outgoing>,
    incoming: Mutex<Incoming>,
    /// In pinned memory: where the bytes of a copy were to go that has not been issued yet.
    placed: AtomicUsize,
    /// After a synchronization of the device Python gives memory back.
    collects: AtomicBool,
}

impl Cuda {
    /// Of the CUDA context with this handle.
    #[must_use]
    pub fn new(functions: Functions, context: usize) -> Self {
        Self {
            functions,
            context: AtomicUsize::new(context),
            order: Mutex::default(),
            outgoing: Mutex::default(),
            incoming: Mutex::default(),
            placed: AtomicUsize::new(0),
            collects: AtomicBool::new(false),
        }
    }

    /// The CUDA context is another one from now on.
    pub fn set_context(&self, context: usize) {
        self.context.store(context, Ordering::Relaxed);
    }

    pub fn set_collects(&self, collects: bool) {
        self.collects.store(collects, Ordering::Relaxed);
    }

    /// Work is about to be issued to the stream.
    ///
    /// # Errors
    /// The driver's, here and below.
    pub fn follow(&self, stream: &Stream) -> Result<(), Fault> {
        if stream.blocking {
            return Ok(());
        }
        self.order.lock().follow(&self.functions, stream)
    }

    /// A copy from the guest was issued to the stream.
    pub fn wrote(&self, stream: &Stream) {
        if stream.handle == LEGACY {
            self.order.lock().wrote();
        }
    }

    /// All work was waited for.
    pub fn synchronized(&self) {
        self.order.lock().synchronized();
    }

    /// The range is free, and work that was issued before may still use it.
    pub fn freed(&self, range: &Range<u64>) {
        self.order.lock().freed(range);
    }

    /// The range is allocated: what is issued from now on waits for what may still use an earlier allocation of it. `streams` are the
    /// non-blocking ones.
    ///
    /// # Errors
    /// The driver's.
    pub fn allocated(&self, range: &Range<u64>, streams: &[usize]) -> Result<(), Fault> {
        self.order.lock().allocated(&self.functions, range, streams)
    }

    /// Keeps at most [`PIECE`] bytes in pinned memory, for a copy that the caller issues to the stream next; returns their address.
    ///
    /// # Errors
    /// The driver's.
    pub fn put(&self, data: &[u8], stream: usize) -> Result<usize, Fault> {
        self.outgoing.lock().put(&self.functions, data, stream)
    }

    /// The stream ends, and cannot be joined later: what it has yet to do goes before what is issued from now on.
    ///
    /// # Errors
    /// The driver's.
    pub fn leave(&self, stream: &Stream) -> Result<(), Fault> {
        self.outgoing.lock().leave(&self.functions, stream.handle)?;
        if stream.blocking || done(self.functions.query_stream(stream.handle))? {
            return Ok(());
        }
        self.order.lock().join(&self.functions, &[stream.handle])
    }

    /// Gives everything back. No work runs, or the CUDA context is lost.
    pub fn end(&self) {
        self.outgoing.lock().end(&self.functions);
        self.incoming.lock().end(&self.functions);
        self.order.lock().end(&self.functions);
        self.set_collects(false);
    }
}

impl Work for Arc<Cuda> {
    fn timed(&self) -> Timed {
        Timed::Waits
    }

    fn has_driver(&self) -> bool {
        true
    }

    fn enter(&self) {
        // A context that cannot be entered fails each later call, which says so.
        let _ = self.functions.set_current(self.context.load(Ordering::Relaxed));
    }

    fn write(&self, to: &Rows, data: &[u8], stream: &Stream) -> Tried {
        let width = to.width as usize;
        if !to.contiguous() && width > PIECE {
            return Ok(false);
        }
        self.follow(stream)?;
        let whole = if to.contiguous() { PIECE } else { PIECE / width * width };
        let mut address = to.address;
        for piece in data.chunks(whole) {
            let place = self.put(piece, stream.handle)?;
            if to.contiguous() {
                self.functions.copy_to_device(address, place, piece.len(), stream.handle)?;
                address += piece.len() as u64;
            } else {
                let height = piece.len() / width;
                let from = End::host(place, width);
                self.functions.copy_rows(&Box2D::new(from, End::device(address, to.pitch), width, height), stream)?;
                address += height as u64 * to.pitch;
            }
        }
        self.wrote(stream);
        Ok(true)
    }

    fn copy(&self, to: &Rows, from: &Rows, stream: &Stream) -> Tried {
        self.follow(stream)?;
        if to.contiguous() && from.contiguous() {
            self.functions.copy_within(to.address, from.address, size_of(to), stream.handle)?;
        } else {
            let (source, target) = (End::device(from.address, from.pitch), End::device(to.address, to.pitch));
            let copy = Box2D::new(source, target, to.width as usize, to.height as usize);
            self.functions.copy_rows(&copy, stream)?;
        }
        Ok(true)
    }

    fn set(&self, rows: &Rows, value: u32, element: u32, stream: &Stream) -> Tried {
        self.follow(stream)?;
        let (address, size, stream) = (rows.address, size_of(rows), stream.handle);
        let (pitch, height) = (rows.pitch as usize, rows.height as usize);
        let (functions, width) = (&self.functions, rows.width as usize);
        match (element, rows.contiguous()) {
            (1, true) => functions.set_8(address, value as u8, size, stream),
            (2, true) => functions.set_16(address, value as u16, size / 2, stream),
            (_, true) => functions.set_32(address, value, size / 4, stream),
            (1, false) => functions.set_rows_8(address, pitch, value as u8, width, height, stream),
            (2, false) => functions.set_rows_16(address, pitch, value as u16, width / 2, height, stream),
            (_, false) => functions.set_rows_32(address, pitch, value, width / 4, height, stream),
        }?;
        Ok(true)
    }

    fn fetch(&self, rows: &Rows, from: u64, stream: &Stream) -> Tried {
        if from == 0 {
            self.follow(stream)?;
        }
        self.incoming.lock().fetch(&self.functions, rows, from, stream.handle)?;
        Ok(true)
    }

    fn show(&self, _: &Rows, part: Range<u64>, look: &mut dyn FnMut(&[u8])) {
        look(self.incoming.lock().fetched(&part));
    }

    fn place(&self, rows: &Rows, stream: &Stream) -> Option<*mut u8> {
        self.enter(); // no message has begun
        let size = rows.size().and_then(|size| usize::try_from(size).ok()).filter(|&size| size <= PIECE)?;
        let place = self.outgoing.lock().reserve(&self.functions, size, stream.handle).ok()?;
        self.placed.store(place, Ordering::Relaxed);
        Some(place as *mut u8)
    }

    fn arrived(&self, rows: &Rows, stream: &Stream) -> Result<(), Fault> {
        self.follow(stream)?;
        let place = self.placed.load(Ordering::Relaxed);
        self.functions.copy_to_device(rows.address, place, size_of(rows), stream.handle)?;
        self.wrote(stream);
        Ok(())
    }

    fn record(&self, event: &Event, stream: &Stream) -> Tried {
        self.follow(stream)?;
        self.functions.record_event(event.handle, stream.handle)?;
        event.record();
        Ok(true)
    }

    fn wait(&self, stream: &Stream, event: &Event) -> Tried {
        self.follow(stream)?;
        self.functions.wait_event(stream.handle, event.handle, 0)?;
        Ok(true)
    }

    fn synchronize(&self, what: Awaited<'_>) -> Tried {
        match what {
            Awaited::Device if self.collects.load(Ordering::Relaxed) => return Ok(false),
            Awaited::Device => {
                self.functions.synchronize()?;
                self.synchronized();
            }
            Awaited::Stream(stream) => {
                self.follow(stream)?;
                self.functions.synchronize_stream(stream.handle)?;
            }
            Awaited::Event(event) => self.functions.synchronize_event(event.handle)?,
        }
        Ok(true)
    }

    fn is_done(&self, what: Awaited<'_>) -> Result<bool, Fault> {
        done(match what {
            Awaited::Device => return Ok(false), // the tape has no such query
            Awaited::Stream(stream) => {
                self.follow(stream)?;
                self.functions.query_stream(stream.handle)
            }
            Awaited::Event(event) => self.functions.query_event(event.handle),
        })
    }

    fn elapsed(&self, start: &Event, end: &Event) -> Result<Option<f32>, Fault> {
        if start.nanoseconds().is_none() || end.nanoseconds().is_none() {
            return Ok(None); // never recorded: Python has the words
        }
        if start.is_given() || end.is_given() {
            return Ok(None); // Python computes it
        }
        let mut milliseconds = 0.0;
        self.functions.elapsed(&raw mut milliseconds, start.handle, end.handle)?;
        Ok(Some(milliseconds))
    }
}

/// What a query says.
fn done(asked: Result<(), Fault>) -> Result<bool, Fault> {
    match asked {
        Ok(()) => Ok(true),
        Err(Fault { code: NOT_READY, .. }) => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Bytes of rows that an allocation holds.
fn size_of(rows: &Rows) -> usize {
    rows.size().unwrap_or_default() as usize
}
