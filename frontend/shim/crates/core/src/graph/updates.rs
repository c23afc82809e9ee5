//! The API's functions that change copies of variables and graphs inside of nodes.
#![allow(non_snake_case)] // C's names

use super::exec;
use super::node::Work;
use super::nodes::replace;
use super::state::graph_id;
use crate::call::CudaResult;
use abi::{cudaGraphExec_t, cudaGraphNode_t, cudaGraph_t, cudaMemcpyKind};
use std::ffi::c_void;

pub unsafe fn cudaGraphMemcpyNodeSetParamsToSymbol(
    node: cudaGraphNode_t,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    replace(node, Work::to_symbol(symbol, src, count, offset, kind)?)
}

pub unsafe fn cudaGraphMemcpyNodeSetParamsFromSymbol(
    node: cudaGraphNode_t,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    replace(node, Work::from_symbol(dst, symbol, count, offset, kind)?)
}

pub unsafe fn cudaGraphExecMemcpyNodeSetParamsToSymbol(
    hGraphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    let work = Work::to_symbol(symbol, src, count, offset, kind)?;
    exec::with(hGraphExec, |exec| exec.replace(node, work))
}

pub unsafe fn cudaGraphExecMemcpyNodeSetParamsFromSymbol(
    hGraphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    let work = Work::from_symbol(dst, symbol, count, offset, kind)?;
    exec::with(hGraphExec, |exec| exec.replace(node, work))
}

pub unsafe fn cudaGraphExecChildGraphNodeSetParams(
    hGraphExec: cudaGraphExec_t,
    node: cudaGraphNode_t,
    childGraph: cudaGraph_t,
) -> CudaResult {
    let graph = graph_id(childGraph)?;
    exec::with(hGraphExec, |exec| exec.replace_child(node, graph))
}
