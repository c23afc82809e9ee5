//! The graph family: graphs made node by node or captured from streams, executable graphs, launches of them.
//!
//! One file per part: `state` (graphs and nodes), `node` (what one node does), `nodes` and `topology` (the API's functions about nodes
//! and edges), `allocations` (memory nodes), `attributes` (of kernel nodes), `conditional` (conditional nodes), `capture` (streams being captured), `exec` (executable graphs), `templates` (what of a launch is sent once). This file
//! has the functions about whole graphs.
//!
//! A graph lives in the guest: only launches reach the tape, as a template that is sent once and a REPEAT for each launch.
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
mod state;
mod templates;
mod topology;
mod updates;

pub use attributes::*;
pub use conditional::cudaGraphConditionalHandleCreate;
pub use node::Work;
pub use nodes::*;
pub use objects::*;
pub use state::{graph_id, node_id, Id};
pub use topology::*;
pub use updates::*;

use crate::call::{give, CudaResult, DefaultStream};
use crate::{runtime, stream};
use abi::{
    cudaGraphExecUpdateResultInfo, cudaGraphExec_t, cudaGraphInstantiateParams, cudaGraphMemAttributeType,
    cudaGraphNode_t, cudaGraph_t, cudaStream_t, CudaError,
};
use state::{graph_handle, node_handle, state};
use std::ffi::{c_char, c_int, c_uint, c_ulonglong, c_void};

const INSTANTIATE_FLAGS: c_ulonglong = abi::cudaGraphInstantiateFlagAutoFreeOnLaunch
    | abi::cudaGraphInstantiateFlagUpload
    | abi::cudaGraphInstantiateFlagUseNodePriority;

/// The device was reset: nothing is left.
pub fn forget() {
    capture::abandon(None);
    exec::clear();
    state().clear();
}

pub unsafe fn cudaGraphCreate(pGraph: *mut cudaGraph_t, flags: c_uint) -> CudaResult {
    if pGraph.is_null() || flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    runtime::session()?;
    let id = state().create(false);
    // SAFETY: the caller's promise.
    unsafe { give(pGraph, graph_handle(id)) }
}

pub unsafe fn cudaGraphDestroy(graph: cudaGraph_t) -> CudaResult {
    let id = graph_id(graph)?;
    let mut state = state();
    if state.graph(id)?.owned {
        return Err(CudaError::INVALID_VALUE);
    }
    let ended = state.destroy(id)?;
    drop(state);
    objects::release_all(&ended.objects);
    Ok(())
}

pub unsafe fn cudaGraphClone(pGraphClone: *mut cudaGraph_t, originalGraph: cudaGraph_t) -> CudaResult {
    if pGraphClone.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let id = state().copy(graph_id(originalGraph)?, false)?;
    // SAFETY: the caller's promise.
    unsafe { give(pGraphClone, graph_handle(id)) }
}

pub unsafe fn cudaGraphInstantiate(
    pGraphExec: *mut cudaGraphExec_t,
    graph: cudaGraph_t,
    flags: c_ulonglong,
) -> CudaResult {
    if pGraphExec.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    if flags & !INSTANTIATE_FLAGS != 0 {
        // Launching from the device among them.
        return Err(CudaError::NOT_SUPPORTED);
    }
    let exec = exec::instantiate(graph_id(graph)?, flags)?;
    // SAFETY: the caller's promise.
    unsafe { give(pGraphExec, exec) }
}

pub unsafe fn cudaGraphInstantiateWithFlags(
    pGraphExec: *mut cudaGraphExec_t,
    graph: cudaGraph_t,
    flags: c_ulonglong,
) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { cudaGraphInstantiate(pGraphExec, graph, flags) }
}

pub unsafe fn cudaGraphInstantiateWithParams(
    _default: DefaultStream,
    pGraphExec: *mut cudaGraphExec_t,
    graph: cudaGraph_t,
    instantiateParams: *mut cudaGraphInstantiateParams,
) -> CudaResult {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { instantiateParams.as_mut() }.ok_or(CudaError::INVALID_VALUE)?;
    params.errNode_out = std::ptr::null_mut();
    // SAFETY: the caller's promise.
    let made = unsafe { cudaGraphInstantiate(pGraphExec, graph, params.flags) };
    params.result_out = if made.is_ok() { abi::cudaGraphInstantiateSuccess } else { abi::cudaGraphInstantiateError };
    made
}

pub unsafe fn cudaGraphExecGetFlags(graphExec: cudaGraphExec_t, flags: *mut c_ulonglong) -> CudaResult {
    let kept = exec::with(graphExec, |exec| Ok(exec.flags))?;
    // SAFETY: the caller's promise.
    unsafe { give(flags, kept) }
}

pub unsafe fn cudaGraphExecDestroy(graphExec: cudaGraphExec_t) -> CudaResult {
    exec::destroy(graphExec)
}

pub unsafe fn cudaGraphUpload(default: DefaultStream, graphExec: cudaGraphExec_t, stream: cudaStream_t) -> CudaResult {
    stream::resolve(default, stream)?;
    exec::with(graphExec, |_| Ok(()))
}

