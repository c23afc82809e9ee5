//! Opaque handles. Pointers on the C side; the shim mints its own values and never dereferences a program's.

use std::ffi::{c_int, c_void};

use crate::cudaError_t;

macro_rules! opaque {
    ($($handle:ident = $target:ident),* $(,)?) => {$(
        #[repr(C)]
        pub struct $target {
            _private: [u8; 0],
        }
        pub type $handle = *mut $target;
    )*};
}

opaque! {
    cudaStream_t = CUstream_st,
    cudaEvent_t = CUevent_st,
    cudaGraph_t = CUgraph_st,
    cudaGraphNode_t = CUgraphNode_st,
    cudaGraphExec_t = CUgraphExec_st,
    cudaUserObject_t = CUuserObject_st,
    cudaMemPool_t = CUmemPoolHandle_st,
    cudaFunction_t = CUfunc_st,
    cudaKernel_t = CUkern_st,
    cudaLibrary_t = CUlib_st,
    cudaArray_t = cudaArray,
    cudaMipmappedArray_t = cudaMipmappedArray,
}

pub type cudaArray_const_t = *const cudaArray;
pub type cudaMipmappedArray_const_t = *const cudaMipmappedArray;

pub type cudaHostFn_t = Option<unsafe extern "C" fn(userData: *mut c_void)>;
pub type cudaStreamCallback_t =
    Option<unsafe extern "C" fn(stream: cudaStream_t, status: cudaError_t, userData: *mut c_void)>;

/// The stream arguments that name the two default streams.
pub const cudaStreamLegacy: usize = 1;
pub const cudaStreamPerThread: usize = 2;

pub const cudaStreamDefault: u32 = 0;
pub const cudaStreamNonBlocking: u32 = 1;

pub const cudaEventDefault: u32 = 0;
pub const cudaEventBlockingSync: u32 = 1;
pub const cudaEventDisableTiming: u32 = 2;
pub const cudaEventInterprocess: u32 = 4;
pub const cudaEventRecordDefault: u32 = 0;
pub const cudaEventRecordExternal: u32 = 1;
pub const cudaEventWaitDefault: u32 = 0;
pub const cudaEventWaitExternal: u32 = 1;

pub type cudaStreamCaptureStatus = c_int;
pub const cudaStreamCaptureStatusNone: cudaStreamCaptureStatus = 0;
pub const cudaStreamCaptureStatusActive: cudaStreamCaptureStatus = 1;
pub const cudaStreamCaptureStatusInvalidated: cudaStreamCaptureStatus = 2;
pub type cudaStreamCaptureMode = c_int;
pub const cudaStreamCaptureModeGlobal: cudaStreamCaptureMode = 0;
pub const cudaStreamCaptureModeThreadLocal: cudaStreamCaptureMode = 1;
pub const cudaStreamCaptureModeRelaxed: cudaStreamCaptureMode = 2;
pub const cudaGraphKernelNodePortDefault: u8 = 0;
pub const cudaGraphKernelNodePortProgrammatic: u8 = 1;
pub const cudaGraphKernelNodePortLaunchCompletion: u8 = 2;
pub const cudaGraphDependencyTypeDefault: u8 = 0;
pub const cudaGraphDependencyTypeProgrammatic: u8 = 1;

c_struct! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct cudaGraphEdgeData {
        pub from_port: u8,
        pub to_port: u8,
        pub type_: u8,
        pub reserved: [u8; 5],
    }
}
