//! The graph family: graphs made node by node or captured from streams, executable graphs, launches of them.
//!
//! One file per part: `state` (graphs and nodes), `node` (what one node does), `nodes` and `topology` (the API's
//! functions about nodes and edges), `allocations` (memory nodes), `attributes` (of kernel nodes), `conditional`
//! (conditional nodes), `parameters` (what a node of any kind does), `capture` (streams being captured), `exec`
//! (executable graphs), `templates` (what of a launch is sent once). This file has the functions about whole graphs.
//!
//! A graph lives in the guest: only launches reach the tape, as a template that is sent once and a REPEAT for each
//! launch.
//!
//! Source: CUDA runtime API, "Graph Management"; CUDA programming guide, "CUDA Graphs".
#![allow(non_snake_case, non_upper_case_globals)] // C's names

mod allocations;
mod attributes;
pub mod capture;
mod conditional;
mod exec;
mod node;
mod nodes;
mod objects;
mod parameters;
mod state;
mod templates;
mod topology;
mod updates;

pub use attributes::*;
pub use conditional::conditional_handle_create;
pub use exec::{Exec, Position};
pub use node::Work;
pub use nodes::*;
pub use objects::*;
pub use parameters::*;
pub use state::{graph_id, node_id, Id};
pub use topology::*;
pub use updates::*;

use crate::stream::{self, held};
use crate::types::{
    GraphExecHandle, GraphExecUpdateResultInfo, GraphHandle, GraphInstantiateParams, GraphMemAttributeType,
    GraphNodeHandle, StreamHandle,
};
use session::call::{give, Error, Outcome};
use session::function::DefaultStream;
use session::process;
use session::work::order::Stream;
use state::{graph_handle, node_handle, state};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};
use std::sync::Arc;

const INSTANTIATE_FLAGS: c_ulonglong = crate::types::GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
    | crate::types::GRAPH_INSTANTIATE_FLAG_UPLOAD
    | crate::types::GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

/// Whether work for the stream goes elsewhere than to the tape: into a capture, or behind held work.
#[inline(always)]
pub fn diverts(stream: &Stream) -> bool {
    capture::of(stream) || held::blocks(stream)
}

/// Work of a stream that `diverts`.
pub fn divert(stream: &Arc<Stream>, work: Work) -> Outcome {
    if capture::of(stream) {
        return capture::add(stream, work).map(drop);
    }
    held::add(stream, work);
    Ok(())
}

/// How many graphs and executable graphs there are.
pub fn count() -> (usize, usize) {
    (state().count(), exec::count())
}

/// The device was reset: nothing is left.
pub fn forget() {
    capture::abandon(None);
    exec::clear();
    state().clear();
}

pub unsafe fn create(pGraph: *mut GraphHandle, flags: c_uint) -> Outcome {
    if pGraph.is_null() || flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    process::session()?;
    let id = state().create(false);
    // SAFETY: the caller's promise.
    unsafe { give(pGraph, graph_handle(id)) }
}

pub unsafe fn destroy(graph: GraphHandle) -> Outcome {
    let id = graph_id(graph)?;
    let mut state = state();
    if state.graph(id)?.owned {
        return Err(Error::INVALID_VALUE);
    }
    let ended = state.destroy(id)?;
    drop(state);
    objects::release_all(&ended.objects);
    Ok(())
}

/// A graph with nodes that allocate or free cannot be cloned.
pub unsafe fn clone(pGraphClone: *mut GraphHandle, originalGraph: GraphHandle) -> Outcome {
    if pGraphClone.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let mut state = state();
    let original = graph_id(originalGraph)?;
    if state.has_memory(original)? {
        return Err(Error::NOT_SUPPORTED);
    }
    let id = state.copy(original, false)?;
    drop(state);
    // SAFETY: the caller's promise.
    unsafe { give(pGraphClone, graph_handle(id)) }
}

