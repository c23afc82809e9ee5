//! The API's functions about which nodes there are and what waits for what.
#![allow(non_snake_case)] // C's names

use super::give;
use super::nodes::listed;
use super::state::{graph_id, node_handle, node_id, state, Id};
use crate::call::CudaResult;
use abi::{cudaGraphEdgeData, cudaGraphNode_t, cudaGraph_t, CudaError};

/// Fills arrays of the program as CUDA does: without an array the number is told; with one of more places than needed the rest is
/// null and the number is lowered.
unsafe fn tell(found: &[Id], nodes: *mut cudaGraphNode_t, count: *mut usize) -> CudaResult {
    // SAFETY: the program says that it is such a place, or null.
    let count = unsafe { count.as_mut() }.ok_or(CudaError::INVALID_VALUE)?;
    if !nodes.is_null() {
        for at in 0..*count {
            let node = found.get(at).map_or(std::ptr::null_mut(), |id| node_handle(*id));
            // SAFETY: the program says that there are so many places.
            unsafe { nodes.add(at).write(node) };
        }
    }
    *count = if nodes.is_null() { found.len() } else { found.len().min(*count) };
    Ok(())
}

/// Edges have no data of their own here.
unsafe fn tell_data(edges: *mut cudaGraphEdgeData, count: *const usize) {
    if !edges.is_null() {
        // SAFETY: as many places as nodes that were told; the count was checked.
        for at in 0..unsafe { count.read() } {
            // SAFETY: as above.
            unsafe { edges.add(at).write(cudaGraphEdgeData::default()) };
        }
    }
}

pub unsafe fn cudaGraphGetNodes(graph: cudaGraph_t, nodes: *mut cudaGraphNode_t, numNodes: *mut usize) -> CudaResult {
    let found = state().graph(graph_id(graph)?)?.nodes.clone();
    // SAFETY: the program's promise, here and below.
    unsafe { tell(&found, nodes, numNodes) }
}

pub unsafe fn cudaGraphGetRootNodes(
    graph: cudaGraph_t,
    pRootNodes: *mut cudaGraphNode_t,
    pNumRootNodes: *mut usize,
) -> CudaResult {
    let found: Vec<Id> = {
        let state = state();
        let nodes = &state.graph(graph_id(graph)?)?.nodes;
        nodes.iter().copied().filter(|id| state.node(*id).is_ok_and(|node| node.from.is_empty())).collect()
    };
    // SAFETY: as above.
    unsafe { tell(&found, pRootNodes, pNumRootNodes) }
}

pub unsafe fn cudaGraphGetEdges_v12(
    graph: cudaGraph_t,
    from: *mut cudaGraphNode_t,
    to: *mut cudaGraphNode_t,
    numEdges: *mut usize,
) -> CudaResult {
    if from.is_null() != to.is_null() || numEdges.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let edges = state().edges(graph_id(graph)?)?;
    let (sources, targets): (Vec<Id>, Vec<Id>) = edges.into_iter().unzip();
    // SAFETY: as above.
    unsafe {
        let mut places = numEdges.read();
        tell(&sources, from, &mut places)?;
        tell(&targets, to, numEdges)
    }
}

pub unsafe fn cudaGraphGetEdges_v13(
    graph: cudaGraph_t,
    from: *mut cudaGraphNode_t,
    to: *mut cudaGraphNode_t,
    edgeData: *mut cudaGraphEdgeData,
    numEdges: *mut usize,
) -> CudaResult {
    // SAFETY: as above.
    unsafe {
        cudaGraphGetEdges_v12(graph, from, to, numEdges)?;
        tell_data(edgeData, numEdges);
    }
    Ok(())
}

pub unsafe fn cudaGraphGetEdges_v2(
    graph: cudaGraph_t,
    from: *mut cudaGraphNode_t,
    to: *mut cudaGraphNode_t,
    edgeData: *mut cudaGraphEdgeData,
    numEdges: *mut usize,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { cudaGraphGetEdges_v13(graph, from, to, edgeData, numEdges) }
}

pub unsafe fn cudaGraphNodeGetDependencies_v12(
    node: cudaGraphNode_t,
    pDependencies: *mut cudaGraphNode_t,
    pNumDependencies: *mut usize,
) -> CudaResult {
    let found = state().node(node_id(node)?)?.from.clone();
    // SAFETY: as above.
    unsafe { tell(&found, pDependencies, pNumDependencies) }
}

pub unsafe fn cudaGraphNodeGetDependencies_v13(
    node: cudaGraphNode_t,
    pDependencies: *mut cudaGraphNode_t,
    edgeData: *mut cudaGraphEdgeData,
    pNumDependencies: *mut usize,
) -> CudaResult {
    // SAFETY: as above.
    unsafe {
        cudaGraphNodeGetDependencies_v12(node, pDependencies, pNumDependencies)?;
        tell_data(edgeData, pNumDependencies);
    }
    Ok(())
}

pub unsafe fn cudaGraphNodeGetDependencies_v2(
    node: cudaGraphNode_t,
    pDependencies: *mut cudaGraphNode_t,
    edgeData: *mut cudaGraphEdgeData,
    pNumDependencies: *mut usize,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { cudaGraphNodeGetDependencies_v13(node, pDependencies, edgeData, pNumDependencies) }
}

