//! The API's functions that make nodes, and read and change what nodes do; `general` has those for nodes of any kind.
#![allow(non_snake_case, clippy::too_many_arguments)] // C's names and signatures

mod general;

pub use general::*;

use super::allocations::memory_for;
use super::exec;
use super::give;
use super::node::Work;
use super::objects;
use super::parameters::{allocation, kind_of};
use super::state::{graph_handle, graph_id, node_handle, node_id, state, Id};
use crate::types::{
    Copy3D, CopyKind, EventHandle, GraphEdgeData, GraphExecHandle, GraphHandle, GraphNodeHandle, GraphNodeType,
    HostNodeParams, KernelNodeParams, MemAllocNodeParams, MemsetParams,
};
use crate::{event, memory};
use session::call::{Error, Outcome};
use std::ffi::c_void;

/// The nodes that the program lists.
///
/// # Safety
/// `list` has `count` handles, or none and is null.
pub unsafe fn listed(list: *const GraphNodeHandle, count: usize) -> Outcome<Vec<Id>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if list.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(list, count) }.iter().map(|node| node_id(*node)).collect()
}

/// What the program says of its list's edges: without an array they are plain ones.
///
/// # Safety
/// `list` has `count` places, or is null.
pub unsafe fn described(list: *const GraphEdgeData, count: usize) -> Vec<GraphEdgeData> {
    if list.is_null() || count == 0 {
        return vec![GraphEdgeData::default(); count];
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(list, count) }.to_vec()
}

/// Adds a node that does this work to the program's graph.
///
/// # Safety
/// The list of dependencies has `count` handles.
pub unsafe fn add(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    dependencies: *const GraphNodeHandle,
    count: usize,
    work: Outcome<Work>,
) -> Outcome {
    if pGraphNode.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let graph = graph_id(graph)?;
    // SAFETY: the caller's promise.
    let from = unsafe { listed(dependencies, count) }?;
    let work = work?;
    let inner = work.inner().to_vec();
    let id = {
        let mut state = state();
        state.add(graph, work, from).inspect_err(|_| {
            for graph in inner {
                let _ = state.destroy(graph);
            }
        })?
    };
    // SAFETY: not null; the program's promise.
    unsafe { give(pGraphNode, node_handle(id)) }
}

/// Changes what a node does; its kind stays.
pub fn replace(node: GraphNodeHandle, work: Work) -> Outcome {
    let mut state = state();
    let node = state.node_mut(node_id(node)?)?;
    if node.work.kind() != work.kind() {
        return Err(Error::INVALID_VALUE);
    }
    node.work = work.instead_of(&node.work);
    Ok(())
}

/// The same for a node of an executable graph.
pub fn replace_in(exec: GraphExecHandle, node: GraphNodeHandle, work: Work) -> Outcome {
    exec::with(exec, |exec| exec.replace(node, work))
}

pub(super) fn read<T>(node: GraphNodeHandle, get: impl FnOnce(&Work) -> Option<T>) -> Outcome<T> {
    get(&state().node(node_id(node)?)?.work).ok_or(Error::INVALID_VALUE)
}

/// A copy of a graph for a node to hold. A graph that belongs to a node already cannot be given to another one.
fn child(graph: GraphHandle) -> Outcome<Work> {
    let mut state = state();
    let id = graph_id(graph)?;
    if state.graph(id)?.owned {
        return Err(Error::NOT_SUPPORTED);
    }
    Ok(Work::Child(state.copy(id, true)?))
}

