//! A device behind a CUDA driver, as Python gives it to the plane: the driver's functions, streams.

use plane::device::cuda;
use plane::device::cuda::functions::Functions;
use plane::device::objects;
use plane::device::work::{Fault, PIECE};
use pyo3::buffer::PyBuffer;
use pyo3::create_exception;
use pyo3::exceptions::{PyBufferError, PyException, PyKeyError};
use pyo3::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;

create_exception!(
    farlane_plane,
    DriverFault,
    PyException,
    "A call of the driver that has failed: (its CUresult, the function's name)."
);

pub fn raised(fault: Fault) -> PyErr {
    DriverFault::new_err((fault.code, fault.call))
}

/// A stream.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Stream {
    pub inner: Arc<objects::Stream>,
}

#[pymethods]
impl Stream {
    #[new]
    #[pyo3(signature = (handle = 0, *, blocking = true))]
    fn new(handle: usize, blocking: bool) -> Self {
        Self { inner: Arc::new(objects::Stream::new(handle, blocking)) }
    }

    #[getter]
    fn handle(&self) -> usize {
        self.inner.handle
    }

    #[getter]
    fn blocking(&self) -> bool {
        self.inner.blocking
    }

    #[getter]
    fn alive(&self) -> bool {
        self.inner.is_alive()
    }

    fn end(&self) {
        self.inner.end();
    }
}

/// A session's share of a GPU.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Cuda {
    pub inner: Arc<cuda::Cuda>,
}

#[pymethods]
impl Cuda {
    #[new]
    fn new(addresses: HashMap<String, usize>, context: usize) -> PyResult<Self> {
        // SAFETY: the caller gives the addresses of these functions in a library that stays loaded.
        let functions = unsafe { Functions::new(|name| addresses.get(name).copied()) }.map_err(PyKeyError::new_err)?;
        Ok(Self { inner: Arc::new(cuda::Cuda::new(functions, context)) })
    }

    fn set_context(&self, context: usize) {
        self.inner.set_context(context);
    }

    fn set_collects(&self, collects: bool) {
        self.inner.set_collects(collects);
    }

    /// Work is about to be issued to the stream.
    fn follow(&self, py: Python<'_>, stream: &Stream) -> PyResult<()> {
        py.detach(|| self.inner.follow(&stream.inner)).map_err(raised)
    }

    fn wrote(&self, stream: &Stream) {
        self.inner.wrote(&stream.inner);
    }

    fn synchronized(&self) {
        self.inner.synchronized();
    }

    /// [start, end) is free, and work may still use it.
    fn freed(&self, start: u64, end: u64) {
        self.inner.freed(&(start..end));
    }

    /// [start, end) is allocated; the non-blocking streams.
    fn allocated(&self, py: Python<'_>, start: u64, end: u64, streams: Vec<usize>) -> PyResult<()> {
        py.detach(|| self.inner.allocated(&(start..end), &streams)).map_err(raised)
    }

    /// Keeps bytes in pinned memory, for a copy that is issued to the stream next; their address.
    fn put(&self, py: Python<'_>, data: &Bound<'_, PyAny>, stream: usize) -> PyResult<usize> {
        let buffer = PyBuffer::<u8>::get(data)?;
        if !buffer.is_c_contiguous() || buffer.len_bytes() > PIECE {
            return Err(PyBufferError::new_err("not a plain range of bytes that a piece holds"));
        }
        // SAFETY: the buffer is held, and writing to it meanwhile would be the caller's race.
        let data = unsafe { std::slice::from_raw_parts(buffer.buf_ptr().cast::<u8>(), buffer.len_bytes()) };
        py.detach(|| self.inner.put(data, stream)).map_err(raised)
    }

    /// The stream ends.
    fn leave(&self, py: Python<'_>, stream: &Stream) -> PyResult<()> {
        py.detach(|| self.inner.leave(&stream.inner)).map_err(raised)
    }

    /// Gives everything back.
    fn end(&self, py: Python<'_>) {
        py.detach(|| self.inner.end());
    }
}
