//! Memory that belongs to graphs: what their allocation nodes made.
//!
//! The address is minted, and the memory there, when the node is made; it ends with the last graph or executable graph that has the
//! node. So every launch finds it, as CUDA promises for the address; that it is held between launches too is allowed, and costs memory.
//! The program's own frees of it change nothing.

use super::allocate;
use crate::call::CudaResult;
use crate::work::{self, tracking};
use abi::CudaError;
use std::ffi::c_void;
use std::sync::Arc;
use tape::generated_operations as operation;

/// An allocation of a graph; it ends with this value.
#[derive(Debug)]
pub struct GraphMemory {
    address: u64,
    size: usize,
    epoch: u32,
    /// The program is told of it as memory of graphs.
    told: bool,
}

impl GraphMemory {
    pub fn allocate(size: usize) -> CudaResult<Arc<Self>> {
        if size == 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        let address = allocate(size)? as u64;
        let mut live = tracking()?.addresses.lock();
        live.of_graphs.insert(address, size as u64);
        live.graphs_high = live.graphs_high.max(live.of_graphs.values().sum());
        Ok(Arc::new(Self { address, size, epoch: crate::module::epoch(), told: true }))
    }

    /// Memory that the program does not know as such.
    pub fn untold(size: usize) -> CudaResult<Arc<Self>> {
        Ok(Arc::new(Self { address: allocate(size)? as u64, size, epoch: crate::module::epoch(), told: false }))
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
        if self.epoch != crate::module::epoch() {
            return; // the device was reset, the address may be somebody else's
        }
        let Ok(tracking) = tracking() else { return };
        let mut live = tracking.addresses.lock();
        let known = live.of_graphs.remove(&self.address).is_some();
        if (known || !self.told) && live.allocator.free(self.address).is_ok() {
            // A session that is over has freed it.
            let _ = work::append(|w| operation::free(w, self.address));
        }
    }
}

/// The address, for a node that frees memory of a graph.
pub fn free_of_graph(pointer: *mut c_void) -> CudaResult<u64> {
    let address = pointer as u64;
    let known = tracking()?.addresses.lock().of_graphs.contains_key(&address);
    known.then_some(address).ok_or(CudaError::INVALID_VALUE)
}

/// Bytes held by graphs now, and at most.
pub fn graph_memory_used() -> (u64, u64) {
    tracking().map_or((0, 0), |tracking| {
        let live = tracking.addresses.lock();
        (live.of_graphs.values().sum(), live.graphs_high)
    })
}

pub fn reset_graph_memory_high() {
    if let Ok(tracking) = tracking() {
        let mut live = tracking.addresses.lock();
        live.graphs_high = live.of_graphs.values().sum();
    }
}
