//! Executable graphs: what a launch puts on the tape.
//!
//! A graph is instantiated into its nodes' work in an order that respects every edge (graphs inside are put in their
//! node's place), and for each stream that it is launched into, a plan: segments of records (`templates`), and between
//! them what cannot be recorded once: copies to and from the guest's memory, which are made anew at each launch, host
//! functions, which run when the stream has got that far, and records of events. The plan runs in one stream, so
//! branches that could run side by side follow each other: always right.
//!
//! Rooms: `items` (the work of the nodes), `launching` (plans and launches).
//!
//! Locking: an executable graph's own lock is held while it is launched.
//! Source: CUDA runtime API, "Graph Management"; CUDA programming guide, "CUDA Graphs".

mod items;
mod launching;

pub use items::Item;
pub use launching::Position;

use super::allocations;
use super::conditional::{self, Condition};
use super::node::Work;
use super::objects;
use super::state::{node_id, state, Id};
use crate::event::Event;
use crate::memory::Step;
use crate::stream::held;
use crate::types::{GraphExecHandle, GraphNodeHandle};
use items::{compare, find, flatten, take_over};
use launching::Segment;
use session::call::{Error, Outcome};
use session::work;
use session::work::handle::{decode, encode, Tag};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// See the module's comment.
#[derive(Debug)]
pub struct Exec {
    pub items: Vec<Item>,
    pub flags: u64,
    /// The graph that a child node made of this one would hold.
    pub graph: Id,
    conditions: Vec<Arc<Condition>>,
    /// What a launch does to memory of graphs.
    steps: Vec<Step>,
    plans: HashMap<(u32, u32), Vec<Segment>>,
}

static EXECS: LazyLock<Mutex<HashMap<Id, Arc<Mutex<Exec>>>>> = LazyLock::new(Mutex::default);

fn execs() -> MutexGuard<'static, HashMap<Id, Arc<Mutex<Exec>>>> {
    EXECS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn exec_id(handle: GraphExecHandle) -> Outcome<Id> {
    decode(Tag::GraphExec, handle as usize).ok_or(Error::INVALID_VALUE)
}

/// Calls with the executable graph that the program means.
pub fn with<T>(handle: GraphExecHandle, call: impl FnOnce(&mut Exec) -> Outcome<T>) -> Outcome<T> {
    let found = execs().get(&exec_id(handle)?).cloned().ok_or(Error::INVALID_VALUE)?;
    let mut exec = found.lock().unwrap_or_else(PoisonError::into_inner);
    call(&mut exec)
}

/// The number in a handle, alive or not.
pub fn number(handle: GraphExecHandle) -> Outcome<Id> {
    let id = exec_id(handle)?;
    execs().contains_key(&id).then_some(id).ok_or(Error::INVALID_VALUE)
}

/// Makes an executable graph of a graph as it is now.
pub fn instantiate(graph: Id, flags: u64) -> Outcome<GraphExecHandle> {
    let state = state();
    let mut items = Vec::new();
    flatten(&state, graph, &mut items)?;
    let mut conditions = Vec::new();
    conditional::conditions(&state, graph, &mut conditions)?;
    drop(state);
    for item in &items {
        conditional::check(&item.inner, 0)?;
    }
    let mut state = self::state();
    let graph = state.copy(graph, true)?;
    let id = state.mint();
    drop(state);
    let (steps, plans) = (allocations::steps(&items), HashMap::new());
    execs().insert(id, Arc::new(Mutex::new(Exec { items, flags, graph, conditions, steps, plans })));
    Ok(encode(Tag::GraphExec, id) as GraphExecHandle)
}

pub fn destroy(handle: GraphExecHandle) -> Outcome {
    let exec = execs().remove(&exec_id(handle)?).ok_or(Error::INVALID_VALUE)?;
    let graph = exec.lock().unwrap_or_else(PoisonError::into_inner).graph;
    let held = state().destroy(graph)?.objects;
    if held.is_empty() {
        return Ok(());
    }
    // Launches may still use what the objects stand for.
    let synchronized = held::complete_all().and_then(|()| work::synchronize_device());
    objects::release_all(&held);
    synchronized
}

/// How many there are.
pub fn count() -> usize {
    execs().len()
}

/// The device was reset: there are none.
pub fn clear() {
    execs().clear();
}

