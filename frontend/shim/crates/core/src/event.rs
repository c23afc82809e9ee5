//! The event family: creation, records, waiting, elapsed time.
//!
//! Owns the session's events. An event's latest record is a point of its stream (`work::order`): it is known done when the
//! stream is, or when it was waited for, and then costs no round trip. An event never recorded is done.
//!
//! Locking: an event's lock is held while its record is appended, so that the record kept here is the last one on the tape;
//! it is not held while anything waits for an answer.
//!
//! Source: CUDA runtime API, "Event Management".
#![allow(non_snake_case, non_upper_case_globals)] // C's names

use crate::call::{CudaResult, DefaultStream};
use crate::graph::{self, capture};
use crate::permission;
use crate::runtime::{self, HandleKind};
use crate::stream;
use crate::work::handle::{decode, encode, Tag};
use crate::work::order::{Point, Stream};
use crate::work::{self, tracking};
use abi::{cudaEvent_t, cudaStream_t, CudaError};
use std::collections::HashMap;
use std::ffi::{c_float, c_uint};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use tape::generated_operations as operation;

const BLOCKING_SYNC: c_uint = 1;
const DISABLE_TIMING: c_uint = 2;
const INTERPROCESS: c_uint = 4;
/// cudaEventRecordExternal and cudaEventWaitExternal: of consequence in a capture only.
pub const EXTERNAL: c_uint = 1;

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
    pub fn handle(&self) -> cudaEvent_t {
        encode(Tag::Event, self.number) as cudaEvent_t
    }

    fn captured(&self) -> MutexGuard<'_, Option<(u32, Vec<graph::Id>)>> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The nodes that it stands for in a capture under way.
    fn in_capture(&self) -> Option<(u32, Vec<graph::Id>)> {
        self.captured().clone().filter(|(id, _)| capture::lives(*id))
    }

    /// An event of a capture has no time of its own.
    fn check_not_captured(&self) -> CudaResult {
        if self.captured().is_some() {
            return Err(CudaError::CAPTURED_EVENT);
        }
        Ok(())
    }

    /// The latest record that may not be done yet.
    pub fn pending(&self) -> CudaResult<Option<Point>> {
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

    fn settle(&self, operation: fn(&mut tape::Writer, u32, u32)) -> CudaResult {
        match self.pending()? {
            None => work::settled(),
            Some(point) => {
                work::settle_point(self.number, &point, operation)?;
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

    /// DEVICE_RESET was answered: there are none.
    pub fn clear(&self) {
        self.0.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// The event that the program means.
pub fn resolve(event: cudaEvent_t) -> CudaResult<Arc<Event>> {
    let number = decode(Tag::Event, event as usize).ok_or(CudaError::INVALID_RESOURCE_HANDLE)?;
    tracking()?.events.find(number).ok_or(CudaError::INVALID_RESOURCE_HANDLE)
}

pub unsafe fn cudaEventCreate(event: *mut cudaEvent_t) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { cudaEventCreateWithFlags(event, 0) }
}

pub unsafe fn cudaEventCreateWithFlags(event: *mut cudaEvent_t, flags: c_uint) -> CudaResult {
    if event.is_null() || flags & !(BLOCKING_SYNC | DISABLE_TIMING | INTERPROCESS) != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    if flags & INTERPROCESS != 0 {
        return Err(if flags & DISABLE_TIMING == 0 { CudaError::INVALID_VALUE } else { CudaError::NOT_SUPPORTED });
    }
    let events = &tracking()?.events;
    let number = runtime::mint(HandleKind::Event)?;
    work::append(|w| operation::event_create(w, number, flags))?;
    events.add(Event { number, flags, record: Mutex::default(), captured: Mutex::default() });
    // SAFETY: not null, and the program says that it is an event's place.
    unsafe { event.write(encode(Tag::Event, number) as cudaEvent_t) };
    Ok(())
}

pub unsafe fn cudaEventDestroy(event: cudaEvent_t) -> CudaResult {
    let number = resolve(event)?.number;
    tracking()?.events.remove(number).ok_or(CudaError::INVALID_RESOURCE_HANDLE)?;
    work::append(|w| operation::event_destroy(w, number))
}

pub unsafe fn cudaEventRecord(default: DefaultStream, event: cudaEvent_t, stream: cudaStream_t) -> CudaResult {
    record(default, event, stream, 0)
}

pub unsafe fn cudaEventRecordWithFlags(
    default: DefaultStream,
    event: cudaEvent_t,
    stream: cudaStream_t,
    flags: c_uint,
) -> CudaResult {
    if flags & !EXTERNAL != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    record(default, event, stream, flags)
}

fn record(default: DefaultStream, event: cudaEvent_t, stream: cudaStream_t, flags: c_uint) -> CudaResult {
    let event = resolve(event)?;
    let stream = stream::resolve(default, stream)?;
    if capture::of(&stream) {
        if flags & EXTERNAL != 0 {
            return capture::add(&stream, graph::Work::EventRecord(event)).map(drop);
        }
        *event.captured() = Some(capture::tips(&stream)?);
        return Ok(());
    }
    record_in(&event, &stream)
}

/// Records the event in a stream that is not being captured.
pub fn record_in(event: &Event, stream: &Arc<Stream>) -> CudaResult {
    *event.captured() = None;
    let mut record = event.record();
    let point = work::defer_point(stream, |w| operation::event_record(w, event.number, stream.number, 0))?;
    *record = Some(Record { point, done: false, elapsed: None });
    Ok(())
}

/// Later work of the stream waits for the event.
pub fn wait_for(event: &Arc<Event>, stream: &Arc<Stream>, flags: c_uint) -> CudaResult {
    if capture::any() {
        if flags & EXTERNAL != 0 && capture::of(stream) {
            return capture::add(stream, graph::Work::EventWait(event.clone())).map(drop);
        }
        if let Some((id, nodes)) = event.in_capture() {
            return capture::join(stream, id, &nodes);
        }
        if capture::of(stream) {
            capture::refuse(stream);
            return Err(CudaError::STREAM_CAPTURE_ISOLATION);
        }
    }
    wait_in(event, stream)
}

/// As `wait_for`, outside of captures.
pub fn wait_in(event: &Event, stream: &Stream) -> CudaResult {
    // Waiting for what is done, or was never recorded, changes nothing.
    if event.pending()?.is_none() {
        return Ok(());
    }
    work::defer(stream, |w| operation::stream_wait_event(w, stream.number, event.number))
}

pub unsafe fn cudaEventQuery(event: cudaEvent_t) -> CudaResult {
    let event = resolve(event)?;
    event.check_not_captured()?;
    event.settle(operation::event_query)
}

pub unsafe fn cudaEventSynchronize(event: cudaEvent_t) -> CudaResult {
    let event = resolve(event)?;
    event.check_not_captured()?;
    if permission::local_sync() {
        return work::settled();
    }
    event.settle(operation::event_synchronize)
}

pub unsafe fn cudaEventElapsedTime(ms: *mut c_float, start: cudaEvent_t, end: cudaEvent_t) -> CudaResult {
    if ms.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let (start, end) = (resolve(start)?, resolve(end)?);
    start.check_not_captured()?;
    end.check_not_captured()?;
    if (start.flags | end.flags) & DISABLE_TIMING != 0 {
        return Err(CudaError::INVALID_RESOURCE_HANDLE);
    }
    let point_of = |event: &Event| event.record().as_ref().map(|record| record.point.at());
    let (Some(from), Some(to)) = (point_of(&start), point_of(&end)) else {
        return Err(CudaError::INVALID_RESOURCE_HANDLE);
    };
    let known = end.record().as_ref().and_then(|record| record.elapsed);
    let elapsed = match known {
        Some((number, at, elapsed)) if (number, at) == (start.number, from) => elapsed,
        _ => {
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
