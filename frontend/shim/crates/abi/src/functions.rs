//! Launch configurations and function attributes.

use std::ffi::{c_int, c_uint, c_void};

use crate::{cudaStream_t, dim3};

pub type cudaLaunchAttributeID = c_int;
pub const cudaLaunchAttributeIgnore: cudaLaunchAttributeID = 0;
pub const cudaLaunchAttributeAccessPolicyWindow: cudaLaunchAttributeID = 1;
pub const cudaLaunchAttributeCooperative: cudaLaunchAttributeID = 2;
pub const cudaLaunchAttributeSynchronizationPolicy: cudaLaunchAttributeID = 3;
pub const cudaLaunchAttributeClusterDimension: cudaLaunchAttributeID = 4;
pub const cudaLaunchAttributeClusterSchedulingPolicyPreference: cudaLaunchAttributeID = 5;
pub const cudaLaunchAttributeProgrammaticStreamSerialization: cudaLaunchAttributeID = 6;
pub const cudaLaunchAttributeProgrammaticEvent: cudaLaunchAttributeID = 7;
pub const cudaLaunchAttributePriority: cudaLaunchAttributeID = 8;
pub const cudaLaunchAttributeMemSyncDomainMap: cudaLaunchAttributeID = 9;
pub const cudaLaunchAttributeMemSyncDomain: cudaLaunchAttributeID = 10;
pub const cudaLaunchAttributePreferredClusterDimension: cudaLaunchAttributeID = 11;
pub const cudaLaunchAttributeLaunchCompletionEvent: cudaLaunchAttributeID = 12;
pub const cudaLaunchAttributeDeviceUpdatableKernelNode: cudaLaunchAttributeID = 13;
pub const cudaLaunchAttributePreferredSharedMemoryCarveout: cudaLaunchAttributeID = 14;

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaAccessPolicyWindow {
        pub base_ptr: *mut c_void,
        pub num_bytes: usize,
        pub hitRatio: f32,
        pub hitProp: c_int,
        pub missProp: c_int,
    }
}

/// The value of a launch or stream attribute. `pad` covers all of it.
#[repr(C)]
#[derive(Clone, Copy)]
pub union cudaLaunchAttributeValue {
    pub pad: [u8; 64],
    pub accessPolicyWindow: cudaAccessPolicyWindow,
    pub cooperative: c_int,
    pub syncPolicy: c_int,
    pub clusterDim: dim3,
    pub clusterSchedulingPolicyPreference: c_int,
    pub programmaticStreamSerializationAllowed: c_int,
    pub priority: c_int,
    pub memSyncDomainMap: [u8; 2],
    pub memSyncDomain: c_int,
    pub preferredClusterDim: dim3,
    pub sharedMemCarveout: c_uint,
}

c_struct! {
    #[derive(Clone, Copy)]
    pub struct cudaLaunchAttribute {
        pub id: cudaLaunchAttributeID,
        pub pad: [u8; 4],
        pub val: cudaLaunchAttributeValue,
    }
}

c_struct! {
    #[derive(Clone, Copy)]
    pub struct cudaLaunchConfig_t {
        pub gridDim: dim3,
        pub blockDim: dim3,
        pub dynamicSmemBytes: usize,
        pub stream: cudaStream_t,
        pub attrs: *mut cudaLaunchAttribute,
        pub numAttrs: c_uint,
    }
}

pub type cudaFuncAttribute = c_int;
pub const cudaFuncAttributeMaxDynamicSharedMemorySize: cudaFuncAttribute = 8;
pub const cudaFuncAttributePreferredSharedMemoryCarveout: cudaFuncAttribute = 9;
pub const cudaFuncAttributeClusterDimMustBeSet: cudaFuncAttribute = 10;
pub const cudaFuncAttributeRequiredClusterWidth: cudaFuncAttribute = 11;
pub const cudaFuncAttributeRequiredClusterHeight: cudaFuncAttribute = 12;
pub const cudaFuncAttributeRequiredClusterDepth: cudaFuncAttribute = 13;
pub const cudaFuncAttributeNonPortableClusterSizeAllowed: cudaFuncAttribute = 14;
pub const cudaFuncAttributeClusterSchedulingPolicyPreference: cudaFuncAttribute = 15;

c_struct! {
    /// The same size in CUDA 12 and 13; 13.x took its later fields from `reserved`.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct cudaFuncAttributes {
        pub sharedSizeBytes: usize,
        pub constSizeBytes: usize,
        pub localSizeBytes: usize,
        pub maxThreadsPerBlock: c_int,
        pub numRegs: c_int,
        pub ptxVersion: c_int,
        pub binaryVersion: c_int,
        pub cacheModeCA: c_int,
        pub maxDynamicSharedSizeBytes: c_int,
        pub preferredShmemCarveout: c_int,
        pub clusterDimMustBeSet: c_int,
        pub requiredClusterWidth: c_int,
        pub requiredClusterHeight: c_int,
        pub requiredClusterDepth: c_int,
        pub clusterSchedulingPolicyPreference: c_int,
        pub nonPortableClusterSizeAllowed: c_int,
        pub reserved: [c_int; 16],
    }
}