macro_rules! node_functions {
    ($params:ident, $make:path, $part:pat => $get:expr, $add:ident, $read:ident, $set:ident, $exec:ident) => {
        pub unsafe fn $add(
            pGraphNode: *mut GraphNodeHandle,
            graph: GraphHandle,
            pDependencies: *const GraphNodeHandle,
            numDependencies: usize,
            pNodeParams: *const $params,
        ) -> Outcome {
            // SAFETY: the program's promise.
            unsafe { add(pGraphNode, graph, pDependencies, numDependencies, $make(pNodeParams)) }
        }

        pub unsafe fn $read(node: GraphNodeHandle, pNodeParams: *mut $params) -> Outcome {
            let found = read(node, |work| if let $part = work { Some($get) } else { None })?;
            // SAFETY: the program's promise.
            unsafe { give(pNodeParams, found) }
        }

        pub unsafe fn $set(node: GraphNodeHandle, pNodeParams: *const $params) -> Outcome {
            // SAFETY: the program's promise.
            replace(node, unsafe { $make(pNodeParams) }?)
        }

        pub unsafe fn $exec(
            hGraphExec: GraphExecHandle,
            node: GraphNodeHandle,
            pNodeParams: *const $params,
        ) -> Outcome {
            // SAFETY: the program's promise.
            let work = unsafe { $make(pNodeParams) }?;
            exec::with(hGraphExec, |exec| exec.replace(node, work))
        }
    };
}

node_functions!(KernelNodeParams, Work::kernel, Work::Kernel(kernel) => kernel.parameters(),
    add_kernel_node, kernel_node_get_params, kernel_node_set_params, exec_kernel_node_set_params);
node_functions!(Copy3D, Work::copy, Work::Copy(copy) => copy.parameters(),
    add_memcpy_node, memcpy_node_get_params, memcpy_node_set_params, exec_memcpy_node_set_params);
node_functions!(MemsetParams, Work::memset, Work::Memset(set) => *set,
    add_memset_node, memset_node_get_params, memset_node_set_params, exec_memset_node_set_params);
node_functions!(HostNodeParams, Work::host, Work::Host(host) => *host,
    add_host_node, host_node_get_params, host_node_set_params, exec_host_node_set_params);

pub unsafe fn add_memcpy_node_1d(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    pDependencies: *const GraphNodeHandle,
    numDependencies: usize,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: CopyKind,
) -> Outcome {
    let params = Work::line(dst, src, count, kind);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, Work::copy(&params)) }
}

pub unsafe fn memcpy_node_set_params_1d(
    node: GraphNodeHandle,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: CopyKind,
) -> Outcome {
    // SAFETY: a struct of ours.
    replace(node, unsafe { Work::copy(&Work::line(dst, src, count, kind)) }?)
}

pub unsafe fn exec_memcpy_node_set_params_1d(
    hGraphExec: GraphExecHandle,
    node: GraphNodeHandle,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: CopyKind,
) -> Outcome {
    // SAFETY: as above.
    let work = unsafe { Work::copy(&Work::line(dst, src, count, kind)) }?;
    exec::with(hGraphExec, |exec| exec.replace(node, work))
}

pub unsafe fn add_memcpy_node_to_symbol(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    pDependencies: *const GraphNodeHandle,
    numDependencies: usize,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome {
    let work = Work::to_symbol(symbol, src, count, offset, kind);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn add_memcpy_node_from_symbol(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    pDependencies: *const GraphNodeHandle,
    numDependencies: usize,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome {
    let work = Work::from_symbol(dst, symbol, count, offset, kind);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn add_empty_node(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    pDependencies: *const GraphNodeHandle,
    numDependencies: usize,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, Ok(Work::Empty)) }
}

pub unsafe fn add_child_graph_node(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    pDependencies: *const GraphNodeHandle,
    numDependencies: usize,
    childGraph: GraphHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, child(childGraph)) }
}

pub unsafe fn child_graph_node_get_graph(node: GraphNodeHandle, pGraph: *mut GraphHandle) -> Outcome {
    let found = read(node, |work| if let Work::Child(id) = work { Some(*id) } else { None })?;
    // SAFETY: the program's promise.
    unsafe { give(pGraph, graph_handle(found)) }
}

