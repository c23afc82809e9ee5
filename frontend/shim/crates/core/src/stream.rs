//! The stream family: creation, waiting, callbacks, queries. Attributes are in `attributes`, capture queries in `capture`.
//!
//! Owns what a `cudaStream_t` means: null and the constants name the default streams, everything else is a handle minted
//! here; what is not a live handle is cudaErrorInvalidResourceHandle. What a stream has pending is `work::order`'s.
//!
//! Host functions (cudaLaunchHostFunc, cudaStreamAddCallback) run on the calling thread: the stream is synchronized, then the
//! function is called, then the call returns. That keeps every order CUDA promises; it costs a round trip when work is
//! pending, and a function that waits for its caller would wait for ever. In a stream that is being captured (`graph::capture`) they
//! are nodes, and what waits for it is refused.
//!
//! Source: CUDA runtime API, "Stream Management", "Stream synchronization behavior", "Execution Control".
#![allow(non_snake_case, non_upper_case_globals)] // C's names

use crate::call::{give, CudaResult, DefaultStream};
use crate::event;
use crate::graph::capture as capturing;
use crate::runtime::{self, HandleKind};
use crate::work::handle::{decode, encode, Tag};
use crate::work::order::{Kind, Stream};
use crate::work::{self, tracking};
use crate::{output, permission};
use abi::{
    cudaEvent_t, cudaStreamCallback_t, cudaStreamLegacy, cudaStreamNonBlocking, cudaStreamPerThread, cudaStream_t,
    CudaError,
};
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::sync::Arc;
use tape::generated_operations as operation;

mod attributes;
mod capture;
pub mod memory_operations;

pub use attributes::*;
pub use capture::*;

/// What cudaDeviceGetStreamPriorityRange answers: the least and the greatest priority.
pub const PRIORITY_RANGE: (c_int, c_int) = (0, -5);

