//! Bodies of loops on a device behind a driver, as Python gives them to the plane.

use crate::cuda::{raised, Cuda, Stream};
use crate::device::{Direct, Entry, Event};
use parking_lot::Mutex;
use plane::device::cuda::graph::{self, Kind, Node, Patch};
use plane::device::cuda::kernel::Parameters;
use plane::device::cuda::repeat::{self, Place, Reached, Step, Table};
use plane::device::direct;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::sync::Arc;

/// backend/device/plan.py, Kind.
mod kind {
    pub const LAUNCH: u8 = 0;
    pub const SET: u8 = 1;
    pub const COPY: u8 = 2;
    pub const WRITE: u8 = 3;
    pub const READ: u8 = 4;
    pub const RECORD: u8 = 5;
    pub const NOTHING: u8 = 6;
    pub const PUT: u8 = 10;
}

/// An address, and the bytes of an iteration.
type Given = (usize, usize);

fn table((address, size): Given) -> Table {
    Table { address, size }
}

/// A step as Python gives it: its kind, whether it is answered, stream, event, launch, and where its bytes go.
type GivenStep<'py> =
    (u8, bool, Option<Bound<'py, Stream>>, Option<Bound<'py, Event>>, Option<Bound<'py, Entry>>, usize);

fn step((kind, answered, stream, event, entry, at): &GivenStep<'_>) -> Step {
    let stream = stream.as_ref().map(|stream| stream.get().inner.clone());
    let event = event.as_ref().map(|event| event.get().inner.clone());
    let entry = entry.as_ref().map(|entry| entry.get().inner.clone());
    match (*kind, stream, event) {
        (kind::LAUNCH, ..) => entry.map_or(Step::Left, Step::Launch),
        (kind::SET, Some(stream), _) => Step::Set(stream),
        (kind::COPY, Some(stream), _) => Step::Copy(stream),
        (kind::WRITE, Some(stream), _) => Step::Write(stream),
        (kind::PUT, Some(stream), _) => Step::Put(stream),
        (kind::READ, Some(stream), _) => Step::Read(stream, *at),
        (kind::RECORD, Some(stream), Some(event)) => Step::Record(event, stream),
        (kind::NOTHING, ..) if !answered => Step::Nothing,
        (kind::NOTHING, _, Some(event)) => Step::AwaitEvent(event),
        (kind::NOTHING, Some(stream), None) => Step::AwaitStream(stream),
        (kind::NOTHING, None, None) => Step::AwaitDevice,
        _ => Step::Left,
    }
}

/// A loop's body, step by step.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Body {
    direct: Arc<direct::Direct>,
    steps: Vec<Step>,
}

#[pymethods]
impl Body {
    #[new]
    fn new(direct: &Direct, steps: Vec<GivenStep<'_>>) -> Self {
        Self { direct: direct.inner.clone(), steps: steps.iter().map(step).collect() }
    }

    /// Does the steps from one place to another. None: it has; else the place of a step that is Python's, or has failed with (code, call).
    #[allow(clippy::type_complexity)]
    fn run(
        &self,
        py: Python<'_>,
        operands: Vec<Given>,
        results: Option<Given>,
        begin: Place,
        end: Place,
    ) -> PyResult<Option<(usize, usize, Option<(i32, &'static str)>)>> {
        if operands.len() != self.steps.len() {
            return Err(PyValueError::new_err("a table for each step"));
        }
        let operands: Vec<Table> = operands.into_iter().map(table).collect();
        let results = results.map(table);
        // SAFETY: the caller keeps the tables, which have these iterations.
        let reached = py.detach(|| unsafe { repeat::run(&self.direct, &self.steps, &operands, results, begin, end) });
        Ok(match reached {
            Reached::End => None,
            Reached::Left((iteration, step)) => Some((iteration, step, None)),
            Reached::Failed((iteration, step), fault) => Some((iteration, step, Some((fault.code, fault.call)))),
        })
    }
}

/// A node as Python gives it: handle, kind, operands that the driver has, structure, places of operands in it, the kernel's buffer.
type GivenNode = (usize, u8, Vec<u8>, Vec<u8>, Vec<(usize, usize, usize)>, Given);

fn node((handle, kind, told, structure, places, (address, size)): GivenNode) -> PyResult<Node> {
    let fits = |&(from, to, width): &(usize, usize, usize)| from + width <= told.len() && to + width <= structure.len();
    if !structure.len().is_multiple_of(8) || !places.iter().all(fits) {
        return Err(PyValueError::new_err("a structure of whole words, and places in it"));
    }
    let words = structure.chunks_exact(8).filter_map(|word| word.try_into().ok()).map(u64::from_ne_bytes);
    Ok(Node {
        handle,
        kind: match kind {
            kind::SET => Kind::Set,
            kind::COPY => Kind::Copy,
            _ => Kind::Kernel(Parameters { address, size, pointers: 0 }),
        },
        told,
        structure: words.collect(),
        patches: places.into_iter().map(|(from, to, width)| Patch { from, to, width }).collect(),
    })
}

/// A CUDA graph of several iterations.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Graph {
    inner: Mutex<graph::Graph>,
}

#[pymethods]
impl Graph {
    #[new]
    fn new(direct: &Direct, cuda: &Cuda, executable: usize, context: usize, nodes: Vec<GivenNode>) -> PyResult<Self> {
        let nodes = nodes.into_iter().map(node).collect::<PyResult<_>>()?;
        let (direct, cuda) = (direct.inner.clone(), cuda.inner.clone());
        Ok(Self { inner: Mutex::new(graph::Graph { direct, cuda, executable, context, nodes }) })
    }

    /// Launches it with the operands of the iterations from `first` on. None: it has; else the node that is Python's to change first.
    fn launch(&self, py: Python<'_>, operands: Vec<Given>, first: usize, stream: usize) -> PyResult<Option<usize>> {
        if operands.is_empty() {
            return Err(PyValueError::new_err("a table for each node of an iteration"));
        }
        let operands: Vec<Table> = operands.into_iter().map(table).collect();
        // SAFETY: the caller keeps the tables, which have these iterations.
        py.detach(|| unsafe { self.inner.lock().launch(&operands, first, stream) }).map_err(raised)
    }

    /// The driver has these operands of a node now.
    fn told(&self, index: usize, operands: Vec<u8>) {
        if let Some(node) = self.inner.lock().nodes.get_mut(index) {
            node.told = operands;
        }
    }
}
