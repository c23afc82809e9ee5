//! The stream family: creation, waiting, callbacks, queries. Attributes are in `attributes`, capture queries in
//! `capture`.
//!
//! Owns what a `cudaStream_t` means: null and the constants name the default streams, everything else is a handle
//! minted here; what is not a live handle is cudaErrorInvalidResourceHandle. What a stream has pending is
//! `work::order`'s.
//!
//! Host functions (cudaLaunchHostFunc, cudaStreamAddCallback) run on the calling thread: the stream is synchronized,
//! then the function is called, then the call returns. That keeps every order CUDA promises; it costs a round trip when
//! work is pending, and a function that waits for its caller would wait for ever. In a stream that is being captured
//! (`graph::capture`) they are nodes, and what waits for it is refused.
//!
//! Source: CUDA runtime API, "Stream Management", "Stream synchronization behavior", "Execution Control".
#![allow(non_snake_case, non_upper_case_globals)] // C's names

use crate::device;
use crate::event;
use crate::graph::capture as capturing;
use crate::types::{
    DevResource, DevResourceType, EventHandle, StreamHandle, EVENT_WAIT_EXTERNAL, STREAM_LEGACY, STREAM_NON_BLOCKING,
    STREAM_PER_THREAD,
};
use session::call::{give, Error, Outcome};
use session::function::DefaultStream;
use session::process::{self, HandleKind};
use session::work::handle::{decode, encode, Tag};
use session::work::order::{Kind, Stream};
use session::work::{self, tracking};
use session::{output, permission};
use std::ffi::{c_int, c_uint, c_ulonglong};
use std::sync::Arc;
use tape::generated_operations as operation;

mod attributes;
mod capture;
pub mod held;
pub mod memory_operations;

pub use attributes::*;
pub use capture::*;

/// What cudaDeviceGetStreamPriorityRange answers: the least and the greatest priority.
pub const PRIORITY_RANGE: (c_int, c_int) = (0, -5);

/// The stream that the program means.
#[inline]
pub fn resolve(default: DefaultStream, stream: StreamHandle) -> Outcome<Arc<Stream>> {
    let order = &tracking()?.order;
    match (stream as usize, default) {
        (0, DefaultStream::Legacy) | (STREAM_LEGACY, _) => {
            if capturing::any() {
                capturing::implicit()?;
            }
            Ok(order.legacy.clone())
        }
        (0, DefaultStream::PerThread) | (STREAM_PER_THREAD, _) => Ok(order.per_thread.clone()),
        (value, _) => {
            decode(Tag::Stream, value).and_then(|number| order.find(number)).ok_or(Error::INVALID_RESOURCE_HANDLE)
        }
    }
}

/// A stream for the length of a call.
pub enum Resolved {
    Default(&'static Arc<Stream>),
    Created(Arc<Stream>),
}

impl std::ops::Deref for Resolved {
    type Target = Arc<Stream>;

    #[inline]
    fn deref(&self) -> &Arc<Stream> {
        match self {
            Self::Default(stream) => stream,
            Self::Created(stream) => stream,
        }
    }
}

/// As `resolve`, without counting a reference to a default stream: launches are many.
#[inline(always)]
pub fn resolve_briefly(default: DefaultStream, stream: StreamHandle) -> Outcome<Resolved> {
    if (stream as usize, default) == (0, DefaultStream::Legacy) && !capturing::any() {
        return Ok(Resolved::Default(&tracking()?.order.legacy));
    }
    resolve(default, stream).map(Resolved::Created)
}

/// As `resolve`, for a stream that was created: the default ones are refused.
fn created(stream: StreamHandle) -> Outcome<Arc<Stream>> {
    let number = decode(Tag::Stream, stream as usize).ok_or(Error::INVALID_RESOURCE_HANDLE)?;
    tracking()?.order.find(number).ok_or(Error::INVALID_RESOURCE_HANDLE)
}

/// What waits for a stream cannot be captured.
fn check_not_captured(stream: &Stream) -> Outcome {
    if capturing::of(stream) {
        return Err(capturing::refuse(stream));
    }
    Ok(())
}

/// Waits for the stream's work, then runs the function with what the wait gave; see the module's comment.
pub fn then(default: DefaultStream, stream: StreamHandle, function: impl FnOnce(Outcome) + 'static) -> Outcome {
    let stream = resolve(default, stream)?;
    check_not_captured(&stream)?;
    let call = {
        let stream = stream.clone();
        move || {
            let waited = work::synchronize_stream(&stream);
            output::synchronized();
            function(waited);
            Ok(())
        }
    };
    if held::blocks(&stream) {
        held::add_call(&stream, call);
        return Ok(());
    }
    call()
}

pub unsafe fn create(pStream: *mut StreamHandle) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { create_with_priority(pStream, 0, 0) }
}

