//! The C types of the CUDA driver's ABI. Handles and structures that the runtime API has under another name are that type.
//!
//! Source: cuda.h of CUDA 12.0 to 13.5; the test `layout` compares every structure with a C compiler's.

use std::ffi::{c_int, c_uint, c_void};

mod graphs;

pub use crate::generated_driver_errors::RESULTS;
pub use graphs::*;

/// A result of the driver API, success included.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CUresult(pub c_int);

impl CUresult {
    pub const SUCCESS: Self = Self(0);
}

#[repr(C)]
pub struct CUctx_st {
    _private: [u8; 0],
}
pub type CUcontext = *mut CUctx_st;

pub type CUdevice = c_int;
pub type CUdeviceptr = u64;
pub type CUstream = crate::cudaStream_t;
pub type CUevent = crate::cudaEvent_t;
pub type CUgraph = crate::cudaGraph_t;
pub type CUgraphNode = crate::cudaGraphNode_t;
pub type CUgraphExec = crate::cudaGraphExec_t;
pub type CUuserObject = crate::cudaUserObject_t;
pub type CUmemoryPool = crate::cudaMemPool_t;
pub type CUfunction = crate::cudaFunction_t;
pub type CUkernel = crate::cudaKernel_t;
pub type CUlibrary = crate::cudaLibrary_t;

pub type CUhostFn = crate::cudaHostFn_t;
pub type CUuuid = crate::cudaUUID_t;
pub type CUDA_HOST_NODE_PARAMS = crate::cudaHostNodeParams;

pub type cuuint32_t = u32;
pub type cuuint64_t = u64;

pub type CUarray_format = c_int;
pub type CUatomicOperation = c_int;
pub type CUdevice_attribute = c_int;
pub type CUdevice_P2PAttribute = c_int;
pub type CUdriverProcAddressQueryResult = c_int;
pub type CUexecAffinityType = c_int;
pub type CUflushGPUDirectRDMAWritesScope = c_int;
pub type CUflushGPUDirectRDMAWritesTarget = c_int;
pub type CUfunc_cache = c_int;
pub type CUgraphMem_attribute = c_int;
pub type CUlimit = c_int;
pub type CUsharedconfig = c_int;
pub type CUstreamCaptureMode = c_int;
pub type CUstreamCaptureStatus = c_int;

pub const CU_GET_PROC_ADDRESS_SUCCESS: CUdriverProcAddressQueryResult = 0;
pub const CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND: CUdriverProcAddressQueryResult = 1;
pub const CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT: CUdriverProcAddressQueryResult = 2;

pub const CU_EXEC_AFFINITY_TYPE_SM_COUNT: CUexecAffinityType = 0;

/// Scheduling (bits 0 to 2), host mapping, local memory, core dumps, synchronous memory operations.
pub const CU_CTX_SCHED_MASK: c_uint = 7;
pub const CU_CTX_FLAGS_MASK: c_uint = 0xff;

c_struct! {
    #[derive(Clone, Copy, Debug, Default)]
    pub struct CUdevprop {
        pub maxThreadsPerBlock: c_int,
        pub maxThreadsDim: [c_int; 3],
        pub maxGridSize: [c_int; 3],
        pub sharedMemPerBlock: c_int,
        pub totalConstantMemory: c_int,
        pub SIMDWidth: c_int,
        pub memPitch: c_int,
        pub regsPerBlock: c_int,
        pub clockRate: c_int,
        pub textureAlign: c_int,
    }
}

c_struct! {
    /// The parameter is a union whose only member is the number of multiprocessors.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct CUexecAffinityParam {
        pub type_: CUexecAffinityType,
        pub param: c_uint,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct CUctxCreateParams {
        pub execAffinityParams: *mut CUexecAffinityParam,
        pub numExecAffinityParams: c_int,
        pub cigParams: *mut c_void,
    }
}
