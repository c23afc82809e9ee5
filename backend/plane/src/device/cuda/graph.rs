//! A CUDA graph of several iterations of a loop's body, which Python has instantiated (backend/device/gpu/work/graphs.py).
//!
//! Before each launch only the nodes are changed whose operands differ from their last ones. The driver copies parameters when it gets them,
//! so one buffer for each kernel serves all of its nodes. Launches already issued keep the parameters they were issued with.
//!
//! Python gives each node's structure, as the driver takes it, and where in it operands stand. A node of which other operands differ is
//! Python's to change.
//!
//! Source: CUDA driver API, "Graph Management" (cuGraphExecKernelNodeSetParams, cuGraphLaunch).

use super::kernel::Parameters;
use super::repeat::Table;
use super::Cuda;
use crate::device::direct::Direct;
use crate::device::work::Fault;
use std::sync::Arc;

/// operands[from..from + width] stand in the structure at `to`.
#[derive(Debug, Clone, Copy)]
pub struct Patch {
    pub from: usize,
    pub to: usize,
    pub width: usize,
}

/// What a node is to the driver.
pub enum Kind {
    /// Its operands are the parameters, which go into the buffer.
    Kernel(Parameters),
    Set,
    Copy,
}

/// A node. `told`: the operands that the driver has.
pub struct Node {
    pub handle: usize,
    pub kind: Kind,
    pub told: Vec<u8>,
    /// In words, as it has to be aligned.
    pub structure: Vec<u64>,
    pub patches: Vec<Patch>,
}

/// See the module's page.
pub struct Graph {
    pub direct: Arc<Direct>,
    pub cuda: Arc<Cuda>,
    pub executable: usize,
    /// The CUDA context.
    pub context: usize,
    pub nodes: Vec<Node>,
}

impl Graph {
    /// Launches it with the operands of the iterations from `first` on; a table for each node of an iteration. `Some`: nothing was launched,
    /// for this node is Python's to change.
    ///
    /// # Safety
    /// The tables are there and have these iterations.
    ///
    /// # Errors
    /// The driver's. Nothing was launched.
    pub unsafe fn launch(&mut self, operands: &[Table], first: usize, stream: usize) -> Result<Option<usize>, Fault> {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            let wanted = unsafe { operands[index % operands.len()].bytes(first + index / operands.len()) };
            if wanted == node.told {
                continue;
            }
            if !node.take(wanted) {
                return Ok(Some(index));
            }
            let (functions, structure) = (&self.cuda.functions, node.structure.as_ptr() as usize);
            match &node.kind {
                Kind::Kernel(_) => functions.change_kernel(self.executable, node.handle, structure),
                Kind::Set => functions.change_set(self.executable, node.handle, structure, self.context),
                Kind::Copy => functions.change_copy(self.executable, node.handle, structure, self.context),
            }?;
            node.told.copy_from_slice(wanted);
        }
        self.cuda.functions.launch_graph(self.executable, stream)?;
        self.direct.launched_graph();
        Ok(None)
    }
}

impl Node {
    /// Fills in the operands. False: others differ than those that can be filled in.
    fn take(&mut self, wanted: &[u8]) -> bool {
        if wanted.len() != self.told.len() {
            return false;
        }
        if let Kind::Kernel(buffer) = &self.kind {
            if wanted.len() != buffer.size {
                return false;
            }
            // SAFETY: Python has made the buffer for parameters of this size, and this session's thread alone uses it.
            unsafe { wanted.as_ptr().copy_to_nonoverlapping(buffer.address as *mut u8, wanted.len()) };
            return true;
        }
        let inside = |at: usize| self.patches.iter().any(|patch| (patch.from..patch.from + patch.width).contains(&at));
        if (0..wanted.len()).any(|at| wanted[at] != self.told[at] && !inside(at)) {
            return false;
        }
        let size = self.structure.len() * 8;
        // SAFETY: the words are ours, and bytes may have any value.
        let bytes = unsafe { std::slice::from_raw_parts_mut(self.structure.as_mut_ptr().cast::<u8>(), size) };
        for &Patch { from, to, width } in &self.patches {
            bytes[to..to + width].copy_from_slice(&wanted[from..from + width]);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_go_where_they_stand_in_the_structure() {
        let patches = vec![Patch { from: 0, to: 8, width: 8 }, Patch { from: 12, to: 2, width: 2 }];
        let mut node = Node { handle: 1, kind: Kind::Set, told: vec![0; 16], structure: vec![0; 2], patches };
        assert!(node.take(&[1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 9, 10, 0, 0]));
        assert_eq!(node.structure, [0x0A09 << 16, 0x0807_0605_0403_0201]);
        assert!(!node.take(&[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]), "no place for it");
        assert!(!node.take(&[0; 8]));
    }
}
