//! A session's replay as Python sees it.

use crate::control::{ControlPlane, Methods};
use crate::device::Direct;
use crate::handles::Handles;
use crate::payloads::Payloads;
use crate::saving::{is_to_pause, pause};
use crate::sinks::{Given, Sent};
use crate::standing::Standing;
use crate::{gone, Call, MessageRefused};
use parking_lot::Mutex;
use plane::replay::control::End;
use plane::replay::counts::Counts;
use plane::replay::loops::plans::Worth;
use plane::replay::loops::Prices;
use plane::replay::spans::Spans;
use plane::replay::{Bounds, Shared};
use plane::{Gone, Received};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

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

/// Kind, number, begin, end.
type SpanOfPython = (&'static str, u64, u64, u64);

/// The replay of one session.
#[pyclass(frozen, module = "farlane.backend.plane")]
pub struct Replay {
    inner: Mutex<plane::replay::Replay<Py<PyAny>, Py<PyAny>>>,
    counts: Arc<Counts>,
    methods: Methods,
    spans: Option<Arc<Mutex<Spans>>>,
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
        let (counts, spans) = (inner.counts().clone(), inner.spans().cloned());
        Ok(Self { counts, spans, inner: Mutex::new(inner), methods: Methods::new(control)? })
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

    /// When it did what, from span `first` on, `most` at most: kind, number, begin, end; how many spans there are, and how many were not
    /// kept. From any thread.
    #[pyo3(signature = (first = 0, most = usize::MAX))]
    fn spans(&self, first: usize, most: usize) -> (Vec<SpanOfPython>, usize, u64) {
        let Some(spans) = &self.spans else { return Default::default() };
        let spans = spans.lock();
        let (kept, dropped) = spans.all();
        let some = kept.iter().skip(first).take(most);
        (some.map(|span| (span.kind.name(), span.number, span.began, span.ended)).collect(), kept.len(), dropped)
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
                inner.submit(&mut ControlPlane(&self.methods), &mut given, group, records, last).map_err(|end| {
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
                        .submit(&mut ControlPlane(&self.methods), &mut Sent(call), tape.group, &tape.records, tape.last)
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

/// The next message. `rest` is called while none is there. A thread that wakes the call meanwhile ends one of these short waits alone, so
/// whether the session is to pause is looked at before the wait that has no end.
fn next(
    replay: &mut plane::replay::Replay<Py<PyAny>, Py<PyAny>>,
    call: &plane::Call,
    rest: Option<&Py<PyAny>>,
) -> PyResult<Received> {
    replay.rest();
    let Some(rest) = rest else {
        return replay.receive(call, None).map_err(|Gone| gone(call));
    };
    let mut pause = Duration::ZERO;
    loop {
        match replay.receive(call, Some(pause)).map_err(|Gone| gone(call))? {
            Received::Late => {}
            received => return Ok(received),
        }
        pause = (2 * pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        if Python::attach(|py| rest.call0(py)?.extract(py))? {
            if is_to_pause(replay, call) {
                return Ok(Received::Late);
            }
            return replay.receive(call, None).map_err(|Gone| gone(call));
        }
    }
}
