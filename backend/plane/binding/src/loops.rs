//! Loops as the control plane gets them, to make plans for a device.

use plane::replay::loops::columns;
use plane::replay::loops::template::Template;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::sync::Arc;

/// The checked columns of a REPEAT.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Columns {
    pub inner: Arc<columns::Columns>,
}

#[pymethods]
impl Columns {
    /// Writes the values of iterations from `first` on into the rows of a matrix, which has a column for each
    /// iteration.
    fn fill(&self, py: Python<'_>, matrix: &Bound<'_, PyAny>, first: u64) -> PyResult<()> {
        let matrix = PyBuffer::<u64>::get(matrix)?;
        let &[rows, count] = matrix.shape() else {
            return Err(PyValueError::new_err("no matrix"));
        };
        let cells = matrix.as_mut_slice(py).filter(|_| rows == self.inner.len());
        let cells = cells.ok_or_else(|| PyValueError::new_err("the matrix has no row for each column, in order"))?;
        for (column, row) in cells.chunks_exact(count.max(1)).enumerate() {
            self.inner.values(column, first, count, |k, value| row[k].set(value));
        }
        Ok(())
    }
}

/// A template as plain data (loops/template.py).
pub fn plain<'py>(py: Python<'py>, template: &Template) -> PyResult<Bound<'py, PyTuple>> {
    let holes: Vec<_> = template.holes.iter().map(|hole| (hole.offset, hole.width, hole.record)).collect();
    let mut records = Vec::with_capacity(template.parts.len());
    for part in &template.parts {
        let (inner, headers) = match &part.inner {
            None => (None, vec![]),
            Some(inner) => {
                let header = |header: &columns::Header| {
                    (header.kind, header.lag, header.number, header.width, header.begin, header.end)
                };
                (Some(plain(py, &inner.template)?), inner.headers.iter().map(header).collect())
            }
        };
        records.push((part.offset, part.length, part.row.code, part.flags, inner, headers));
    }
    (template.number, PyBytes::new(py, &template.body), holes, records).into_pyobject(py)
}
