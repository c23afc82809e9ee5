//! Queries about stream capture: there is never one, because capture itself is not supported.
#![allow(non_snake_case, clippy::too_many_arguments)] // C's names and signatures

use super::{give, resolve};
use crate::call::{CudaResult, DefaultStream};
use abi::{
    cudaGraphEdgeData, cudaGraphNode_t, cudaGraph_t, cudaStreamCaptureMode, cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeRelaxed, cudaStreamCaptureStatus, cudaStreamCaptureStatusNone, cudaStream_t, CudaError,
};
use std::cell::Cell;
use std::ffi::c_ulonglong;

thread_local! {
    static MODE: Cell<cudaStreamCaptureMode> = const { Cell::new(cudaStreamCaptureModeGlobal) };
}

/// What the capture queries have in common: the status; of the rest CUDA writes nothing when there is no capture.
unsafe fn status(default: DefaultStream, stream: cudaStream_t, status: *mut cudaStreamCaptureStatus) -> CudaResult {
    resolve(default, stream)?;
    // SAFETY: the caller's promise.
    unsafe { give(status, cudaStreamCaptureStatusNone) }
}

pub unsafe fn cudaStreamIsCapturing(
    default: DefaultStream,
    stream: cudaStream_t,
    pCaptureStatus: *mut cudaStreamCaptureStatus,
) -> CudaResult {
    // SAFETY: the program's promise, here and below.
    unsafe { status(default, stream, pCaptureStatus) }
}

pub unsafe fn cudaStreamGetCaptureInfo_v12(
    default: DefaultStream,
    stream: cudaStream_t,
    captureStatus_out: *mut cudaStreamCaptureStatus,
    _id_out: *mut c_ulonglong,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { status(default, stream, captureStatus_out) }
}

pub unsafe fn cudaStreamGetCaptureInfo_v13(
    default: DefaultStream,
    stream: cudaStream_t,
    captureStatus_out: *mut cudaStreamCaptureStatus,
    _id_out: *mut c_ulonglong,
    _graph_out: *mut cudaGraph_t,
    _dependencies_out: *mut *const cudaGraphNode_t,
    _edgeData_out: *mut *const cudaGraphEdgeData,
    _numDependencies_out: *mut usize,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { status(default, stream, captureStatus_out) }
}

pub unsafe fn cudaStreamGetCaptureInfo_v2(
    default: DefaultStream,
    stream: cudaStream_t,
    captureStatus_out: *mut cudaStreamCaptureStatus,
    _id_out: *mut c_ulonglong,
    _graph_out: *mut cudaGraph_t,
    _dependencies_out: *mut *const cudaGraphNode_t,
    _numDependencies_out: *mut usize,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { status(default, stream, captureStatus_out) }
}

pub unsafe fn cudaStreamGetCaptureInfo_v3(
    default: DefaultStream,
    stream: cudaStream_t,
    captureStatus_out: *mut cudaStreamCaptureStatus,
    _id_out: *mut c_ulonglong,
    _graph_out: *mut cudaGraph_t,
    _dependencies_out: *mut *const cudaGraphNode_t,
    _edgeData_out: *mut *const cudaGraphEdgeData,
    _numDependencies_out: *mut usize,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { status(default, stream, captureStatus_out) }
}

pub unsafe fn cudaThreadExchangeStreamCaptureMode(mode: *mut cudaStreamCaptureMode) -> CudaResult {
    // SAFETY: the program says that it is such a place, or null.
    let mode = unsafe { mode.as_mut() }.ok_or(CudaError::INVALID_VALUE)?;
    if !(cudaStreamCaptureModeGlobal..=cudaStreamCaptureModeRelaxed).contains(mode) {
        return Err(CudaError::INVALID_VALUE);
    }
    *mode = MODE.try_with(|kept| kept.replace(*mode)).unwrap_or(cudaStreamCaptureModeGlobal);
    Ok(())
}
