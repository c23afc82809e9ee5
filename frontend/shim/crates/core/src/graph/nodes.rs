//! The API's functions that make nodes, and read and change what nodes do.
#![allow(non_snake_case, clippy::too_many_arguments)] // C's names and signatures

use super::allocations::memory_for;
use super::conditional::ConditionalWork;
use super::exec;
use super::give;
use super::node::Work;
use super::objects;
use super::state::{graph_handle, graph_id, node_handle, node_id, state, Id};
use crate::call::CudaResult;
use crate::{event, memory};
use abi::{
    cudaEvent_t, cudaGraphEdgeData, cudaGraphExec_t, cudaGraphNodeParams, cudaGraphNodeType, cudaGraphNode_t,
    cudaGraph_t, cudaHostNodeParams, cudaKernelNodeParams, cudaMemAllocNodeParams, cudaMemcpy3DParms, cudaMemcpyKind,
    cudaMemsetParams, CudaError,
};
use std::ffi::c_void;

/// The nodes that the program lists.
///
/// # Safety
/// `list` has `count` handles, or none and is null.
pub(super) unsafe fn listed(list: *const cudaGraphNode_t, count: usize) -> CudaResult<Vec<Id>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if list.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(list, count) }.iter().map(|node| node_id(*node)).collect()
}

/// Adds a node that does this work to the program's graph.
///
/// # Safety
/// The list of dependencies has `count` handles.
pub unsafe fn add(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    dependencies: *const cudaGraphNode_t,
    count: usize,
    work: CudaResult<Work>,
) -> CudaResult {
    if pGraphNode.is_null() {
        return Err(CudaError::INVALID_VALUE);
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
pub fn replace(node: cudaGraphNode_t, work: Work) -> CudaResult {
    let mut state = state();
    let node = state.node_mut(node_id(node)?)?;
    if node.work.kind() != work.kind() {
        return Err(CudaError::INVALID_VALUE);
    }
    node.work = work.instead_of(&node.work);
    Ok(())
}

/// The same for a node of an executable graph.
pub fn replace_in(exec: cudaGraphExec_t, node: cudaGraphNode_t, work: Work) -> CudaResult {
    exec::with(exec, |exec| exec.replace(node, work))
}

/// What a kernel node launches.
pub fn kernel_parameters_of(node: cudaGraphNode_t) -> CudaResult<cudaKernelNodeParams> {
    read(node, |work| if let Work::Kernel(kernel) = work { Some(kernel.parameters()) } else { None })
}

/// What a copy node copies.
pub fn copy_parameters_of(node: cudaGraphNode_t) -> CudaResult<cudaMemcpy3DParms> {
    read(node, |work| if let Work::Copy(copy) = work { Some(copy.parameters()) } else { None })
}

fn read<T>(node: cudaGraphNode_t, get: impl FnOnce(&Work) -> Option<T>) -> CudaResult<T> {
    get(&state().node(node_id(node)?)?.work).ok_or(CudaError::INVALID_VALUE)
}

/// A copy of a graph for a node to hold.
fn child(graph: cudaGraph_t) -> CudaResult<Work> {
    Ok(Work::Child(state().copy(graph_id(graph)?, true)?))
}

macro_rules! node_functions {
    ($params:ident, $make:path, $part:pat => $get:expr, $add:ident, $read:ident, $set:ident, $exec:ident) => {
        pub unsafe fn $add(
            pGraphNode: *mut cudaGraphNode_t,
            graph: cudaGraph_t,
            pDependencies: *const cudaGraphNode_t,
            numDependencies: usize,
            pNodeParams: *const $params,
        ) -> CudaResult {
            // SAFETY: the program's promise.
            unsafe { add(pGraphNode, graph, pDependencies, numDependencies, $make(pNodeParams)) }
        }

        pub unsafe fn $read(node: cudaGraphNode_t, pNodeParams: *mut $params) -> CudaResult {
            let found = read(node, |work| if let $part = work { Some($get) } else { None })?;
            // SAFETY: the program's promise.
            unsafe { give(pNodeParams, found) }
        }

        pub unsafe fn $set(node: cudaGraphNode_t, pNodeParams: *const $params) -> CudaResult {
            // SAFETY: the program's promise.
            replace(node, unsafe { $make(pNodeParams) }?)
        }

        pub unsafe fn $exec(
            hGraphExec: cudaGraphExec_t,
            node: cudaGraphNode_t,
            pNodeParams: *const $params,
        ) -> CudaResult {
            // SAFETY: the program's promise.
            let work = unsafe { $make(pNodeParams) }?;
            exec::with(hGraphExec, |exec| exec.replace(node, work))
        }
    };
}

node_functions!(cudaKernelNodeParams, Work::kernel, Work::Kernel(kernel) => kernel.parameters(),
    cudaGraphAddKernelNode, cudaGraphKernelNodeGetParams, cudaGraphKernelNodeSetParams, cudaGraphExecKernelNodeSetParams);
node_functions!(cudaMemcpy3DParms, Work::copy, Work::Copy(copy) => copy.parameters(),
    cudaGraphAddMemcpyNode, cudaGraphMemcpyNodeGetParams, cudaGraphMemcpyNodeSetParams, cudaGraphExecMemcpyNodeSetParams);
node_functions!(cudaMemsetParams, Work::memset, Work::Memset(set) => *set,
    cudaGraphAddMemsetNode, cudaGraphMemsetNodeGetParams, cudaGraphMemsetNodeSetParams, cudaGraphExecMemsetNodeSetParams);
node_functions!(cudaHostNodeParams, Work::host, Work::Host(host) => *host,
    cudaGraphAddHostNode, cudaGraphHostNodeGetParams, cudaGraphHostNodeSetParams, cudaGraphExecHostNodeSetParams);

pub unsafe fn cudaGraphAddMemcpyNode1D(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    let params = Work::line(dst, src, count, kind);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, Work::copy(&params)) }
}

