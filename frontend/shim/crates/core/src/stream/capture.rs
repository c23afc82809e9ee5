//! Stream capture as the API has it; what is captured is `graph::capture`'s.
#![allow(non_snake_case, clippy::too_many_arguments)] // C's names and signatures

use super::{give, resolve};
use crate::call::{CudaResult, DefaultStream};
use crate::graph::{capture, graph_id, node_id, Id};
use abi::{
    cudaGraphEdgeData, cudaGraphNode_t, cudaGraph_t, cudaStreamCaptureMode, cudaStreamCaptureModeGlobal,
    cudaStreamCaptureModeRelaxed, cudaStreamCaptureStatus, cudaStreamCaptureStatusActive,
    cudaStreamCaptureStatusInvalidated, cudaStreamCaptureStatusNone, cudaStream_t, CudaError,
};
use std::ffi::{c_uint, c_ulonglong};

/// Where the program wants the answers; null where it wants none, but for the status.
struct Places {
    id: *mut c_ulonglong,
    graph: *mut cudaGraph_t,
    dependencies: *mut *const cudaGraphNode_t,
    edges: *mut *const cudaGraphEdgeData,
    count: *mut usize,
}

impl Default for Places {
    fn default() -> Self {
        let null = std::ptr::null_mut();
        Self { id: null, graph: null.cast(), dependencies: null.cast(), edges: null.cast(), count: null.cast() }
    }
}

/// What the capture queries have in common; of the rest CUDA writes nothing when there is no capture.
unsafe fn status(
    default: DefaultStream,
    stream: cudaStream_t,
    status: *mut cudaStreamCaptureStatus,
    places: Places,
) -> CudaResult {
    let stream = resolve(default, stream)?;
    let info = capture::info(&stream);
    // SAFETY: the caller's promise, for all of them.
    unsafe {
        let Some(info) = info else { return give(status, cudaStreamCaptureStatusNone) };
        if info.invalid {
            return give(status, cudaStreamCaptureStatusInvalidated);
        }
        give(status, cudaStreamCaptureStatusActive)?;
        let _ = give(places.id, info.id.into());
        let _ = give(places.graph, info.graph);
        let _ = give(places.dependencies, info.dependencies);
        let _ = give(places.edges, info.edges);
        let _ = give(places.count, info.count);
    }
    Ok(())
}

pub unsafe fn cudaStreamIsCapturing(
    default: DefaultStream,
    stream: cudaStream_t,
    pCaptureStatus: *mut cudaStreamCaptureStatus,
) -> CudaResult {
    // SAFETY: the program's promise, here and below.
    unsafe { status(default, stream, pCaptureStatus, Places::default()) }
}

pub unsafe fn cudaStreamGetCaptureInfo_v12(
    default: DefaultStream,
    stream: cudaStream_t,
    captureStatus_out: *mut cudaStreamCaptureStatus,
    id_out: *mut c_ulonglong,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { status(default, stream, captureStatus_out, Places { id: id_out, ..Places::default() }) }
}

pub unsafe fn cudaStreamGetCaptureInfo_v13(
    default: DefaultStream,
    stream: cudaStream_t,
    captureStatus_out: *mut cudaStreamCaptureStatus,
    id_out: *mut c_ulonglong,
    graph_out: *mut cudaGraph_t,
    dependencies_out: *mut *const cudaGraphNode_t,
    edgeData_out: *mut *const cudaGraphEdgeData,
    numDependencies_out: *mut usize,
) -> CudaResult {
    let (id, graph, dependencies) = (id_out, graph_out, dependencies_out);
    let places = Places { id, graph, dependencies, edges: edgeData_out, count: numDependencies_out };
    // SAFETY: as above.
    unsafe { status(default, stream, captureStatus_out, places) }
}

pub unsafe fn cudaStreamGetCaptureInfo_v2(
    default: DefaultStream,
    stream: cudaStream_t,
    captureStatus_out: *mut cudaStreamCaptureStatus,
    id_out: *mut c_ulonglong,
    graph_out: *mut cudaGraph_t,
    dependencies_out: *mut *const cudaGraphNode_t,
    numDependencies_out: *mut usize,
) -> CudaResult {
    let (id, graph, dependencies, count) = (id_out, graph_out, dependencies_out, numDependencies_out);
    let places = Places { id, graph, dependencies, count, ..Places::default() };
    // SAFETY: as above.
    unsafe { status(default, stream, captureStatus_out, places) }
}

