//! Conditional nodes: graphs inside that run once, again and again, or not at all, as a word says that kernels set.
//!
//! Owns conditions and what a launch puts on the tape for such a node: the bodies, each a template, and a CONDITIONAL,
//! so that the host decides and no iteration is a round trip. A condition is a word of device memory and its handle the
//! word's address; it belongs to the graph that it was made for and to the copies of that. What must be done by the
//! guest has no place in a body: host functions, events, memory of graphs (as with CUDA), and copies from and to memory
//! of the program that kernels do not reach.
//!
//! Source: CUDA programming guide, "Conditional Graph Nodes"; protos/tape.md, "Conditions".
#![allow(non_snake_case)] // C's names

use super::exec::Item;
use super::give;
use super::node::Work;
use super::state::{graph_handle, graph_id, state, Id, State};
use super::templates::Body;
use crate::managed;
use crate::memory::{self, GraphMemory};
use crate::types::{ConditionalHandle, GraphHandle, GraphNodeParams};
use session::call::{Error, Outcome};
use session::work::order::Stream;
use session::{log, process, work};
use std::ffi::{c_int, c_uint};
use std::sync::Arc;
use tape::generated_operations as operation;
use tape::{Writer, MAX_BODY_BYTES};

const ASSIGN_DEFAULT: c_uint = 1;
const WORD: u64 = 4;
/// No template: nothing is to be done.
const NOTHING: u32 = u32::MAX;
/// As many as a host follows (protos/tape.md).
const MAX_DEPTH: usize = 8;
const MAX_BODIES: u32 = 4096;

const IF: c_int = 0;
const WHILE: c_int = 1;
const SWITCH: c_int = 2;

/// See the module's comment.
#[derive(Debug)]
pub struct Condition {
    memory: Arc<GraphMemory>,
    /// What it is at the beginning of each launch.
    default: Option<u32>,
}

impl Condition {
    pub fn handle(&self) -> ConditionalHandle {
        self.memory.address() as u64
    }

    /// The record that gives it its value when a graph is launched.
    pub fn write_default(&self, w: &mut Writer, stream: u32) {
        if let Some(value) = self.default {
            operation::memset(w, self.handle(), WORD, WORD, 1, value, WORD as u32, stream);
        }
    }
}

/// What a conditional node does.
#[derive(Debug)]
pub struct ConditionalWork {
    condition: Arc<Condition>,
    kind: c_int,
    pub bodies: Vec<Id>,
    /// The same, as the program was given them.
    handles: Box<[GraphHandle]>,
}

// SAFETY: the handles are opaque numbers.
unsafe impl Send for ConditionalWork {}
// SAFETY: as above.
unsafe impl Sync for ConditionalWork {}

impl ConditionalWork {
    fn new(condition: Arc<Condition>, kind: c_int, bodies: Vec<Id>) -> Self {
        let handles = bodies.iter().map(|body| graph_handle(*body)).collect();
        Self { condition, kind, bodies, handles }
    }

    /// The same with copies of the bodies.
    pub fn with(&self, bodies: Vec<Id>) -> Self {
        Self::new(self.condition.clone(), self.kind, bodies)
    }

    /// Of the same shape, so that one may take the other's place in an executable graph.
    pub fn alike(&self, other: &Self) -> bool {
        (self.kind, self.bodies.len()) == (other.kind, other.bodies.len())
    }

    /// The words that `create` takes: the condition, the kind and how many bodies, the bodies.
    pub fn words(&self) -> [i64; 3] {
        let shape = i64::from(self.kind) | (self.handles.len() as i64) << 32;
        [self.condition.handle() as i64, shape, self.handles.as_ptr() as usize as i64]
    }

    /// A node's work, with new, empty bodies, whose handles the program gets.
    ///
    /// # Safety
    /// The parameters are those of a conditional node.
    pub unsafe fn create(params: &mut GraphNodeParams) -> Outcome<Work> {
        let [handle, shape, out, ..] = &mut params.reserved1;
        let (kind, size) = (*shape as c_int, (*shape as u64 >> 32) as u32);
        let most = match kind {
            IF => 2,
            WHILE => 1,
            SWITCH => MAX_BODIES,
            _ => 0,
        };
        if size == 0 || size > most {
            return Err(Error::INVALID_VALUE);
        }
        let mut state = state();
        let condition = state.condition(*handle as u64).ok_or(Error::INVALID_VALUE)?;
        let bodies = (0..size).map(|_| state.create(true)).collect();
        let work = Arc::new(Self::new(condition, kind, bodies));
        // The array lives as long as the node.
        *out = work.handles.as_ptr() as usize as i64;
        Ok(Work::Conditional(work))
    }
}