impl Exec {
    /// One node, launched once.
    pub fn of(work: Work) -> Self {
        let (from, inner) = Default::default();
        let items = vec![Item { node: 0, work, enabled: true, from, inner, follow: 0 }];
        let (flags, graph, conditions, steps, plans) = Default::default();
        Self { items, flags, graph, conditions, steps, plans }
    }

    /// As it is now, to be launched later.
    pub fn snapshot(&self) -> Self {
        Self {
            items: self.items.clone(),
            flags: self.flags,
            graph: self.graph,
            conditions: self.conditions.clone(),
            steps: self.steps.clone(),
            plans: HashMap::new(),
        }
    }

    fn works(&self) -> impl Iterator<Item = &Work> {
        self.items.iter().filter(|item| item.enabled).map(|item| &item.work)
    }

    /// The events that a launch records.
    pub fn recorded(&self) -> Vec<Arc<Event>> {
        let event = |work: &Work| if let Work::EventRecord(event) = work { Some(event.clone()) } else { None };
        self.works().filter_map(event).collect()
    }

    /// The numbers of the events that a launch waits for.
    pub fn waited(&self) -> Vec<u32> {
        let number = |work: &Work| if let Work::EventWait(event) = work { Some(event.number) } else { None };
        self.works().filter_map(number).collect()
    }

    /// Whether a launch records the event or waits for it.
    pub fn mentions(&self, event: &Event) -> bool {
        let named = |work: &Work| matches!(work, Work::EventRecord(other) | Work::EventWait(other) if other.number == event.number);
        self.works().any(named)
    }

    /// Changes the work of a node; what it is stays. Copies and memsets must have one dimension, before and after.
    pub fn replace(&mut self, node: GraphNodeHandle, work: Work) -> Outcome {
        let item = self.item(node)?;
        if item.work.kind() != work.kind() || !item.work.is_linear() || !work.is_linear() {
            return Err(Error::INVALID_VALUE);
        }
        item.work = work.instead_of(&item.work);
        self.steps = allocations::steps(&self.items);
        self.plans.clear();
        Ok(())
    }

    pub fn item(&mut self, node: GraphNodeHandle) -> Outcome<&mut Item> {
        let id = node_id(node)?;
        find(&mut self.items, id).ok_or(Error::INVALID_VALUE)
    }

    /// A node takes part in launches, or does nothing.
    pub fn enable(&mut self, node: GraphNodeHandle, enabled: bool) -> Outcome {
        let item = self.item(node)?;
        if !matches!(item.work, Work::Kernel(_) | Work::Memset(_) | Work::Copy(_)) {
            return Err(Error::INVALID_VALUE);
        }
        item.enabled = enabled;
        self.plans.clear();
        Ok(())
    }

    /// Takes over the work of a graph of the same shape. Otherwise: why not, and the node of the new graph.
    pub fn update(&mut self, graph: Id) -> Result<(), (crate::types::GraphExecUpdateResult, Id)> {
        let state = state();
        let mut items = Vec::new();
        if flatten(&state, graph, &mut items).is_err() {
            return Err((crate::types::GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 0));
        }
        let mut conditions = Vec::new();
        if conditional::conditions(&state, graph, &mut conditions).is_err() {
            return Err((crate::types::GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, 0));
        }
        drop(state);
        compare(&self.items, &items)?;
        if let Some(item) = items.iter().find(|item| conditional::check(&item.inner, 0).is_err()) {
            return Err((crate::types::GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED, item.node));
        }
        take_over(&mut self.items, items);
        self.steps = allocations::steps(&self.items);
        self.conditions = conditions;
        self.plans.clear();
        Ok(())
    }

    /// Takes over the work of a graph that has the shape of the one inside a node.
    pub fn replace_child(&mut self, node: GraphNodeHandle, graph: Id) -> Outcome {
        let id = node_id(node)?;
        let inside = |item: &Item| item.node == id && matches!(item.work, Work::Child(_));
        let at = self.items.iter().position(inside).ok_or(Error::INVALID_VALUE)?;
        let (first, end) = (at + 1, at + 1 + self.items[at].follow);
        // Behind the same items, so that places among them are the same.
        let mut items = self.items[..first].to_vec();
        flatten(&state(), graph, &mut items)?;
        let items = items.split_off(first);
        compare(&self.items[first..end], &items).map_err(|_| Error::INVALID_VALUE)?;
        for item in &items {
            conditional::check(&item.inner, 0)?;
        }
        take_over(&mut self.items[first..end], items);
        self.steps = allocations::steps(&self.items);
        self.plans.clear();
        Ok(())
    }
}
