//! Allocation nodes: the memory that a new one is given, and what a launch does to memory.
//!
//! A node behind the frees of all the nodes that have some memory may have that memory, as in CUDA, which gives it the
//! same address.
//!
//! Source: CUDA programming guide, "Graph Memory Nodes", "Address Reuse within a Graph".

use super::exec::Item;
use super::node::Work;
use super::state::{Id, State};
use crate::memory::{GraphMemory, Step};
use session::call::Outcome;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How often the frees of each address come before a node that waits for `from`.
fn freed_before(state: &State, from: &[Id]) -> BTreeMap<u64, usize> {
    let (mut seen, mut open): (BTreeSet<Id>, Vec<Id>) = (BTreeSet::new(), from.to_vec());
    let mut freed = BTreeMap::new();
    while let Some(id) = open.pop() {
        if !seen.insert(id) {
            continue;
        }
        let Ok(node) = state.node(id) else { continue };
        open.extend(&node.from);
        if let Work::Free(address) = node.work {
            *freed.entry(address).or_default() += 1;
        }
    }
    freed
}

/// Memory for a new node of the graph that waits for `from`: the smallest that has room and is free by then, or new.
pub fn memory_for(state: &State, graph: Id, from: &[Id], size: usize) -> Outcome<Arc<GraphMemory>> {
    let mut allocated: BTreeMap<u64, (usize, &Arc<GraphMemory>)> = BTreeMap::new();
    for id in &state.graph(graph)?.nodes {
        if let Work::Allocate { memory, .. } = &state.node(*id)?.work {
            allocated.entry(memory.address() as u64).or_insert((0, memory)).0 += 1;
        }
    }
    let fits = allocated.values().any(|(_, memory)| memory.size() >= size);
    if fits && size != 0 {
        let freed = freed_before(state, from);
        let free = allocated.iter().filter(|(address, (count, _))| freed.get(address) == Some(count));
        let rooms = free.map(|(_, (_, memory))| *memory).filter(|memory| memory.size() >= size);
        if let Some(memory) = rooms.min_by_key(|memory| memory.size()) {
            return Ok(memory.clone());
        }
    }
    GraphMemory::reserve(size)
}

/// What a launch of these items does to memory, in order.
pub fn steps(items: &[Item]) -> Vec<Step> {
    let step = |item: &Item| match &item.work {
        Work::Allocate { memory, .. } => Some(Step::Allocate(memory.address() as u64)),
        Work::Free(address) => Some(Step::Free(*address)),
        _ => None,
    };
    items.iter().filter_map(step).collect()
}
