//! Small values passed to and from functions, and the enumerations they use.

use std::ffi::{c_int, c_uint};

c_struct! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct dim3 {
        pub x: c_uint,
        pub y: c_uint,
        pub z: c_uint,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct uint3 {
        pub x: c_uint,
        pub y: c_uint,
        pub z: c_uint,
    }
}

pub type cudaChannelFormatKind = c_int;

c_struct! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct cudaChannelFormatDesc {
        pub x: c_int,
        pub y: c_int,
        pub z: c_int,
        pub w: c_int,
        pub f: cudaChannelFormatKind,
    }
}

pub type cudaDriverEntryPointQueryResult = c_int;

pub type cudaLimit = c_int;
pub const cudaLimitStackSize: cudaLimit = 0;
pub const cudaLimitPrintfFifoSize: cudaLimit = 1;
pub const cudaLimitMallocHeapSize: cudaLimit = 2;
pub const cudaLimitDevRuntimeSyncDepth: cudaLimit = 3;
pub const cudaLimitDevRuntimePendingLaunchCount: cudaLimit = 4;
pub const cudaLimitMaxL2FetchGranularity: cudaLimit = 5;
pub const cudaLimitPersistingL2CacheSize: cudaLimit = 6;

pub type cudaFuncCache = c_int;
pub const cudaFuncCachePreferNone: cudaFuncCache = 0;
pub const cudaFuncCachePreferShared: cudaFuncCache = 1;
pub const cudaFuncCachePreferL1: cudaFuncCache = 2;
pub const cudaFuncCachePreferEqual: cudaFuncCache = 3;

pub type cudaSharedMemConfig = c_int;
pub const cudaSharedMemBankSizeDefault: cudaSharedMemConfig = 0;
pub const cudaSharedMemBankSizeFourByte: cudaSharedMemConfig = 1;
pub const cudaSharedMemBankSizeEightByte: cudaSharedMemConfig = 2;

pub const cudaDeviceScheduleAuto: c_uint = 0;
pub const cudaDeviceScheduleMask: c_uint = 7;
pub const cudaDeviceMapHost: c_uint = 8;
pub const cudaDeviceLmemResizeToMax: c_uint = 0x10;
pub const cudaDeviceSyncMemops: c_uint = 0x80;
pub const cudaDeviceMask: c_uint = 0xff;

pub const cudaInitDeviceFlagsAreValid: c_uint = 1;

pub type cudaDeviceP2PAttr = c_int;
pub const cudaDevP2PAttrPerformanceRank: cudaDeviceP2PAttr = 1;
pub const cudaDevP2PAttrOnlyPartialNativeAtomicSupported: cudaDeviceP2PAttr = 5;

pub type cudaAtomicOperation = c_int;
pub type cudaFlushGPUDirectRDMAWritesTarget = c_int;
pub type cudaFlushGPUDirectRDMAWritesScope = c_int;
pub type cudaJitOption = c_int;
pub type cudaLibraryOption = c_int;

pub const cudaOccupancyDefault: c_uint = 0;
pub const cudaOccupancyDisableCachingOverride: c_uint = 1;

pub type cudaDevResourceType = c_int;
pub const cudaDevResourceTypeSm: cudaDevResourceType = 1;

/// A part of a device; its union as multiprocessors, which alone are described here.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cudaDevResource {
    pub type_: cudaDevResourceType,
    pub padding: [u8; 92],
    pub smCount: c_uint,
    pub minSmPartitionSize: c_uint,
    pub smCoscheduledAlignment: c_uint,
    pub flags: c_uint,
    pub localityDomainId: c_uint,
    pub rest: [u8; 20],
    pub nextResource: *mut Self,
}

const _: () = assert!(size_of::<cudaDevResource>() == 144);