pub unsafe fn instantiate(pGraphExec: *mut GraphExecHandle, graph: GraphHandle, flags: c_ulonglong) -> Outcome {
    if pGraphExec.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    if flags & !INSTANTIATE_FLAGS != 0 {
        // Launching from the device among them.
        return Err(Error::NOT_SUPPORTED);
    }
    let id = graph_id(graph)?;
    if state().graph(id)?.owned {
        return Err(Error::NOT_SUPPORTED); // it belongs to a node of another graph
    }
    let exec = exec::instantiate(id, flags)?;
    // SAFETY: the caller's promise.
    unsafe { give(pGraphExec, exec) }
}

pub unsafe fn instantiate_with_flags(
    pGraphExec: *mut GraphExecHandle,
    graph: GraphHandle,
    flags: c_ulonglong,
) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { instantiate(pGraphExec, graph, flags) }
}

pub unsafe fn instantiate_with_params(
    _default: DefaultStream,
    pGraphExec: *mut GraphExecHandle,
    graph: GraphHandle,
    instantiateParams: *mut GraphInstantiateParams,
) -> Outcome {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { instantiateParams.as_mut() }.ok_or(Error::INVALID_VALUE)?;
    params.errNode_out = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    let made = unsafe { instantiate(pGraphExec, graph, params.flags) };
    params.result_out =
        if made.is_ok() { crate::types::GRAPH_INSTANTIATE_SUCCESS } else { crate::types::GRAPH_INSTANTIATE_ERROR };
    made
}

pub unsafe fn exec_get_flags(graphExec: GraphExecHandle, flags: *mut c_ulonglong) -> Outcome {
    let kept = exec::with(graphExec, |exec| Ok(exec.flags))?;
    // SAFETY: the caller's promise.
    unsafe { give(flags, kept) }
}

pub unsafe fn exec_destroy(graphExec: GraphExecHandle) -> Outcome {
    exec::destroy(graphExec)
}

pub unsafe fn upload(default: DefaultStream, graphExec: GraphExecHandle, stream: StreamHandle) -> Outcome {
    stream::resolve(default, stream)?;
    exec::with(graphExec, |_| Ok(()))
}

pub unsafe fn launch(default: DefaultStream, graphExec: GraphExecHandle, stream: StreamHandle) -> Outcome {
    let stream = stream::resolve(default, stream)?;
    exec::with(graphExec, |exec| {
        if capture::of(&stream) {
            let child = state().copy(exec.graph, true)?;
            return capture::add(&stream, Work::Child(child)).map(drop);
        }
        // SAFETY: the program's promise.
        unsafe { exec.launch(&stream) }
    })
}

pub unsafe fn exec_update(
    hGraphExec: GraphExecHandle,
    hGraph: GraphHandle,
    resultInfo: *mut GraphExecUpdateResultInfo,
) -> Outcome {
    let graph = graph_id(hGraph)?;
    state().graph(graph)?;
    let outcome = exec::with(hGraphExec, |exec| Ok(exec.update(graph)))?;
    let (result, node) = outcome.err().unwrap_or((crate::types::GRAPH_EXEC_UPDATE_SUCCESS, 0));
    // SAFETY: the program says that it is such a struct, or null.
    if let Some(info) = unsafe { resultInfo.as_mut() } {
        info.result = result;
        info.errorNode = if node == 0 { std::ptr::null_mut() } else { node_handle(node) };
        info.errorFromNode = std::ptr::null_mut();
    }
    outcome.map_err(|_| Error::GRAPH_EXEC_UPDATE_FAILURE)
}

pub unsafe fn node_set_enabled(hGraphExec: GraphExecHandle, hNode: GraphNodeHandle, isEnabled: c_uint) -> Outcome {
    exec::with(hGraphExec, |exec| exec.enable(hNode, isEnabled != 0))
}