pub unsafe fn conditional_handle_create(
    pHandle_out: *mut ConditionalHandle,
    graph: GraphHandle,
    defaultLaunchValue: c_uint,
    flags: c_uint,
) -> Outcome {
    let graph = graph_id(graph)?;
    if pHandle_out.is_null() || flags & !ASSIGN_DEFAULT != 0 {
        return Err(Error::INVALID_VALUE);
    }
    state().graph(graph)?;
    if !process::device()?.description.has_conditions {
        log::error(format_args!("kernels of this device do not set conditions of graphs"));
        return Err(Error::NOT_SUPPORTED);
    }
    let default = (flags & ASSIGN_DEFAULT != 0).then_some(defaultLaunchValue);
    let condition = Arc::new(Condition { memory: GraphMemory::untold(WORD as usize)?, default });
    let handle = condition.handle();
    state().graph_mut(graph)?.conditions.push(condition);
    // SAFETY: not null; the program's promise.
    unsafe { give(pHandle_out, handle) }
}

/// The conditions of a graph and of all graphs inside.
pub fn conditions(state: &State, graph: Id, found: &mut Vec<Arc<Condition>>) -> Outcome {
    let graph = state.graph(graph)?;
    found.extend(graph.conditions.iter().cloned());
    for node in &graph.nodes {
        for inner in state.node(*node)?.work.inner() {
            conditions(state, *inner, found)?;
        }
    }
    Ok(())
}

/// Whether a conditional node's bodies can be put on the tape, and makes the program's pinned memory in them the
/// device's, too.
pub fn check(bodies: &[Vec<Item>], depth: usize) -> Outcome {
    if depth == MAX_DEPTH {
        log::error(format_args!("conditional nodes are nested more than {MAX_DEPTH} deep"));
        return Err(Error::NOT_SUPPORTED);
    }
    for item in bodies.iter().flatten() {
        match &item.work {
            Work::Empty | Work::Child(_) | Work::Kernel(_) | Work::Memset(_) => {}
            Work::Copy(copy) => memory::reach_ends(copy.to, copy.from)?,
            Work::Conditional(_) => check(&item.inner, depth + 1)?,
            other => {
                log::error(format_args!(
                    "a node of kind \"{}\" has no place in a conditional node's graph",
                    other.name()
                ));
                return Err(Error::NOT_SUPPORTED);
            }
        }
    }
    Ok(())
}

/// What a launch puts on the tape for one node.
#[derive(Debug)]
pub struct Branch {
    record: Vec<u8>,
    /// In an order in which each follows those that it contains.
    templates: Vec<Body>,
}

impl Branch {
    pub fn new(work: &ConditionalWork, bodies: &[Vec<Item>], stream: &Stream) -> Outcome<Self> {
        let (mut w, mut templates) = (Writer::new(), Vec::new());
        write(&mut w, work, bodies, stream.number, &mut templates)?;
        Ok(Self { record: w.as_slice().to_vec(), templates })
    }

    pub fn send(&mut self, stream: &Stream) -> Outcome {
        let _held = managed::hand_over()?;
        work::defer(stream, |w| {
            for template in &mut self.templates {
                template.give(w);
            }
            w.records(&self.record);
        })
    }
}

fn write(
    w: &mut Writer,
    work: &ConditionalWork,
    bodies: &[Vec<Item>],
    stream: u32,
    templates: &mut Vec<Body>,
) -> Outcome {
    let mut numbers = Vec::with_capacity(bodies.len() * 4);
    for items in bodies {
        let number = match body(items, stream, templates)? {
            None => NOTHING,
            Some(body) => {
                templates.push(body);
                templates.last().map_or(NOTHING, Body::number)
            }
        };
        numbers.extend_from_slice(&number.to_le_bytes());
    }
    operation::conditional(w, work.condition.handle(), stream, work.kind as u32, &numbers);
    Ok(())
}

/// One template of all of a body's records; of a long body it repeats templates of its parts. `None`: there is nothing
/// to do.
fn body(items: &[Item], stream: u32, templates: &mut Vec<Body>) -> Outcome<Option<Body>> {
    let mut parts: Vec<Vec<u8>> = Vec::new();
    for item in items.iter().filter(|item| item.enabled) {
        let mut w = Writer::new();
        match &item.work {
            Work::Kernel(kernel) => kernel.write(&mut w, stream)?,
            Work::Memset(set) => {
                if !memory::write_set(&mut w, set, stream)? {
                    return Err(Error::INVALID_VALUE);
                }
            }
            Work::Copy(copy) => {
                let (to, from) = (copy.to.now(&copy.extent), copy.from.now(&copy.extent));
                if !memory::write_copy(&mut w, to, from, copy.extent, stream) {
                    return Err(Error::NOT_SUPPORTED);
                }
            }
            Work::Conditional(inner) => write(&mut w, inner, &item.inner, stream, templates)?,
            _ => continue,
        }
        match parts.last_mut() {
            Some(part) if part.len() + w.len() <= MAX_BODY_BYTES => part.extend_from_slice(w.as_slice()),
            _ => parts.push(w.as_slice().to_vec()),
        }
    }
    if parts.len() > 1 {
        let mut w = Writer::new();
        for part in parts {
            let part = Body::new(part)?;
            operation::repeat(&mut w, part.number(), 1, false, &[]);
            templates.push(part);
        }
        parts = vec![w.as_slice().to_vec()];
    }
    parts.pop().map(Body::new).transpose()
}
