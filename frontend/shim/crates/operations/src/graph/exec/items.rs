//! The items of an executable graph: its nodes' work in an order that respects every edge, graphs inside in their
//! node's place.

use crate::graph::node::Work;
use crate::graph::state::{Id, State};
use session::call::Outcome;
use std::collections::HashMap;

/// One node's work.
#[derive(Debug, Clone)]
pub struct Item {
    /// The node of the graph that it was made from.
    pub node: Id,
    pub work: Work,
    pub enabled: bool,
    /// Places of what it waits for, among the items.
    pub from: Vec<usize>,
    /// The bodies of a conditional node.
    pub inner: Vec<Vec<Item>>,
    /// How many items behind it are its graph's.
    pub follow: usize,
}

/// The items of a graph, behind those that are there already.
pub(super) fn flatten(state: &State, graph: Id, items: &mut Vec<Item>) -> Outcome {
    let mut place: HashMap<Id, usize> = HashMap::new();
    for id in state.ordered(graph)? {
        let node = state.node(id)?;
        let from = node.from.iter().filter_map(|from| place.get(from).copied()).collect();
        place.insert(id, items.len());
        let mut inner = Vec::new();
        if let Work::Conditional(conditional) = &node.work {
            for body in &conditional.bodies {
                let mut items = Vec::new();
                flatten(state, *body, &mut items)?;
                inner.push(items);
            }
        }
        let at = items.len();
        items.push(Item { node: id, work: node.work.clone(), enabled: true, from, inner, follow: 0 });
        if let Work::Child(child) = node.work {
            flatten(state, child, items)?;
            items[at].follow = items.len() - at - 1;
        }
    }
    Ok(())
}

pub(super) fn find(items: &mut [Item], node: Id) -> Option<&mut Item> {
    items.iter_mut().find_map(|item| {
        if item.node == node {
            return Some(item);
        }
        item.inner.iter_mut().find_map(|body| find(body, node))
    })
}

/// Whether two graphs' items have the same shape, bodies included. Otherwise: why not, and the node of the new one.
pub(super) fn compare(old: &[Item], new: &[Item]) -> Result<(), (crate::types::GraphExecUpdateResult, Id)> {
    let alike = |old: &Work, new: &Work| match (old, new) {
        (Work::Conditional(old), Work::Conditional(new)) => old.alike(new),
        _ => old.kind() == new.kind(),
    };
    if let Some((_, new)) = old.iter().zip(new).find(|(old, new)| !alike(&old.work, &new.work)) {
        return Err((crate::types::GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED, new.node));
    }
    let moved = old.iter().zip(new).find(|(old, new)| old.from != new.from);
    if old.len() != new.len() || moved.is_some() {
        return Err((crate::types::GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, moved.map_or(0, |(_, new)| new.node)));
    }
    old.iter()
        .zip(new)
        .flat_map(|(old, new)| old.inner.iter().zip(&new.inner))
        .try_for_each(|(old, new)| compare(old, new))
}

/// The nodes stay, their work is the other's.
pub(super) fn take_over(old: &mut [Item], new: Vec<Item>) {
    for (old, new) in old.iter_mut().zip(new) {
        old.work = new.work;
        for (old, new) in old.inner.iter_mut().zip(new.inner) {
            take_over(old, new);
        }
    }
}