pub unsafe fn cudaGraphNodeGetDependentNodes_v12(
    node: cudaGraphNode_t,
    pDependentNodes: *mut cudaGraphNode_t,
    pNumDependentNodes: *mut usize,
) -> CudaResult {
    let id = node_id(node)?;
    let found: Vec<Id> = {
        let state = state();
        let edges = state.edges(state.node(id)?.graph)?;
        edges.into_iter().filter(|(from, _)| *from == id).map(|(_, to)| to).collect()
    };
    // SAFETY: as above.
    unsafe { tell(&found, pDependentNodes, pNumDependentNodes) }
}

pub unsafe fn cudaGraphNodeGetDependentNodes_v13(
    node: cudaGraphNode_t,
    pDependentNodes: *mut cudaGraphNode_t,
    edgeData: *mut cudaGraphEdgeData,
    pNumDependentNodes: *mut usize,
) -> CudaResult {
    // SAFETY: as above.
    unsafe {
        cudaGraphNodeGetDependentNodes_v12(node, pDependentNodes, pNumDependentNodes)?;
        tell_data(edgeData, pNumDependentNodes);
    }
    Ok(())
}

pub unsafe fn cudaGraphNodeGetDependentNodes_v2(
    node: cudaGraphNode_t,
    pDependentNodes: *mut cudaGraphNode_t,
    edgeData: *mut cudaGraphEdgeData,
    pNumDependentNodes: *mut usize,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { cudaGraphNodeGetDependentNodes_v13(node, pDependentNodes, edgeData, pNumDependentNodes) }
}

/// Pairs of nodes of the graph.
unsafe fn pairs(
    graph: cudaGraph_t,
    from: *const cudaGraphNode_t,
    to: *const cudaGraphNode_t,
    count: usize,
) -> CudaResult<Vec<(Id, Id)>> {
    let graph = graph_id(graph)?;
    // SAFETY: the caller's promise.
    let (from, to) = unsafe { (listed(from, count)?, listed(to, count)?) };
    let state = state();
    state.graph(graph)?;
    for id in from.iter().chain(&to) {
        if state.node(*id)?.graph != graph {
            return Err(CudaError::INVALID_VALUE);
        }
    }
    Ok(from.into_iter().zip(to).collect())
}

pub unsafe fn cudaGraphAddDependencies_v12(
    graph: cudaGraph_t,
    from: *const cudaGraphNode_t,
    to: *const cudaGraphNode_t,
    numDependencies: usize,
) -> CudaResult {
    // SAFETY: the program's promise.
    let pairs = unsafe { pairs(graph, from, to, numDependencies) }?;
    let mut state = state();
    for (from, to) in pairs {
        if from == to || state.node(to)?.from.contains(&from) {
            return Err(CudaError::INVALID_VALUE);
        }
        state.node_mut(to)?.from.push(from);
    }
    Ok(())
}

pub unsafe fn cudaGraphAddDependencies_v13(
    graph: cudaGraph_t,
    from: *const cudaGraphNode_t,
    to: *const cudaGraphNode_t,
    _edgeData: *const cudaGraphEdgeData,
    numDependencies: usize,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe { cudaGraphAddDependencies_v12(graph, from, to, numDependencies) }
}

pub unsafe fn cudaGraphAddDependencies_v2(
    graph: cudaGraph_t,
    from: *const cudaGraphNode_t,
    to: *const cudaGraphNode_t,
    _edgeData: *const cudaGraphEdgeData,
    numDependencies: usize,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe { cudaGraphAddDependencies_v12(graph, from, to, numDependencies) }
}

pub unsafe fn cudaGraphRemoveDependencies_v12(
    graph: cudaGraph_t,
    from: *const cudaGraphNode_t,
    to: *const cudaGraphNode_t,
    numDependencies: usize,
) -> CudaResult {
    // SAFETY: the program's promise.
    let pairs = unsafe { pairs(graph, from, to, numDependencies) }?;
    let mut state = state();
    for (from, to) in pairs {
        let node = state.node_mut(to)?;
        let place = node.from.iter().position(|id| *id == from).ok_or(CudaError::INVALID_VALUE)?;
        node.from.remove(place);
    }
    Ok(())
}

pub unsafe fn cudaGraphRemoveDependencies_v13(
    graph: cudaGraph_t,
    from: *const cudaGraphNode_t,
    to: *const cudaGraphNode_t,
    _edgeData: *const cudaGraphEdgeData,
    numDependencies: usize,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe { cudaGraphRemoveDependencies_v12(graph, from, to, numDependencies) }
}

pub unsafe fn cudaGraphRemoveDependencies_v2(
    graph: cudaGraph_t,
    from: *const cudaGraphNode_t,
    to: *const cudaGraphNode_t,
    _edgeData: *const cudaGraphEdgeData,
    numDependencies: usize,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe { cudaGraphRemoveDependencies_v12(graph, from, to, numDependencies) }
}

pub unsafe fn cudaGraphNodeFindInClone(
    pNode: *mut cudaGraphNode_t,
    originalNode: cudaGraphNode_t,
    clonedGraph: cudaGraph_t,
) -> CudaResult {
    let (original, graph) = (node_id(originalNode)?, graph_id(clonedGraph)?);
    let found = {
        let state = state();
        let nodes = &state.graph(graph)?.nodes;
        let copy = |id: &&Id| state.node(**id).is_ok_and(|node| node.origin == Some(original));
        nodes.iter().find(copy).copied().ok_or(CudaError::INVALID_VALUE)?
    };
    // SAFETY: the program's promise.
    unsafe { give(pNode, node_handle(found)) }
}
