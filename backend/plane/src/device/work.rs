//! The interface between the plane and a device: what the plane has a device do for a session.
//!
//! One thread at a time calls it, in the order of the tape. Addresses have been checked: each of the rows lies in one allocation.

use super::objects::{Event, Stream};
use super::ranges::Rows;
use std::ops::Range;

/// The most bytes that one result holds, and one `fetch` brings.
pub const PIECE: usize = 1 << 20;

/// A call of a driver that has failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The driver's function.
    pub call: &'static str,
    /// Its CUresult.
    pub code: i32,
}

/// Whether it was done. `Ok(false)`: not here, nothing has happened, and it is the control plane's.
pub type Tried = Result<bool, Fault>;

/// What a synchronization waits for, or a query asks about.
#[derive(Clone, Copy)]
pub enum Awaited<'a> {
    Device,
    Stream(&'a Stream),
    Event(&'a Event),
}

/// The calls whose time is the device's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timed {
    /// There is no device behind them.
    Nothing,
    /// Copies and sets, which are over when their call returns.
    Work,
    /// `fetch` and `synchronize`, which wait for it.
    Waits,
}

/// A device. Where it has a driver, a call is issued and not waited for, but by `fetch` and `synchronize`.
pub trait Work: Send + Sync {
    /// What counts as time of the device.
    fn timed(&self) -> Timed;

    /// Whether streams and events are a driver's, which the control plane makes and ends; else they are no more than their objects.
    fn has_driver(&self) -> bool;

    /// The calling thread calls the others from now on.
    fn enter(&self);

    /// Copies packed rows there; `data` is valid during the call only.
    ///
    /// # Errors
    /// The driver's.
    fn write(&self, to: &Rows, data: &[u8], stream: &Stream) -> Tried;

    /// Copies rows to rows of the same size.
    ///
    /// # Errors
    /// The driver's.
    fn copy(&self, to: &Rows, from: &Rows, stream: &Stream) -> Tried;

    /// Sets rows to the low bytes of a value; `element` is 1, 2 or 4, and everything a multiple of it.
    ///
    /// # Errors
    /// The driver's.
    fn set(&self, rows: &Rows, value: u32, element: u32, stream: &Stream) -> Tried;

    /// Brings the piece of contiguous rows that begins at `from`, a multiple of [`PIECE`], to where `show` finds it until the next `fetch`.
    /// The pieces of a read come in order.
    ///
    /// # Errors
    /// The driver's, those of the work before it among them.
    fn fetch(&self, rows: &Rows, from: u64, stream: &Stream) -> Tried;

    /// Shows bytes that were fetched.
    fn show(&self, rows: &Rows, part: Range<u64>, look: &mut dyn FnMut(&[u8]));

    /// Where the bytes of contiguous rows may be written, for a copy to them in the stream that `arrived` completes. `None`: nowhere.
    fn place(&self, rows: &Rows, stream: &Stream) -> Option<*mut u8>;

    /// The bytes are where `place` said.
    ///
    /// # Errors
    /// The driver's.
    fn arrived(&self, rows: &Rows, stream: &Stream) -> Result<(), Fault>;

    /// # Errors
    /// The driver's.
    fn record(&self, event: &Event, stream: &Stream) -> Tried;

    /// The stream's later work waits for the event.
    ///
    /// # Errors
    /// The driver's.
    fn wait(&self, stream: &Stream, event: &Event) -> Tried;

    /// Waits.
    ///
    /// # Errors
    /// The driver's, those of the work before it among them.
    fn synchronize(&self, what: Awaited<'_>) -> Tried;

    /// Whether it is done: a query, which does not wait.
    ///
    /// # Errors
    /// As `synchronize`.
    fn is_done(&self, what: Awaited<'_>) -> Result<bool, Fault>;

    /// Milliseconds between two events; `None`: not here, it is the control plane's.
    ///
    /// # Errors
    /// As `synchronize`; that one of them is not done is one of them.
    fn elapsed(&self, start: &Event, end: &Event) -> Result<Option<f32>, Fault>;
}
