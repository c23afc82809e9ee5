//! Graphs as only the driver API has them: kernels as CUfunction or CUkernel, copies as CUDA_MEMCPY3D, contexts of
//! nodes, memory operations.
//!
//! Graphs, nodes and executable graphs are the runtime API's (`graph`); a context that a node names must be alive.
//!
//! Source: CUDA driver API, "Graph Management".

mod node_parameters;

use std::ffi::{c_char, c_uint, c_void};

use abi::driver::{
    CUcontext, CUgraph, CUgraphConditionalHandle, CUgraphEdgeData, CUgraphExec, CUgraphExecUpdateResult,
    CUgraphExecUpdateResultInfo, CUgraphNode, CUgraphNodeParams, CUDA_BATCH_MEM_OP_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS,
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
};
use operations::graph::{self, add, replace, replace_in, Work};
use operations::stream::memory_operations::Batch;
use operations::types::{Dim3, KernelNodeParams};
use session::call::{Error, Outcome};

pub use self::node_parameters::*;
use super::stream::operations;
use super::{contexts, copies, give, give_if_wanted};

/// A node may name its context, or leave it to the current one.
fn check_context(context: CUcontext) -> Outcome {
    if context.is_null() {
        return Ok(());
    }
    contexts::living(context).map(drop)
}