pub unsafe fn node_get_enabled(hGraphExec: GraphExecHandle, hNode: GraphNodeHandle, isEnabled: *mut c_uint) -> Outcome {
    let enabled = exec::with(hGraphExec, |exec| exec.item(hNode).map(|item| item.enabled))?;
    // SAFETY: the caller's promise.
    unsafe { give(isEnabled, enabled.into()) }
}

pub unsafe fn get_id(hGraph: GraphHandle, graphID: *mut c_uint) -> Outcome {
    let id = graph_id(hGraph)?;
    state().graph(id)?;
    // SAFETY: the caller's promise.
    unsafe { give(graphID, id) }
}

pub unsafe fn node_get_containing_graph(hNode: GraphNodeHandle, phGraph: *mut GraphHandle) -> Outcome {
    let graph = state().node(node_id(hNode)?)?.graph;
    // SAFETY: the caller's promise.
    unsafe { give(phGraph, graph_handle(graph)) }
}

/// The number that cudaGraphDebugDotPrint writes.
pub unsafe fn node_get_local_id(hNode: GraphNodeHandle, nodeId: *mut c_uint) -> Outcome {
    let id = node_id(hNode)?;
    state().node(id)?;
    // SAFETY: the caller's promise.
    unsafe { give(nodeId, id) }
}

pub unsafe fn node_get_tools_id(hNode: GraphNodeHandle, toolsNodeId: *mut c_ulonglong) -> Outcome {
    let id = node_id(hNode)?;
    let graph = state().node(id)?.graph;
    // SAFETY: the caller's promise.
    unsafe { give(toolsNodeId, u64::from(graph) << 32 | u64::from(id)) }
}

pub unsafe fn exec_get_id(hGraphExec: GraphExecHandle, graphID: *mut c_uint) -> Outcome {
    let id = exec::number(hGraphExec)?;
    // SAFETY: the caller's promise.
    unsafe { give(graphID, id) }
}

/// A line of text for each node and edge, in the language of Graphviz; the flags ask for details that are not written.
pub unsafe fn debug_dot_print(graph: GraphHandle, path: *const c_char, _flags: c_uint) -> Outcome {
    if path.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program says that it is a string.
    let path = unsafe { std::ffi::CStr::from_ptr(path) }.to_string_lossy().into_owned();
    let id = graph_id(graph)?;
    let text = {
        let state = state();
        let mut text = String::from("digraph dot {\n");
        for node in &state.graph(id)?.nodes {
            text += &format!("\"node_{node}\"[label=\"{}\"];\n", state.node(*node)?.work.name());
        }
        for (from, to) in state.edges(id)? {
            text += &format!("\"node_{from}\" -> \"node_{to}\";\n");
        }
        text + "}\n"
    };
    std::fs::write(path, text).map_err(|_| Error::OPERATING_SYSTEM)
}

pub unsafe fn device_graph_mem_trim(device: c_int) -> Outcome {
    process::check_device(device)?;
    crate::memory::trim_graph_memory();
    Ok(())
}

pub unsafe fn device_get_graph_mem_attribute(
    device: c_int,
    attr: GraphMemAttributeType,
    value: *mut c_void,
) -> Outcome {
    process::check_device(device)?;
    let (now, most) = crate::memory::graph_memory_used();
    let found = match attr {
        0 | 2 => now,
        1 | 3 => most,
        _ => return Err(Error::INVALID_VALUE),
    };
    // SAFETY: the program says that it is a cuuint64_t's place, or null.
    unsafe { give(value.cast::<u64>(), found) }
}

pub unsafe fn device_set_graph_mem_attribute(
    device: c_int,
    attr: GraphMemAttributeType,
    value: *mut c_void,
) -> Outcome {
    process::check_device(device)?;
    // SAFETY: the program says that it is a cuuint64_t, or null.
    let value = unsafe { value.cast::<u64>().as_ref() }.copied().ok_or(Error::INVALID_VALUE)?;
    if !matches!(attr, 1 | 3) || value != 0 {
        return Err(Error::INVALID_VALUE);
    }
    crate::memory::reset_graph_memory_high();
    Ok(())
}
