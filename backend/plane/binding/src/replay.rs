//! A session's replay as Python sees it, and the control plane as the replay sees it.

use crate::device::{kept, Direct, Entry};
use crate::handles::Handles;
use crate::loops::{plain, Columns};
use crate::payloads::Payloads;
use crate::saving::pause;
use crate::sinks::{Given, Sent};
use crate::standing::Standing;
use crate::{gone, Call, MessageRefused};
use parking_lot::Mutex;
use plane::device::launch;
use plane::device::work::Fault;
use plane::replay::control::{Attempt, Control, End, GroupEnd, Outcome, Stop};
use plane::replay::counts::Counts;
use plane::replay::errors::CudaError;
use plane::replay::loops::columns;
use plane::replay::loops::plans::{Plan, Worth};
use plane::replay::loops::template::Template;
use plane::replay::loops::Prices;
use plane::replay::spans::Spans;
use plane::replay::{Bounds, Shared};
use plane::{Gone, Received};
use pyo3::buffer::PyBuffer;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tape::operations::code;
use tape::{Answer, Record};

/// Between looks at a device that is busy still.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

create_exception!(
    farlane_plane,
    ProtocolError,
    PyException,
    "The guest broke a rule of the tape; the message names it."
);

create_exception!(
    farlane_plane,
    DeadTransport,
    PyException,
    "The guest is gone: the stream was cancelled or the connection broke."
);

/// The methods of the control plane.
struct Hands {
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

impl Hands {
    fn new(control: &Bound<'_, PyAny>) -> PyResult<Self> {
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

struct Hand<'a>(&'a Hands);

impl Control for Hand<'_> {
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

type SpanOfPython = (&'static str, u64, u64, u64);

/// The replay of one session.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Replay {
    inner: Mutex<plane::replay::Replay<Py<PyAny>, Py<PyAny>>>,
    counts: Arc<Counts>,
    hands: Hands,
}

impl Replay {
    pub fn locked<T>(
        &self,
        work: impl FnOnce(&mut plane::replay::Replay<Py<PyAny>, Py<PyAny>>) -> PyResult<T>,
    ) -> PyResult<T> {
        let mut inner =
            self.inner.try_lock().ok_or_else(|| PyRuntimeError::new_err("two threads replay one session"))?;
        work(&mut inner)
    }
}

fn ended(end: End<PyErr>, gone: impl FnOnce() -> PyErr) -> PyErr {
    match end {
        End::Broken(rule) => ProtocolError::new_err(rule),
        End::Gone => gone(),
        End::Interrupted => DeadTransport::new_err("the guest is gone"),
        End::Abort(raised) => raised,
    }
}

#[pymethods]
impl Replay {
    #[new]
    #[allow(clippy::too_many_arguments)]
    #[pyo3(signature = (control, direct, standing, payloads, streams, events, *, tape_version, message_bytes, credit_bytes, spans = false))]
    fn new(
        control: &Bound<'_, PyAny>,
        direct: &Direct,
        standing: &Standing,
        payloads: &Payloads,
        streams: &Handles,
        events: &Handles,
        tape_version: u32,
        message_bytes: usize,
        credit_bytes: usize,
        spans: bool,
    ) -> PyResult<Self> {
        let bounds = Bounds { message_bytes, credit_bytes };
        let (by_plane, by_control): ([u64; 3], [u64; 3]) = control.getattr("prices")?.extract()?;
        let worth = |[planning, planning_record, asking]: [u64; 3]| Worth { planning, planning_record, asking };
        let prices = Prices { by_plane: worth(by_plane), by_control: worth(by_control) };
        let shared = Shared {
            direct: direct.inner.clone(),
            standing: standing.inner.clone(),
            payloads: payloads.inner.clone(),
            streams: streams.inner.clone(),
            events: events.inner.clone(),
        };
        let inner = plane::replay::Replay::new(tape_version, bounds, prices, shared, spans);
        Ok(Self { counts: inner.counts().clone(), inner: Mutex::new(inner), hands: Hands::new(control)? })
    }

