//! Handle tables as Python sees them.

use crate::cuda::Stream;
use crate::device::Event;
use crate::replay::ProtocolError;
use plane::replay::errors::CudaError;
use plane::replay::handles::{self, Known, Object, Refused};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::collections::HashMap;
use std::sync::Arc;

/// The exception of Python's that a CUDA result is.
pub fn cuda_error(py: Python<'_>, error: CudaError) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let raised = || CLASS.import(py, "farlane.backend.device.base", "CudaError")?.call1((error.code, error.message));
    raised().map_or_else(|error| error, PyErr::from_value)
}

fn object(value: &Bound<'_, PyAny>) -> Object {
    let known = if let Ok(stream) = value.cast::<Stream>() {
        Known::Stream(stream.get().inner.clone())
    } else if let Ok(event) = value.cast::<Event>() {
        Known::Event(event.get().inner.clone())
    } else {
        Known::Nothing
    };
    Object { known, control: Some(Box::new(value.clone().unbind())) }
}

/// What Python has of an object.
fn given(py: Python<'_>, object: &Object) -> Option<Py<PyAny>> {
    object.control.as_ref()?.downcast_ref::<Py<PyAny>>().map(|value| value.clone_ref(py))
}

/// A new object of Python's for one that the plane has made.
fn made(py: Python<'_>, known: Known) -> PyResult<Py<PyAny>> {
    Ok(match known {
        Known::Stream(inner) => Py::new(py, Stream { inner })?.into_any(),
        Known::Event(inner) => Py::new(py, Event { inner })?.into_any(),
        Known::Nothing => py.None(),
    })
}

/// The handles of one kind.
#[pyclass(frozen, subclass, module = "farlane.backend.plane")]
pub struct Handles {
    pub inner: Arc<handles::Table>,
}

#[pymethods]
impl Handles {
    #[new]
    #[pyo3(signature = (kind, permanent = None))]
    fn new(kind: &str, permanent: Option<HashMap<u32, Bound<'_, PyAny>>>) -> Self {
        let table = Self { inner: Arc::new(handles::Table::new(kind)) };
        table.fill_all(permanent);
        table
    }

    #[getter]
    fn kind(&self) -> &str {
        self.inner.kind()
    }

    /// Raises ProtocolError or CudaError: the handle may not be minted now.
    fn claim(&self, py: Python<'_>, handle: u32) -> PyResult<()> {
        self.inner.claim(handle).map_err(|refused| match refused {
            Refused::Broken(rule) => ProtocolError::new_err(rule),
            Refused::Failed(error) => cuda_error(py, error),
        })
    }

    fn fill(&self, handle: u32, value: &Bound<'_, PyAny>) {
        self.inner.fill(handle, object(value));
    }

    fn poison(&self, handle: u32, code: i32, message: String) {
        self.inner.poison(handle, CudaError { code, message, sticky: false });
    }

    /// Raises CudaError: the handle is unknown, or poisoned.
    fn get(&self, py: Python<'_>, handle: u32) -> PyResult<Py<PyAny>> {
        let (found, known) = self
            .inner
            .look(handle, |object| (given(py, object), object.known.clone()))
            .map_err(|error| cuda_error(py, error))?;
        if let Some(found) = found {
            return Ok(found);
        }
        let value = made(py, known)?; // without the table's lock; from now on it is the same one
        self.inner.fill(handle, object(value.bind(py)));
        Ok(value)
    }

    /// Takes a handle out; None: it was poisoned. Raises CudaError.
    fn release(&self, py: Python<'_>, handle: u32) -> PyResult<Option<Py<PyAny>>> {
        let released = self.inner.release(handle).map_err(|error| cuda_error(py, error))?;
        released.map(|object| given(py, &object).map_or_else(|| made(py, object.known), Ok)).transpose()
    }

    fn forget(&self, handle: u32) {
        self.inner.forget(handle);
    }

    fn __contains__(&self, handle: u32) -> bool {
        self.inner.contains(handle)
    }

    /// Those whose making has failed: the handle, the error's code and message.
    fn poisoned(&self) -> Vec<(u32, i32, String)> {
        self.inner.poisoned().into_iter().map(|(handle, error)| (handle, error.code, error.message)).collect()
    }

    /// The handles that the guest has minted and that stand for something.
    fn live(&self) -> Vec<u32> {
        self.inner.live()
    }

    /// Back to the permanent handles; these instead, where they are given.
    #[pyo3(signature = (permanent = None))]
    fn clear(&self, permanent: Option<HashMap<u32, Bound<'_, PyAny>>>) {
        self.inner.clear(permanent.is_some());
        self.fill_all(permanent);
    }
}

impl Handles {
    fn fill_all(&self, permanent: Option<HashMap<u32, Bound<'_, PyAny>>>) {
        for (handle, value) in permanent.into_iter().flatten() {
            self.inner.fill(handle, object(&value));
        }
    }
}
