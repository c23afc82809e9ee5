//! Modules, libraries, the linker and launches.

use std::ffi::{c_int, c_uint, c_void};

use super::CUstream;

#[repr(C)]
pub struct CUmod_st {
    _private: [u8; 0],
}
pub type CUmodule = *mut CUmod_st;

#[repr(C)]
pub struct CUlinkState_st {
    _private: [u8; 0],
}
pub type CUlinkState = *mut CUlinkState_st;

pub type CUfunction_attribute = crate::cudaFuncAttribute;
pub type CUfunctionLoadingState = c_int;
pub type CUjitInputType = c_int;
pub type CUjit_option = c_int;
pub type CUlaunchAttribute = crate::cudaLaunchAttribute;
pub type CUlibraryOption = c_int;
pub type CUmoduleLoadingMode = c_int;
pub type CUoccupancyB2DSize = Option<unsafe extern "C" fn(blockSize: c_int) -> usize>;

pub const CU_MODULE_EAGER_LOADING: CUmoduleLoadingMode = 1;
pub const CU_MODULE_LAZY_LOADING: CUmoduleLoadingMode = 2;

pub const CU_FUNCTION_LOADING_STATE_UNLOADED: CUfunctionLoadingState = 0;
pub const CU_FUNCTION_LOADING_STATE_LOADED: CUfunctionLoadingState = 1;

pub const CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE: CUlibraryOption = 0;
pub const CU_LIBRARY_BINARY_IS_PRESERVED: CUlibraryOption = 1;

pub const CU_JIT_INPUT_CUBIN: CUjitInputType = 0;
pub const CU_JIT_INPUT_PTX: CUjitInputType = 1;
pub const CU_JIT_INPUT_FATBINARY: CUjitInputType = 2;
pub const CU_JIT_INPUT_OBJECT: CUjitInputType = 3;
pub const CU_JIT_INPUT_LIBRARY: CUjitInputType = 4;
pub const CU_JIT_INPUT_NVVM: CUjitInputType = 5;

pub const CU_JIT_WALL_TIME: CUjit_option = 2;
pub const CU_JIT_LOG_VERBOSE: CUjit_option = 12;
pub const CU_JIT_INFO_LOG_BUFFER: CUjit_option = 3;
pub const CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES: CUjit_option = 4;
pub const CU_JIT_ERROR_LOG_BUFFER: CUjit_option = 5;
pub const CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES: CUjit_option = 6;

/// The entries of a launch's `extra` array: pairs of these and a pointer, until the end.
pub const CU_LAUNCH_PARAM_END: usize = 0;
pub const CU_LAUNCH_PARAM_BUFFER_POINTER: usize = 1;
pub const CU_LAUNCH_PARAM_BUFFER_SIZE: usize = 2;

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct CUlaunchConfig {
        pub gridDimX: c_uint,
        pub gridDimY: c_uint,
        pub gridDimZ: c_uint,
        pub blockDimX: c_uint,
        pub blockDimY: c_uint,
        pub blockDimZ: c_uint,
        pub sharedMemBytes: c_uint,
        pub hStream: CUstream,
        pub attrs: *mut CUlaunchAttribute,
        pub numAttrs: c_uint,
    }
}

c_struct! {
    /// Option CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE.
    #[derive(Clone, Copy, Debug)]
    pub struct CUlibraryHostUniversalFunctionAndDataTable {
        pub functionTable: *mut c_void,
        pub functionWindowSize: usize,
        pub dataTable: *mut c_void,
        pub dataWindowSize: usize,
    }
}
