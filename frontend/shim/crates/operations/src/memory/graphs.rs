//! Memory that belongs to graphs: what their allocation nodes made.
//!
//! The address is minted when the node is made. The memory comes with the first launch that needs it, is the program's
//! from the launch of the allocation node until a free (by a node, `cudaFree` or `cudaFreeAsync`), and is kept behind
//! it for the next launch: until it is trimmed, until the last graph and executable graph that have the node end, or
//! until other memory has no room. Memory that the program has not freed when they end is an allocation like others
//! from then on.
//!
//! A node that follows the free of another one's memory is given the same address (`graph::nodes`), so a graph's memory
//! is that of its nodes that are alive at the same time. Graphs do not share memory with each other otherwise.
//!
//! Locking: behind the addresses' lock, like every allocation.
//! Source: CUDA programming guide, "Graph Memory Nodes".

use super::addresses::Live;
use super::allocate;
use crate::allocator::Refused;
use crate::memory::addresses;
use session::call::{Error, Outcome};
use session::{contexts, work};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::Arc;
use tape::generated_operations as operation;

/// What is known of one address.
#[derive(Debug)]
struct Entry {
    size: u64,
    /// The memory is there.
    backed: bool,
    /// A node has allocated it, and no node has freed it yet.
    live: bool,
    /// No graph has it any more.
    orphan: bool,
}

/// What the graphs' memory is.
#[derive(Debug, Default)]
pub struct OfGraphs {
    known: BTreeMap<u64, Entry>,
    high: u64,
}

impl OfGraphs {
    fn backed(&self) -> u64 {
        self.known.values().filter(|entry| entry.backed).map(|entry| entry.size).sum()
    }
}

/// What a launch does to memory of graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Allocate(u64),
    Free(u64),
}

/// Memory of an allocation node, or of several; it ends with this value.
#[derive(Debug)]
pub struct GraphMemory {
    address: u64,
    size: usize,
    /// The device's, when it was made.
    resets: u32,
    /// It is reported to the program as memory of graphs.
    reported: bool,
}

impl GraphMemory {
    pub fn reserve(size: usize) -> Outcome<Arc<Self>> {
        if size == 0 {
            return Err(Error::INVALID_VALUE);
        }
        let mut live = addresses()?.lock();
        let address = live.allocator.reserve(size as u64)?;
        let entry = Entry { size: size as u64, backed: false, live: false, orphan: false };
        live.of_graphs.known.insert(address, entry);
        live.disown(address);
        Ok(Arc::new(Self { address, size, resets: contexts::resets(), reported: true }))
    }

