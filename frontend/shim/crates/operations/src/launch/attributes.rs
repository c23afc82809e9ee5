//! The attributes of cudaLaunchKernelExC: which change what a launch means, and which are advice.
//!
//! Advice (priorities, carve-outs, policies, permission to overlap with the launch before) is passed over: without it a
//! launch does the same, perhaps later. What would change its meaning and is not there yet is refused by name.

use crate::types::{
    Dim3, LaunchAttribute, LaunchAttributeID, LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
    LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
    LAUNCH_ATTRIBUTE_COOPERATIVE, LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE, LAUNCH_ATTRIBUTE_IGNORE,
    LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP,
    LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION, LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
    LAUNCH_ATTRIBUTE_PRIORITY, LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
    LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
};

/// What is left of the attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meaning {
    pub cooperative: bool,
    /// The cluster's extents, where they are given.
    pub cluster: Option<[u32; 3]>,
}

/// An attribute that is not supported; the text names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// Reads the attributes in order; a later one of a kind counts.
pub fn read(attributes: &[LaunchAttribute]) -> Result<Meaning, Refused> {
    let mut meaning = Meaning::default();
    for attribute in attributes {
        match attribute.id {
            // SAFETY: the id names the member.
            LAUNCH_ATTRIBUTE_COOPERATIVE => meaning.cooperative = unsafe { attribute.val.cooperative } != 0,
            LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION => {
                // SAFETY: as above.
                let Dim3 { x, y, z } = unsafe { attribute.val.clusterDim };
                meaning.cluster = Some([x, y, z]);
            }
            advice if is_advice(advice) => {}
            other => return Err(Refused(name(other))),
        }
    }
    Ok(meaning)
}

fn is_advice(id: LaunchAttributeID) -> bool {
    matches!(
        id,
        LAUNCH_ATTRIBUTE_IGNORE
            | LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW
            | LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY
            | LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            | LAUNCH_ATTRIBUTE_PRIORITY
            | LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP
            | LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN
            | LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION
            | LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
    )
}

fn name(id: LaunchAttributeID) -> String {
    match id {
        LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT => "the attribute ProgrammaticEvent".to_owned(),
        LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT => "the attribute LaunchCompletionEvent".to_owned(),
        LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE => "the attribute DeviceUpdatableKernelNode".to_owned(),
        other => format!("launch attribute {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::LaunchAttributeValue;

    fn attribute(id: LaunchAttributeID, val: LaunchAttributeValue) -> LaunchAttribute {
        LaunchAttribute { id, pad: [0; 4], val }
    }

    fn cluster(x: u32) -> LaunchAttribute {
        let mut val = LaunchAttributeValue { pad: [0; 64] };
        val.clusterDim = Dim3 { x, y: 1, z: 1 };
        attribute(LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, val)
    }

    fn cooperative(value: i32) -> LaunchAttribute {
        attribute(LAUNCH_ATTRIBUTE_COOPERATIVE, LaunchAttributeValue { cooperative: value })
    }

    #[test]
    fn advice_changes_nothing() {
        for id in 0..=14 {
            let zero = LaunchAttributeValue { pad: [0; 64] };
            let outcome = read(&[attribute(id, zero)]);
            // 2 is cooperative (0: not), 4 a cluster's shape, 7, 12 and 13 need events and graphs.
            let refused = matches!(id, 7 | 12 | 13);
            assert_eq!(outcome.is_err(), refused, "{id}");
            let cluster = (id == 4).then_some([0; 3]);
            assert_eq!(outcome.unwrap_or_default(), Meaning { cluster, ..Meaning::default() });
        }
    }

    #[test]
    fn what_changes_a_launch_is_read_or_refused() {
        let read_cluster = Some([2, 1, 1]);
        assert_eq!(read(&[cooperative(1), cluster(2)]), Ok(Meaning { cooperative: true, cluster: read_cluster }));
        assert_eq!(read(&[cooperative(1), cooperative(0)]), Ok(Meaning::default()));
        assert!(read(&[attribute(99, LaunchAttributeValue { pad: [0; 64] })]).is_err());
    }
}
