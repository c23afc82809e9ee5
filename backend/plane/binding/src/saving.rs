//! Saved sessions as Python sees them: what of the replay and of the call goes into one, and how another replay and call go on.

use crate::replay::{ProtocolError, Replay};
use crate::{gone, seconds, Call};
use bytes::Bytes;
use plane::call::saving::Counted;
use plane::replay::loops::saving::Standing;
use plane::Gone;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

create_exception!(
    farlane_plane,
    Paused,
    PyException,
    "Another thread has work for the session's own, between two groups."
);

/// Of a template: its number, the columns that a continued REPEAT goes on with, the iteration that it begins with.
type Continuing = (u32, Vec<u8>, u64);
/// Group, context, records, continuing, decided, nanoseconds.
type Replayed = (u64, Option<u32>, Vec<Py<PyBytes>>, Vec<(u32, Py<PyBytes>, u64)>, Option<(u32, u64)>, u64);

/// Whether the session is to pause, and can.
pub fn is_to_pause<L, H>(replay: &plane::replay::Replay<L, H>, call: &plane::Call) -> bool {
    call.is_asked() && replay.is_at_rest() && call.is_drained()
}

/// Raises Paused where it is.
pub fn pause<L, H>(replay: &plane::replay::Replay<L, H>, call: &plane::Call) -> PyResult<()> {
    if is_to_pause(replay, call) {
        return Err(Paused::new_err(()));
    }
    Ok(())
}

/// What a saved session keeps of its replay. Raises ValueError: why it cannot be saved now.
#[pyfunction]
pub fn save_replay(py: Python<'_>, replay: &Replay) -> PyResult<Replayed> {
    replay.locked(|inner| {
        let saved = inner.save().map_err(PyValueError::new_err)?;
        let bytes = |bytes: &Vec<u8>| PyBytes::new(py, bytes).unbind();
        let continuing = saved.loops.continuing.iter().map(|(number, columns, next)| (*number, bytes(columns), *next));
        let (records, continuing) = (saved.records.iter().map(bytes).collect(), continuing.collect());
        Ok((saved.group, saved.context, records, continuing, saved.loops.decided, saved.nanoseconds))
    })
}

/// The replay, which has replayed the records, goes on where a saved one stopped. Raises ProtocolError.
#[pyfunction]
pub fn restore_replay(
    replay: &Replay,
    group: u64,
    context: Option<u32>,
    continuing: Vec<Continuing>,
    decided: Option<(u32, u64)>,
) -> PyResult<()> {
    let standing = Standing { continuing, decided };
    replay.locked(|inner| inner.go_on(group, context, standing).map_err(ProtocolError::new_err))
}

/// From any thread: the session's own is to pause between two groups.
#[pyfunction]
pub fn ask(call: &Call) {
    call.inner.ask();
}

/// It need not pause any more.
#[pyfunction]
pub fn answered(call: &Call) {
    call.inner.answered();
}

/// What the call has of its session's messages: Tapes received, the number of the first message that is not confirmed, and those messages. None:
/// its guest cannot come again.
#[pyfunction]
pub fn save_call(py: Python<'_>, call: &Call) -> Option<(u64, u64, Vec<Py<PyBytes>>)> {
    let counted = call.inner.counted_so_far()?;
    let unconfirmed = counted.unconfirmed.iter().map(|message| PyBytes::new(py, message).unbind()).collect();
    Some((counted.received, counted.first, unconfirmed))
}

/// The call goes on with a saved session's messages, of which its guest has `shown`. `ticket`: of its own process. Raises CallGone.
#[pyfunction]
#[pyo3(signature = (call, grace, received, first, unconfirmed, shown, ticket=None))]
#[allow(clippy::too_many_arguments)]
pub fn restore_call(
    py: Python<'_>,
    call: &Call,
    grace: f64,
    received: u64,
    first: u64,
    unconfirmed: Vec<Vec<u8>>,
    shown: u64,
    ticket: Option<Vec<u8>>,
) -> PyResult<()> {
    let counted = Counted { received, first, unconfirmed: unconfirmed.into_iter().map(Bytes::from).collect() };
    let grace = seconds(grace)?;
    let ticket = ticket.unwrap_or_default();
    py.detach(|| call.inner.go_on_from(grace, counted, shown, &ticket)).map_err(|Gone| gone(&call.inner))
}

/// The session has left the host: its guest's connection is cut.
#[pyfunction]
pub fn leave(call: &Call) {
    call.inner.leave();
}