pub unsafe fn create_with_flags(pStream: *mut StreamHandle, flags: c_uint) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { create_with_priority(pStream, flags, 0) }
}

pub unsafe fn create_with_priority(pStream: *mut StreamHandle, flags: c_uint, priority: c_int) -> Outcome {
    if pStream.is_null() || flags & !STREAM_NON_BLOCKING != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let order = &tracking()?.order;
    // A priority outside the range is the nearest one inside, says CUDA's documentation.
    let (least, greatest) = PRIORITY_RANGE;
    let priority = priority.clamp(greatest, least);
    permission::before_another_stream();
    let number = process::mint(HandleKind::Stream)?;
    work::append(|w| operation::stream_create(w, number, flags, priority))?;
    let kind = if flags & STREAM_NON_BLOCKING != 0 { Kind::NonBlocking } else { Kind::Blocking };
    order.add(Stream::new(number, kind, flags, priority));
    // SAFETY: the caller's promise; not null.
    unsafe { give(pStream, encode(Tag::Stream, number) as StreamHandle) }
}

pub unsafe fn destroy(stream: StreamHandle) -> Outcome {
    let stream = created(stream)?;
    let number = stream.number;
    if capturing::any() {
        capturing::abandon(Some(number));
    }
    let end = move || {
        tracking()?.order.remove(number).ok_or(Error::INVALID_RESOURCE_HANDLE)?;
        work::append(|w| operation::stream_destroy(w, number))
    };
    if held::is_busy(&stream) {
        held::add_call(&stream, end);
        return Ok(());
    }
    end()
}

pub unsafe fn synchronize(default: DefaultStream, stream: StreamHandle) -> Outcome {
    let stream = resolve(default, stream)?;
    check_not_captured(&stream)?;
    held::complete_work(&stream)?;
    if permission::local_sync() {
        return work::completed();
    }
    work::synchronize_stream(&stream)?;
    held::advance()
}

pub unsafe fn query(default: DefaultStream, stream: StreamHandle) -> Outcome {
    let stream = resolve(default, stream)?;
    check_not_captured(&stream)?;
    held::ask(&stream)?;
    work::query_stream(&stream)
}

pub unsafe fn wait_event(default: DefaultStream, stream: StreamHandle, event: EventHandle, flags: c_uint) -> Outcome {
    if flags & !EVENT_WAIT_EXTERNAL != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let stream = resolve(default, stream)?;
    let event = event::resolve(event)?;
    event::wait_for(&event, &stream, flags)
}

pub unsafe fn get_priority(default: DefaultStream, hStream: StreamHandle, priority: *mut c_int) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { give(priority, resolve(default, hStream)?.priority) }
}

pub unsafe fn get_flags(default: DefaultStream, hStream: StreamHandle, flags: *mut c_uint) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { give(flags, resolve(default, hStream)?.flags) }
}

pub unsafe fn get_id(default: DefaultStream, hStream: StreamHandle, streamId: *mut c_ulonglong) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { give(streamId, resolve(default, hStream)?.number.into()) }
}

pub unsafe fn get_device(default: DefaultStream, hStream: StreamHandle, device: *mut c_int) -> Outcome {
    resolve(default, hStream)?;
    // SAFETY: the caller's promise.
    unsafe { give(device, 0) }
}

/// A stream may use its whole device.
pub unsafe fn get_resource(
    default: DefaultStream,
    hStream: StreamHandle,
    resource: *mut DevResource,
    type_: DevResourceType,
) -> Outcome {
    resolve(default, hStream)?;
    // SAFETY: the caller's promise.
    unsafe { device::get_resource(0, resource, type_) }
}

pub unsafe fn ctx_reset_persisting_l2_cache() -> Outcome {
    // Persisting lines are a hint; nothing here keeps them.
    tracking().map(drop)
}
