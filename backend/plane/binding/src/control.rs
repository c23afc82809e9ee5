//! The control plane as the replay sees it: calls of the methods of Python's `Control` (backend/control.py).

use crate::device::{kept, Entry};
use crate::loops::{plain, Columns};
use plane::device::launch;
use plane::device::work::Fault;
use plane::replay::control::{Attempt, Control, GroupEnd, Outcome, Stop};
use plane::replay::errors::CudaError;
use plane::replay::loops::columns;
use plane::replay::loops::plans::Plan;
use plane::replay::loops::template::Template;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::sync::Arc;
use tape::operations::code;
use tape::{Answer, Record};

/// The methods of the control plane.
pub struct Methods {
    operate: Py<PyAny>,
    launch: Py<PyAny>,
    failure: Py<PyAny>,
    fault: Py<PyAny>,
    account: Py<PyAny>,
    plan: Py<PyAny>,
    repeat: Py<PyAny>,
    choose: Py<PyAny>,
    expect: Py<PyAny>,
    end_group: Py<PyAny>,
    note: Py<PyAny>,
    explain: Py<PyAny>,
    looks_ahead: bool,
}

impl Methods {
    pub fn new(control: &Bound<'_, PyAny>) -> PyResult<Self> {
        let method = |name: &str| control.getattr(name).map(Bound::unbind);
        Ok(Self {
            operate: method("operate")?,
            launch: method("launch")?,
            failure: method("failure")?,
            fault: method("fault")?,
            account: method("account")?,
            plan: method("plan")?,
            repeat: method("repeat")?,
            choose: method("choose")?,
            expect: method("expect")?,
            end_group: method("end_group")?,
            note: method("note")?,
            explain: method("explain")?,
            looks_ahead: control.getattr("looks_ahead")?.extract()?,
        })
    }

    /// What was raised, as a CUDA result; what is none ends the session.
    fn explained(&self, py: Python<'_>, raised: PyErr, operation: &str) -> Result<CudaError, PyErr> {
        if !raised.is_instance_of::<PyException>(py) {
            return Err(raised);
        }
        let (code, message, sticky) = self.explain.call1(py, (raised.into_value(py), operation))?.extract(py)?;
        Ok(CudaError { code, message, sticky })
    }

    fn attempt<T>(
        &self,
        operation: &str,
        attempt: impl FnOnce(Python<'_>) -> PyResult<T>,
    ) -> Result<Result<T, CudaError>, PyErr> {
        Python::attach(|py| match attempt(py) {
            Ok(value) => Ok(Ok(value)),
            Err(raised) => self.explained(py, raised, operation).map(Err),
        })
    }
}

/// The control plane as the replay calls it.
pub struct ControlPlane<'a>(pub &'a Methods);

