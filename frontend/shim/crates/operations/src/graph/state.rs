//! The graphs of the process: nodes, edges, handles.
//!
//! Owns what a `cudaGraph_t` and a `cudaGraphNode_t` mean. A graph is a list of nodes in the order in which they were
//! made; a node knows what it depends on. Numbers are never minted twice, so a destroyed handle stays invalid.
//! Executable graphs (`exec`) hold copies and do not follow later changes, as in CUDA.
//!
//! Locking: one mutex; `capture` takes it while holding its own, never the reverse. Dropping a node may append to the
//! tape (memory of allocation nodes), nothing else here does.

use super::conditional::Condition;
use super::node::Work;
use super::objects::retain_all;
use crate::types::{
    ConditionalHandle, GraphEdgeData, GraphHandle, GraphNodeHandle, GRAPH_DEPENDENCY_TYPE_DEFAULT,
    GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC, GRAPH_KERNEL_NODE_PORT_DEFAULT, GRAPH_KERNEL_NODE_PORT_LAUNCH_COMPLETION,
    GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
};
use session::call::{Error, Outcome};
use session::work::handle::{decode, encode, Tag};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

/// The number of a graph, a node or an executable graph.
pub type Id = u32;

const FIRST: Id = 16;

/// One node.
#[derive(Debug, Clone)]
pub struct Node {
    pub graph: Id,
    pub work: Work,
    /// What it waits for.
    pub from: Vec<Id>,
    /// What is said of such an edge, where it is not the plain one. Each is waited for wholly: stricter than asked for.
    pub edges: BTreeMap<Id, GraphEdgeData>,
    /// The node that this one was cloned from.
    pub origin: Option<Id>,
}

/// One graph.
#[derive(Debug, Default)]
pub struct Graph {
    /// In the order in which they were made.
    pub nodes: Vec<Id>,
    /// It belongs to a node of another graph, and ends with it.
    pub owned: bool,
    /// User objects and how often the graph holds them.
    pub objects: HashMap<Id, u32>,
    /// Of its conditional nodes.
    pub conditions: Vec<Arc<Condition>>,
}

/// See the module's comment.
#[derive(Debug, Default)]
pub struct State {
    next: Id,
    graphs: HashMap<Id, Graph>,
    nodes: HashMap<Id, Node>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(Mutex::default);

pub fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn graph_handle(id: Id) -> GraphHandle {
    encode(Tag::Graph, id) as GraphHandle
}

pub fn node_handle(id: Id) -> GraphNodeHandle {
    encode(Tag::GraphNode, id) as GraphNodeHandle
}

pub fn graph_id(handle: GraphHandle) -> Outcome<Id> {
    decode(Tag::Graph, handle as usize).ok_or(Error::INVALID_VALUE)
}

pub fn node_id(handle: GraphNodeHandle) -> Outcome<Id> {
    decode(Tag::GraphNode, handle as usize).ok_or(Error::INVALID_VALUE)
}

/// Counts what a graph inside has held.
fn hold(objects: &mut HashMap<Id, u32>, inner: &HashMap<Id, u32>) {
    for (object, count) in inner {
        *objects.entry(*object).or_default() += count;
    }
}

impl State {
    pub fn mint(&mut self) -> Id {
        self.next = self.next.max(FIRST - 1) + 1;
        self.next
    }

    pub fn create(&mut self, owned: bool) -> Id {
        let id = self.mint();
        self.graphs.insert(id, Graph { owned, ..Graph::default() });
        id
    }

    /// Graphs that belong to no other one, nor to an executable one.
    pub fn count(&self) -> usize {
        self.graphs.values().filter(|graph| !graph.owned).count()
    }

    pub fn graph(&self, id: Id) -> Outcome<&Graph> {
        self.graphs.get(&id).ok_or(Error::INVALID_VALUE)
    }

    pub fn graph_mut(&mut self, id: Id) -> Outcome<&mut Graph> {
        self.graphs.get_mut(&id).ok_or(Error::INVALID_VALUE)
    }

    pub fn node(&self, id: Id) -> Outcome<&Node> {
        self.nodes.get(&id).ok_or(Error::INVALID_VALUE)
    }

