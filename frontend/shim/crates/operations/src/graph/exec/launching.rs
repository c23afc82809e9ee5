//! Launches of an executable graph: the plan of a stream, and how a launch goes through it.
//!
//! A launch that has to wait (`held`) goes on later from a position.

use super::Exec;
use crate::event::{self, Event};
use crate::graph::conditional::Branch;
use crate::graph::node::{CopyWork, Work};
use crate::graph::templates::Records;
use crate::memory::{self, Wait};
use crate::stream::held;
use crate::stream::memory_operations::{self, Batch};
use crate::types::HostNodeParams;
use session::call::{Error, Outcome};
use session::work::order::Stream;
use session::{contexts, output, work};
use std::sync::Arc;
use tape::{Writer, MAX_BODY_BYTES};

/// Streams for which plans are kept.
const MAX_PLANS: usize = 8;

/// How far a launch has come: the part, and in a part of memory operations the operation.
#[derive(Debug, Clone, Copy, Default)]
pub struct Position {
    segment: usize,
    operation: usize,
}

/// A part of a launch.
#[derive(Debug)]
pub(super) enum Segment {
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

impl Exec {
    /// The word that a launch which has come so far waits for.
    pub fn awaited(&self, position: Position) -> Option<u64> {
        self.plans.values().find_map(|plan| match plan.get(position.segment)? {
            Segment::MemoryOperations(batch) => batch.operations.get(position.operation)?.awaited(),
            _ => None,
        })
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
                Some(Segment::Records(records)) if records.len() + w.len() <= MAX_BODY_BYTES => {
                    records.append(w.as_slice())
                }
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