    /// What metrics show. From any thread.
    fn counts(&self) -> HashMap<&'static str, u64> {
        self.counts.all().into_iter().collect()
    }

    /// Launches that are remembered.
    #[getter]
    fn remembered(&self) -> PyResult<usize> {
        self.locked(|inner| Ok(inner.remembered()))
    }

    /// When it did what: kind, number, begin, end; and how many spans were not kept.
    fn spans(&self) -> PyResult<(Vec<SpanOfPython>, u64)> {
        self.locked(|inner| {
            let (kept, dropped) = inner.spans().map_or((&[][..], 0), Spans::all);
            Ok((kept.iter().map(|span| (span.kind.name(), span.number, span.began, span.ended)).collect(), dropped))
        })
    }

    /// What the control plane has made of a template.
    fn plans(&self, py: Python<'_>, template: u32) -> PyResult<Vec<Py<PyAny>>> {
        self.locked(|inner| Ok(inner.plans(template).map(|plan| plan.clone_ref(py)).collect()))
    }

    /// Replays one message of a group; `sink` is given the replies, each a message.
    ///
    /// Raises ProtocolError, and what the control plane ends the session with.
    fn submit(
        &self,
        py: Python<'_>,
        group: u64,
        records: &Bound<'_, PyBytes>,
        last: bool,
        sink: Py<PyAny>,
    ) -> PyResult<()> {
        let records = records.as_bytes();
        let mut given = Given { sink: &sink, raised: None };
        py.detach(|| {
            self.locked(|inner| {
                inner.submit(&mut Hand(&self.hands), &mut given, group, records, last).map_err(|end| {
                    ended(end, || given.raised.take().unwrap_or_else(|| PyRuntimeError::new_err("gone")))
                })
            })
        })
    }

    /// Replays what comes as Tapes; gives the next message that is none, or None when the guest will send no more.
    /// `rest` is called when nothing is left to be replayed, again and again until it returns true.
    ///
    /// Raises ProtocolError, CallGone, MessageRefused, Paused, and what the control plane ends the session with.
    #[pyo3(signature = (call, rest = None))]
    fn converse(&self, py: Python<'_>, call: &Call, rest: Option<Py<PyAny>>) -> PyResult<Option<Py<PyBytes>>> {
        let call = &call.inner;
        let message = py.detach(|| {
            self.locked(|inner| loop {
                pause(inner, call)?;
                match next(inner, call, rest.as_ref())? {
                    Received::Tape(tape) => inner
                        .submit(&mut Hand(&self.hands), &mut Sent(call), tape.group, &tape.records, tape.last)
                        .map_err(|end| ended(end, || gone(call)))?,
                    Received::Other(message) => return Ok(Some(message)),
                    Received::Refused(status) => {
                        return Err(MessageRefused::new_err((status.code() as i32, status.message().to_owned())))
                    }
                    Received::Late => {}
                    Received::End | Received::Placed(_) => return Ok(None),
                }
            })
        })?;
        Ok(message.map(|message| PyBytes::new(py, &message).unbind()))
    }
}

/// The next message. `rest` is called while none is there.
fn next(
    replay: &mut plane::replay::Replay<Py<PyAny>, Py<PyAny>>,
    call: &plane::Call,
    rest: Option<&Py<PyAny>>,
) -> PyResult<Received> {
    replay.rest();
    let mut receive = |timeout| replay.receive(call, timeout).map_err(|Gone| gone(call));
    let Some(rest) = rest else {
        return receive(None);
    };
    let mut pause = Duration::ZERO;
    loop {
        match receive(Some(pause))? {
            Received::Late => {}
            received => return Ok(received),
        }
        pause = (2 * pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        if Python::attach(|py| rest.call0(py)?.extract(py))? {
            return receive(None);
        }
    }
}
