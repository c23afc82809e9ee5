//! Kept payloads as Python sees them.

use crate::replay::ProtocolError;
use plane::replay::payloads;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyMemoryView;
use std::ffi::c_int;
use std::sync::Arc;

/// What a session has kept.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Payloads {
    pub inner: Arc<payloads::Payloads>,
}

/// Bytes that are kept, or were: behind a memoryview.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Kept {
    bytes: Arc<[u8]>,
}

#[pymethods]
impl Kept {
    /// The bytes, which never change.
    ///
    /// # Safety
    /// Python's buffer protocol: `view` is where the description goes.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let bytes = &slf.get().bytes;
        let size = isize::try_from(bytes.len())?;
        // SAFETY: the view holds this object, which holds the bytes; it is read-only.
        let done =
            unsafe { ffi::PyBuffer_FillInfo(view, slf.as_ptr(), bytes.as_ptr().cast_mut().cast(), size, 1, flags) };
        if done == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}

#[pymethods]
impl Payloads {
    #[new]
    fn new(capacity: usize) -> Self {
        Self { inner: Arc::new(payloads::Payloads::new(capacity)) }
    }

    fn __len__(&self) -> usize {
        self.inner.kept().0
    }

    #[getter]
    fn bytes_kept(&self) -> usize {
        self.inner.kept().1
    }

    fn check(&self, number: u32, raw_bytes: usize) -> PyResult<()> {
        self.inner.check(number, raw_bytes).map_err(ProtocolError::new_err)
    }

    fn keep(&self, py: Python<'_>, number: u32, data: &Bound<'_, PyAny>) -> PyResult<()> {
        let data = PyBuffer::<u8>::get(data)?.to_vec(py)?;
        self.inner.keep(number, data.len(), &data).map_err(ProtocolError::new_err)
    }

    fn get<'py>(&self, py: Python<'py>, number: u32) -> PyResult<Bound<'py, PyMemoryView>> {
        let bytes = self.inner.get(number).map_err(ProtocolError::new_err)?;
        PyMemoryView::from(Bound::new(py, Kept { bytes })?.as_any())
    }

    /// Writes where these lie, and how many bytes each has, into the two rows of a matrix.
    fn places(&self, py: Python<'_>, numbers: &Bound<'_, PyAny>, matrix: &Bound<'_, PyAny>) -> PyResult<()> {
        let (numbers, matrix) = (PyBuffer::<u64>::get(numbers)?, PyBuffer::<u64>::get(matrix)?);
        let (Some(numbers), Some(cells)) = (numbers.as_slice(py), matrix.as_mut_slice(py)) else {
            return Err(PyValueError::new_err("numbers and a matrix, in order"));
        };
        if cells.len() != 2 * numbers.len() {
            return Err(PyValueError::new_err("the matrix has no column for each number"));
        }
        let (places, sizes) = cells.split_at(numbers.len());
        let mut rows = places.iter().zip(sizes);
        self.inner.places(numbers.iter().map(|number| number.get()), |found| {
            let (place, size) = found.unwrap_or_default();
            if let Some((at, bytes)) = rows.next() {
                at.set(place);
                bytes.set(size);
            }
        });
        Ok(())
    }

    /// The numbers that something is kept under.
    fn numbers(&self) -> Vec<u32> {
        self.inner.numbers()
    }

    fn clear(&self) {
        self.inner.clear();
    }
}
