//! Nodes whose kind is in their parameters: made and changed by the API's general functions.
#![allow(non_snake_case)] // C's names

use super::{add, add_mem_alloc_node, child, described, listed, replace};
use crate::graph::conditional::ConditionalWork;
use crate::graph::exec;
use crate::graph::give;
use crate::graph::node::Work;
use crate::graph::state::{graph_id, node_handle, node_id, state, Id};
use crate::types::{
    EventHandle, GraphEdgeData, GraphExecHandle, GraphHandle, GraphNodeHandle, GraphNodeParams, MemAllocNodeParams,
};
use crate::{event, memory};
use session::call::{Error, Outcome};
use std::ffi::c_void;

/// The node owns the program's graph itself (cudaGraphChildGraphOwnershipMove), in place of a copy.
const MOVE: u32 = 1;

/// What a node of the kind in `nodeParams` does. The parts of the later structures that the shim knows begin as the
/// earlier ones do.
unsafe fn general(nodeParams: *mut GraphNodeParams) -> Outcome<Work> {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { nodeParams.as_mut() }.ok_or(Error::INVALID_VALUE)?;
    let start: *mut c_void = (&raw mut params.reserved1).cast();
    let handle = params.reserved1[0] as usize;
    // SAFETY: the union has room for each of these, and the program has filled in the one of the kind.
    unsafe {
        match params.type_ {
            crate::types::GRAPH_NODE_TYPE_KERNEL => Work::kernel(start.cast_const().cast()),
            // Two integers and a context stand before the parameters.
            crate::types::GRAPH_NODE_TYPE_MEMCPY => Work::copy(start.add(16).cast_const().cast()),
            crate::types::GRAPH_NODE_TYPE_MEMSET => Work::memset(start.cast_const().cast()),
            crate::types::GRAPH_NODE_TYPE_HOST => Work::host(start.cast_const().cast()),
            crate::types::GRAPH_NODE_TYPE_GRAPH => child(handle as GraphHandle),
            crate::types::GRAPH_NODE_TYPE_EMPTY => Ok(Work::Empty),
            crate::types::GRAPH_NODE_TYPE_WAIT_EVENT => event::resolve(handle as EventHandle).map(Work::EventWait),
            crate::types::GRAPH_NODE_TYPE_EVENT_RECORD => event::resolve(handle as EventHandle).map(Work::EventRecord),
            crate::types::GRAPH_NODE_TYPE_MEM_FREE => memory::free_of_graph(handle as *mut c_void).map(Work::Free),
            // Allocations among them: what a node has allocated cannot be changed.
            _ => Err(Error::NOT_SUPPORTED),
        }
    }
}

pub unsafe fn add_node_before_13(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    pDependencies: *const GraphNodeHandle,
    numDependencies: usize,
    nodeParams: *mut GraphNodeParams,
) -> Outcome {
    // SAFETY: the program says that it is such a struct, or null.
    let work = match unsafe { nodeParams.as_mut() } {
        Some(params) if params.type_ == crate::types::GRAPH_NODE_TYPE_MEM_ALLOC => {
            let start: *mut MemAllocNodeParams = (&raw mut params.reserved1).cast();
            // SAFETY: the union has room for it, and the program has filled it in.
            return unsafe { add_mem_alloc_node(pGraphNode, graph, pDependencies, numDependencies, start) };
        }
        Some(params) if params.type_ == crate::types::GRAPH_NODE_TYPE_GRAPH && params.reserved1[1] as u32 == MOVE => {
            // SAFETY: the program's promise.
            let from = unsafe { listed(pDependencies, numDependencies) }?;
            let made = state().give(graph_id(graph)?, graph_id(params.reserved1[0] as usize as GraphHandle)?, from)?;
            // SAFETY: the program's promise.
            return unsafe { give(pGraphNode, node_handle(made)) };
        }
        // SAFETY: as its kind says.
        Some(params) if params.type_ == crate::types::GRAPH_NODE_TYPE_CONDITIONAL => unsafe {
            ConditionalWork::create(params)
        },
        // SAFETY: the program's promise.
        _ => unsafe { general(nodeParams) },
    };
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn add_node(
    pGraphNode: *mut GraphNodeHandle,
    graph: GraphHandle,
    pDependencies: *const GraphNodeHandle,
    dependencyData: *const GraphEdgeData,
    numDependencies: usize,
    nodeParams: *mut GraphNodeParams,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        add_node_before_13(pGraphNode, graph, pDependencies, numDependencies, nodeParams)?;
        describe(pGraphNode, pDependencies, dependencyData, numDependencies)
    }
}

/// What the program says of the edges to a node that was just made; the node goes again where an edge cannot be.
///
/// # Safety
/// The lists are the program's, as for the call that made the node.
pub unsafe fn describe(
    made: *mut GraphNodeHandle,
    dependencies: *const GraphNodeHandle,
    data: *const GraphEdgeData,
    count: usize,
) -> Outcome {
    // SAFETY: the caller's promise.
    let (node, from, data) = unsafe { (node_id(made.read())?, listed(dependencies, count)?, described(data, count)) };
    let edges: Vec<(Id, GraphEdgeData)> = from.into_iter().zip(data).collect();
    state().describe_new(node, &edges)
}

pub unsafe fn node_set_params(node: GraphNodeHandle, nodeParams: *mut GraphNodeParams) -> Outcome {
    // SAFETY: the program's promise.
    replace(node, unsafe { general(nodeParams) }?)
}

pub unsafe fn exec_node_set_params(
    graphExec: GraphExecHandle,
    node: GraphNodeHandle,
    nodeParams: *mut GraphNodeParams,
) -> Outcome {
    // SAFETY: the program's promise.
    let work = unsafe { general(nodeParams) }?;
    exec::with(graphExec, |exec| exec.replace(node, work))
}
