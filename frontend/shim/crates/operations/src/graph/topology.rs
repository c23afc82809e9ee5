//! The API's functions about which nodes there are and what waits for what.
#![allow(non_snake_case)] // C's names

use super::give;
use super::nodes::{described, listed};
use super::state::{graph_id, node_handle, node_id, state, Id};
use crate::types::{GraphEdgeData, GraphHandle, GraphNodeHandle};
use session::call::{Error, Outcome};

/// Fills arrays of the program as CUDA does: without an array the number is reported; with one of more places than
/// needed the rest is null and the number is lowered.
unsafe fn tell(found: &[Id], nodes: *mut GraphNodeHandle, count: *mut usize) -> Outcome {
    // SAFETY: the program says that it is such a place, or null.
    let count = unsafe { count.as_mut() }.ok_or(Error::INVALID_VALUE)?;
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

/// The same for what is said of edges. Without a place for it, edges of which something is said are not reported at all.
unsafe fn tell_data(pairs: &[(Id, Id)], edges: *mut GraphEdgeData, asked: bool, count: *const usize) -> Outcome {
    let found: Vec<GraphEdgeData> = {
        let state = state();
        pairs.iter().map(|(from, to)| state.edge(*from, *to)).collect()
    };
    if edges.is_null() {
        let lossy = asked && found.iter().any(|data| *data != GraphEdgeData::default());
        return if lossy { Err(Error::LOSSY_QUERY) } else { Ok(()) };
    }
    // SAFETY: the caller's promise.
    for at in 0..unsafe { count.as_ref() }.copied().unwrap_or_default() {
        // SAFETY: as many places as nodes that were reported.
        unsafe { edges.add(at).write(found.get(at).copied().unwrap_or_default()) };
    }
    Ok(())
}

pub unsafe fn get_nodes(graph: GraphHandle, nodes: *mut GraphNodeHandle, numNodes: *mut usize) -> Outcome {
    let found = state().graph(graph_id(graph)?)?.nodes.clone();
    // SAFETY: the program's promise, here and below.
    unsafe { tell(&found, nodes, numNodes) }
}

pub unsafe fn get_root_nodes(
    graph: GraphHandle,
    pRootNodes: *mut GraphNodeHandle,
    pNumRootNodes: *mut usize,
) -> Outcome {
    let found: Vec<Id> = {
        let state = state();
        let nodes = &state.graph(graph_id(graph)?)?.nodes;
        nodes.iter().copied().filter(|id| state.node(*id).is_ok_and(|node| node.from.is_empty())).collect()
    };
    // SAFETY: as above.
    unsafe { tell(&found, pRootNodes, pNumRootNodes) }
}

pub unsafe fn get_edges_before_13(
    graph: GraphHandle,
    from: *mut GraphNodeHandle,
    to: *mut GraphNodeHandle,
    numEdges: *mut usize,
) -> Outcome {
    // SAFETY: as above.
    unsafe { get_edges(graph, from, to, std::ptr::null_mut(), numEdges) }
}

pub unsafe fn get_edges(
    graph: GraphHandle,
    from: *mut GraphNodeHandle,
    to: *mut GraphNodeHandle,
    edgeData: *mut GraphEdgeData,
    numEdges: *mut usize,
) -> Outcome {
    if from.is_null() != to.is_null() || numEdges.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let edges = state().edges(graph_id(graph)?)?;
    let (sources, targets): (Vec<Id>, Vec<Id>) = edges.iter().copied().unzip();
    // SAFETY: as above.
    unsafe {
        tell_data(&edges, edgeData, !from.is_null(), numEdges)?;
        let mut places = numEdges.read();
        tell(&sources, from, &mut places)?;
        tell(&targets, to, numEdges)
    }
}

pub unsafe fn node_get_dependencies_before_13(
    node: GraphNodeHandle,
    pDependencies: *mut GraphNodeHandle,
    pNumDependencies: *mut usize,
) -> Outcome {
    // SAFETY: as above.
    unsafe { node_get_dependencies(node, pDependencies, std::ptr::null_mut(), pNumDependencies) }
}

pub unsafe fn node_get_dependencies(
    node: GraphNodeHandle,
    pDependencies: *mut GraphNodeHandle,
    edgeData: *mut GraphEdgeData,
    pNumDependencies: *mut usize,
) -> Outcome {
    let id = node_id(node)?;
    let found = state().node(id)?.from.clone();
    let edges: Vec<(Id, Id)> = found.iter().map(|from| (*from, id)).collect();
    // SAFETY: as above.
    unsafe {
        tell_data(&edges, edgeData, !pDependencies.is_null(), pNumDependencies)?;
        tell(&found, pDependencies, pNumDependencies)
    }
}

pub unsafe fn node_get_dependent_nodes_before_13(
    node: GraphNodeHandle,
    pDependentNodes: *mut GraphNodeHandle,
    pNumDependentNodes: *mut usize,
) -> Outcome {
    // SAFETY: as above.
    unsafe { node_get_dependent_nodes(node, pDependentNodes, std::ptr::null_mut(), pNumDependentNodes) }
}

pub unsafe fn node_get_dependent_nodes(
    node: GraphNodeHandle,
    pDependentNodes: *mut GraphNodeHandle,
    edgeData: *mut GraphEdgeData,
    pNumDependentNodes: *mut usize,
) -> Outcome {
    let id = node_id(node)?;
    let edges: Vec<(Id, Id)> = {
        let state = state();
        state.edges(state.node(id)?.graph)?.into_iter().filter(|(from, _)| *from == id).collect()
    };
    let found: Vec<Id> = edges.iter().map(|(_, to)| *to).collect();
    // SAFETY: as above.
    unsafe {
        tell_data(&edges, edgeData, !pDependentNodes.is_null(), pNumDependentNodes)?;
        tell(&found, pDependentNodes, pNumDependentNodes)
    }
}

/// Pairs of nodes of the graph.
unsafe fn pairs(
    graph: GraphHandle,
    from: *const GraphNodeHandle,
    to: *const GraphNodeHandle,
    count: usize,
) -> Outcome<Vec<(Id, Id)>> {
    let graph = graph_id(graph)?;
    // SAFETY: the caller's promise.
    let (from, to) = unsafe { (listed(from, count)?, listed(to, count)?) };
    let state = state();
    state.graph(graph)?;
    for id in from.iter().chain(&to) {
        if state.node(*id)?.graph != graph {
            return Err(Error::INVALID_VALUE);
        }
    }
    Ok(from.into_iter().zip(to).collect())
}

pub unsafe fn add_dependencies_before_13(
    graph: GraphHandle,
    from: *const GraphNodeHandle,
    to: *const GraphNodeHandle,
    numDependencies: usize,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { add_dependencies(graph, from, to, std::ptr::null(), numDependencies) }
}

/// Adds all of the edges, or none where one cannot be.
pub unsafe fn add_dependencies(
    graph: GraphHandle,
    from: *const GraphNodeHandle,
    to: *const GraphNodeHandle,
    edgeData: *const GraphEdgeData,
    numDependencies: usize,
) -> Outcome {
    // SAFETY: the program's promise.
    let (pairs, data) = unsafe { (pairs(graph, from, to, numDependencies)?, described(edgeData, numDependencies)) };
    let mut state = state();
    for (place, ((from, to), data)) in pairs.iter().zip(&data).enumerate() {
        if from == to || state.node(*to)?.from.contains(from) || pairs[..place].contains(&(*from, *to)) {
            return Err(Error::INVALID_VALUE);
        }
        state.check_edge(*from, *to, data)?;
    }
    for ((from, to), data) in pairs.into_iter().zip(data) {
        state.node_mut(to)?.from.push(from);
        state.describe(to, &[(from, data)])?;
    }
    Ok(())
}

pub unsafe fn remove_dependencies_before_13(
    graph: GraphHandle,
    from: *const GraphNodeHandle,
    to: *const GraphNodeHandle,
    numDependencies: usize,
) -> Outcome {
    // SAFETY: the program's promise.
    let pairs = unsafe { pairs(graph, from, to, numDependencies) }?;
    let mut state = state();
    for (from, to) in pairs {
        let node = state.node_mut(to)?;
        let place = node.from.iter().position(|id| *id == from).ok_or(Error::INVALID_VALUE)?;
        node.from.remove(place);
        node.edges.remove(&from);
    }
    Ok(())
}

pub unsafe fn remove_dependencies(
    graph: GraphHandle,
    from: *const GraphNodeHandle,
    to: *const GraphNodeHandle,
    _edgeData: *const GraphEdgeData,
    numDependencies: usize,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { remove_dependencies_before_13(graph, from, to, numDependencies) }
}

pub unsafe fn node_find_in_clone(
    pNode: *mut GraphNodeHandle,
    originalNode: GraphNodeHandle,
    clonedGraph: GraphHandle,
) -> Outcome {
    let (original, graph) = (node_id(originalNode)?, graph_id(clonedGraph)?);
    let found = {
        let state = state();
        let nodes = &state.graph(graph)?.nodes;
        let copy = |id: &&Id| state.node(**id).is_ok_and(|node| node.origin == Some(original));
        nodes.iter().find(copy).copied().ok_or(Error::INVALID_VALUE)?
    };
    // SAFETY: the program's promise.
    unsafe { give(pNode, node_handle(found)) }
}