/// The stream that the program means.
#[inline]
pub fn resolve(default: DefaultStream, stream: cudaStream_t) -> CudaResult<Arc<Stream>> {
    let order = &tracking()?.order;
    match (stream as usize, default) {
        (0, DefaultStream::Legacy) | (cudaStreamLegacy, _) => {
            if capturing::any() {
                capturing::implicit()?;
            }
            Ok(order.legacy.clone())
        }
        (0, DefaultStream::PerThread) | (cudaStreamPerThread, _) => Ok(order.per_thread.clone()),
        (value, _) => {
            decode(Tag::Stream, value).and_then(|number| order.find(number)).ok_or(CudaError::INVALID_RESOURCE_HANDLE)
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
pub fn resolve_briefly(default: DefaultStream, stream: cudaStream_t) -> CudaResult<Resolved> {
    if (stream as usize, default) == (0, DefaultStream::Legacy) && !capturing::any() {
        return Ok(Resolved::Default(&tracking()?.order.legacy));
    }
    resolve(default, stream).map(Resolved::Created)
}

/// As `resolve`, for a stream that was created: the default ones are refused.
fn created(stream: cudaStream_t) -> CudaResult<Arc<Stream>> {
    let number = decode(Tag::Stream, stream as usize).ok_or(CudaError::INVALID_RESOURCE_HANDLE)?;
    tracking()?.order.find(number).ok_or(CudaError::INVALID_RESOURCE_HANDLE)
}

/// What waits for a stream cannot be captured.
fn check_not_captured(stream: &Stream) -> CudaResult {
    if capturing::of(stream) {
        return Err(capturing::refuse(stream));
    }
    Ok(())
}

/// Waits for the stream's work, then runs the function with what the wait gave; see the module's comment.
pub fn then(default: DefaultStream, stream: cudaStream_t, function: impl FnOnce(CudaResult)) -> CudaResult {
    let stream = resolve(default, stream)?;
    check_not_captured(&stream)?;
    let waited = work::synchronize_stream(&stream);
    output::synchronized();
    function(waited);
    Ok(())
}

pub unsafe fn cudaStreamCreate(pStream: *mut cudaStream_t) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { cudaStreamCreateWithPriority(pStream, 0, 0) }
}

pub unsafe fn cudaStreamCreateWithFlags(pStream: *mut cudaStream_t, flags: c_uint) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { cudaStreamCreateWithPriority(pStream, flags, 0) }
}

pub unsafe fn cudaStreamCreateWithPriority(pStream: *mut cudaStream_t, flags: c_uint, priority: c_int) -> CudaResult {
    if pStream.is_null() || flags & !cudaStreamNonBlocking != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let order = &tracking()?.order;
    // A priority outside the range is the nearest one inside, says CUDA's documentation.
    let (least, greatest) = PRIORITY_RANGE;
    let priority = priority.clamp(greatest, least);
    let number = runtime::mint(HandleKind::Stream)?;
    work::append(|w| operation::stream_create(w, number, flags, priority))?;
    let kind = if flags & cudaStreamNonBlocking != 0 { Kind::NonBlocking } else { Kind::Blocking };
    order.add(Stream::new(number, kind, flags, priority));
    // SAFETY: the caller's promise; not null.
    unsafe { give(pStream, encode(Tag::Stream, number) as cudaStream_t) }
}

pub unsafe fn cudaStreamDestroy(stream: cudaStream_t) -> CudaResult {
    let number = created(stream)?.number;
    if capturing::any() {
        capturing::abandon(Some(number));
    }
    tracking()?.order.remove(number).ok_or(CudaError::INVALID_RESOURCE_HANDLE)?;
    work::append(|w| operation::stream_destroy(w, number))
}

pub unsafe fn cudaStreamSynchronize(default: DefaultStream, stream: cudaStream_t) -> CudaResult {
    let stream = resolve(default, stream)?;
    check_not_captured(&stream)?;
    if permission::local_sync() {
        return work::settled();
    }
    work::synchronize_stream(&stream)
}

pub unsafe fn cudaStreamQuery(default: DefaultStream, stream: cudaStream_t) -> CudaResult {
    let stream = resolve(default, stream)?;
    check_not_captured(&stream)?;
    work::query_stream(&stream)
}

pub unsafe fn cudaStreamAddCallback(
    default: DefaultStream,
    stream: cudaStream_t,
    callback: cudaStreamCallback_t,
    userData: *mut c_void,
    flags: c_uint,
) -> CudaResult {
    let Some(callback) = callback.filter(|_| flags == 0) else {
        return Err(CudaError::INVALID_VALUE);
    };
    then(default, stream, |waited| {
        let status = waited.err().unwrap_or(CudaError(0));
        // SAFETY: the program says that it is such a function.
        unsafe { callback(stream, status, userData) };
    })
}

pub unsafe fn cudaStreamWaitEvent(
    default: DefaultStream,
    stream: cudaStream_t,
    event: cudaEvent_t,
    flags: c_uint,
) -> CudaResult {
    if flags & !event::EXTERNAL != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let stream = resolve(default, stream)?;
    let event = event::resolve(event)?;
    event::wait_for(&event, &stream, flags)
}

pub unsafe fn cudaStreamGetPriority(default: DefaultStream, hStream: cudaStream_t, priority: *mut c_int) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { give(priority, resolve(default, hStream)?.priority) }
}

pub unsafe fn cudaStreamGetFlags(default: DefaultStream, hStream: cudaStream_t, flags: *mut c_uint) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { give(flags, resolve(default, hStream)?.flags) }
}

pub unsafe fn cudaStreamGetId(default: DefaultStream, hStream: cudaStream_t, streamId: *mut c_ulonglong) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { give(streamId, resolve(default, hStream)?.number.into()) }
}

pub unsafe fn cudaStreamGetDevice(default: DefaultStream, hStream: cudaStream_t, device: *mut c_int) -> CudaResult {
    resolve(default, hStream)?;
    // SAFETY: the caller's promise.
    unsafe { give(device, 0) }
}

pub unsafe fn cudaCtxResetPersistingL2Cache() -> CudaResult {
    // Persisting lines are a hint; nothing here keeps them.
    tracking().map(drop)
}
