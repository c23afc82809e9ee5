//! Stream capture as the API has it; what is captured is `graph::capture`'s.
#![allow(non_snake_case, clippy::too_many_arguments)] // C's names and signatures

use super::{give, resolve};
use crate::graph::{capture, described, graph_id, listed, Id};
use crate::types::{
    GraphEdgeData, GraphHandle, GraphNodeHandle, StreamCaptureMode, StreamCaptureStatus, StreamHandle,
    STREAM_CAPTURE_STATUS_ACTIVE, STREAM_CAPTURE_STATUS_INVALIDATED, STREAM_CAPTURE_STATUS_NONE,
};
use session::call::{Error, Outcome};
use session::function::DefaultStream;
use std::ffi::{c_uint, c_ulonglong};

/// Where the program wants the answers; null where it wants none, but for the status.
struct Places {
    id: *mut c_ulonglong,
    graph: *mut GraphHandle,
    dependencies: *mut *const GraphNodeHandle,
    edges: *mut *const GraphEdgeData,
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
    stream: StreamHandle,
    status: *mut StreamCaptureStatus,
    places: Places,
) -> Outcome {
    let stream = resolve(default, stream)?;
    let info = capture::info(&stream);
    // SAFETY: the caller's promise, for all of them.
    unsafe {
        let Some(info) = info else { return give(status, STREAM_CAPTURE_STATUS_NONE) };
        if info.invalid {
            return give(status, STREAM_CAPTURE_STATUS_INVALIDATED);
        }
        give(status, STREAM_CAPTURE_STATUS_ACTIVE)?;
        let _ = give(places.id, info.id.into());
        let _ = give(places.graph, info.graph);
        let _ = give(places.dependencies, info.dependencies);
        let _ = give(places.edges, info.edges);
        let _ = give(places.count, info.count);
    }
    Ok(())
}

pub unsafe fn is_capturing(
    default: DefaultStream,
    stream: StreamHandle,
    pCaptureStatus: *mut StreamCaptureStatus,
) -> Outcome {
    // SAFETY: the program's promise, here and below.
    unsafe { status(default, stream, pCaptureStatus, Places::default()) }
}

pub unsafe fn get_capture_info_before_13(
    default: DefaultStream,
    stream: StreamHandle,
    captureStatus_out: *mut StreamCaptureStatus,
    id_out: *mut c_ulonglong,
) -> Outcome {
    // SAFETY: as above.
    unsafe { status(default, stream, captureStatus_out, Places { id: id_out, ..Places::default() }) }
}

pub unsafe fn get_capture_info(
    default: DefaultStream,
    stream: StreamHandle,
    captureStatus_out: *mut StreamCaptureStatus,
    id_out: *mut c_ulonglong,
    graph_out: *mut GraphHandle,
    dependencies_out: *mut *const GraphNodeHandle,
    edgeData_out: *mut *const GraphEdgeData,
    numDependencies_out: *mut usize,
) -> Outcome {
    let (id, graph, dependencies) = (id_out, graph_out, dependencies_out);
    let places = Places { id, graph, dependencies, edges: edgeData_out, count: numDependencies_out };
    // SAFETY: as above.
    unsafe { status(default, stream, captureStatus_out, places) }
}

pub unsafe fn get_capture_info_without_edges(
    default: DefaultStream,
    stream: StreamHandle,
    captureStatus_out: *mut StreamCaptureStatus,
    id_out: *mut c_ulonglong,
    graph_out: *mut GraphHandle,
    dependencies_out: *mut *const GraphNodeHandle,
    numDependencies_out: *mut usize,
) -> Outcome {
    let (id, graph, dependencies, count) = (id_out, graph_out, dependencies_out, numDependencies_out);
    let places = Places { id, graph, dependencies, count, ..Places::default() };
    // SAFETY: as above.
    unsafe { status(default, stream, captureStatus_out, places) }
}

pub unsafe fn begin_capture(default: DefaultStream, stream: StreamHandle, mode: StreamCaptureMode) -> Outcome {
    capture::begin(&resolve(default, stream)?, mode, None)
}

/// The nodes that the program lists, and what it says of the edges from them.
unsafe fn nodes(
    list: *const GraphNodeHandle,
    data: *const GraphEdgeData,
    count: usize,
) -> Outcome<Vec<(Id, GraphEdgeData)>> {
    // SAFETY: the program says that there are so many.
    Ok(unsafe { listed(list, count)?.into_iter().zip(described(data, count)) }.collect())
}

pub unsafe fn begin_capture_to_graph(
    default: DefaultStream,
    stream: StreamHandle,
    graph: GraphHandle,
    dependencies: *const GraphNodeHandle,
    dependencyData: *const GraphEdgeData,
    numDependencies: usize,
    mode: StreamCaptureMode,
) -> Outcome {
    // SAFETY: the program's promise.
    let tips = unsafe { nodes(dependencies, dependencyData, numDependencies) }?;
    capture::begin(&resolve(default, stream)?, mode, Some((graph_id(graph)?, tips)))
}

pub unsafe fn end_capture(default: DefaultStream, stream: StreamHandle, pGraph: *mut GraphHandle) -> Outcome {
    let ended = capture::end(&*resolve(default, stream)?, !pGraph.is_null());
    if !pGraph.is_null() {
        // SAFETY: not null; the program's promise.
        unsafe { give(pGraph, ended.unwrap_or(std::ptr::null_mut())) }?;
    }
    ended.map(drop)
}

unsafe fn update(
    default: DefaultStream,
    stream: StreamHandle,
    dependencies: *const GraphNodeHandle,
    data: *const GraphEdgeData,
    count: usize,
    flags: c_uint,
) -> Outcome {
    if flags > crate::types::STREAM_SET_CAPTURE_DEPENDENCIES {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let nodes = unsafe { nodes(dependencies, data, count) }?;
    capture::set_tips(&*resolve(default, stream)?, &nodes, flags == crate::types::STREAM_SET_CAPTURE_DEPENDENCIES)
}

pub unsafe fn update_capture_dependencies_before_13(
    default: DefaultStream,
    stream: StreamHandle,
    dependencies: *mut GraphNodeHandle,
    numDependencies: usize,
    flags: c_uint,
) -> Outcome {
    // SAFETY: the program's promise, here and below.
    unsafe { update(default, stream, dependencies, std::ptr::null(), numDependencies, flags) }
}

pub unsafe fn update_capture_dependencies(
    default: DefaultStream,
    stream: StreamHandle,
    dependencies: *mut GraphNodeHandle,
    dependencyData: *const GraphEdgeData,
    numDependencies: usize,
    flags: c_uint,
) -> Outcome {
    // SAFETY: as above.
    unsafe { update(default, stream, dependencies, dependencyData, numDependencies, flags) }
}

pub unsafe fn thread_exchange_stream_capture_mode(mode: *mut StreamCaptureMode) -> Outcome {
    // SAFETY: the program says that it is such a place, or null.
    let mode = unsafe { mode.as_mut() }.ok_or(Error::INVALID_VALUE)?;
    *mode = capture::exchange_mode(*mode);
    Ok(())
}
