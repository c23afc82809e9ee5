//! Executable graphs: what a launch puts on the tape.
//!
//! A graph is instantiated into its nodes' work in an order that respects every edge (graphs inside are put in their node's place), and for
//! each stream that it is launched into, a plan: stretches of records (`templates`), and between them what cannot be recorded once: copies
//! to and from the guest's memory, which are made anew at each launch, host functions, which run when the stream has got that far,
//! and records of events. The plan runs in one stream, so branches that could run side by side follow each other: always right.
//!
//! Locking: an executable graph's own lock is held while it is launched.
//! Source: CUDA runtime API, "Graph Management"; CUDA programming guide, "CUDA Graphs".

use super::allocations;
use super::conditional::{self, Branch, Condition};
use super::node::{CopyWork, Work};
use super::objects;
use super::state::{node_id, state, Id, State};
use super::templates::{Records, MAX_BODY};
use crate::event::{self, Event};
use crate::memory::{self, Step, Wait};
use crate::stream::held;
use crate::stream::memory_operations::{self, Batch};
use crate::types::{GraphExecHandle, GraphNodeHandle, HostNodeParams};
use session::call::{Error, Outcome};
use session::work::handle::{decode, encode, Tag};
use session::work::order::Stream;
use session::{contexts, output, work};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use tape::Writer;

/// Streams for which plans are kept.
const MAX_PLANS: usize = 8;

/// How far a launch has come: the part, and in a part of memory operations the operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Position {
    segment: usize,
    operation: usize,
}

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

/// A part of a launch.
#[derive(Debug)]
enum Segment {
    Records(Records),
    Copy(Arc<CopyWork>),
    Host(HostNodeParams),
    EventRecord(Arc<Event>),
    EventWait(Arc<Event>),
    Branch(Branch),
    MemoryOperations(Arc<Batch>),
}

// SAFETY: see `Work`.
unsafe impl Send for Segment {}

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

