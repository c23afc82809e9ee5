//! Parameters of graphs' nodes of any kind, and of memory operations, as the driver API describes them.
//!
//! Source: CUDA driver API, cuGraphNodeGetParams, cuGraphBatchMemOpNodeGetParams.

use std::ffi::c_void;

use abi::driver::{
    CUgraphNode, CUgraphNodeParams, CUstreamBatchMemOpParams, CUDA_BATCH_MEM_OP_NODE_PARAMS, CUDA_KERNEL_NODE_PARAMS,
    CUDA_MEMCPY_NODE_PARAMS, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
};
use operations::graph;
use session::call::{Error, Outcome};

use crate::graph::kernel_parameters;
use crate::stream::described;
use crate::{copies, current, give};

/// Behind which words of the parameters of the other kinds their context stands, as far as they have one.
const CONTEXTS: [(i32, usize); 3] =
    [(abi::cudaGraphNodeTypeMemset, 5), (abi::cudaGraphNodeTypeHost, 3), (abi::cudaGraphNodeTypeConditional, 3)];

/// The operations of a node. The list is the node's.
fn memory_operations(node: CUgraphNode) -> Outcome<CUDA_BATCH_MEM_OP_NODE_PARAMS> {
    let batch = graph::memory_operations_of(node)?;
    let list = batch.described(|operations| operations.iter().map(described).collect::<Vec<_>>());
    let list: &Vec<CUstreamBatchMemOpParams> = list.ok_or(Error::UNKNOWN)?;
    Ok(CUDA_BATCH_MEM_OP_NODE_PARAMS {
        ctx: current::require()?.handle(),
        count: list.len() as u32,
        paramArray: list.as_ptr().cast_mut(),
        flags: 0,
    })
}

pub unsafe fn cuGraphBatchMemOpNodeGetParams(
    hNode: CUgraphNode,
    nodeParams_out: *mut CUDA_BATCH_MEM_OP_NODE_PARAMS,
) -> Outcome {
    // SAFETY: the caller's place for the structure.
    unsafe { give(nodeParams_out, memory_operations(hNode)?) }
}

pub unsafe fn cuGraphNodeGetParams(hNode: CUgraphNode, nodeParams: *mut CUgraphNodeParams) -> Outcome {
    // SAFETY: an all-zero value of this C struct is valid.
    let mut params: CUgraphNodeParams = unsafe { std::mem::zeroed() };
    params.type_ = graph::kind_of(hNode)?;
    let start: *mut c_void = (&raw mut params.reserved1).cast();
    // SAFETY: the union has room for each of these, and is aligned like them.
    unsafe {
        match params.type_ {
            abi::cudaGraphNodeTypeKernel => {
                start.cast::<CUDA_KERNEL_NODE_PARAMS>().write(kernel_parameters(graph::kernel_parameters_of(hNode)?))
            }
            abi::cudaGraphNodeTypeMemcpy => {
                let mut copy: CUDA_MEMCPY_NODE_PARAMS = std::mem::zeroed();
                copy.copyCtx = current::require()?.handle();
                copy.copyParams = copies::described(&graph::copy_parameters_of(hNode)?)?;
                start.cast::<CUDA_MEMCPY_NODE_PARAMS>().write(copy);
            }
            CU_GRAPH_NODE_TYPE_BATCH_MEM_OP => {
                start.cast::<CUDA_BATCH_MEM_OP_NODE_PARAMS>().write(memory_operations(hNode)?)
            }
            kind => {
                params = graph::node_parameters(hNode)?;
                if let Some((_, word)) = CONTEXTS.iter().find(|(of, _)| *of == kind) {
                    params.reserved1[*word] = current::require()?.handle() as usize as i64;
                }
            }
        }
    }
    // SAFETY: the caller's place for the structure.
    unsafe { give(nodeParams, params) }
}