pub unsafe fn cudaGraphMemcpyNodeSetParams1D(
    node: cudaGraphNode_t,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    // SAFETY: a struct of ours.
    replace(node, unsafe { Work::copy(&Work::line(dst, src, count, kind)) }?)
}

pub unsafe fn cudaGraphExecMemcpyNodeSetParams1D(
    hGraphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    // SAFETY: as above.
    let work = unsafe { Work::copy(&Work::line(dst, src, count, kind)) }?;
    exec::with(hGraphExec, |exec| exec.replace(node, work))
}

pub unsafe fn cudaGraphAddMemcpyNodeToSymbol(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    let work = Work::to_symbol(symbol, src, count, offset, kind);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn cudaGraphAddMemcpyNodeFromSymbol(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    let work = Work::from_symbol(dst, symbol, count, offset, kind);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn cudaGraphAddEmptyNode(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, Ok(Work::Empty)) }
}

pub unsafe fn cudaGraphAddChildGraphNode(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    childGraph: cudaGraph_t,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, child(childGraph)) }
}

pub unsafe fn cudaGraphChildGraphNodeGetGraph(node: cudaGraphNode_t, pGraph: *mut cudaGraph_t) -> CudaResult {
    let found = read(node, |work| if let Work::Child(id) = work { Some(*id) } else { None })?;
    // SAFETY: the program's promise.
    unsafe { give(pGraph, graph_handle(found)) }
}

