//! The only way in which the shim puts work on the tape, and what it knows about that work.
//!
//! Owns the bookkeeping beside the session: which streams have work pending (`order`), and which copies to the
//! program's memory have not arrived (`reads`). Owns neither the session (`process`) nor groups and transport (crate
//! `client`).
//!
//! A deferred call is `defer` (work of a stream) or `append` (work of no stream: allocation, handles, modules). A call
//! that needs an answer is `request`, `read` or one of the `synchronize_*` functions; these know when nothing is
//! pending and then answer without a round trip, reporting the first deferred error that no call has reported yet, if
//! there is one.
//!
//! Locking: see `order`; nothing here holds a lock while it waits for the host, except in mode `none`, where a caller
//! of `append` may hold the allocator's.
//!
//! Source: architecture, "What makes deferral invisible"; protos/tape.md, "Errors".

pub mod handle;
pub mod order;
mod reads;

use crate::call::{check, error_of, Error, Outcome};
use crate::{contexts, frame, lazy_readback, output, permission, process};
use client::{Answer, Append, Destination, Failure, Mode, Origin, Session};
use order::{Mark, Order, Point, Stream};
use reads::Reads;
use std::sync::{Arc, OnceLock};
use tape::generated_operations as operation;
use tape::{WriteHead, Writer};

/// Everything that is tracked for the session.
#[derive(Debug)]
pub struct Tracking {
    pub order: Order,
    reads: Reads,
}

static TRACKING: OnceLock<Tracking> = OnceLock::new();

#[inline(always)]
fn session_and_tracking() -> Outcome<(&'static Session, &'static Tracking)> {
    let session = process::session()?;
    let tracking = match TRACKING.get() {
        Some(tracking) => tracking,
        None => TRACKING.get_or_init(begin_tracking),
    };
    Ok((session, tracking))
}

#[cold]
fn begin_tracking() -> Tracking {
    Tracking { order: Order::default(), reads: Reads::default() }
}

/// Where in the program the call under way comes from: the loop recorder tells call sites and threads apart by it.
pub fn origin() -> Origin {
    let (thread, site) = frame::thread_and_site();
    Origin { thread: thread as u64, site: site as u64, hint: permission::take_hint() }
}

/// What is tracked for the session; opens the session if that has not happened.
#[inline]
pub fn tracking() -> Outcome<&'static Tracking> {
    Ok(session_and_tracking()?.1)
}

/// The value of an answer that arrived. An error of an earlier deferred call, not reported yet, comes first.
fn value_of(session: &Session, answer: Answer) -> Outcome<u64> {
    permission::answered();
    untold(session)?;
    check(answer.error).map(|()| answer.value)
}

/// Appends a record that answers into the slot, and waits for the answer.
fn ask(session: &Session, write: impl FnOnce(&mut Writer, u32)) -> Result<Answer, Failure> {
    answered(|| session.request(write))
}

/// A question to the host, which has done everything before it when its answer comes.
fn answered<T>(question: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let (launches, lazily) = (output::asked(), lazy_readback::recorded());
    let answer = question()?;
    output::answered(launches);
    lazy_readback::arrived(lazily);
    Ok(answer)
}

/// Appends records that are not work of a stream.
pub fn append(write: impl FnOnce(&mut Writer)) -> Outcome {
    process::session()?.defer(write).map_err(error_of)
}

/// Appends one record of work of the stream.
#[inline]
pub fn defer(stream: &Stream, write: impl FnOnce(&mut Writer)) -> Outcome {
    defer_piece(stream, true, write)
}

/// Begins what `defer` does as a whole, where the session defers (`Session::defers`): launches are many. It is finished
/// by `Append::finish`.
#[inline(always)]
pub fn begin(stream: &Stream) -> Outcome<Append<'static>> {
    let _acting = stream.act();
    let (session, Tracking { order, .. }) = session_and_tracking()?;
    match session.begin() {
        Ok(mut append) => {
            order.mark(append.writer(), stream);
            Ok(append)
        }
        Err(failure) => Err(failed(order, stream, None, failure)),
    }
}

/// As `defer`, for a call that makes several records: `last` says that no more follow.
#[inline]
pub fn defer_piece(stream: &Stream, last: bool, write: impl FnOnce(&mut Writer)) -> Outcome {
    let _acting = stream.act();
    let (session, tracking) = session_and_tracking()?;
    let mut mark = None;
    let write = |w: &mut Writer| {
        mark = Some(tracking.order.mark(w, stream));
        write(w);
    };
    let appended = if last { session.defer(write) } else { session.defer_part(write) };
    appended.map_err(|failure| failed(&tracking.order, stream, mark, failure))
}

/// Sends a large piece from where it is, where that is possible; false: nothing was done.
pub fn send_bulk(stream: &Stream, head: WriteHead, data: &[u8]) -> Outcome<bool> {
    let _acting = stream.act();
    let (session, tracking) = session_and_tracking()?;
    let mut mark = None;
    let sent = session.defer_bulk(head, data, |w| mark = Some(tracking.order.mark(w, stream)));
    sent.map_err(|failure| failed(&tracking.order, stream, mark, failure))
}

