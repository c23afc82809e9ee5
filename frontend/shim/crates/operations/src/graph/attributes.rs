//! Attributes of kernel nodes: what cudaLaunchKernelExC takes with a launch.
//!
//! A node keeps what it was given. What changes a launch's meaning counts as there, and what is not supported there is
//! refused here.
#![allow(non_snake_case)] // C's names

use super::node::Work;
use super::state::{node_id, state};
use crate::launch::{attributes, clusters};
use crate::types::{GraphNodeHandle, LaunchAttribute, LaunchAttributeID, LaunchAttributeValue};
use session::call::{Error, Outcome};
use session::log;
use std::collections::BTreeMap;
use std::sync::Arc;

/// By number, as they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes(BTreeMap<LaunchAttributeID, [u8; 64]>);

fn word(value: i32) -> [u8; 64] {
    let mut bytes = [0; 64];
    bytes[..4].copy_from_slice(&value.to_le_bytes());
    bytes
}

fn words(values: [u32; 3]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for (place, value) in bytes.chunks_exact_mut(4).zip(values) {
        place.copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

impl Attributes {
    pub fn of(cooperative: bool, cluster: Option<[u32; 3]>) -> Self {
        let cooperative = cooperative.then(|| (crate::types::LAUNCH_ATTRIBUTE_COOPERATIVE, word(1)));
        let cluster = cluster.map(|extents| (crate::types::LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, words(extents)));
        Self(cooperative.into_iter().chain(cluster).collect())
    }

    /// The extents of the launch's clusters, where they were given.
    pub fn cluster(&self) -> Option<[u32; 3]> {
        let value = self.0.get(&crate::types::LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)?;
        Some([0, 4, 8].map(|at| u32::from_le_bytes([value[at], value[at + 1], value[at + 2], value[at + 3]])))
    }

    pub fn cooperative(&self) -> bool {
        self.0.get(&crate::types::LAUNCH_ATTRIBUTE_COOPERATIVE).is_some_and(|value| value[..4] != [0; 4])
    }

    fn set(&mut self, id: LaunchAttributeID, value: LaunchAttributeValue) -> Outcome {
        let given = LaunchAttribute { id, pad: [0; 4], val: value };
        let meaning = attributes::read(&[given]).map_err(|refused| {
            log::error(format_args!("cudaGraphKernelNodeSetAttribute: {} is not supported yet", refused.0));
            Error::NOT_SUPPORTED
        })?;
        // Whether the grid is made of such clusters is seen when it is launched: either may change until then.
        clusters::Bounds { non_portable: true, ..clusters::Bounds::default() }.cluster(meaning.cluster)?;
        // SAFETY: it covers the union, every byte of which the caller has given.
        self.0.insert(id, unsafe { value.pad });
        Ok(())
    }

    /// What was set, else zeros: an attribute that was never set is off.
    fn get(&self, id: LaunchAttributeID) -> [u8; 64] {
        self.0.get(&id).copied().unwrap_or_else(|| match id {
            // One block in each direction.
            crate::types::LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => words([1; 3]),
            _ => [0; 64],
        })
    }
}

fn of(node: GraphNodeHandle) -> Outcome<Attributes> {
    match &state().node(node_id(node)?)?.work {
        Work::Kernel(kernel) => Ok(kernel.attributes.clone()),
        _ => Err(Error::INVALID_VALUE),
    }
}

fn give(node: GraphNodeHandle, attributes: Attributes) -> Outcome {
    let mut state = state();
    let node = state.node_mut(node_id(node)?)?;
    let Work::Kernel(kernel) = &node.work else { return Err(Error::INVALID_VALUE) };
    node.work = Work::Kernel(Arc::new(kernel.with(attributes)));
    Ok(())
}

pub unsafe fn kernel_node_get_attribute(
    hNode: GraphNodeHandle,
    attr: LaunchAttributeID,
    value_out: *mut LaunchAttributeValue,
) -> Outcome {
    let found = of(hNode)?.get(attr);
    // SAFETY: the program's promise.
    unsafe { super::give(value_out, LaunchAttributeValue { pad: found }) }
}

pub unsafe fn kernel_node_set_attribute(
    hNode: GraphNodeHandle,
    attr: LaunchAttributeID,
    value: *const LaunchAttributeValue,
) -> Outcome {
    // SAFETY: the program says that it is such a union, or null.
    let value = *unsafe { value.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    let mut attributes = of(hNode)?;
    attributes.set(attr, value)?;
    give(hNode, attributes)
}

pub unsafe fn kernel_node_copy_attributes(hDst: GraphNodeHandle, hSrc: GraphNodeHandle) -> Outcome {
    give(hDst, of(hSrc)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_kept_and_what_changes_a_launch_counts() {
        let mut attributes = Attributes::default();
        assert!(!attributes.cooperative());
        let value = |bytes| LaunchAttributeValue { pad: bytes };
        attributes.set(crate::types::LAUNCH_ATTRIBUTE_COOPERATIVE, value(word(1))).unwrap();
        attributes.set(crate::types::LAUNCH_ATTRIBUTE_PRIORITY, value(word(-3))).unwrap();
        assert!(attributes.cooperative());
        assert_eq!(attributes.get(crate::types::LAUNCH_ATTRIBUTE_PRIORITY), word(-3));
        assert_eq!(attributes.get(crate::types::LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN), [0; 64]);
        assert_eq!(
            attributes.get(crate::types::LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)[..12],
            [1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]
        );
        attributes.set(crate::types::LAUNCH_ATTRIBUTE_COOPERATIVE, value(word(0))).unwrap();
        assert_eq!(attributes.cooperative(), Attributes::of(false, None).cooperative());
        assert_eq!(attributes.cluster(), None);
        attributes.set(crate::types::LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value(words([2, 4, 1]))).unwrap();
        assert_eq!(attributes.cluster(), Some([2, 4, 1]));
        for cluster in [[0; 3], [17, 1, 1]] {
            let refused = attributes.set(crate::types::LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, value(words(cluster)));
            assert_eq!(refused, Err(Error::INVALID_CLUSTER_SIZE));
        }
        assert_eq!(Attributes::of(true, Some([2, 1, 1])).cluster(), Some([2, 1, 1]));
    }
}
