//! The plane as Python sees it: `farlane.backend.plane`.
//!
//! Nothing is decided here. The GIL is released wherever the plane waits, listens or stops.

mod confining;
mod control;
mod cuda;
mod device;
mod fairness;
mod handles;
mod loops;
mod payloads;
mod repeat;
mod replay;
mod room;
mod saving;
mod sinks;
mod standing;

use bytes::Bytes;
use plane::call::Code;
use plane::listening::{Kind, Listener};
use plane::security::Files;
use plane::{Gone, Options, Received, Serve};
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyOSError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::os::fd::{FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

create_exception!(farlane_plane, CallGone, PyException, "The call was cancelled, or its connection broke.");
create_exception!(
    farlane_plane,
    MessageRefused,
    PyException,
    "What came is no message that the host takes: (status code, why)."
);

/// A Tape message: the number of its group, its records, whether the group ends with it.
#[pyclass(frozen, get_all, module = "farlane.backend.plane")]
struct Tape {
    group: u64,
    records: Py<PyBytes>,
    last: bool,
}

impl Tape {
    fn new(py: Python<'_>, tape: &plane::message::Tape) -> Self {
        Self { group: tape.group, records: PyBytes::new(py, &tape.records).unbind(), last: tape.last }
    }
}

/// One call of a guest. It belongs to the thread that serves it.
#[pyclass(frozen, module = "farlane.backend.plane")]
struct Call {
    inner: Arc<plane::Call>,
}

fn gone(call: &plane::Call) -> PyErr {
    CallGone::new_err(match (call.verdict(), call.given_up()) {
        (Some(why), _) => why.to_owned(),
        (None, Some(grace)) => {
            format!("its connection broke, and its guest did not come again within {} s", grace.as_secs_f64())
        }
        (None, None) => format!("{} is gone", call.peer),
    })
}

fn seconds(value: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(value).map_err(|error| PyValueError::new_err(format!("{value} seconds: {error}")))
}

#[pymethods]
impl Call {
    #[getter]
    fn number(&self) -> u64 {
        self.inner.number
    }

    #[getter]
    fn method(&self) -> &str {
        &self.inner.method
    }

    #[getter]
    fn peer(&self) -> &str {
        &self.inner.peer
    }

    #[getter]
    fn authorization(&self) -> Option<&str> {
        self.inner.shown.authorization.as_deref()
    }

    #[getter]
    fn certificate(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        self.inner.shown.certificate.as_ref().map(|found| PyBytes::new(py, found).unbind())
    }

    /// What the guest is to say at the rings' socket, once; None where it cannot come there.
    fn ticket(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        self.inner.ticket().map(|ticket| PyBytes::new(py, &ticket).unbind())
    }

    /// What the guest is to say, once, on another connection, which is handed on.
    fn passage(&self, py: Python<'_>) -> Option<Py<PyBytes>> {
        self.inner.passage().map(|ticket| PyBytes::new(py, &ticket).unbind())
    }

    /// From now on the call outlives its connection, for so many seconds. Once, before anything is sent.
    fn keep(&self, grace: f64) -> PyResult<()> {
        self.inner.keep(seconds(grace)?);
        Ok(())
    }

    /// The call goes on with the connection of another one, whose guest has received so many messages; returns when that carries no more of
    /// it.
    ///
    /// Raises CallGone: the call has ended, or its guest has come once more.
    #[pyo3(signature = (by, received, ticket = None))]
    fn resume(&self, py: Python<'_>, by: &Bound<'_, Self>, received: u64, ticket: Option<&[u8]>) -> PyResult<()> {
        let by = by.get().inner.clone();
        py.detach(|| {
            self.inner.resume(&by, received, ticket.unwrap_or_default())?;
            by.wait_end();
            Ok(())
        })
        .map_err(|Gone| gone(&self.inner))
    }

    /// From any thread: the call is cancelled, and its guest is given this status, whatever `finish` says.
    fn end(&self, status: i32, details: &str) {
        self.inner.end(Code::from_i32(status), details);
    }

    /// From any thread: the call's own thread gets a TimeoutError where it waits for a message by the stream.
    fn wake(&self) {
        self.inner.wake();
    }

    /// The next message: a Tape, the bytes of another one, or None when the guest will send no more.
    ///
    /// Raises CallGone, MessageRefused, TimeoutError.
    #[pyo3(signature = (timeout = None))]
    fn receive(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Py<PyAny>>> {
        let timeout = timeout.map(seconds).transpose()?;
        match py.detach(|| self.inner.receive(timeout)) {
            Ok(Received::Tape(tape)) => Ok(Some(Py::new(py, Tape::new(py, &tape))?.into_any())),
            Ok(Received::Other(message)) => Ok(Some(PyBytes::new(py, &message).into_any().unbind())),
            Ok(Received::End | Received::Placed(_)) => Ok(None),
            Ok(Received::Late) => Err(PyTimeoutError::new_err("no message came in time")),
            Ok(Received::Refused(status)) => {
                Err(MessageRefused::new_err((status.code() as i32, status.message().to_owned())))
            }
            Err(Gone) => Err(gone(&self.inner)),
        }
    }

    /// Sends a message once the one before is on its way. `flush`: now; else with what the thread does next, which must be `receive`, `send`
    /// or `finish`.
    ///
    /// Raises CallGone.
    #[pyo3(signature = (message, *, flush = true))]
    fn send(&self, py: Python<'_>, message: &Bound<'_, PyBytes>, flush: bool) -> PyResult<()> {
        let message = message.as_bytes();
        py.detach(|| self.inner.send(&[message], flush)).map_err(|Gone| gone(&self.inner))
    }

    /// Ends the call with a gRPC status, whatever has become of it. The last thing done with it.
    #[pyo3(signature = (status, details = ""))]
    fn finish(&self, py: Python<'_>, status: i32, details: &str) {
        py.detach(|| self.inner.finish(Code::from_i32(status), details));
    }
}

/// Serves calls by Python functions.
struct Functions {
    serve: Py<PyAny>,
    cancelled: Py<PyAny>,
    warn: Py<PyAny>,
    hand: Option<Py<PyAny>>,
}

impl Functions {
    fn call(&self, function: &Py<PyAny>, call: &Arc<plane::Call>) {
        Python::attach(|py| {
            let call = Call { inner: call.clone() };
            if let Err(error) = function.call1(py, (call,)) {
                error.write_unraisable(py, None);
            }
        });
    }
}

impl Serve for Functions {
    fn serve(&self, call: &Arc<plane::Call>) {
        self.call(&self.serve, call);
    }

    fn cancelled(&self, call: &Arc<plane::Call>) {
        self.call(&self.cancelled, call);
    }

    fn hand(&self, call: &Arc<plane::Call>, connection: OwnedFd, kind: Kind) {
        let Some(hand) = &self.hand else { return };
        Python::attach(|py| {
            let call = Call { inner: call.clone() };
            if let Err(error) = hand.call1(py, (call, connection.into_raw_fd(), kind.name())) {
                error.write_unraisable(py, None);
            }
        });
    }

    fn warn(&self, text: &str) {
        Python::attach(|py| {
            if let Err(error) = self.warn.call1(py, (text,)) {
                error.write_unraisable(py, None);
            }
        });
    }
}

fn kind_of(name: &str) -> PyResult<Kind> {
    let known = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    known.ok_or_else(|| PyValueError::new_err(format!("{name:?} is no kind of socket")))
}

/// What encrypted connections are made with.
///
/// Raises OSError.
#[pyclass(frozen, module = "farlane.backend.plane")]
struct Security {
    inner: Arc<plane::Security>,
}

#[pymethods]
impl Security {
    /// Files in PEM, which are read again when they have changed.
    #[new]
    fn new(certificate: PathBuf, key: PathBuf, authorities: PathBuf) -> PyResult<Self> {
        let files = Files { certificate, key, authorities };
        Ok(Self { inner: Arc::new(plane::Security::from_files(files).map_err(PyOSError::new_err)?) })
    }

    /// One certificate and its key, in PEM. Guests show none.
    #[staticmethod]
    fn fixed(certificate: &[u8], key: &[u8]) -> PyResult<Self> {
        Ok(Self { inner: Arc::new(plane::Security::fixed(certificate, key).map_err(PyOSError::new_err)?) })
    }
}

/// A server that listens.
///
/// Args:
///     listeners: (file descriptor of a listening socket, what it is for: `Kind`); the server owns them from now on.
///     serve: is given each call, on a thread of the call's own, and finishes it.
///     cancelled: is given a call that was cancelled while its thread is busy elsewhere.
///     warn: is given a text for the log.
///     hand: is given each connection that shows the ticket of a call: the call, a descriptor to be closed, and what it
///         is for.
///
/// Raises OSError.
#[pyclass(frozen, module = "farlane.backend.plane")]
struct Server {
    inner: plane::Server,
}

#[pymethods]
impl Server {
    #[new]
    #[pyo3(signature = (listeners, serve, cancelled, warn, *, calls, connections, message_bytes, keepalive, keepalive_timeout, hand = None, security = None))]
    #[allow(clippy::too_many_arguments)]
    fn new(
        listeners: Vec<(RawFd, String)>,
        serve: Py<PyAny>,
        cancelled: Py<PyAny>,
        warn: Py<PyAny>,
        calls: usize,
        connections: usize,
        message_bytes: usize,
        keepalive: f64,
        keepalive_timeout: f64,
        hand: Option<Py<PyAny>>,
        security: Option<&Security>,
    ) -> PyResult<Self> {
        let options = Options {
            calls,
            connections,
            message_bytes,
            keepalive: seconds(keepalive)?,
            keepalive_timeout: seconds(keepalive_timeout)?,
            rings: listeners.iter().any(|(_, kind)| kind == "rings"),
            hands: hand.is_some(),
            security: security.map(|security| security.inner.clone()),
            ..Options::default()
        };
        let listeners: PyResult<Vec<_>> = listeners
            .into_iter()
            .map(|(descriptor, kind)| {
                // SAFETY: the caller gives the descriptors away.
                unsafe { Listener::adopt(descriptor, kind_of(&kind)?) }
                    .map_err(|error| PyOSError::new_err(error.to_string()))
            })
            .collect();
        let inner = plane::Server::start(options, Box::new(Functions { serve, cancelled, warn, hand }), listeners?)
            .map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(Self { inner })
    }

    /// Calls that are open.
    #[getter]
    fn calls(&self) -> usize {
        self.inner.calls()
    }

    /// Serves a connection that another process has handed on; the descriptor is the server's from now on.
    fn adopt(&self, py: Python<'_>, descriptor: RawFd, kind: &str) -> PyResult<()> {
        let kind = kind_of(kind)?;
        // SAFETY: the caller gives the descriptor away.
        let connection = unsafe { OwnedFd::from_raw_fd(descriptor) };
        py.detach(|| self.inner.adopt(connection, kind));
        Ok(())
    }

    /// Takes no new connections, gives the open calls `grace` seconds, then cancels them and waits until they are gone.
    fn stop(&self, py: Python<'_>, grace: f64) -> PyResult<()> {
        let grace = seconds(grace)?;
        py.detach(|| self.inner.stop(grace));
        Ok(())
    }
}

/// A Tape, if the message is one in the form in which every protobuf library writes it.
#[pyfunction]
fn read_tape(py: Python<'_>, message: &Bound<'_, PyBytes>) -> Option<Tape> {
    plane::message::tape(&Bytes::copy_from_slice(message.as_bytes())).map(|tape| Tape::new(py, &tape))
}

#[pymodule]
fn farlane_plane(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Server>()?;
    module.add_class::<Security>()?;
    module.add_class::<Call>()?;
    module.add_class::<Tape>()?;
    module.add_class::<device::Ranges>()?;
    module.add_class::<device::Event>()?;
    module.add_class::<device::Gate>()?;
    module.add_class::<room::Budget>()?;
    module.add_class::<room::AllocationMap>()?;
    module.add_class::<room::Pages>()?;
    module.add_class::<room::Room>()?;
    module.add_class::<fairness::Page>()?;
    module.add_class::<fairness::Process>()?;
    module.add_class::<fairness::Place>()?;
    module.add_class::<fairness::Scheduler>()?;
    module.add_class::<handles::Handles>()?;
    module.add("LIVE_LIMIT", plane::replay::handles::LIVE_LIMIT)?;
    module.add_class::<device::Entry>()?;
    module.add_class::<device::Direct>()?;
    module.add_class::<cuda::Cuda>()?;
    module.add_class::<cuda::Stream>()?;
    module.add_class::<repeat::Body>()?;
    module.add_class::<repeat::Graph>()?;
    module.add_class::<standing::Standing>()?;
    module.add_class::<loops::Columns>()?;
    module.add_class::<payloads::Payloads>()?;
    module.add_class::<replay::Replay>()?;
    module.add_function(wrap_pyfunction!(read_tape, module)?)?;
    module.add_function(wrap_pyfunction!(saving::save_replay, module)?)?;
    module.add_function(wrap_pyfunction!(saving::restore_replay, module)?)?;
    module.add_function(wrap_pyfunction!(saving::ask, module)?)?;
    module.add_function(wrap_pyfunction!(saving::answered, module)?)?;
    module.add_function(wrap_pyfunction!(saving::save_call, module)?)?;
    module.add_function(wrap_pyfunction!(saving::restore_call, module)?)?;
    module.add_function(wrap_pyfunction!(saving::leave, module)?)?;
    module.add("Paused", module.py().get_type::<saving::Paused>())?;
    module.add_function(wrap_pyfunction!(confining::restrict_files, module)?)?;
    module.add_function(wrap_pyfunction!(confining::restrict_calls, module)?)?;
    module.add("ProtocolError", module.py().get_type::<replay::ProtocolError>())?;
    module.add("DeadTransport", module.py().get_type::<replay::DeadTransport>())?;
    module.add("DriverFault", module.py().get_type::<cuda::DriverFault>())?;
    module.add("CUDA_FUNCTIONS", plane::device::cuda::functions::NAMES)?;
    module.add("CallGone", module.py().get_type::<CallGone>())?;
    module.add("MessageRefused", module.py().get_type::<MessageRefused>())?;
    Ok(())
}