    pub fn node_mut(&mut self, id: Id) -> Outcome<&mut Node> {
        self.nodes.get_mut(&id).ok_or(Error::INVALID_VALUE)
    }

    /// The condition that a handle stands for.
    pub fn condition(&self, handle: ConditionalHandle) -> Option<Arc<Condition>> {
        let mut all = self.graphs.values().flat_map(|graph| &graph.conditions);
        all.find(|condition| condition.handle() == handle).cloned()
    }

    /// Adds a node that waits for nodes of the same graph.
    pub fn add(&mut self, graph: Id, work: Work, from: Vec<Id>) -> Outcome<Id> {
        self.graph(graph)?;
        let distinct: BTreeSet<Id> = from.iter().copied().collect();
        for &id in &from {
            if self.node(id)?.graph != graph {
                return Err(Error::INVALID_VALUE);
            }
        }
        if distinct.len() != from.len() {
            return Err(Error::INVALID_VALUE);
        }
        let id = self.mint();
        self.nodes.insert(id, Node { graph, work, from, edges: BTreeMap::new(), origin: None });
        self.graph_mut(graph)?.nodes.push(id);
        Ok(id)
    }

    /// What is said of the edge from one node to another.
    pub fn edge(&self, from: Id, to: Id) -> GraphEdgeData {
        self.nodes.get(&to).and_then(|node| node.edges.get(&from)).copied().unwrap_or_default()
    }

    /// Says it of a node's edges, all of them or none.
    pub fn describe(&mut self, to: Id, edges: &[(Id, GraphEdgeData)]) -> Outcome {
        edges.iter().try_for_each(|(from, data)| self.check_edge(*from, to, data))?;
        let node = self.node_mut(to)?;
        node.edges.extend(edges.iter().filter(|(_, data)| *data != GraphEdgeData::default()).copied());
        Ok(())
    }

    /// The same for a node that was just made, which goes again where an edge cannot be.
    pub fn describe_new(&mut self, node: Id, edges: &[(Id, GraphEdgeData)]) -> Outcome {
        self.describe(node, edges).inspect_err(|_| drop(self.remove(node)))
    }

    /// Whether there may be such an edge: ports and the programmatic type are those of kernels.
    pub fn check_edge(&self, from: Id, to: Id, data: &GraphEdgeData) -> Outcome {
        let kernel = |id| self.node(id).map(|node| matches!(node.work, Work::Kernel(_)));
        let allowed = match (data.from_port, data.type_) {
            (GRAPH_KERNEL_NODE_PORT_DEFAULT, GRAPH_DEPENDENCY_TYPE_DEFAULT) => true,
            (GRAPH_KERNEL_NODE_PORT_LAUNCH_COMPLETION, GRAPH_DEPENDENCY_TYPE_DEFAULT) => kernel(from)?,
            (
                GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC | GRAPH_KERNEL_NODE_PORT_LAUNCH_COMPLETION,
                GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC,
            ) => kernel(from)? && kernel(to)?,
            _ => false,
        };
        if !allowed || data.to_port != 0 || data.reserved != [0; 5] {
            return Err(Error::INVALID_VALUE);
        }
        Ok(())
    }

    /// Gives a graph to a new node of another one, which owns it from now on.
    pub fn give(&mut self, graph: Id, child: Id, from: Vec<Id>) -> Outcome<Id> {
        if self.graph(child)?.owned {
            return Err(Error::NOT_SUPPORTED);
        }
        if self.holds(child, graph) {
            return Err(Error::INVALID_VALUE);
        }
        let node = self.add(graph, Work::Child(child), from)?;
        self.graph_mut(child)?.owned = true;
        Ok(node)
    }

    /// Whether a graph is another one, or inside of it.
    fn holds(&self, outer: Id, graph: Id) -> bool {
        let nodes = self.graph(outer).map_or(&[][..], |outer| &outer.nodes);
        let works = nodes.iter().filter_map(|node| self.nodes.get(node));
        outer == graph || works.flat_map(|node| node.work.inner()).any(|inner| self.holds(*inner, graph))
    }