pub unsafe fn cudaStreamGetCaptureInfo_v3(
    default: DefaultStream,
    stream: cudaStream_t,
    captureStatus_out: *mut cudaStreamCaptureStatus,
    id_out: *mut c_ulonglong,
    graph_out: *mut cudaGraph_t,
    dependencies_out: *mut *const cudaGraphNode_t,
    edgeData_out: *mut *const cudaGraphEdgeData,
    numDependencies_out: *mut usize,
) -> CudaResult {
    let (id, graph, dependencies) = (id_out, graph_out, dependencies_out);
    let places = Places { id, graph, dependencies, edges: edgeData_out, count: numDependencies_out };
    // SAFETY: as above.
    unsafe { status(default, stream, captureStatus_out, places) }
}

pub unsafe fn cudaStreamBeginCapture(
    default: DefaultStream,
    stream: cudaStream_t,
    mode: cudaStreamCaptureMode,
) -> CudaResult {
    capture::begin(&resolve(default, stream)?, mode, None)
}

/// The nodes that the program lists.
unsafe fn nodes(list: *const cudaGraphNode_t, count: usize) -> CudaResult<Vec<Id>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if list.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the program says that there are so many.
    unsafe { std::slice::from_raw_parts(list, count) }.iter().map(|node| node_id(*node)).collect()
}

pub unsafe fn cudaStreamBeginCaptureToGraph(
    default: DefaultStream,
    stream: cudaStream_t,
    graph: cudaGraph_t,
    dependencies: *const cudaGraphNode_t,
    _dependencyData: *const cudaGraphEdgeData,
    numDependencies: usize,
    mode: cudaStreamCaptureMode,
) -> CudaResult {
    // SAFETY: the program's promise.
    let tips = unsafe { nodes(dependencies, numDependencies) }?;
    capture::begin(&resolve(default, stream)?, mode, Some((graph_id(graph)?, tips)))
}

pub unsafe fn cudaStreamEndCapture(
    default: DefaultStream,
    stream: cudaStream_t,
    pGraph: *mut cudaGraph_t,
) -> CudaResult {
    let ended = capture::end(&*resolve(default, stream)?, !pGraph.is_null());
    if !pGraph.is_null() {
        // SAFETY: not null; the program's promise.
        unsafe { give(pGraph, ended.unwrap_or(std::ptr::null_mut())) }?;
    }
    ended.map(drop)
}

unsafe fn update(
    default: DefaultStream,
    stream: cudaStream_t,
    dependencies: *const cudaGraphNode_t,
    count: usize,
    flags: c_uint,
) -> CudaResult {
    if flags > abi::cudaStreamSetCaptureDependencies {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let nodes = unsafe { nodes(dependencies, count) }?;
    capture::set_tips(&*resolve(default, stream)?, nodes, flags == abi::cudaStreamSetCaptureDependencies)
}

pub unsafe fn cudaStreamUpdateCaptureDependencies_v12(
    default: DefaultStream,
    stream: cudaStream_t,
    dependencies: *mut cudaGraphNode_t,
    numDependencies: usize,
    flags: c_uint,
) -> CudaResult {
    // SAFETY: the program's promise, here and below.
    unsafe { update(default, stream, dependencies, numDependencies, flags) }
}

pub unsafe fn cudaStreamUpdateCaptureDependencies_v13(
    default: DefaultStream,
    stream: cudaStream_t,
    dependencies: *mut cudaGraphNode_t,
    _dependencyData: *const cudaGraphEdgeData,
    numDependencies: usize,
    flags: c_uint,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { update(default, stream, dependencies, numDependencies, flags) }
}

pub unsafe fn cudaStreamUpdateCaptureDependencies_v2(
    default: DefaultStream,
    stream: cudaStream_t,
    dependencies: *mut cudaGraphNode_t,
    _dependencyData: *const cudaGraphEdgeData,
    numDependencies: usize,
    flags: c_uint,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { update(default, stream, dependencies, numDependencies, flags) }
}

pub unsafe fn cudaThreadExchangeStreamCaptureMode(mode: *mut cudaStreamCaptureMode) -> CudaResult {
    // SAFETY: the program says that it is such a place, or null.
    let mode = unsafe { mode.as_mut() }.ok_or(CudaError::INVALID_VALUE)?;
    if !(cudaStreamCaptureModeGlobal..=cudaStreamCaptureModeRelaxed).contains(mode) {
        return Err(CudaError::INVALID_VALUE);
    }
    *mode = capture::exchange_mode(*mode);
    Ok(())
}
