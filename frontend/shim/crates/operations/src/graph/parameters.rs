//! What a node of any kind does, in the structure that makes such nodes.
//!
//! What it points to (a kernel's parameters, the bodies of a condition) is the node's, and lives as long as what the
//! node does.
//! Source: CUDA runtime API, cudaGraphNodeGetParams.
#![allow(non_snake_case)] // C's names

use super::node::Work;
use super::nodes::read;
use super::state::graph_handle;
use crate::memory;
use crate::stream::memory_operations::Batch;
use crate::types::{
    Copy3D, EventHandle, GraphHandle, GraphNodeHandle, GraphNodeParams, GraphNodeType, HostNodeParams,
    KernelNodeParams, MemAllocNodeParams, MemsetParams,
};
use session::call::{give, Error, Outcome};
use std::ffi::c_void;
use std::sync::Arc;

/// Two integers and a context stand before the parameters of a copy.
const BEFORE_COPY: usize = 16;

/// What a kernel node launches.
pub fn kernel_parameters_of(node: GraphNodeHandle) -> Outcome<KernelNodeParams> {
    read(node, |work| if let Work::Kernel(kernel) = work { Some(kernel.parameters()) } else { None })
}

/// What a copy node copies.
pub fn copy_parameters_of(node: GraphNodeHandle) -> Outcome<Copy3D> {
    read(node, |work| if let Work::Copy(copy) = work { Some(copy.parameters()) } else { None })
}

/// The operations of a node of them.
pub fn memory_operations_of(node: GraphNodeHandle) -> Outcome<Arc<Batch>> {
    read(node, |work| if let Work::MemoryOperations(batch) = work { Some(batch.clone()) } else { None })
}

/// The kind of a node.
pub fn kind_of(node: GraphNodeHandle) -> Outcome<GraphNodeType> {
    read(node, |work| Some(work.kind()))
}

/// The parameters that the program gets of a node that allocates.
pub(super) fn allocation(memory: &memory::GraphMemory, size: usize) -> MemAllocNodeParams {
    // SAFETY: an all-zero value of this C struct is valid.
    let mut params: MemAllocNodeParams = unsafe { std::mem::zeroed() };
    // Pinned memory of device 0: what every allocation is here.
    (params.poolProps.allocType, params.poolProps.location.type_) = (1, 1);
    (params.bytesize, params.dptr) = (size, memory.address());
    params
}

/// # Errors
/// An invalid value for memory operations, which the structure of the runtime API does not describe.
pub fn node_parameters(node: GraphNodeHandle) -> Outcome<GraphNodeParams> {
    // SAFETY: an all-zero value of this C struct is valid.
    let mut params: GraphNodeParams = unsafe { std::mem::zeroed() };
    read(node, |work| {
        params.type_ = work.kind();
        let start: *mut c_void = (&raw mut params.reserved1).cast();
        // SAFETY: the union has room for each of these, and is aligned like them.
        unsafe {
            match work {
                Work::Kernel(kernel) => start.cast::<KernelNodeParams>().write(kernel.parameters()),
                Work::Copy(copy) => start.add(BEFORE_COPY).cast::<Copy3D>().write(copy.parameters()),
                Work::Memset(set) => start.cast::<MemsetParams>().write(*set),
                Work::Host(host) => start.cast::<HostNodeParams>().write(*host),
                Work::Child(child) => start.cast::<GraphHandle>().write(graph_handle(*child)),
                Work::EventWait(event) | Work::EventRecord(event) => start.cast::<EventHandle>().write(event.handle()),
                Work::Allocate { memory, size } => start.cast::<MemAllocNodeParams>().write(allocation(memory, *size)),
                Work::Free(address) => start.cast::<u64>().write(*address),
                Work::Conditional(conditional) => start.cast::<[i64; 3]>().write(conditional.words()),
                Work::Empty => {}
                Work::MemoryOperations(_) => return None,
            }
        }
        Some(())
    })?;
    Ok(params)
}

pub unsafe fn node_get_params(node: GraphNodeHandle, nodeParams: *mut GraphNodeParams) -> Outcome {
    if nodeParams.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    unsafe { give(nodeParams, node_parameters(node)?) }
}
