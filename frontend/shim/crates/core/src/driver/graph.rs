//! Graphs as only the driver API has them: kernels as CUfunction or CUkernel, copies as CUDA_MEMCPY3D, contexts of nodes, memory operations.
//!
//! Graphs, nodes and executable graphs are the runtime API's (`graph`); a context that a node names must be alive.
//!
//! Source: CUDA driver API, "Graph Management".

use std::ffi::{c_char, c_uint, c_void};

use abi::driver::{
    CUcontext, CUgraph, CUgraphConditionalHandle, CUgraphEdgeData, CUgraphExec, CUgraphExecUpdateResult,
    CUgraphExecUpdateResultInfo, CUgraphNode, CUgraphNodeParams, CUDA_BATCH_MEM_OP_NODE_PARAMS,
    CUDA_KERNEL_NODE_PARAMS, CUDA_MEMCPY3D, CUDA_MEMCPY_NODE_PARAMS, CUDA_MEMSET_NODE_PARAMS,
    CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
};
use abi::{cudaKernelNodeParams, dim3, CudaError};

use super::stream::operations;
use super::{contexts, copies, give, give_if_wanted};
use crate::call::CudaResult;
use crate::graph::{self, add, replace, replace_in, Work};

/// A node may name its context, or leave it to the current one.
fn check_context(context: CUcontext) -> CudaResult {
    if context.is_null() {
        return Ok(());
    }
    contexts::living(context).map(drop)
}

unsafe fn kernel(params: *const CUDA_KERNEL_NODE_PARAMS) -> CudaResult<Work> {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { params.as_ref() }.ok_or(CudaError::INVALID_VALUE)?;
    check_context(params.ctx)?;
    let function: *mut c_void = if params.func.is_null() { params.kern.cast() } else { params.func.cast() };
    let given = cudaKernelNodeParams {
        func: function,
        gridDim: dim3 { x: params.gridDimX, y: params.gridDimY, z: params.gridDimZ },
        blockDim: dim3 { x: params.blockDimX, y: params.blockDimY, z: params.blockDimZ },
        sharedMemBytes: params.sharedMemBytes,
        kernelParams: params.kernelParams,
        extra: params.extra,
    };
    // SAFETY: the program's promise.
    unsafe { Work::kernel(&given) }
}

fn kernel_parameters(given: cudaKernelNodeParams) -> CUDA_KERNEL_NODE_PARAMS {
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

unsafe fn copy(params: *const CUDA_MEMCPY3D) -> CudaResult<Work> {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { params.as_ref() }.ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: a struct of ours.
    unsafe { Work::copy(&copies::parameters(params)?) }
}

unsafe fn memory_operations(params: *const CUDA_BATCH_MEM_OP_NODE_PARAMS) -> CudaResult<Work> {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { params.as_ref() }.ok_or(CudaError::INVALID_VALUE)?;
    check_context(params.ctx)?;
    // SAFETY: the program's promise.
    let operations = unsafe { operations(params.paramArray, params.count, params.flags) }?;
    operations.iter().try_for_each(|operation| operation.check())?;
    Ok(Work::MemoryOperations(operations.into()))
}

pub unsafe fn cuGraphAddKernelNode_v2(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    numDependencies: usize,
    nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
) -> CudaResult {
    // SAFETY: the program's promise, here and below.
    unsafe { add(phGraphNode, hGraph, dependencies, numDependencies, kernel(nodeParams)) }
}

pub unsafe fn cuGraphKernelNodeGetParams_v2(
    hNode: CUgraphNode,
    nodeParams: *mut CUDA_KERNEL_NODE_PARAMS,
) -> CudaResult {
    let found = graph::kernel_parameters_of(hNode)?;
    // SAFETY: the caller's place for the structure.
    unsafe { give(nodeParams, kernel_parameters(found)) }
}

pub unsafe fn cuGraphKernelNodeSetParams_v2(
    hNode: CUgraphNode,
    nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
) -> CudaResult {
    // SAFETY: as above.
    replace(hNode, unsafe { kernel(nodeParams) }?)
}

pub unsafe fn cuGraphExecKernelNodeSetParams_v2(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    nodeParams: *const CUDA_KERNEL_NODE_PARAMS,
) -> CudaResult {
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
) -> CudaResult {
    check_context(ctx)?;
    // SAFETY: as above.
    unsafe { add(phGraphNode, hGraph, dependencies, numDependencies, copy(copyParams)) }
}

pub unsafe fn cuGraphMemcpyNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUDA_MEMCPY3D) -> CudaResult {
    let found = copies::described(&graph::copy_parameters_of(hNode)?)?;
    // SAFETY: the caller's place for the structure.
    unsafe { give(nodeParams, found) }
}

pub unsafe fn cuGraphMemcpyNodeSetParams(hNode: CUgraphNode, nodeParams: *const CUDA_MEMCPY3D) -> CudaResult {
    // SAFETY: as above.
    replace(hNode, unsafe { copy(nodeParams) }?)
}

pub unsafe fn cuGraphExecMemcpyNodeSetParams(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    copyParams: *const CUDA_MEMCPY3D,
    ctx: CUcontext,
) -> CudaResult {
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
) -> CudaResult {
    check_context(ctx)?;
    // SAFETY: as above.
    unsafe { add(phGraphNode, hGraph, dependencies, numDependencies, Work::memset(memsetParams)) }
}

