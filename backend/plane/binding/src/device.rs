//! What Python gives the plane to work on by itself: allocation maps, launches that are laid out.

use plane::device::laid::{self, Laid};
use plane::device::{direct, gate, moment, ranges};
use pyo3::prelude::*;
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

/// When an event was recorded.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Moment {
    pub inner: Arc<moment::Moment>,
}

#[pymethods]
impl Moment {
    #[new]
    fn new() -> Self {
        Self { inner: Arc::default() }
    }

    #[getter]
    fn nanoseconds(&self) -> Option<u64> {
        self.inner.nanoseconds()
    }

    #[setter]
    fn set_nanoseconds(&self, nanoseconds: u64) {
        self.inner.set(nanoseconds);
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
    fn __enter__(&self, py: Python<'_>) {
        if !self.inner.try_lock() {
            py.detach(|| self.inner.lock());
        }
    }

    #[pyo3(signature = (*_raised))]
    fn __exit__(&self, _raised: &Bound<'_, pyo3::types::PyTuple>) {
        self.release();
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
    pub inner: Arc<laid::Entry>,
}

/// What the plane does by itself for one context.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Direct {
    pub inner: Arc<direct::Direct>,
}

#[pymethods]
impl Direct {
    #[new]
    fn new(ranges: &Ranges, backed: bool) -> Self {
        Self { inner: Arc::new(direct::Direct::new(ranges.inner.clone(), backed)) }
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

    /// A launch of which nothing is left to do but to count it.
    fn counted(&self) -> Entry {
        Entry { inner: Arc::new(self.inner.entry(None)) }
    }

    /// A launch that needs only its parameters and its number.
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (run, launch, worker, parameters, size, *, next_block, grid_id, abort, provisional, limit, keep))]
    fn lay_out(
        &self,
        run: usize,
        launch: usize,
        worker: usize,
        parameters: usize,
        size: usize,
        next_block: usize,
        grid_id: usize,
        abort: usize,
        provisional: bool,
        limit: u64,
        keep: Py<PyAny>,
    ) -> Entry {
        let laid = Laid {
            // SAFETY: the caller gives the address of such a function.
            run: unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*mut u8, *mut u8) -> i32>(run) },
            launch: launch as *mut u8,
            worker: worker as *mut u8,
            parameters: parameters as *mut u8,
            size,
            next_block,
            grid_id,
            abort,
            provisional,
            limit,
            keep: Box::new(keep),
        };
        Entry { inner: Arc::new(self.inner.entry(Some(laid))) }
    }
}

/// What an entry was laid out from.
pub fn kept(entry: &laid::Entry) -> Option<&Py<PyAny>> {
    entry.laid().and_then(|laid| laid.keep.downcast_ref())
}
