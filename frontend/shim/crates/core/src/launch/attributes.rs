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
            // SAFETY: as above.
            cudaLaunchAttributeClusterDimension => match unsafe { attribute.val.clusterDim } {
                dim3 { x: 1, y: 1, z: 1 } => {}
                _ => return Err(Refused("clusters of more than one block".to_owned())),
            },
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
            // 2 is cooperative (0: not), 4 a cluster of no block, 7, 12 and 13 need events and graphs.
            let refused = matches!(id, 4 | 7 | 12 | 13);
            assert_eq!(outcome.is_err(), refused, "{id}");
            assert_eq!(outcome.unwrap_or_default(), Meaning::default());
        }
    }

    #[test]
    fn what_changes_a_launch_is_read_or_refused() {
        assert_eq!(read(&[cooperative(1), cluster(1)]), Ok(Meaning { cooperative: true }));
        assert_eq!(read(&[cooperative(1), cooperative(0)]), Ok(Meaning { cooperative: false }));
        assert!(read(&[cluster(2)]).is_err());
        assert!(read(&[attribute(99, cudaLaunchAttributeValue { pad: [0; 64] })]).is_err());
    }
}