    /// Ends a node; what depended on it no longer does. Returns the user objects that graphs inside have held, too.
    pub fn remove(&mut self, id: Id) -> Outcome<(Node, HashMap<Id, u32>)> {
        let node = self.nodes.remove(&id).ok_or(Error::INVALID_VALUE)?;
        if let Some(graph) = self.graphs.get_mut(&node.graph) {
            graph.nodes.retain(|other| *other != id);
        }
        for other in self.nodes.values_mut().filter(|other| other.graph == node.graph) {
            other.from.retain(|from| *from != id);
            other.edges.remove(&id);
        }
        let mut objects = HashMap::new();
        for inner in node.work.inner() {
            hold(&mut objects, &self.destroy(*inner)?.objects);
        }
        Ok((node, objects))
    }

    /// Ends a graph, its nodes and the graphs inside, whose user objects it returns with its own.
    pub fn destroy(&mut self, id: Id) -> Outcome<Graph> {
        let mut graph = self.graphs.remove(&id).ok_or(Error::INVALID_VALUE)?;
        for node in &graph.nodes {
            for inner in self.nodes.remove(node).iter().flat_map(|node| node.work.inner()) {
                let inner = self.destroy(*inner)?;
                hold(&mut graph.objects, &inner.objects);
            }
        }
        Ok(graph)
    }