/// As `defer`, for work whose completion will be asked about.
pub fn defer_point(stream: &Arc<Stream>, write: impl FnOnce(&mut Writer)) -> Outcome<Point> {
    let _acting = stream.act();
    let (session, Tracking { order, .. }) = session_and_tracking()?;
    let mut mark = None;
    let appended = session.defer(|w| {
        mark = Some(order.mark(w, stream));
        write(w);
    });
    appended.map_err(|failure| failed(order, stream, mark, failure))?;
    mark.map(|mark| Point::new(stream, mark)).ok_or(Error::UNKNOWN)
}

/// Work of the stream was not recorded, or (mode none) has failed. A session that is over gives it no mark: who waits
/// for it is to hear that.
#[cold]
fn failed(order: &Order, stream: &Stream, mark: Option<Mark>, failure: Failure) -> Error {
    if mark.is_none() && failure == Failure::Dead {
        order.lose(stream);
    }
    error_of(failure)
}

/// Appends a record that answers into the slot, and waits for the value: one round trip.
pub fn request(write: impl FnOnce(&mut Writer, u32)) -> Outcome<u64> {
    let session = process::session()?;
    value_of(session, ask(session, write).map_err(error_of)?)
}

/// As `request`, with so many questions at once (`Session::request_all`): one round trip. An error of the first is the
/// result, one of another is its own answer.
pub fn request_all(questions: usize, write: impl FnOnce(&mut Writer, u32)) -> Outcome<Vec<Outcome<u64>>> {
    let session = process::session()?;
    let answers = answered(|| session.request_all(questions, write)).map_err(error_of)?;
    value_of(session, *answers.first().ok_or(Error::UNKNOWN)?)?;
    Ok(answers.iter().map(|answer| check(answer.error).map(|()| answer.value)).collect())
}

/// Copies from the device to the guest in the order of the stream: one round trip.
///
/// # Safety
/// Every row of the destination is writable until this returns.
pub unsafe fn read(stream: &Stream, destination: Destination, write: impl FnOnce(&mut Writer, u32)) -> Outcome {
    let _acting = stream.act();
    let (session, tracking) = session_and_tracking()?;
    let start = tracking.order.begin();
    // SAFETY: the caller's promise.
    answered(|| unsafe { session.read(destination, write) }).map_err(error_of)?;
    permission::answered();
    tracking.order.work_done(stream, start);
    untold(session)
}

/// Appends a record that answers with `answer.len()` bytes of data and is no work of a stream, and waits for them: one
/// round trip.
pub fn fetch(answer: &mut [u8], write: impl FnOnce(&mut Writer, u32)) -> Outcome {
    let session = process::session()?;
    let destination = Destination { ptr: answer.as_mut_ptr(), pitch: answer.len(), width: answer.len(), height: 1 };
    // SAFETY: the bytes are borrowed until this returns.
    answered(|| unsafe { session.read(destination, write) }).map_err(error_of)?;
    permission::answered();
    untold(session)
}

/// As `read`, but does not wait: the data is there when the stream, or what follows it, is synchronized.
///
/// # Safety
/// Every row of the destination is writable until then; `complete_copies` tells when.
pub unsafe fn read_deferred(
    stream: &Arc<Stream>,
    destination: Destination,
    write: impl FnOnce(&mut Writer, u32),
) -> Outcome {
    let _acting = stream.act();
    let (session, Tracking { order, reads, .. }) = session_and_tracking()?;
    if session.mode() == Mode::None {
        // SAFETY: the caller promises more.
        return unsafe { self::read(stream, destination, write) };
    }
    let Destination { ptr, pitch, width, height } = destination;
    let mut mark = None;
    let write = |w: &mut Writer, slot| {
        mark = Some(order.mark(w, stream));
        write(w, slot);
    };
    // SAFETY: the caller's promise.
    let sent = unsafe { session.read_deferred(destination, write) };
    if let Some(mark) = mark {
        let length = pitch * height.saturating_sub(1) + width;
        reads.add(order, ptr as usize, length, Point::new(stream, mark));
    }
    sent.map_err(|failure| failed(order, stream, mark, failure))
}

/// As `read_deferred`, for a copy that a manifest lets wait (`permission`): it is recorded like any deferred work, and
/// arrives with others.
///
/// # Safety
/// Every row of the destination, `length` bytes in all, is writable until the copy is complete.
pub unsafe fn record_read(
    stream: &Stream,
    destination: Destination,
    length: usize,
    write: impl FnOnce(&mut Writer, u32),
) -> Outcome {
    let address = destination.ptr as usize;
    // SAFETY: the caller's promise.
    unsafe { record(stream, destination, write) }?;
    permission::deferred(address, length);
    Ok(())
}

/// As `record_read`, into the store of a lazy readback.
///
/// # Safety
/// The destination lies in that store.
pub unsafe fn record_lazily(
    stream: &Stream,
    destination: Destination,
    held: &lazy_readback::Held,
    write: impl FnOnce(&mut Writer, u32),
) -> Outcome {
    // SAFETY: the store is writable until the readback ends, which waits for `held` and then for the host's answer.
    unsafe { record(stream, destination, write) }?;
    held.recorded();
    Ok(())
}