pub unsafe fn cuGraphExecMemsetNodeSetParams(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    memsetParams: *const CUDA_MEMSET_NODE_PARAMS,
    ctx: CUcontext,
) -> CudaResult {
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
) -> CudaResult {
    // SAFETY: as above.
    unsafe { add(phGraphNode, hGraph, dependencies, numDependencies, memory_operations(nodeParams)) }
}

pub unsafe fn cuGraphBatchMemOpNodeSetParams(
    hNode: CUgraphNode,
    nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> CudaResult {
    // SAFETY: as above.
    replace(hNode, unsafe { memory_operations(nodeParams) }?)
}

pub unsafe fn cuGraphExecBatchMemOpNodeSetParams(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    nodeParams: *const CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> CudaResult {
    // SAFETY: as above.
    replace_in(hGraphExec, hNode, unsafe { memory_operations(nodeParams) }?)
}

/// What the driver API describes in its own way; `None`: a node that both APIs describe alike.
unsafe fn own(nodeParams: *mut CUgraphNodeParams) -> CudaResult<Option<Work>> {
    // SAFETY: the program says that it is such a struct, or null.
    let params = unsafe { nodeParams.as_mut() }.ok_or(CudaError::INVALID_VALUE)?;
    let start: *const c_void = (&raw const params.reserved1).cast();
    // SAFETY: the union has room for each of these, and the program has filled in the one of the kind.
    unsafe {
        match params.type_ {
            abi::cudaGraphNodeTypeKernel => kernel(start.cast()).map(Some),
            abi::cudaGraphNodeTypeMemcpy => {
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
) -> CudaResult {
    // SAFETY: as above.
    unsafe {
        match own(nodeParams)? {
            Some(work) => add(phGraphNode, hGraph, dependencies, numDependencies, Ok(work)),
            None => graph::cudaGraphAddNode_v12(phGraphNode, hGraph, dependencies, numDependencies, nodeParams),
        }
    }
}

pub unsafe fn cuGraphAddNode_v2(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    _dependencyData: *const CUgraphEdgeData,
    numDependencies: usize,
    nodeParams: *mut CUgraphNodeParams,
) -> CudaResult {
    // SAFETY: as above. An edge is full completion here, whatever its data: stricter than asked for.
    unsafe { cuGraphAddNode(phGraphNode, hGraph, dependencies, numDependencies, nodeParams) }
}

pub unsafe fn cuGraphAddNode_v3(
    phGraphNode: *mut CUgraphNode,
    hGraph: CUgraph,
    dependencies: *const CUgraphNode,
    dependencyData: *const CUgraphEdgeData,
    numDependencies: usize,
    nodeParams: *mut CUgraphNodeParams,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { cuGraphAddNode_v2(phGraphNode, hGraph, dependencies, dependencyData, numDependencies, nodeParams) }
}

pub unsafe fn cuGraphNodeSetParams(hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams) -> CudaResult {
    // SAFETY: as above.
    unsafe {
        match own(nodeParams)? {
            Some(work) => replace(hNode, work),
            None => graph::cudaGraphNodeSetParams(hNode, nodeParams),
        }
    }
}

pub unsafe fn cuGraphNodeSetParams_v2(hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams) -> CudaResult {
    // SAFETY: as above.
    unsafe { cuGraphNodeSetParams(hNode, nodeParams) }
}

pub unsafe fn cuGraphExecNodeSetParams(
    hGraphExec: CUgraphExec,
    hNode: CUgraphNode,
    nodeParams: *mut CUgraphNodeParams,
) -> CudaResult {
    // SAFETY: as above.
    unsafe {
        match own(nodeParams)? {
            Some(work) => replace_in(hGraphExec, hNode, work),
            None => graph::cudaGraphExecNodeSetParams(hGraphExec, hNode, nodeParams),
        }
    }
}

pub unsafe fn cuGraphConditionalHandleCreate(
    pHandle_out: *mut CUgraphConditionalHandle,
    hGraph: CUgraph,
    ctx: CUcontext,
    defaultLaunchValue: c_uint,
    flags: c_uint,
) -> CudaResult {
    check_context(ctx)?;
    // SAFETY: as above.
    unsafe { graph::cudaGraphConditionalHandleCreate(pHandle_out, hGraph, defaultLaunchValue, flags) }
}

pub unsafe fn cuGraphExecUpdate(
    hGraphExec: CUgraphExec,
    hGraph: CUgraph,
    hErrorNode_out: *mut CUgraphNode,
    updateResult_out: *mut CUgraphExecUpdateResult,
) -> CudaResult {
    let null = std::ptr::null_mut();
    let mut info = CUgraphExecUpdateResultInfo { result: 0, errorNode: null, errorFromNode: null };
    // SAFETY: a struct of ours; the caller's places.
    unsafe {
        let updated = graph::cudaGraphExecUpdate(hGraphExec, hGraph, &mut info);
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
) -> CudaResult {
    // SAFETY: the program's promise; the buffer has so many bytes.
    unsafe {
        let made = graph::cudaGraphInstantiate(phGraphExec, hGraph, 0);
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
) -> CudaResult {
    // SAFETY: as above.
    unsafe { cuGraphInstantiate(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize) }
}
