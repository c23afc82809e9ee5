//! The C types of the CUDA driver's ABI. Handles and structures that the runtime API has under another name are that
//! type.
//!
//! Source: cuda.h of CUDA 12.0 to 13.5; the test `layout` compares every structure with a C compiler's.

use std::ffi::{c_int, c_uchar, c_uint, c_ushort, c_void};

mod graphs;
mod modules;
mod tensors;

pub use crate::generated_driver_errors::RESULTS;
pub use graphs::*;
pub use modules::*;
pub use tensors::*;

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

pub type CUmemAccessDesc = crate::cudaMemAccessDesc;
pub type CUmemGenericAllocationHandle = u64;
pub type CUmemLocation = crate::cudaMemLocation;
pub type CUmemcpyAttributes = crate::cudaMemcpyAttributes;
pub type CUDA_MEMCPY3D_BATCH_OP = crate::cudaMemcpy3DBatchOp;

pub type CUdevResource = crate::cudaDevResource;
pub type CUdevResourceType = crate::cudaDevResourceType;

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
pub type CUmemAllocationGranularity_flags = c_int;
pub type CUmemAllocationHandleType = c_int;
pub type CUmemAllocationType = c_int;
pub type CUsharedconfig = c_int;
pub type CUstreamCaptureMode = c_int;
pub type CUstreamCaptureStatus = c_int;

pub const CU_GET_PROC_ADDRESS_SUCCESS: CUdriverProcAddressQueryResult = 0;
pub const CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND: CUdriverProcAddressQueryResult = 1;
pub const CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT: CUdriverProcAddressQueryResult = 2;

pub const CU_MEM_ALLOCATION_TYPE_PINNED: CUmemAllocationType = 1;
pub const CU_MEM_ALLOC_GRANULARITY_RECOMMENDED: CUmemAllocationGranularity_flags = 1;
pub const CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR: CUmemAllocationHandleType = 1;
/// CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, _WIN32, _WIN32_KMT and _FABRIC.
pub const CU_MEM_HANDLE_TYPES: CUmemAllocationHandleType = 15;
/// CU_MEM_CREATE_USAGE_TILE_POOL and _HW_DECOMPRESS.
pub const CU_MEM_CREATE_USAGES: c_ushort = 3;
/// CU_MEM_LOCATION_TYPE_DEVICE, _HOST, _HOST_NUMA and _HOST_NUMA_CURRENT.
pub const CU_MEM_LOCATION_TYPE_DEVICE: c_int = 1;
pub const CU_MEM_LOCATION_TYPE_HOST: c_int = 2;
pub const CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT: c_int = 4;

pub const CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: CUdevice_attribute = 102;

pub const CU_EXEC_AFFINITY_TYPE_SM_COUNT: CUexecAffinityType = 0;

/// Scheduling (bits 0 to 2), host mapping, local memory, core dumps, synchronous memory operations.
pub const CU_CTX_SCHED_MASK: c_uint = 7;

pub const CU_LIMIT_SHMEM_SIZE: CUlimit = 7;
pub const CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED: CUlimit = 9;
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

pub type CUmemPoolProps = crate::cudaMemPoolProps;
pub type CUmemAccess_flags = c_int;
pub type CUmemPool_attribute = c_int;
pub type CUmem_advise = c_int;
pub type CUmem_range_attribute = c_int;
pub type CUpointer_attribute = c_int;

mod arrays;

pub use arrays::*;

pub type CUarray = crate::cudaArray_t;
pub type CUmemorytype = c_int;
c_struct! {
    /// allocFlags is a structure without a name: compression, access by other devices, usage (2 bytes), reserved.
    #[derive(Clone, Copy, Debug)]
    pub struct CUmemAllocationProp {
        pub type_: CUmemAllocationType,
        pub requestedHandleTypes: CUmemAllocationHandleType,
        pub location: CUmemLocation,
        pub win32HandleMetaData: *mut c_void,
        pub allocFlags: [c_uchar; 8],
    }
}
