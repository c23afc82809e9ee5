//! What Python gives the plane to work on by itself: allocation maps, launches that are laid out.

use crate::cuda::{Cuda, Stream};
use crate::fairness::Place;
use crate::room::Room;
use plane::device::cuda::kernel::{Kernel, Parameters};
use plane::device::host::{Code, Host};
use plane::device::launch::{self, Launch};
use plane::device::{direct, gate, objects, ranges};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The ranges of addresses that copies may touch.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Ranges {
    pub inner: Arc<ranges::Ranges>,
}

#[pymethods]
impl Ranges {
    #[new]
    fn new() -> Self {
        Self { inner: Arc::default() }
    }

    fn add(&self, start: u64, end: u64) {
        self.inner.add(start, end);
    }

    fn remove(&self, start: u64) {
        self.inner.remove(start);
    }

    fn clear(&self) {
        self.inner.clear();
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }
}

/// An event.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Event {
    pub inner: Arc<objects::Event>,
}

#[pymethods]
impl Event {
    #[new]
    #[pyo3(signature = (handle = 0, *, timed = true))]
    fn new(handle: usize, timed: bool) -> Self {
        Self { inner: Arc::new(objects::Event::new(handle, timed)) }
    }

    #[getter]
    fn handle(&self) -> usize {
        self.inner.handle
    }

    #[getter]
    fn timed(&self) -> bool {
        self.inner.timed
    }

    #[getter]
    fn alive(&self) -> bool {
        self.inner.is_alive()
    }

    fn end(&self) {
        self.inner.end();
    }

    #[getter]
    fn nanoseconds(&self) -> Option<u64> {
        self.inner.nanoseconds()
    }

    #[getter]
    fn given(&self) -> bool {
        self.inner.is_given()
    }

    fn give(&self, nanoseconds: u64) {
        self.inner.give(nanoseconds);
    }

    fn record(&self) {
        self.inner.record();
    }
}

/// Held while device memory is used. A context manager.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Gate {
    inner: Arc<gate::Gate>,
}

#[pymethods]
impl Gate {
    /// An operation of the device begins: it has a place there.
    fn __enter__(&self, py: Python<'_>) {
        if let Some(place) = self.inner.place() {
            if place.try_enter() {
                place.begin();
            } else {
                py.detach(|| place.enter());
            }
            place.begin_timing();
        }
        if !self.inner.try_lock() {
            py.detach(|| self.inner.lock());
        }
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, pyo3::types::PyTuple>) {
        self.release();
        if let Some(place) = self.inner.place() {
            place.end_timing();
            place.leave();
        }
    }

    /// From now on operations wait for their place. Once, before the first one.
    fn share(&self, place: &Place) {
        self.inner.share(place.inner.clone());
    }

    /// At a boundary inside of an operation: lets other sessions have the device, where they are to have it.
    fn step_aside(&self, py: Python<'_>) {
        if let Some(place) = self.inner.place() {
            py.detach(|| place.step_aside());
        }
    }

    /// Whether it came to that in so many seconds.
    fn acquire(&self, py: Python<'_>, timeout: f64) -> bool {
        let timeout = Duration::try_from_secs_f64(timeout).unwrap_or_default();
        self.inner.try_lock() || py.detach(|| self.inner.lock_for(timeout))
    }

    fn release(&self) {
        // SAFETY: the caller has acquired it, as it would have to with a lock of Python's.
        unsafe { self.inner.unlock() };
    }
}

/// A launch that is laid out.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Entry {
    pub inner: Arc<launch::Entry>,
}

/// What the plane does by itself for one context.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Direct {
    pub inner: Arc<direct::Direct>,
}

#[pymethods]
impl Direct {
    #[new]
    #[pyo3(signature = (ranges, backed, room = None))]
    fn new(ranges: &Ranges, backed: bool, room: Option<&Room>) -> Self {
        let room = room.map(|room| room.inner.clone());
        Self { inner: Arc::new(direct::Direct::new(ranges.inner.clone(), Box::new(Host { backed }), room)) }
    }

