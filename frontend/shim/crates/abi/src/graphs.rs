//! Parameters of graph nodes, instantiation and updates.

use std::ffi::{c_int, c_longlong, c_uint, c_ulonglong, c_ushort, c_void};

use crate::{cudaGraphNode_t, cudaHostFn_t, cudaStream_t, dim3};

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaKernelNodeParams {
        pub func: *mut c_void,
        pub gridDim: dim3,
        pub blockDim: dim3,
        pub sharedMemBytes: c_uint,
        pub kernelParams: *mut *mut c_void,
        pub extra: *mut *mut c_void,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaMemsetParams {
        pub dst: *mut c_void,
        pub pitch: usize,
        pub value: c_uint,
        pub elementSize: c_uint,
        pub width: usize,
        pub height: usize,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaHostNodeParams {
        pub fn_: cudaHostFn_t,
        pub userData: *mut c_void,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct cudaMemLocation {
        pub type_: c_int,
        pub id: c_int,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct cudaMemcpyAttributes {
        pub srcAccessOrder: c_int,
        pub srcLocHint: cudaMemLocation,
        pub dstLocHint: cudaMemLocation,
        pub flags: c_uint,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaMemPoolProps {
        pub allocType: c_int,
        pub handleTypes: c_int,
        pub location: cudaMemLocation,
        pub win32SecurityAttributes: *mut c_void,
        pub maxSize: usize,
        pub usage: c_ushort,
        pub reserved: [u8; 54],
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct cudaMemAccessDesc {
        pub location: cudaMemLocation,
        pub flags: c_int,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaMemAllocNodeParams {
        pub poolProps: cudaMemPoolProps,
        pub accessDescs: *const cudaMemAccessDesc,
        pub accessDescCount: usize,
        pub bytesize: usize,
        pub dptr: *mut c_void,
    }
}

c_struct! {
    /// What cudaGraphAddNode takes; `parameters` begins with the kind's structure above (behind 16 bytes for a copy).
    #[derive(Clone, Copy, Debug)]
    pub struct cudaGraphNodeParams {
        pub type_: cudaGraphNodeType,
        pub reserved0: [c_int; 3],
        pub reserved1: [c_longlong; 29],
        pub reserved2: c_longlong,
    }
}

pub type cudaGraphNodeType = c_int;
pub const cudaGraphNodeTypeKernel: cudaGraphNodeType = 0;
pub const cudaGraphNodeTypeMemcpy: cudaGraphNodeType = 1;
pub const cudaGraphNodeTypeMemset: cudaGraphNodeType = 2;
pub const cudaGraphNodeTypeHost: cudaGraphNodeType = 3;
pub const cudaGraphNodeTypeGraph: cudaGraphNodeType = 4;
pub const cudaGraphNodeTypeEmpty: cudaGraphNodeType = 5;
pub const cudaGraphNodeTypeWaitEvent: cudaGraphNodeType = 6;
pub const cudaGraphNodeTypeEventRecord: cudaGraphNodeType = 7;
pub const cudaGraphNodeTypeMemAlloc: cudaGraphNodeType = 10;
pub const cudaGraphNodeTypeMemFree: cudaGraphNodeType = 11;
pub const cudaGraphNodeTypeConditional: cudaGraphNodeType = 13;

pub type cudaGraphConditionalHandle = u64;

pub type cudaGraphExecUpdateResult = c_int;
pub const cudaGraphExecUpdateSuccess: cudaGraphExecUpdateResult = 0;
pub const cudaGraphExecUpdateErrorTopologyChanged: cudaGraphExecUpdateResult = 2;
pub const cudaGraphExecUpdateErrorNodeTypeChanged: cudaGraphExecUpdateResult = 3;
pub const cudaGraphExecUpdateErrorNotSupported: cudaGraphExecUpdateResult = 6;

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaGraphExecUpdateResultInfo {
        pub result: cudaGraphExecUpdateResult,
        pub errorNode: cudaGraphNode_t,
        pub errorFromNode: cudaGraphNode_t,
    }
}

pub type cudaGraphInstantiateResult = c_int;
pub const cudaGraphInstantiateSuccess: cudaGraphInstantiateResult = 0;
pub const cudaGraphInstantiateError: cudaGraphInstantiateResult = 1;

pub const cudaGraphInstantiateFlagAutoFreeOnLaunch: c_ulonglong = 1;
pub const cudaGraphInstantiateFlagUpload: c_ulonglong = 2;
pub const cudaGraphInstantiateFlagUseNodePriority: c_ulonglong = 8;

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaGraphInstantiateParams {
        pub flags: c_ulonglong,
        pub uploadStream: cudaStream_t,
        pub errNode_out: cudaGraphNode_t,
        pub result_out: cudaGraphInstantiateResult,
    }
}

pub type cudaGraphMemAttributeType = c_int;
pub const cudaStreamAddCaptureDependencies: c_uint = 0;
pub const cudaStreamSetCaptureDependencies: c_uint = 1;