impl Control for ControlPlane<'_> {
    type Abort = PyErr;
    type Pieces = Py<PyAny>;
    type Launch = Py<PyAny>;
    type Condition = Py<PyAny>;
    type Plan = Py<PyAny>;

    fn operate(&mut self, record: &Record<'_>) -> Attempt<Outcome<Self>, PyErr> {
        let row = record.row;
        self.0.attempt(row.name, |py| {
            let bytes = PyBytes::new(py, record.bytes);
            let done = self.0.operate.bind(py).call1((row.code, record.flags, bytes))?;
            Ok(match (row.code, row.answer) {
                (code::LAUNCH, _) => Outcome::Launched(done.unbind()),
                (code::CONDITIONAL, _) => Outcome::Condition(done.unbind()),
                (_, Answer::Data) => {
                    let (total, pieces): (u64, Bound<'_, PyAny>) = done.extract()?;
                    Outcome::Reading(total, pieces.try_iter()?.into_any().unbind())
                }
                (_, Answer::None) => Outcome::Done,
                (_, Answer::Status | Answer::Value) => Outcome::Number(done.extract()?),
            })
        })
    }

    fn piece(&mut self, pieces: &mut Py<PyAny>, out: &mut Vec<u8>) -> Attempt<Option<usize>, PyErr> {
        self.0.attempt("READ", |py| {
            let Some(piece) = pieces.bind(py).try_iter()?.next() else {
                return Ok(None);
            };
            let piece = PyBuffer::<u8>::get(&piece?)?;
            let (begin, size) = (out.len(), piece.len_bytes());
            out.resize(begin + size, 0);
            piece.copy_to_slice(py, &mut out[begin..])?;
            Ok(Some(size))
        })
    }

    fn launch(
        &mut self,
        launch: &Py<PyAny>,
        record: &[u8],
        start: usize,
        end: usize,
    ) -> Attempt<Option<Arc<launch::Entry>>, PyErr> {
        self.0.attempt("LAUNCH", |py| {
            let entry = self.0.launch.bind(py).call1((launch, PyBytes::new(py, record), start, end))?;
            Ok(if entry.is_none() { None } else { Some(entry.cast::<Entry>()?.get().inner.clone()) })
        })
    }

    fn failure(&mut self, entry: &launch::Entry) -> Result<CudaError, PyErr> {
        let raised = self.0.attempt("LAUNCH", |py| self.0.failure.call1(py, (kept(entry),)))?;
        Ok(raised.err().unwrap_or_else(|| CudaError::ours("a launch failed without an error".into())))
    }

    fn fault(&mut self, fault: Fault) -> Result<CudaError, PyErr> {
        let raised = self.0.attempt(fault.call, |py| self.0.fault.call1(py, (fault.code, fault.call)))?;
        Ok(raised.err().unwrap_or_else(|| CudaError::ours(format!("{} failed without an error", fault.call))))
    }

    fn account(&mut self, entry: &launch::Entry, nanoseconds: u64) -> Result<(), PyErr> {
        Python::attach(|py| self.0.account.call1(py, (kept(entry), nanoseconds)).map(drop))
    }

    fn plan(&mut self, template: &Arc<Template>, constants: &[(usize, u64)]) -> Result<Option<Plan<Py<PyAny>>>, PyErr> {
        type Made = (Py<PyAny>, Vec<Vec<u64>>, bool);
        Python::attach(|py| {
            let constants: HashMap<usize, u64> = constants.iter().copied().collect();
            let made: Option<Made> = self.0.plan.call1(py, (plain(py, template)?, constants))?.extract(py)?;
            Ok(made.map(|(plan, paths, answers)| Plan::new(plan, paths, answers)))
        })
    }

    fn repeat(
        &mut self,
        plan: &Py<PyAny>,
        columns: &Arc<columns::Columns>,
        first: u64,
        left: u64,
        fresh: bool,
        results: &mut Vec<u8>,
    ) -> Attempt<Option<Stop>, PyErr> {
        type Done = (u64, Option<usize>, Option<(i32, String, bool)>, bool);
        self.0.attempt("REPEAT", |py| {
            let columns = Columns { inner: columns.clone() };
            let done = self.0.repeat.bind(py).call1((plan, columns, first, left, fresh))?;
            let Some((done, added)): Option<(Done, Bound<'_, PyAny>)> = done.extract()? else {
                return Ok(None);
            };
            let added = PyBuffer::<u8>::get(&added)?;
            let begin = results.len();
            results.resize(begin + added.len_bytes(), 0);
            added.copy_to_slice(py, &mut results[begin..])?;
            let (iterations, step, error, again) = done;
            let error = error.map(|(code, message, sticky)| CudaError { code, message, sticky });
            Ok(Some(Stop { iterations, step, error, again }))
        })
    }

    fn choose(&mut self, condition: &Py<PyAny>) -> Attempt<Option<u32>, PyErr> {
        self.0.attempt("CONDITIONAL", |py| self.0.choose.call1(py, (condition,))?.extract(py))
    }

    fn expect(&mut self, launches: &[Vec<u8>]) -> Result<(), PyErr> {
        Python::attach(|py| {
            let launches: Vec<_> = launches.iter().map(|each| PyBytes::new(py, each)).collect();
            self.0.expect.call1(py, (launches,)).map(drop)
        })
    }

    fn looks_ahead(&self) -> bool {
        self.0.looks_ahead
    }

    fn end_group(&mut self) -> Result<GroupEnd, PyErr> {
        Python::attach(|py| {
            let (printed, complaints, nanoseconds) = self.0.end_group.call0(py)?.extract(py)?;
            Ok(GroupEnd { printed, complaints, nanoseconds })
        })
    }

    fn note(&mut self, operation: &str, error: &CudaError, lost: bool) {
        Python::attach(|py| {
            if let Err(raised) = self.0.note.call1(py, (operation, error.code, &error.message, lost)) {
                raised.write_unraisable(py, None);
            }
        });
    }
}