pub unsafe fn add_event_record_node(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    pDependencies: *const GraphNodeHandle,
    numDependencies: usize,
    event: EventHandle,
) -> Outcome {
    let work = event::resolve(event).map(Work::EventRecord);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn add_event_wait_node(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    pDependencies: *const GraphNodeHandle,
    numDependencies: usize,
    event: EventHandle,
) -> Outcome {
    let work = event::resolve(event).map(Work::EventWait);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn event_record_node_set_event(node: GraphNodeHandle, event: EventHandle) -> Outcome {
    replace(node, Work::EventRecord(event::resolve(event)?))
}

pub unsafe fn event_wait_node_set_event(node: GraphNodeHandle, event: EventHandle) -> Outcome {
    replace(node, Work::EventWait(event::resolve(event)?))
}

pub unsafe fn exec_event_record_node_set_event(
    hGraphExec: GraphExecHandle,
    hNode: GraphNodeHandle,
    event: EventHandle,
) -> Outcome {
    let work = Work::EventRecord(event::resolve(event)?);
    exec::with(hGraphExec, |exec| exec.replace(hNode, work))
}

pub unsafe fn exec_event_wait_node_set_event(
    hGraphExec: GraphExecHandle,
    hNode: GraphNodeHandle,
    event: EventHandle,
) -> Outcome {
    let work = Work::EventWait(event::resolve(event)?);
    exec::with(hGraphExec, |exec| exec.replace(hNode, work))
}

pub unsafe fn add_mem_alloc_node(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    pDependencies: *const GraphNodeHandle,
    numDependencies: usize,
    nodeParams: *mut MemAllocNodeParams,
) -> Outcome {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { nodeParams.as_mut() }.ok_or(Error::INVALID_VALUE)?;
    if params.poolProps.handleTypes != 0 {
        return Err(Error::INVALID_VALUE); // the device shares no memory between processes
    }
    let size = params.bytesize;
    // SAFETY: the program's promise.
    let from = unsafe { listed(pDependencies, numDependencies) }?;
    let memory = memory_for(&state(), graph_id(graph)?, &from, size)?;
    let address = memory.address();
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, Ok(Work::Allocate { memory, size })) }?;
    params.dptr = address;
    Ok(())
}

pub unsafe fn add_mem_free_node(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    pDependencies: *const GraphNodeHandle,
    numDependencies: usize,
    dptr: *mut c_void,
) -> Outcome {
    let work = memory::free_of_graph(dptr).map(Work::Free);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn mem_alloc_node_get_params(node: GraphNodeHandle, params_out: *mut MemAllocNodeParams) -> Outcome {
    let params = read(node, |work| match work {
        Work::Allocate { memory, size } => Some(allocation(memory, *size)),
        _ => None,
    })?;
    // SAFETY: the program's promise.
    unsafe { give(params_out, params) }
}

pub unsafe fn event_record_node_get_event(node: GraphNodeHandle, event_out: *mut EventHandle) -> Outcome {
    let found = read(node, |work| if let Work::EventRecord(event) = work { Some(event.handle()) } else { None })?;
    // SAFETY: the program's promise.
    unsafe { give(event_out, found) }
}

pub unsafe fn event_wait_node_get_event(node: GraphNodeHandle, event_out: *mut EventHandle) -> Outcome {
    let found = read(node, |work| if let Work::EventWait(event) = work { Some(event.handle()) } else { None })?;
    // SAFETY: the program's promise.
    unsafe { give(event_out, found) }
}

pub unsafe fn mem_free_node_get_params(node: GraphNodeHandle, dptr_out: *mut c_void) -> Outcome {
    let address = read(node, |work| if let Work::Free(address) = work { Some(*address) } else { None })?;
    // SAFETY: the program says that it is a pointer's place.
    unsafe { give(dptr_out.cast::<*mut c_void>(), address as *mut c_void) }
}

pub unsafe fn node_get_type(node: GraphNodeHandle, pType: *mut GraphNodeType) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { give(pType, kind_of(node)?) }
}

pub unsafe fn destroy_node(node: GraphNodeHandle) -> Outcome {
    let (_, held) = state().remove(node_id(node)?)?;
    objects::release_all(&held);
    Ok(())
}