/// The items of a graph, behind those that are there already.
fn flatten(state: &State, graph: Id, items: &mut Vec<Item>) -> Outcome {
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

fn find(items: &mut [Item], node: Id) -> Option<&mut Item> {
    items.iter_mut().find_map(|item| {
        if item.node == node {
            return Some(item);
        }
        item.inner.iter_mut().find_map(|body| find(body, node))
    })
}

/// Whether two graphs' items have the same shape, bodies included. Otherwise: why not, and the node of the new one.
fn compare(old: &[Item], new: &[Item]) -> Result<(), (crate::types::GraphExecUpdateResult, Id)> {
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
fn take_over(old: &mut [Item], new: Vec<Item>) {
    for (old, new) in old.iter_mut().zip(new) {
        old.work = new.work;
        for (old, new) in old.inner.iter_mut().zip(new.inner) {
            take_over(old, new);
        }
    }
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
    let synchronized = held::settle_all().and_then(|()| work::synchronize_device());
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

    /// The word that a launch which has come so far waits for.
    pub fn awaited(&self, position: Position) -> Option<u64> {
        self.plans.values().find_map(|plan| match plan.get(position.segment)? {
            Segment::MemoryOperations(batch) => batch.operations.get(position.operation)?.awaited(),
            _ => None,
        })
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

    fn plan(&self, stream: &Stream) -> Outcome<Vec<Segment>> {
        let mut plan: Vec<Segment> = Vec::new();
        let mut defaults = Writer::new();
        for condition in &self.conditions {
            condition.write_default(&mut defaults, stream.number);
        }
        if !defaults.is_empty() {
            plan.push(Segment::Records(Records::new(defaults.as_slice().to_vec())));
        }
        for item in self.items.iter().filter(|item| item.enabled) {
            let mut w = Writer::new();
            match &item.work {
                Work::Empty | Work::Child(_) | Work::Allocate { .. } | Work::Free(_) => continue,
                Work::Kernel(kernel) => kernel.write(&mut w, stream.number)?,
                Work::Memset(set) => {
                    if !memory::write_set(&mut w, set, stream.number)? {
                        return Err(Error::INVALID_VALUE);
                    }
                }
                Work::Copy(copy) => {
                    if !memory::write_copy(&mut w, copy.to, copy.from, copy.extent, stream.number) {
                        plan.push(Segment::Copy(copy.clone()));
                        continue;
                    }
                }
                Work::Host(host) => {
                    plan.push(Segment::Host(*host));
                    continue;
                }
                Work::EventRecord(event) => {
                    plan.push(Segment::EventRecord(event.clone()));
                    continue;
                }
                Work::EventWait(event) => {
                    plan.push(Segment::EventWait(event.clone()));
                    continue;
                }
                Work::MemoryOperations(operations) => {
                    plan.push(Segment::MemoryOperations(operations.clone()));
                    continue;
                }
                Work::Conditional(conditional) => {
                    plan.push(Segment::Branch(Branch::new(conditional, &item.inner, stream)?));
                    continue;
                }
            }
            match plan.last_mut() {
                Some(Segment::Records(records)) if records.len() + w.len() <= MAX_BODY => records.append(w.as_slice()),
                _ => plan.push(Segment::Records(Records::new(w.as_slice().to_vec()))),
            }
        }
        Ok(plan)
    }

    /// Launches the graph, or what is left of it where a part has to wait (`held`).
    ///
    /// # Safety
    /// Host memory that the graph copies from or to is there until the stream is synchronized.
    pub unsafe fn launch(&mut self, stream: &Arc<Stream>) -> Outcome {
        if held::blocks(stream) {
            held::add_launch(stream, self.snapshot(), Position::default());
            return Ok(());
        }
        // SAFETY: the caller's promise.
        if let Some(position) = unsafe { self.launch_from(stream, Position::default()) }? {
            held::add_launch(stream, self.snapshot(), position);
        }
        Ok(())
    }

    /// Does the parts of a launch from the position on, up to one that has to wait: its position.
    ///
    /// # Safety
    /// As above.
    pub unsafe fn launch_from(&mut self, stream: &Arc<Stream>, from: Position) -> Outcome<Option<Position>> {
        let _acting = stream.act();
        // A default stream is every context's, and each context has functions of its own.
        let place = (stream.number, contexts::epoch());
        if !self.plans.contains_key(&place) {
            let plan = self.plan(stream)?;
            if self.plans.len() >= MAX_PLANS {
                self.plans.clear();
            }
            self.plans.insert(place, plan);
        }
        let begins = (from.segment, from.operation) == (0, 0);
        if begins && !self.steps.is_empty() {
            memory::launch_steps(
                &self.steps,
                self.flags & crate::types::GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH != 0,
            )?;
        }
        let mut operation = from.operation;
        for (at, segment) in self.plans.get_mut(&place).into_iter().flatten().enumerate().skip(from.segment) {
            let first = std::mem::take(&mut operation);
            match segment {
                Segment::Records(records) => {
                    records.send(stream)?;
                    output::graph_launched();
                }
                // SAFETY: the caller's promise.
                Segment::Copy(copy) => unsafe { memory::copy(stream, copy.to, copy.from, copy.extent, Wait::Never) }?,
                Segment::Host(host) => {
                    // After an error of the context CUDA does not call it.
                    work::synchronize_stream(stream)?;
                    output::synchronized();
                    if let Some(function) = host.fn_ {
                        // SAFETY: the program says that it is such a function.
                        unsafe { function(host.userData) };
                    }
                }
                Segment::EventRecord(event) => event::record_in(event, stream)?,
                Segment::EventWait(event) if held::holds_record(event) => {
                    return Ok(Some(Position { segment: at, operation: 0 }));
                }
                Segment::EventWait(event) => event::wait_in(event, stream)?,
                Segment::MemoryOperations(operations) => {
                    if let Some(stopped) = memory_operations::run(stream, &operations.operations, first)? {
                        return Ok(Some(Position { segment: at, operation: stopped }));
                    }
                }
                Segment::Branch(branch) => {
                    branch.send(stream)?;
                    output::graph_launched();
                }
            }
        }
        Ok(None)
    }
}