pub unsafe fn cudaGraphAddEventRecordNode(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    event: cudaEvent_t,
) -> CudaResult {
    let work = event::resolve(event).map(Work::EventRecord);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn cudaGraphAddEventWaitNode(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    event: cudaEvent_t,
) -> CudaResult {
    let work = event::resolve(event).map(Work::EventWait);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn cudaGraphEventRecordNodeSetEvent(node: cudaGraphNode_t, event: cudaEvent_t) -> CudaResult {
    replace(node, Work::EventRecord(event::resolve(event)?))
}

pub unsafe fn cudaGraphEventWaitNodeSetEvent(node: cudaGraphNode_t, event: cudaEvent_t) -> CudaResult {
    replace(node, Work::EventWait(event::resolve(event)?))
}

pub unsafe fn cudaGraphExecEventRecordNodeSetEvent(
    hGraphExec: cudaGraphExec_t,
    hNode: cudaGraphNode_t,
    event: cudaEvent_t,
) -> CudaResult {
    let work = Work::EventRecord(event::resolve(event)?);
    exec::with(hGraphExec, |exec| exec.replace(hNode, work))
}

pub unsafe fn cudaGraphExecEventWaitNodeSetEvent(
    hGraphExec: cudaGraphExec_t,
    hNode: cudaGraphNode_t,
    event: cudaEvent_t,
) -> CudaResult {
    let work = Work::EventWait(event::resolve(event)?);
    exec::with(hGraphExec, |exec| exec.replace(hNode, work))
}

pub unsafe fn cudaGraphAddMemAllocNode(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    nodeParams: *mut cudaMemAllocNodeParams,
) -> CudaResult {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { nodeParams.as_mut() }.ok_or(CudaError::INVALID_VALUE)?;
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

pub unsafe fn cudaGraphAddMemFreeNode(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    dptr: *mut c_void,
) -> CudaResult {
    let work = memory::free_of_graph(dptr).map(Work::Free);
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn cudaGraphMemAllocNodeGetParams(
    node: cudaGraphNode_t,
    params_out: *mut cudaMemAllocNodeParams,
) -> CudaResult {
    let (memory, size) = read(node, |work| match work {
        Work::Allocate { memory, size } => Some((memory.clone(), *size)),
        _ => None,
    })?;
    // SAFETY: an all-zero value of this C struct is valid.
    let mut params: cudaMemAllocNodeParams = unsafe { std::mem::zeroed() };
    // Pinned memory of device 0: what every allocation is here.
    (params.poolProps.allocType, params.poolProps.location.type_) = (1, 1);
    (params.bytesize, params.dptr) = (size, memory.address());
    // SAFETY: the program's promise.
    unsafe { give(params_out, params) }
}

pub unsafe fn cudaGraphEventRecordNodeGetEvent(node: cudaGraphNode_t, event_out: *mut cudaEvent_t) -> CudaResult {
    let found = read(node, |work| if let Work::EventRecord(event) = work { Some(event.handle()) } else { None })?;
    // SAFETY: the program's promise.
    unsafe { give(event_out, found) }
}

pub unsafe fn cudaGraphEventWaitNodeGetEvent(node: cudaGraphNode_t, event_out: *mut cudaEvent_t) -> CudaResult {
    let found = read(node, |work| if let Work::EventWait(event) = work { Some(event.handle()) } else { None })?;
    // SAFETY: the program's promise.
    unsafe { give(event_out, found) }
}

pub unsafe fn cudaGraphMemFreeNodeGetParams(node: cudaGraphNode_t, dptr_out: *mut c_void) -> CudaResult {
    let address = read(node, |work| if let Work::Free(address) = work { Some(*address) } else { None })?;
    // SAFETY: the program says that it is a pointer's place.
    unsafe { give(dptr_out.cast::<*mut c_void>(), address as *mut c_void) }
}

/// What a node of the kind in `nodeParams` does. The parts of the later structures that the shim knows begin as the earlier ones do.
unsafe fn general(nodeParams: *mut cudaGraphNodeParams) -> CudaResult<Work> {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { nodeParams.as_mut() }.ok_or(CudaError::INVALID_VALUE)?;
    let start: *mut c_void = (&raw mut params.reserved1).cast();
    let handle = params.reserved1[0] as usize;
    // SAFETY: the union has room for each of these, and the program has filled in the one of the kind.
    unsafe {
        match params.type_ {
            abi::cudaGraphNodeTypeKernel => Work::kernel(start.cast_const().cast()),
            // Two integers and a context stand before the parameters.
            abi::cudaGraphNodeTypeMemcpy => Work::copy(start.add(16).cast_const().cast()),
            abi::cudaGraphNodeTypeMemset => Work::memset(start.cast_const().cast()),
            abi::cudaGraphNodeTypeHost => Work::host(start.cast_const().cast()),
            abi::cudaGraphNodeTypeGraph => child(handle as cudaGraph_t),
            abi::cudaGraphNodeTypeEmpty => Ok(Work::Empty),
            abi::cudaGraphNodeTypeWaitEvent => event::resolve(handle as cudaEvent_t).map(Work::EventWait),
            abi::cudaGraphNodeTypeEventRecord => event::resolve(handle as cudaEvent_t).map(Work::EventRecord),
            abi::cudaGraphNodeTypeMemFree => memory::free_of_graph(handle as *mut c_void).map(Work::Free),
            // Allocations among them: what a node has allocated cannot be changed.
            _ => Err(CudaError::NOT_SUPPORTED),
        }
    }
}

pub unsafe fn cudaGraphAddNode_v12(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    numDependencies: usize,
    nodeParams: *mut cudaGraphNodeParams,
) -> CudaResult {
    // SAFETY: the program says that it is such a struct, or null.
    let work = match unsafe { nodeParams.as_mut() } {
        Some(params) if params.type_ == abi::cudaGraphNodeTypeMemAlloc => {
            let start: *mut cudaMemAllocNodeParams = (&raw mut params.reserved1).cast();
            // SAFETY: the union has room for it, and the program has filled it in.
            return unsafe { cudaGraphAddMemAllocNode(pGraphNode, graph, pDependencies, numDependencies, start) };
        }
        // SAFETY: as its kind says.
        Some(params) if params.type_ == abi::cudaGraphNodeTypeConditional => unsafe { ConditionalWork::create(params) },
        // SAFETY: the program's promise.
        _ => unsafe { general(nodeParams) },
    };
    // SAFETY: the program's promise.
    unsafe { add(pGraphNode, graph, pDependencies, numDependencies, work) }
}

pub unsafe fn cudaGraphAddNode_v13(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    _dependencyData: *const cudaGraphEdgeData,
    numDependencies: usize,
    nodeParams: *mut cudaGraphNodeParams,
) -> CudaResult {
    // SAFETY: the program's promise. An edge is full completion here, whatever its data: stricter than asked for.
    unsafe { cudaGraphAddNode_v12(pGraphNode, graph, pDependencies, numDependencies, nodeParams) }
}

pub unsafe fn cudaGraphAddNode_v2(
    pGraphNode: *mut cudaGraphNode_t,
    graph: cudaGraph_t,
    pDependencies: *const cudaGraphNode_t,
    _dependencyData: *const cudaGraphEdgeData,
    numDependencies: usize,
    nodeParams: *mut cudaGraphNodeParams,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { cudaGraphAddNode_v12(pGraphNode, graph, pDependencies, numDependencies, nodeParams) }
}

pub unsafe fn cudaGraphNodeSetParams(node: cudaGraphNode_t, nodeParams: *mut cudaGraphNodeParams) -> CudaResult {
    // SAFETY: the program's promise.
    replace(node, unsafe { general(nodeParams) }?)
}

pub unsafe fn cudaGraphExecNodeSetParams(
    graphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    nodeParams: *mut cudaGraphNodeParams,
) -> CudaResult {
    // SAFETY: the program's promise.
    let work = unsafe { general(nodeParams) }?;
    exec::with(graphExec, |exec| exec.replace(node, work))
}

pub unsafe fn cudaGraphNodeGetType(node: cudaGraphNode_t, pType: *mut cudaGraphNodeType) -> CudaResult {
    let kind = read(node, |work| Some(work.kind()))?;
    // SAFETY: the program's promise.
    unsafe { give(pType, kind) }
}

pub unsafe fn cudaGraphDestroyNode(node: cudaGraphNode_t) -> CudaResult {
    let (_, held) = state().remove(node_id(node)?)?;
    objects::release_all(&held);
    Ok(())
}