/// # Safety
/// Every row of the destination is writable until the copy has arrived.
unsafe fn record(stream: &Stream, destination: Destination, write: impl FnOnce(&mut Writer, u32)) -> Outcome {
    let _acting = stream.act();
    let (session, Tracking { order, .. }) = session_and_tracking()?;
    let mut mark = None;
    let write = |w: &mut Writer, slot| {
        mark = Some(order.mark(w, stream));
        write(w, slot);
    };
    // SAFETY: the caller's promise.
    let recorded = unsafe { session.record_read(destination, frame::site(), write) };
    recorded.map_err(|failure| failed(order, stream, mark, failure))
}

/// Whether a copy to pinned memory may not have arrived.
pub fn reads_pending() -> bool {
    TRACKING.get().is_some_and(|Tracking { order, reads, .. }| reads.touch(order, 0, usize::MAX))
}

/// Waits until the host has replayed what was recorded; errors are kept for the next call that tells them.
pub fn fence() {
    if let Some(session) = process::opened_session() {
        // The calls that need a session report that it is over.
        let _ = ask(session, operation::fence);
    }
}

/// `fence` for the management library (crate `nvml`), which asks the host on a connection of its own: it finds this
/// function in the core by name.
#[no_mangle]
pub extern "C" fn farlane_fence() {
    fence();
}

/// Waits for all work of the session; errors are kept for the next call that tells them.
pub fn finish_work() {
    let Some((session, Tracking { order, .. })) = process::opened_session().zip(TRACKING.get()) else { return };
    if order.any_pending() {
        let position = order.position();
        if ask(session, operation::device_synchronize).is_ok_and(|answer| answer.error == 0) {
            order.device_synchronized(position);
        }
    }
}

/// Sends what is recorded: nothing more follows soon.
pub fn ship() {
    if let Some(session) = process::opened_session() {
        session.flush();
    }
}

/// Waits until nothing that was recorded will write to `[start, start + length)` of the guest's memory.
pub fn complete_copies(start: usize, length: usize) -> Outcome {
    lazy_readback::clear(start, length);
    let Some(Tracking { order, reads, .. }) = TRACKING.get() else {
        return Ok(());
    };
    if permission::touches(start, length) {
        fence();
    }
    if reads.touch(order, start, length) {
        synchronize_device()
    } else {
        Ok(())
    }
}

/// The first error of a deferred call that no call has reported yet.
fn untold(session: &Session) -> Outcome {
    session.take_deferred_error().map_or(Ok(()), |code| Err(Error(code)))
}

/// Waits for a status. `done` is called when the answer says that the wait is over, with whatever error.
fn wait(session: &Session, write: impl FnOnce(&mut Writer, u32), done: impl FnOnce()) -> Outcome {
    let answer = ask(session, write).map_err(error_of)?;
    if Error(answer.error) != Error::NOT_READY {
        done();
    }
    value_of(session, answer).map(drop)
}

/// Waits for all work of the session.
pub fn synchronize_device() -> Outcome {
    let (session, Tracking { order, .. }) = session_and_tracking()?;
    if !order.any_pending() {
        return untold(session);
    }
    let position = order.position();
    wait(session, operation::device_synchronize, || order.device_synchronized(position))
}

/// Waits for the work of a stream.
pub fn synchronize_stream(stream: &Stream) -> Outcome {
    complete_stream(stream, operation::stream_synchronize)
}

/// Success when the stream has no work pending, else `NOT_READY`.
pub fn query_stream(stream: &Stream) -> Outcome {
    complete_stream(stream, operation::stream_query)
}

fn complete_stream(stream: &Stream, operation: fn(&mut Writer, u32, u32)) -> Outcome {
    let _acting = stream.act();
    let (session, Tracking { order, .. }) = session_and_tracking()?;
    if !order.pending(stream) {
        return untold(session);
    }
    let start = order.begin_synchronize(stream);
    wait(session, |w, slot| operation(w, stream.number, slot), || order.stream_synchronized(stream, start))
}

/// Waits for a point that is pending, or asks about it; `operation` takes the event's number.
pub fn complete_point(event: u32, point: &Point, operation: fn(&mut Writer, u32, u32)) -> Outcome {
    let _acting = point.stream.act();
    let (session, Tracking { order, .. }) = session_and_tracking()?;
    wait(session, |w, slot| operation(w, event, slot), || order.point_done(point))
}

/// A synchronization that has nothing to wait for.
pub fn completed() -> Outcome {
    untold(process::session()?)
}

/// Resets the device and everything tracked here; what the operations hold of the session is theirs to renew.
pub fn reset_device() -> Outcome {
    let _acting = contexts::act_for(contexts::PRIMARY);
    let (session, tracking) = session_and_tracking()?;
    let position = tracking.order.position();
    check(ask(session, operation::device_reset).map_err(error_of)?.error)?;
    tracking.order.reset(position);
    session.clear_errors();
    Ok(())
}