    /// Memory that the program does not know as such, there at once.
    pub fn untold(size: usize) -> Outcome<Arc<Self>> {
        let address = allocate(size)? as u64;
        addresses()?.lock().disown(address);
        Ok(Arc::new(Self { address, size, resets: contexts::resets(), reported: false }))
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn address(&self) -> *mut c_void {
        self.address as *mut c_void
    }
}

impl Drop for GraphMemory {
    fn drop(&mut self) {
        if self.resets != contexts::resets() {
            return; // the device was reset, the address may be somebody else's
        }
        let Ok(addresses) = addresses() else { return };
        let mut live = addresses.lock();
        if !self.reported {
            if live.allocator.free(self.address).is_ok() {
                // A session that is over has freed it.
                let _ = work::append(|w| operation::free(w, self.address));
            }
        } else if let Some(entry) = live.of_graphs.known.get_mut(&self.address) {
            entry.orphan = true;
            if !entry.live {
                end(&mut live, self.address);
            }
        }
    }
}

/// The memory goes, the address stays.
fn release(live: &mut Live, address: u64) {
    let Some(entry) = live.of_graphs.known.get_mut(&address) else { return };
    if std::mem::take(&mut entry.backed) && live.allocator.unback(address).is_ok() {
        // A session that is over has freed it.
        let _ = work::append(|w| operation::free(w, address));
    }
}

/// No work can use the memory any more.
fn end(live: &mut Live, address: u64) {
    release(live, address);
    if live.of_graphs.known.remove(&address).is_some() {
        let _ = live.allocator.free(address);
    }
}

/// Gives back what no graph uses now and no `needed` address has; whether that was anything.
fn trim_others(live: &mut Live, needed: &BTreeSet<u64>) -> bool {
    let idle = |(address, entry): &(&u64, &Entry)| entry.backed && !entry.live && !needed.contains(address);
    let idle: Vec<u64> = live.of_graphs.known.iter().filter(idle).map(|(address, _)| *address).collect();
    for address in &idle {
        release(live, *address);
    }
    !idle.is_empty()
}

/// Gives back what no graph uses now, because other memory has no room; whether that was anything.
pub fn trim(live: &mut Live) -> bool {
    trim_others(live, &BTreeSet::new())
}

pub fn trim_graph_memory() {
    if let Ok(addresses) = addresses() {
        trim(&mut addresses.lock());
    }
}

fn back(live: &mut Live, address: u64, needed: &BTreeSet<u64>) -> Outcome {
    let Some(entry) = live.of_graphs.known.get(&address).filter(|entry| !entry.backed) else { return Ok(()) };
    let size = entry.size;
    if live.allocator.back(address) == Err(Refused::OutOfMemory) {
        trim_others(live, needed);
        live.allocator.back(address)?;
    }
    if let Err(error) = work::append(|w| operation::allocate(w, address, size)) {
        live.allocator.unback(address)?;
        return Err(error);
    }
    if let Some(entry) = live.of_graphs.known.get_mut(&address) {
        entry.backed = true;
    }
    live.of_graphs.high = live.of_graphs.high.max(live.of_graphs.backed());
    Ok(())
}

/// A graph with these steps, in order, is launched. `again`: memory that its last launch has not freed is freed first.
///
/// # Errors
/// cudaErrorInvalidValue when memory would be allocated that was not freed, or freed that is not allocated;
/// cudaErrorMemoryAllocation. Then nothing has changed.
pub fn launch_steps(steps: &[Step], again: bool) -> Outcome {
    let mut live = addresses()?.lock();
    let mut states: BTreeMap<u64, bool> = BTreeMap::new();
    for step in steps {
        let (Step::Allocate(address) | Step::Free(address)) = *step;
        let entry = live.of_graphs.known.get(&address).ok_or(Error::INVALID_VALUE)?;
        let allocates = *step == Step::Allocate(address);
        // What the first step on an address finds is what the last launch has left.
        let before = *states.entry(address).or_insert(entry.live && !(again && allocates));
        if before == allocates {
            return Err(Error::INVALID_VALUE);
        }
        states.insert(address, allocates);
    }
    let needed: BTreeSet<u64> = states.keys().copied().collect();
    for address in &needed {
        back(&mut live, *address, &needed)?;
    }
    for (address, alive) in states {
        set_live(&mut live, address, alive);
    }
    Ok(())
}

fn set_live(live: &mut Live, address: u64, alive: bool) {
    let Some(entry) = live.of_graphs.known.get_mut(&address) else { return };
    entry.live = alive;
    if entry.orphan && !alive {
        end(live, address);
    }
}

/// The program frees the address outside of graphs; nothing when it is no memory of graphs.
pub fn free(live: &mut Live, address: u64) -> Option<Outcome> {
    if !live.of_graphs.known.get(&address)?.live {
        return Some(Err(Error::INVALID_VALUE));
    }
    set_live(live, address, false);
    Some(Ok(()))
}

/// The address, for a node that frees memory of a graph.
pub fn free_of_graph(pointer: *mut c_void) -> Outcome<u64> {
    let address = pointer as u64;
    let known = addresses()?.lock().of_graphs.known.contains_key(&address);
    known.then_some(address).ok_or(Error::INVALID_VALUE)
}

/// Bytes held by graphs now, and at most.
pub fn graph_memory_used() -> (u64, u64) {
    addresses().map_or((0, 0), |addresses| {
        let live = addresses.lock();
        (live.of_graphs.backed(), live.of_graphs.high)
    })
}

pub fn reset_graph_memory_high() {
    if let Ok(addresses) = addresses() {
        let mut live = addresses.lock();
        live.of_graphs.high = live.of_graphs.backed();
    }
}
