//! The event family: creation, records, waiting, elapsed time.
//!
//! Owns the session's events. An event's latest record is a point of its stream (`work::order`): it is known done when
//! the stream is, or when it was waited for, and then costs no round trip. An event never recorded is done.
//!
//! Locking: an event's lock is held while its record is appended, so that the record kept here is the last one on the
//! tape; it is not held while anything waits for an answer.
//!
//! Source: CUDA runtime API, "Event Management".
#![allow(non_snake_case, non_upper_case_globals)] // C's names

use crate::graph::{self, capture};
use crate::stream::{self, held};
use crate::types::{
    EventHandle, StreamHandle, EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING, EVENT_INTERPROCESS, EVENT_RECORD_EXTERNAL,
    EVENT_WAIT_EXTERNAL,
};
use session::call::{Error, Outcome};
use session::contexts;
use session::function::DefaultStream;
use session::permission;
use session::process::{self, HandleKind};
use session::work::handle::{decode, encode, Tag};
use session::work::order::{Point, Stream};
use session::work::{self, tracking};
use std::collections::HashMap;
use std::ffi::{c_float, c_uint};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use tape::generated_operations as operation;

/// The latest record of an event.
#[derive(Debug, Clone)]
struct Record {
    point: Point,
    done: bool,
    /// What cudaEventElapsedTime answered from a start event (number and point) to this record.
    elapsed: Option<(u32, u64, f32)>,
}

/// One event.
#[derive(Debug)]
pub struct Event {
    pub number: u32,
    /// The context that it was made in.
    context: u32,
    flags: c_uint,
    record: Mutex<Option<Record>>,
    /// The capture that it was last recorded in, and the nodes that it stands for there.
    captured: Mutex<Option<(u32, Vec<graph::Id>)>>,
}

impl Event {
    fn record(&self) -> MutexGuard<'_, Option<Record>> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value that the program holds.
    pub fn handle(&self) -> EventHandle {
        encode(Tag::Event, self.number) as EventHandle
    }

    fn captured(&self) -> MutexGuard<'_, Option<(u32, Vec<graph::Id>)>> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes that it stands for in a capture under way.
    fn in_capture(&self) -> Option<(u32, Vec<graph::Id>)> {
        self.captured().clone().filter(|(id, _)| capture::lives(*id))
    }

    /// An event of a capture has no time of its own.
    fn check_not_captured(&self) -> Outcome {
        if self.captured().is_some() {
            return Err(Error::CAPTURED_EVENT);
        }
        Ok(())
    }

    /// The latest record that may not be done yet.
    pub fn pending(&self) -> Outcome<Option<Point>> {
        let order = &tracking()?.order;
        let record = self.record();
        Ok(record.as_ref().filter(|r| !r.done && order.point_pending(&r.point)).map(|r| r.point.clone()))
    }

    /// The record at that point is done.
    fn done(&self, point: &Point) {
        if let Some(record) = self.record().as_mut().filter(|record| record.point.at() == point.at()) {
            record.done = true;
        }
    }

    fn complete(&self, operation: fn(&mut tape::Writer, u32, u32)) -> Outcome {
        held::ask_event(self)?;
        match self.pending()? {
            None => {
                let _acting = contexts::act_for(self.context);
                work::completed()
            }
            Some(point) => {
                work::complete_point(self.number, &point, operation)?;
                self.done(&point);
                Ok(())
            }
        }
    }
}

/// The events of the session.
#[derive(Debug, Default)]
pub struct Events(RwLock<HashMap<u32, Arc<Event>>>);

impl Events {
    fn add(&self, event: Event) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(event.number, Arc::new(event));
    }

    fn find(&self, number: u32) -> Option<Arc<Event>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    fn remove(&self, number: u32) -> Option<Arc<Event>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner).remove(&number)
    }
}

static EVENTS: LazyLock<Events> = LazyLock::new(Events::default);

/// The events of the session, which is opened if that has not happened.
fn events() -> Outcome<&'static Events> {
    tracking().map(|_| &*EVENTS)
}

/// The events of a context.
pub fn of_context(context: u32) -> Vec<EventHandle> {
    let events = EVENTS.0.read().unwrap_or_else(PoisonError::into_inner);
    events.values().filter(|event| event.context == context).map(|event| event.handle()).collect()
}

/// How many there are.
pub fn count() -> usize {
    EVENTS.0.read().unwrap_or_else(PoisonError::into_inner).len()
}

/// The device was reset: there are none.
pub fn forget() {
    EVENTS.0.write().unwrap_or_else(PoisonError::into_inner).clear();
}

/// The event that the program means.
pub fn resolve(event: EventHandle) -> Outcome<Arc<Event>> {
    let number = decode(Tag::Event, event as usize).ok_or(Error::INVALID_RESOURCE_HANDLE)?;
    events()?.find(number).ok_or(Error::INVALID_RESOURCE_HANDLE)
}

pub unsafe fn create(event: *mut EventHandle) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { create_with_flags(event, 0) }
}

pub unsafe fn create_with_flags(event: *mut EventHandle, flags: c_uint) -> Outcome {
    if event.is_null() || flags & !(EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING | EVENT_INTERPROCESS) != 0 {
        return Err(Error::INVALID_VALUE);
    }
    if flags & EVENT_INTERPROCESS != 0 {
        return Err(if flags & EVENT_DISABLE_TIMING == 0 { Error::INVALID_VALUE } else { Error::NOT_SUPPORTED });
    }
    let events = events()?;
    let number = process::mint(HandleKind::Event)?;
    work::append(|w| operation::event_create(w, number, flags))?;
    events.add(Event {
        number,
        context: contexts::acting(),
        flags,
        record: Mutex::default(),
        captured: Mutex::default(),
    });
    // SAFETY: not null, and the program says that it is an event's place.
    unsafe { event.write(encode(Tag::Event, number) as EventHandle) };
    Ok(())
}

