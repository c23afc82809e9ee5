//! Where the replies of a replay go.

use plane::replay::Sink;
use plane::Gone;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Gives replies to a Python function.
pub struct Given<'a> {
    pub sink: &'a Py<PyAny>,
    pub raised: Option<PyErr>,
}

impl Sink for Given<'_> {
    fn send(&mut self, parts: &[&[u8]], _last: bool) -> Result<(), Gone> {
        Python::attach(|py| self.sink.call1(py, (PyBytes::new(py, &parts.concat()),)).map(drop)).map_err(|raised| {
            self.raised = Some(raised);
            Gone
        })
    }
}

/// Sends replies to the guest.
pub struct Sent<'a>(pub &'a plane::Call);

impl Sink for Sent<'_> {
    fn send(&mut self, parts: &[&[u8]], last: bool) -> Result<(), Gone> {
        self.0.send(parts, !last)
    }
}