    /// On a device behind a driver.
    #[staticmethod]
    fn on_driver(ranges: &Ranges, cuda: &Cuda) -> Self {
        Self { inner: Arc::new(direct::Direct::new(ranges.inner.clone(), Box::new(cuda.inner.clone()), None)) }
    }

    /// What the plane has done by itself, by kind.
    fn counts(&self) -> HashMap<&'static str, u64> {
        self.inner.counts().into_iter().collect()
    }

    #[getter]
    fn enabled(&self) -> bool {
        self.inner.is_enabled()
    }

    #[getter]
    fn gate(&self) -> Gate {
        Gate { inner: self.inner.gate.clone() }
    }

    #[getter]
    fn launches(&self) -> u64 {
        self.inner.launches()
    }

    #[setter]
    fn set_launches(&self, number: u64) {
        self.inner.set_launches(number);
    }

    #[getter]
    fn nanoseconds(&self) -> u64 {
        self.inner.nanoseconds()
    }

    fn disable(&self) {
        self.inner.disable();
    }

    fn changed(&self) {
        self.inner.changed();
    }

    fn interrupt(&self) {
        self.inner.interrupt();
    }

    fn speak(&self) {
        self.inner.speak();
    }

    /// Whether the plane has issued launches that may print, since this was last asked.
    fn take_printing(&self) -> bool {
        self.inner.take_printing()
    }

    /// A launch of which nothing is left to do but to count it.
    fn counted(&self) -> Entry {
        Entry { inner: Arc::new(self.inner.entry(Launch::Counted)) }
    }

    /// A launch that needs only its parameters and its number.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (run, launch, worker, parameters, size, *, next_block, end_block, grid_id, abort, provisional, limit, calls_back, keep))]
    fn lay_out(
        &self,
        run: usize,
        launch: usize,
        worker: usize,
        parameters: usize,
        size: usize,
        next_block: usize,
        end_block: usize,
        grid_id: usize,
        abort: usize,
        provisional: bool,
        limit: u64,
        calls_back: bool,
        keep: Py<PyAny>,
    ) -> Entry {
        let code = Code {
            // SAFETY: the caller gives the address of such a function.
            run: unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*mut u8, *mut u8) -> i32>(run) },
            launch: launch as *mut u8,
            worker: worker as *mut u8,
            parameters: parameters as *mut u8,
            size,
            next_block,
            end_block,
            grid_id,
            abort,
            provisional,
            limit,
            calls_back,
            keep: Box::new(keep),
        };
        Entry { inner: Arc::new(self.inner.entry(Launch::Code(code))) }
    }

    /// A launch by the driver that needs only its parameters.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (cuda, function, grid, block, shared_bytes, stream, parameters, size, pointers, *, prints, keep))]
    fn lay_out_kernel(
        &self,
        cuda: &Cuda,
        function: usize,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        stream: &Stream,
        parameters: usize,
        size: usize,
        pointers: usize,
        prints: bool,
        keep: Py<PyAny>,
    ) -> Entry {
        let kernel = Kernel {
            cuda: cuda.inner.clone(),
            function,
            grid,
            block,
            shared_bytes,
            stream: stream.inner.clone(),
            parameters: Parameters { address: parameters, size, pointers },
            prints,
            keep: Box::new(keep),
        };
        Entry { inner: Arc::new(self.inner.entry(Launch::Kernel(kernel))) }
    }
}

/// What an entry was laid out from.
pub fn kept(entry: &launch::Entry) -> Option<&Py<PyAny>> {
    match entry.launch() {
        Launch::Counted => None,
        Launch::Code(code) => code.keep.downcast_ref(),
        Launch::Kernel(kernel) => kernel.keep.downcast_ref(),
    }
}
