//! How a session stands, as Python sees it.

use plane::replay::errors;
use pyo3::prelude::*;
use std::sync::atomic::Ordering;
use std::sync::Arc;

/// How a session stands.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Standing {
    pub inner: Arc<errors::Standing>,
}

#[pymethods]
impl Standing {
    #[new]
    fn new() -> Self {
        Self { inner: Arc::default() }
    }

    #[getter]
    fn lost(&self) -> bool {
        self.inner.lost.load(Ordering::Relaxed)
    }

    #[getter]
    fn interrupted(&self) -> bool {
        self.inner.interrupted.load(Ordering::Relaxed)
    }

    fn interrupt(&self) {
        self.inner.interrupted.store(true, Ordering::Relaxed);
    }

    /// An object has ended to which launches may have been resolved.
    fn object_ended(&self) {
        self.inner.resolved.fetch_add(1, Ordering::Relaxed);
    }

    fn set_poisoned(&self, poisoned: bool) {
        self.inner.poisoned.store(poisoned, Ordering::Relaxed);
    }
}