unsafe fn kernel(params: *const CUDA_KERNEL_NODE_PARAMS) -> Outcome<Work> {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { params.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    check_context(params.ctx)?;
    let function: *mut c_void = if params.func.is_null() { params.kern.cast() } else { params.func.cast() };
    let given = KernelNodeParams {
        func: function,
        gridDim: Dim3 { x: params.gridDimX, y: params.gridDimY, z: params.gridDimZ },
        blockDim: Dim3 { x: params.blockDimX, y: params.blockDimY, z: params.blockDimZ },
        sharedMemBytes: params.sharedMemBytes,
        kernelParams: params.kernelParams,
        extra: params.extra,
    };
    // SAFETY: the program's promise.
    unsafe { Work::kernel(&given) }
}

pub(super) fn kernel_parameters(given: KernelNodeParams) -> CUDA_KERNEL_NODE_PARAMS {
    CUDA_KERNEL_NODE_PARAMS {
        func: given.func.cast(),
        gridDimX: given.gridDim.x,
        gridDimY: given.gridDim.y,
        gridDimZ: given.gridDim.z,
        blockDimX: given.blockDim.x,
        blockDimY: given.blockDim.y,
        blockDimZ: given.blockDim.z,
        sharedMemBytes: given.sharedMemBytes,
        kernelParams: given.kernelParams,
        extra: given.extra,
        kern: given.func.cast(), // a kernel is a function here; an embedded runtime looks its kernel up by this field
        ctx: std::ptr::null_mut(),
    }
}

unsafe fn copy(params: *const CUDA_MEMCPY3D) -> Outcome<Work> {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { params.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    // SAFETY: a struct of ours.
    unsafe { Work::copy(&copies::parameters(params)?) }
}

unsafe fn memory_operations(params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS) -> Outcome<Work> {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { params.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    check_context(params.ctx)?;
    // SAFETY: the program's promise.
    let operations = unsafe { operations(params.paramArray, params.count, params.flags) }?;
    operations.iter().try_for_each(|operation| operation.check())?;
    Ok(Work::MemoryOperations(Batch::new(operations)))
}

pub unsafe fn cuGraphAddKernelNode_v2(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
) -> Outcome {
    // SAFETY: the program's promise, here and below.
    unsafe { add(phGraphNode, hGraph, dependencies, numDependencies, kernel(nodeParams)) }
}

pub unsafe fn cuGraphKernelNodeGetParams_v2(hNode: CUgraphNode, nodeParams: *mut CUDA_KERNEL_NODE_PARAMS) -> Outcome {
    let found = graph::kernel_parameters_of(hNode)?;
    // SAFETY: the caller's place for the structure.
    unsafe { give(nodeParams, kernel_parameters(found)) }
}

pub unsafe fn cuGraphKernelNodeSetParams_v2(hNode: CUgraphNode, nodeParams: *const CUDA_KERNEL_NODE_PARAMS) -> Outcome {
    // SAFETY: as above.
    replace(hNode, unsafe { kernel(nodeParams) }?)
}

pub unsafe fn cuGraphExecKernelNodeSetParams_v2(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
) -> Outcome {
    // SAFETY: as above.
    replace_in(hGraphExec, hNode, unsafe { kernel(nodeParams) }?)
}

pub unsafe fn cuGraphAddMemcpyNode(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    copyParams: *const CUDA_MEMCPY3D,
    ctx: CUcontext,
) -> Outcome {
    check_context(ctx)?;
    // SAFETY: as above.
    unsafe { add(phGraphNode, hGraph, dependencies, numDependencies, copy(copyParams)) }
}

pub unsafe fn cuGraphMemcpyNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_MEMCPY3D) -> Outcome {
    let found = copies::described(&graph::copy_parameters_of(hNode)?)?;
    // SAFETY: the caller's place for the structure.
    unsafe { give(nodeParams, found) }
}

pub unsafe fn cuGraphMemcpyNodeSetParams(hNode: CUgraphNode, nodeParams: *const CUDA_MEMCPY3D) -> Outcome {
    // SAFETY: as above.
    replace(hNode, unsafe { copy(nodeParams) }?)
}

pub unsafe fn cuGraphExecMemcpyNodeSetParams(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    copyParams: *const CUDA_MEMCPY3D,
    ctx: CUcontext,
) -> Outcome {
    check_context(ctx)?;
    // SAFETY: as above.
    replace_in(hGraphExec, hNode, unsafe { copy(copyParams) }?)
}

pub unsafe fn cuGraphAddMemsetNode(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    memsetParams: *const CUDA_MEMSET_NODE_PARAMS,
    ctx: CUcontext,
) -> Outcome {
    check_context(ctx)?;
    // SAFETY: as above.
    unsafe { add(phGraphNode, hGraph, dependencies, numDependencies, Work::memset(memsetParams)) }
}

pub unsafe fn cuGraphExecMemsetNodeSetParams(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    memsetParams: *const CUDA_MEMSET_NODE_PARAMS,
    ctx: CUcontext,
) -> Outcome {
    check_context(ctx)?;
    // SAFETY: as above.
    replace_in(hGraphExec, hNode, unsafe { Work::memset(memsetParams) }?)
}

pub unsafe fn cuGraphAddBatchMemOpNode(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> Outcome {
    // SAFETY: as above.
    unsafe { add(phGraphNode, hGraph, dependencies, numDependencies, memory_operations(nodeParams)) }
}

pub unsafe fn cuGraphBatchMemOpNodeSetParams(
    hNode: CUgraphNode,
    nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> Outcome {
    // SAFETY: as above.
    replace(hNode, unsafe { memory_operations(nodeParams) }?)
}

pub unsafe fn cuGraphExecBatchMemOpNodeSetParams(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> Outcome {
    // SAFETY: as above.
    replace_in(hGraphExec, hNode, unsafe { memory_operations(nodeParams) }?)
}

/// What the driver API describes in its own way; `None`: a node that both APIs describe alike.
unsafe fn own(nodeParams: *mut CUgraphNodeParams) -> Outcome<Option<Work>> {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { nodeParams.as_mut() }.ok_or(Error::INVALID_VALUE)?;
    let start: *const c_void = (&raw const params.reserved1).cast();
    // SAFETY: the union has room for each of these, and the program has filled in the one of the kind.
    unsafe {
        match params.type_ {
            operations::types::GRAPH_NODE_TYPE_KERNEL => kernel(start.cast()).map(Some),
            operations::types::GRAPH_NODE_TYPE_MEMCPY => {
                let given: *const CUDA_MEMCPY_NODE_PARAMS = start.cast();
                check_context((*given).copyCtx)?;
                copy(&raw const (*given).copyParams).map(Some)
            }
            CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => memory_operations(start.cast()).map(Some),
            _ => Ok(None),
        }
    }
}

pub unsafe fn cuGraphAddNode(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *mut CUgraphNodeParams,
) -> Outcome {
    // SAFETY: as above.
    unsafe {
        match own(nodeParams)? {
            Some(work) => add(phGraphNode, hGraph, dependencies, numDependencies, Ok(work)),
            None => graph::add_node_before_13(phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
        }
    }
}

pub unsafe fn cuGraphAddNode_v2(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    dependencyData: *const CUgraphEdgeData,
    numDependencies: usize,
    nodeParams: *mut CUgraphNodeParams,
) -> Outcome {
    // SAFETY: as above.
    unsafe {
        cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams)?;
        graph::describe(phGraphNode, dependencies, dependencyData, numDependencies)
    }
}

pub unsafe fn cuGraphAddNode_v3(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    dependencyData: *const CUgraphEdgeData,
    numDependencies: usize,
    nodeParams: *mut CUgraphNodeParams,
) -> Outcome {
    // SAFETY: as above.
    unsafe { cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams) }
}

pub unsafe fn cuGraphNodeSetParams(hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams) -> Outcome {
    // SAFETY: as above.
    unsafe {
        match own(nodeParams)? {
            Some(work) => replace(hNode, work),
            None => graph::node_set_params(hNode, nodeParams),
        }
    }
}

pub unsafe fn cuGraphNodeSetParams_v2(hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams) -> Outcome {
    // SAFETY: as above.
    unsafe { cuGraphNodeSetParams(hNode, nodeParams) }
}

pub unsafe fn cuGraphExecNodeSetParams(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    nodeParams: *mut CUgraphNodeParams,
) -> Outcome {
    // SAFETY: as above.
    unsafe {
        match own(nodeParams)? {
            Some(work) => replace_in(hGraphExec, hNode, work),
            None => graph::exec_node_set_params(hGraphExec, hNode, nodeParams),
        }
    }
}

pub unsafe fn cuGraphConditionalHandleCreate(
    pHandle_out: *mut CUgraphConditionalHandle,
    hGraph: CUgraph,
    ctx: CUcontext,
    defaultLaunchValue: c_uint,
    flags: c_uint,
) -> Outcome {
    check_context(ctx)?;
    // SAFETY: as above.
    unsafe { graph::conditional_handle_create(pHandle_out, hGraph, defaultLaunchValue, flags) }
}

pub unsafe fn cuGraphExecUpdate(
    hGraphExec: CUgraphExec,
    hGraph: CUgraph,
    hErrorNode_out: *mut CUgraphNode,
    updateResult_out: *mut CUgraphExecUpdateResult,
) -> Outcome {
    let null = std::ptr::null_mut();
    let mut info = CUgraphExecUpdateResultInfo { result: 0, errorNode: null, errorFromNode: null };
    // SAFETY: a struct of ours; the caller's places.
    unsafe {
        let updated = graph::exec_update(hGraphExec, hGraph, &mut info);
        give_if_wanted(hErrorNode_out, info.errorNode);
        give_if_wanted(updateResult_out, info.result);
        updated
    }
}

/// Instantiation as CUDA 10 and 11 have it: the log says why it fails, and no single node is to blame.
pub unsafe fn cuGraphInstantiate(
    phGraphExec: *mut CUgraphExec,
    hGraph: CUgraph,
    phErrorNode: *mut CUgraphNode,
    logBuffer: *mut c_char,
    bufferSize: usize,
) -> Outcome {
    // SAFETY: the program's promise; the buffer has so many bytes.
    unsafe {
        let made = graph::instantiate(phGraphExec, hGraph, 0);
        give_if_wanted(phErrorNode, std::ptr::null_mut());
        if !logBuffer.is_null() && bufferSize > 0 {
            let text = made.err().map_or("", |_| "the graph has a cycle, or a node that cannot be launched");
            let length = text.len().min(bufferSize - 1);
            text.as_ptr().copy_to_nonoverlapping(logBuffer.cast(), length);
            logBuffer.add(length).write(0);
        }
        made
    }
}

pub unsafe fn cuGraphInstantiate_v2(
    phGraphExec: *mut CUgraphExec,
    hGraph: CUgraph,
    phErrorNode: *mut CUgraphNode,
    logBuffer: *mut c_char,
    bufferSize: usize,
) -> Outcome {
    // SAFETY: as above.
    unsafe { cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize) }
}