    /// Whether nodes of the graph, or of graphs inside, allocate or free memory.
    pub fn has_memory(&self, id: Id) -> Outcome<bool> {
        for node in &self.graph(id)?.nodes {
            let work = &self.node(*node)?.work;
            if matches!(work, Work::Allocate { .. } | Work::Free(_)) {
                return Ok(true);
            }
            for inner in work.inner() {
                if self.has_memory(*inner)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// A copy of a graph, the graphs inside included. It holds the user objects as often.
    pub fn copy(&mut self, id: Id, owned: bool) -> Outcome<Id> {
        let Graph { nodes, conditions, objects, .. } = self.graph(id)?;
        let (nodes, conditions, objects) = (nodes.clone(), conditions.clone(), objects.clone());
        retain_all(&objects)?;
        let copy = self.create(owned);
        let graph = self.graph_mut(copy)?;
        (graph.conditions, graph.objects) = (conditions, objects);
        let mut copies: HashMap<Id, Id> = HashMap::new();
        for node in &nodes {
            copies.insert(*node, self.mint());
        }
        for old in nodes {
            let mut node = self.node(old)?.clone();
            match &node.work {
                Work::Child(child) => node.work = Work::Child(self.copy(*child, true)?),
                Work::Conditional(conditional) => {
                    let bodies =
                        conditional.bodies.iter().map(|body| self.copy(*body, true)).collect::<Outcome<_>>()?;
                    node.work = Work::Conditional(Arc::new(conditional.with(bodies)));
                }
                _ => {}
            }
            (node.graph, node.origin) = (copy, Some(old));
            node.from = node.from.iter().filter_map(|from| copies.get(from).copied()).collect();
            node.edges = node.edges.iter().filter_map(|(from, data)| Some((*copies.get(from)?, *data))).collect();
            let new = copies[&old];
            self.nodes.insert(new, node);
            self.graph_mut(copy)?.nodes.push(new);
        }
        Ok(copy)
    }

    /// The nodes in an order in which each follows what it waits for; of several the one that was made first.
    ///
    /// # Errors
    /// cudaErrorInvalidValue when there is a cycle.
    pub fn ordered(&self, graph: Id) -> Outcome<Vec<Id>> {
        let nodes = &self.graph(graph)?.nodes;
        let place: HashMap<Id, usize> = nodes.iter().enumerate().map(|(place, id)| (*id, place)).collect();
        let mut waiting = vec![0; nodes.len()];
        let mut behind: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
        for (at, id) in nodes.iter().enumerate() {
            let from = &self.node(*id)?.from;
            waiting[at] = from.len();
            for from in from {
                behind[*place.get(from).ok_or(Error::INVALID_VALUE)?].push(at);
            }
        }
        let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|at| waiting[*at] == 0).collect();
        let mut ordered = Vec::with_capacity(nodes.len());
        while let Some(at) = ready.pop_first() {
            ordered.push(nodes[at]);
            for &next in &behind[at] {
                waiting[next] -= 1;
                if waiting[next] == 0 {
                    ready.insert(next);
                }
            }
        }
        if ordered.len() == nodes.len() {
            Ok(ordered)
        } else {
            Err(Error::INVALID_VALUE)
        }
    }

    /// Whether everything in `wanted` is among `tips` or what they wait for, over however many steps.
    pub fn reach(&self, tips: &[Id], wanted: &[Id]) -> bool {
        let (mut seen, mut open): (BTreeSet<Id>, Vec<Id>) = (BTreeSet::new(), tips.to_vec());
        while let Some(id) = open.pop() {
            if seen.insert(id) {
                open.extend(self.nodes.get(&id).into_iter().flat_map(|node| &node.from));
            }
        }
        wanted.iter().all(|id| seen.contains(id))
    }

    /// The edges of a graph, by their ends' order.
    pub fn edges(&self, graph: Id) -> Outcome<Vec<(Id, Id)>> {
        let mut edges = Vec::new();
        for &to in &self.graph(graph)?.nodes {
            edges.extend(self.node(to)?.from.iter().map(|from| (*from, to)));
        }
        Ok(edges)
    }

    /// Everything ends: the device was reset.
    pub fn clear(&mut self) {
        self.graphs.clear();
        self.nodes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(state: &mut State, graph: Id, from: &[Id]) -> Id {
        state.add(graph, Work::Empty, from.to_vec()).unwrap()
    }

    #[test]
    fn nodes_are_ordered_by_what_they_wait_for_and_then_by_age() {
        let mut state = State::default();
        let graph = state.create(false);
        let a = empty(&mut state, graph, &[]);
        let b = empty(&mut state, graph, &[a]);
        let c = empty(&mut state, graph, &[]);
        let d = empty(&mut state, graph, &[b, c]);
        assert_eq!(state.ordered(graph), Ok(vec![a, b, c, d]));
        state.node_mut(a).unwrap().from.push(c);
        assert_eq!(state.ordered(graph), Ok(vec![c, a, b, d]));
        assert!(state.reach(&[d], &[a, b, c, d]) && !state.reach(&[b], &[d]));
        state.node_mut(c).unwrap().from.push(d);
        assert_eq!(state.ordered(graph), Err(Error::INVALID_VALUE));
    }

    #[test]
    fn nodes_wait_only_for_nodes_of_their_graph_and_once() {
        let mut state = State::default();
        let (one, two) = (state.create(false), state.create(false));
        let a = empty(&mut state, one, &[]);
        for from in [vec![a], vec![9999], vec![a, a]] {
            let graph = if from.len() == 2 { one } else { two };
            assert_eq!(state.add(graph, Work::Empty, from), Err(Error::INVALID_VALUE));
        }
        assert_eq!(state.graph(two).unwrap().nodes, []);
    }

    #[test]
    fn copies_stand_alone_and_removing_leaves_no_edge() {
        let mut state = State::default();
        let (graph, inner) = (state.create(false), state.create(true));
        empty(&mut state, inner, &[]);
        let a = empty(&mut state, graph, &[]);
        let child = state.add(graph, Work::Child(inner), vec![a]).unwrap();
        let copy = state.copy(graph, false).unwrap();
        let copied = state.graph(copy).unwrap().nodes.clone();
        assert_eq!(state.edges(copy), Ok(vec![(copied[0], copied[1])]));
        assert_eq!(state.node(copied[1]).unwrap().origin, Some(child));
        state.remove(a).unwrap();
        assert_eq!((state.edges(graph), state.edges(copy).unwrap().len()), (Ok(vec![]), 1));
        state.destroy(graph).unwrap();
        assert!(state.graph(inner).is_err() && state.graph(copy).is_ok());
        state.destroy(copy).unwrap();
        assert!(state.nodes.is_empty() && state.graphs.is_empty());
    }
}