pub unsafe fn destroy(event: EventHandle) -> Outcome {
    let event = resolve(event)?;
    let number = event.number;
    events()?.remove(number).ok_or(Error::INVALID_RESOURCE_HANDLE)?;
    let end = move || work::append(|w| operation::event_destroy(w, number));
    if held::destroy_behind(&event, end) {
        return Ok(());
    }
    end()
}

pub unsafe fn record(default: DefaultStream, event: EventHandle, stream: StreamHandle) -> Outcome {
    record_flagged(default, event, stream, 0)
}

pub unsafe fn record_with_flags(
    default: DefaultStream,
    event: EventHandle,
    stream: StreamHandle,
    flags: c_uint,
) -> Outcome {
    if flags & !EVENT_RECORD_EXTERNAL != 0 {
        return Err(Error::INVALID_VALUE);
    }
    record_flagged(default, event, stream, flags)
}

fn record_flagged(default: DefaultStream, event: EventHandle, stream: StreamHandle, flags: c_uint) -> Outcome {
    let event = resolve(event)?;
    let stream = stream::resolve(default, stream)?;
    if capture::of(&stream) {
        if flags & EVENT_RECORD_EXTERNAL != 0 {
            return capture::add(&stream, graph::Work::EventRecord(event)).map(drop);
        }
        *event.captured() = Some(capture::tips(&stream)?);
        return Ok(());
    }
    if held::blocks(&stream) {
        held::add(&stream, graph::Work::EventRecord(event));
        return Ok(());
    }
    record_in(&event, &stream)
}

/// Records the event in a stream that is not being captured.
pub fn record_in(event: &Event, stream: &Arc<Stream>) -> Outcome {
    if stream.context.unwrap_or_else(contexts::acting) != event.context {
        return Err(Error::INVALID_RESOURCE_HANDLE);
    }
    *event.captured() = None;
    let mut record = event.record();
    let point = work::defer_point(stream, |w| operation::event_record(w, event.number, stream.number, 0))?;
    *record = Some(Record { point, done: false, elapsed: None });
    Ok(())
}

/// Later work of the stream waits for the event.
pub fn wait_for(event: &Arc<Event>, stream: &Arc<Stream>, flags: c_uint) -> Outcome {
    if capture::any() {
        if flags & EVENT_WAIT_EXTERNAL != 0 && capture::of(stream) {
            return capture::add(stream, graph::Work::EventWait(event.clone())).map(drop);
        }
        if let Some((id, nodes)) = event.in_capture() {
            return capture::join(stream, id, &nodes);
        }
        if capture::of(stream) {
            capture::refuse(stream);
            return Err(Error::STREAM_CAPTURE_ISOLATION);
        }
    }
    if held::blocks(stream) || held::holds_record(event) {
        held::add(stream, graph::Work::EventWait(event.clone()));
        return Ok(());
    }
    wait_in(event, stream)
}

/// As `wait_for`, outside of captures.
pub fn wait_in(event: &Event, stream: &Stream) -> Outcome {
    // Waiting for what is done, or was never recorded, changes nothing.
    if event.pending()?.is_none() {
        return Ok(());
    }
    work::defer(stream, |w| operation::stream_wait_event(w, stream.number, event.number))
}

pub unsafe fn query(event: EventHandle) -> Outcome {
    let event = resolve(event)?;
    event.check_not_captured()?;
    event.complete(operation::event_query)
}

pub unsafe fn synchronize(event: EventHandle) -> Outcome {
    let event = resolve(event)?;
    event.check_not_captured()?;
    held::complete_event(&event)?;
    if permission::local_sync() {
        return work::completed();
    }
    event.complete(operation::event_synchronize)
}

pub unsafe fn elapsed_time(ms: *mut c_float, start: EventHandle, end: EventHandle) -> Outcome {
    if ms.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let (start, end) = (resolve(start)?, resolve(end)?);
    start.check_not_captured()?;
    end.check_not_captured()?;
    if (start.flags | end.flags) & EVENT_DISABLE_TIMING != 0 || start.context != end.context {
        return Err(Error::INVALID_RESOURCE_HANDLE);
    }
    held::advance()?;
    if held::holds_record(&start) || held::holds_record(&end) {
        return Err(Error::NOT_READY);
    }
    let point_of = |event: &Event| event.record().as_ref().map(|record| record.point.at());
    let (Some(from), Some(to)) = (point_of(&start), point_of(&end)) else {
        return Err(Error::INVALID_RESOURCE_HANDLE);
    };
    let known = end.record().as_ref().and_then(|record| record.elapsed);
    let elapsed = match known {
        Some((number, at, elapsed)) if (number, at) == (start.number, from) => elapsed,
        _ => {
            let _acting = contexts::act_for(end.context);
            let bits = work::request(|w, slot| operation::event_elapsed(w, start.number, end.number, slot))?;
            // The value is the bits of an f32, zero-extended.
            let elapsed = f32::from_bits((bits & u64::from(u32::MAX)) as u32);
            if let Some(record) = end.record().as_mut().filter(|record| record.point.at() == to) {
                record.elapsed = Some((start.number, from, elapsed));
            }
            elapsed
        }
    };
    // SAFETY: not null, and the program says that it is a float's place.
    unsafe { ms.write(elapsed) };
    Ok(())
}
