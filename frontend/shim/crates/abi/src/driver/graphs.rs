//! Parameters of graph nodes and of memory operations of streams, as the driver API has them.

use std::ffi::{c_int, c_uint, c_void};

use super::{CUarray, CUcontext, CUdeviceptr, CUfunction, CUkernel, CUmemorytype, CUresult, CUstream};

#[repr(C)]
pub struct CUgreenCtx_st {
    _private: [u8; 0],
}
pub type CUgreenCtx = *mut CUgreenCtx_st;

pub type CUgraphConditionalHandle = crate::cudaGraphConditionalHandle;
pub type CUgraphEdgeData = crate::cudaGraphEdgeData;
pub type CUgraphExecUpdateResult = crate::cudaGraphExecUpdateResult;
pub type CUgraphExecUpdateResultInfo = crate::cudaGraphExecUpdateResultInfo;
pub type CUgraphNodeParams = crate::cudaGraphNodeParams;
pub type CUgraphNodeType = crate::cudaGraphNodeType;
pub type CUkernelNodeAttrID = crate::cudaLaunchAttributeID;
pub type CUkernelNodeAttrValue = crate::cudaLaunchAttributeValue;
pub type CUstreamAttrID = crate::cudaLaunchAttributeID;
pub type CUstreamAttrValue = crate::cudaLaunchAttributeValue;
pub type CUstreamCallback = Option<unsafe extern "C" fn(hStream: CUstream, status: CUresult, userData: *mut c_void)>;
pub type CUDA_GRAPH_INSTANTIATE_PARAMS = crate::cudaGraphInstantiateParams;
pub type CUDA_KERNEL_NODE_PARAMS_v1 = crate::cudaKernelNodeParams;
pub type CUDA_MEMSET_NODE_PARAMS = crate::cudaMemsetParams;
pub type CUDA_MEM_ALLOC_NODE_PARAMS = crate::cudaMemAllocNodeParams;

pub const CU_MEMORYTYPE_HOST: CUmemorytype = 1;
pub const CU_MEMORYTYPE_DEVICE: CUmemorytype = 2;
pub const CU_MEMORYTYPE_ARRAY: CUmemorytype = 3;
pub const CU_MEMORYTYPE_UNIFIED: CUmemorytype = 4;

pub const CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: CUgraphNodeType = 12;

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct CUDA_KERNEL_NODE_PARAMS {
        pub func: CUfunction,
        pub gridDimX: c_uint,
        pub gridDimY: c_uint,
        pub gridDimZ: c_uint,
        pub blockDimX: c_uint,
        pub blockDimY: c_uint,
        pub blockDimZ: c_uint,
        pub sharedMemBytes: c_uint,
        pub kernelParams: *mut *mut c_void,
        pub extra: *mut *mut c_void,
        pub kern: CUkernel,
        pub ctx: CUcontext,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct CUDA_MEMCPY3D {
        pub srcXInBytes: usize,
        pub srcY: usize,
        pub srcZ: usize,
        pub srcLOD: usize,
        pub srcMemoryType: CUmemorytype,
        pub srcHost: *const c_void,
        pub srcDevice: CUdeviceptr,
        pub srcArray: CUarray,
        pub reserved0: *mut c_void,
        pub srcPitch: usize,
        pub srcHeight: usize,
        pub dstXInBytes: usize,
        pub dstY: usize,
        pub dstZ: usize,
        pub dstLOD: usize,
        pub dstMemoryType: CUmemorytype,
        pub dstHost: *mut c_void,
        pub dstDevice: CUdeviceptr,
        pub dstArray: CUarray,
        pub reserved1: *mut c_void,
        pub dstPitch: usize,
        pub dstHeight: usize,
        pub WidthInBytes: usize,
        pub Height: usize,
        pub Depth: usize,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct CUDA_MEMCPY_NODE_PARAMS {
        pub flags: c_int,
        pub reserved: c_int,
        pub copyCtx: CUcontext,
        pub copyParams: CUDA_MEMCPY3D,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct CUDA_BATCH_MEM_OP_NODE_PARAMS {
        pub ctx: CUcontext,
        pub count: c_uint,
        pub paramArray: *mut CUstreamBatchMemOpParams,
        pub flags: c_uint,
    }
}

/// A union of structures that all begin with the operation; a wait or a write goes on with an address, a value and
/// flags.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CUstreamBatchMemOpParams {
    pub operation: c_int,
    /// Of barriers and flushes.
    pub flags: c_uint,
    pub address: CUdeviceptr,
    pub value: u64,
    /// Of waits and writes.
    pub value_flags: c_uint,
    pub alias: CUdeviceptr,
    pub pad: u64,
}

pub const CU_STREAM_MEM_OP_WAIT_VALUE_32: c_int = 1;
pub const CU_STREAM_MEM_OP_WRITE_VALUE_32: c_int = 2;
pub const CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES: c_int = 3;
pub const CU_STREAM_MEM_OP_WAIT_VALUE_64: c_int = 4;
pub const CU_STREAM_MEM_OP_WRITE_VALUE_64: c_int = 5;
pub const CU_STREAM_MEM_OP_BARRIER: c_int = 6;
pub const CU_STREAM_WAIT_VALUE_FLUSH: c_uint = 1 << 30;
pub const CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER: c_uint = 1;