pub unsafe fn cudaGraphLaunch(default: DefaultStream, graphExec: cudaGraphExec_t, stream: cudaStream_t) -> CudaResult {
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

pub unsafe fn cudaGraphExecUpdate(
    hGraphExec: cudaGraphExec_t,
    hGraph: cudaGraph_t,
    resultInfo: *mut cudaGraphExecUpdateResultInfo,
) -> CudaResult {
    let graph = graph_id(hGraph)?;
    state().graph(graph)?;
    let outcome = exec::with(hGraphExec, |exec| Ok(exec.update(graph)))?;
    let (result, node) = outcome.err().unwrap_or((abi::cudaGraphExecUpdateSuccess, 0));
    // SAFETY: the program says that it is such a struct, or null.
    if let Some(info) = unsafe { resultInfo.as_mut() } {
        info.result = result;
        info.errorNode = if node == 0 { std::ptr::null_mut() } else { node_handle(node) };
        info.errorFromNode = std::ptr::null_mut();
    }
    outcome.map_err(|_| CudaError::GRAPH_EXEC_UPDATE_FAILURE)
}

pub unsafe fn cudaGraphNodeSetEnabled(
    hGraphExec: cudaGraphExec_t,
    hNode: cudaGraphNode_t,
    isEnabled: c_uint,
) -> CudaResult {
    exec::with(hGraphExec, |exec| exec.enable(hNode, isEnabled != 0))
}

pub unsafe fn cudaGraphNodeGetEnabled(
    hGraphExec: cudaGraphExec_t,
    hNode: cudaGraphNode_t,
    isEnabled: *mut c_uint,
) -> CudaResult {
    let enabled = exec::with(hGraphExec, |exec| exec.item(hNode).map(|item| item.enabled))?;
    // SAFETY: the caller's promise.
    unsafe { give(isEnabled, enabled.into()) }
}

pub unsafe fn cudaGraphGetId(hGraph: cudaGraph_t, graphID: *mut c_uint) -> CudaResult {
    let id = graph_id(hGraph)?;
    state().graph(id)?;
    // SAFETY: the caller's promise.
    unsafe { give(graphID, id) }
}

pub unsafe fn cudaGraphNodeGetContainingGraph(hNode: cudaGraphNode_t, phGraph: *mut cudaGraph_t) -> CudaResult {
    let graph = state().node(node_id(hNode)?)?.graph;
    // SAFETY: the caller's promise.
    unsafe { give(phGraph, graph_handle(graph)) }
}

/// The number that cudaGraphDebugDotPrint writes.
pub unsafe fn cudaGraphNodeGetLocalId(hNode: cudaGraphNode_t, nodeId: *mut c_uint) -> CudaResult {
    let id = node_id(hNode)?;
    state().node(id)?;
    // SAFETY: the caller's promise.
    unsafe { give(nodeId, id) }
}

pub unsafe fn cudaGraphNodeGetToolsId(hNode: cudaGraphNode_t, toolsNodeId: *mut c_ulonglong) -> CudaResult {
    let id = node_id(hNode)?;
    let graph = state().node(id)?.graph;
    // SAFETY: the caller's promise.
    unsafe { give(toolsNodeId, u64::from(graph) << 32 | u64::from(id)) }
}

pub unsafe fn cudaGraphExecGetId(hGraphExec: cudaGraphExec_t, graphID: *mut c_uint) -> CudaResult {
    let id = exec::number(hGraphExec)?;
    // SAFETY: the caller's promise.
    unsafe { give(graphID, id) }
}

/// A line of text for each node and edge, in the language of Graphviz; the flags ask for details that are not written.
pub unsafe fn cudaGraphDebugDotPrint(graph: cudaGraph_t, path: *const c_char, _flags: c_uint) -> CudaResult {
    if path.is_null() {
        return Err(CudaError::INVALID_VALUE);
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
    std::fs::write(path, text).map_err(|_| CudaError::OPERATING_SYSTEM)
}

pub unsafe fn cudaDeviceGraphMemTrim(device: c_int) -> CudaResult {
    runtime::check_device(device)?;
    crate::memory::trim_graph_memory();
    Ok(())
}

pub unsafe fn cudaDeviceGetGraphMemAttribute(
    device: c_int,
    attr: cudaGraphMemAttributeType,
    value: *mut c_void,
) -> CudaResult {
    runtime::check_device(device)?;
    let (now, most) = crate::memory::graph_memory_used();
    let found = match attr {
        0 | 2 => now,
        1 | 3 => most,
        _ => return Err(CudaError::INVALID_VALUE),
    };
    // SAFETY: the program says that it is a cuuint64_t's place, or null.
    unsafe { give(value.cast::<u64>(), found) }
}

pub unsafe fn cudaDeviceSetGraphMemAttribute(
    device: c_int,
    attr: cudaGraphMemAttributeType,
    value: *mut c_void,
) -> CudaResult {
    runtime::check_device(device)?;
    // SAFETY: the program says that it is a cuuint64_t, or null.
    let value = unsafe { value.cast::<u64>().as_ref() }.copied().ok_or(CudaError::INVALID_VALUE)?;
    if !matches!(attr, 1 | 3) || value != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    crate::memory::reset_graph_memory_high();
    Ok(())
}
