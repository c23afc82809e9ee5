//! The API's functions that change copies of variables and graphs inside of nodes.
#![allow(non_snake_case)] // C's names

use super::exec;
use super::node::Work;
use super::nodes::replace;
use super::state::graph_id;
use crate::types::{CopyKind, GraphExecHandle, GraphHandle, GraphNodeHandle};
use session::call::Outcome;
use std::ffi::c_void;

pub unsafe fn memcpy_node_set_params_to_symbol(
    node: GraphNodeHandle,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome {
    replace(node, Work::to_symbol(symbol, src, count, offset, kind)?)
}

pub unsafe fn memcpy_node_set_params_from_symbol(
    node: GraphNodeHandle,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome {
    replace(node, Work::from_symbol(dst, symbol, count, offset, kind)?)
}

pub unsafe fn exec_memcpy_node_set_params_to_symbol(
    hGraphExec: GraphExecHandle,
    node: GraphNodeHandle,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome {
    let work = Work::to_symbol(symbol, src, count, offset, kind)?;
    exec::with(hGraphExec, |exec| exec.replace(node, work))
}

pub unsafe fn exec_memcpy_node_set_params_from_symbol(
    hGraphExec: GraphExecHandle,
    node: GraphNodeHandle,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome {
    let work = Work::from_symbol(dst, symbol, count, offset, kind)?;
    exec::with(hGraphExec, |exec| exec.replace(node, work))
}

pub unsafe fn exec_child_graph_node_set_params(
    hGraphExec: GraphExecHandle,
    node: GraphNodeHandle,
    childGraph: GraphHandle,
) -> Outcome {
    let graph = graph_id(childGraph)?;
    exec::with(hGraphExec, |exec| exec.replace_child(node, graph))
}
