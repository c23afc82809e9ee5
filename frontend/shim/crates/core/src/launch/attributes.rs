//! The attributes of cudaLaunchKernelExC: which change what a launch means, and which are advice.
//!
//! Advice (priorities, carve-outs, policies, permission to overlap with the launch before) is passed over: without it a
//! launch does the same, perhaps later. What would change its meaning and is not there yet is refused by name.

use abi::{
    cudaLaunchAttribute, cudaLaunchAttributeAccessPolicyWindow, cudaLaunchAttributeClusterDimension,
    cudaLaunchAttributeClusterSchedulingPolicyPreference, cudaLaunchAttributeCooperative,
    cudaLaunchAttributeDeviceUpdatableKernelNode, cudaLaunchAttributeID, cudaLaunchAttributeIgnore,
    cudaLaunchAttributeLaunchCompletionEvent, cudaLaunchAttributeMemSyncDomain, cudaLaunchAttributeMemSyncDomainMap,
    cudaLaunchAttributePreferredClusterDimension, cudaLaunchAttributePreferredSharedMemoryCarveout,
    cudaLaunchAttributePriority, cudaLaunchAttributeProgrammaticEvent,
    cudaLaunchAttributeProgrammaticStreamSerialization, cudaLaunchAttributeSynchronizationPolicy, dim3,
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
pub fn read(attributes: &[cudaLaunchAttribute]) -> Result<Meaning, Refused> {
    let mut meaning = Meaning::default();
    for attribute in attributes {
        match attribute.id {
            // SAFETY: the id names the member.
            cudaLaunchAttributeCooperative => meaning.cooperative = unsafe { attribute.val.cooperative } != 0,
            cudaLaunchAttributeClusterDimension => {
                // SAFETY: as above.
                let dim3 { x, y, z } = unsafe { attribute.val.clusterDim };
                meaning.cluster = Some([x, y, z]);
            }
            advice if is_advice(advice) => {}
            other => return Err(Refused(name(other))),
        }
    }
    Ok(meaning)
}

fn is_advice(id: cudaLaunchAttributeID) -> bool {
    matches!(
        id,
        cudaLaunchAttributeIgnore
            | cudaLaunchAttributeAccessPolicyWindow
            | cudaLaunchAttributeSynchronizationPolicy
            | cudaLaunchAttributeClusterSchedulingPolicyPreference
            | cudaLaunchAttributeProgrammaticStreamSerialization
            | cudaLaunchAttributePriority
            | cudaLaunchAttributeMemSyncDomainMap
            | cudaLaunchAttributeMemSyncDomain
            | cudaLaunchAttributePreferredClusterDimension
            | cudaLaunchAttributePreferredSharedMemoryCarveout
    )
}

fn name(id: cudaLaunchAttributeID) -> String {
    match id {
        cudaLaunchAttributeProgrammaticEvent => "the attribute ProgrammaticEvent".to_owned(),
        cudaLaunchAttributeLaunchCompletionEvent => "the attribute LaunchCompletionEvent".to_owned(),
        cudaLaunchAttributeDeviceUpdatableKernelNode => "the attribute DeviceUpdatableKernelNode".to_owned(),
        other => format!("launch attribute {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use abi::cudaLaunchAttributeValue;

    fn attribute(id: cudaLaunchAttributeID, val: cudaLaunchAttributeValue) -> cudaLaunchAttribute {
        cudaLaunchAttribute { id, pad: [0; 4], val }
    }

    fn cluster(x: u32) -> cudaLaunchAttribute {
        let mut val = cudaLaunchAttributeValue { pad: [0; 64] };
        val.clusterDim = dim3 { x, y: 1, z: 1 };
        attribute(cudaLaunchAttributeClusterDimension, val)
    }

    fn cooperative(value: i32) -> cudaLaunchAttribute {
        attribute(cudaLaunchAttributeCooperative, cudaLaunchAttributeValue { cooperative: value })
    }

    #[test]
    fn advice_changes_nothing() {
        for id in 0..=14 {
            let zero = cudaLaunchAttributeValue { pad: [0; 64] };
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
        assert!(read(&[attribute(99, cudaLaunchAttributeValue { pad: [0; 64] })]).is_err());
    }
}
