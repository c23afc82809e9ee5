//! The driver API's descriptions of rows, arrays, textures and surfaces.

use std::ffi::{c_int, c_uint, c_void};

use super::{CUarray, CUcontext, CUdeviceptr, CUmemorytype};

pub type CUmipmappedArray = crate::cudaMipmappedArray_t;
pub type CUtexObject = u64;
pub type CUsurfObject = u64;

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct CUDA_MEMCPY2D {
        pub srcXInBytes: usize,
        pub srcY: usize,
        pub srcMemoryType: CUmemorytype,
        pub srcHost: *const c_void,
        pub srcDevice: CUdeviceptr,
        pub srcArray: CUarray,
        pub srcPitch: usize,
        pub dstXInBytes: usize,
        pub dstY: usize,
        pub dstMemoryType: CUmemorytype,
        pub dstHost: *mut c_void,
        pub dstDevice: CUdeviceptr,
        pub dstArray: CUarray,
        pub dstPitch: usize,
        pub WidthInBytes: usize,
        pub Height: usize,
    }
}

c_struct! {
    /// As CUDA_MEMCPY3D, with contexts in the reserved places.
    #[derive(Clone, Copy, Debug)]
    pub struct CUDA_MEMCPY3D_PEER {
        pub srcXInBytes: usize,
        pub srcY: usize,
        pub srcZ: usize,
        pub srcLOD: usize,
        pub srcMemoryType: CUmemorytype,
        pub srcHost: *const c_void,
        pub srcDevice: CUdeviceptr,
        pub srcArray: CUarray,
        pub srcContext: CUcontext,
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
        pub dstContext: CUcontext,
        pub dstPitch: usize,
        pub dstHeight: usize,
        pub WidthInBytes: usize,
        pub Height: usize,
        pub Depth: usize,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct CUDA_ARRAY_DESCRIPTOR {
        pub Width: usize,
        pub Height: usize,
        pub Format: c_int,
        pub NumChannels: c_uint,
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct CUDA_ARRAY3D_DESCRIPTOR {
        pub Width: usize,
        pub Height: usize,
        pub Depth: usize,
        pub Format: c_int,
        pub NumChannels: c_uint,
        pub Flags: c_uint,
    }
}

/// Its union has a member for each kind of resource.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CUDA_RESOURCE_DESC {
    pub resType: c_int,
    pub res: CUDA_RESOURCE,
    pub flags: c_uint,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union CUDA_RESOURCE {
    /// An array's or a mipmapped array's handle.
    pub handle: usize,
    pub linear: CUDA_RESOURCE_LINEAR,
    pub pitch2D: CUDA_RESOURCE_PITCH2D,
    pub reserved: [c_int; 32],
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_RESOURCE_LINEAR {
    pub devPtr: CUdeviceptr,
    pub format: c_int,
    pub numChannels: c_uint,
    pub sizeInBytes: usize,
}

#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CUDA_RESOURCE_PITCH2D {
    pub devPtr: CUdeviceptr,
    pub format: c_int,
    pub numChannels: c_uint,
    pub width: usize,
    pub height: usize,
    pub pitchInBytes: usize,
}

const _: () = assert!(size_of::<CUDA_RESOURCE_DESC>() == 144, "as in cuda.h");

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct CUDA_TEXTURE_DESC {
        pub addressMode: [c_int; 3],
        pub filterMode: c_int,
        pub flags: c_uint,
        pub maxAnisotropy: c_uint,
        pub mipmapFilterMode: c_int,
        pub mipmapLevelBias: f32,
        pub minMipmapLevelClamp: f32,
        pub maxMipmapLevelClamp: f32,
        pub borderColor: [f32; 4],
        pub reserved: [c_int; 12],
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct CUDA_RESOURCE_VIEW_DESC {
        pub format: c_int,
        pub width: usize,
        pub height: usize,
        pub depth: usize,
        pub firstMipmapLevel: c_uint,
        pub lastMipmapLevel: c_uint,
        pub firstLayer: c_uint,
        pub lastLayer: c_uint,
        pub reserved: [c_uint; 16],
    }
}

c_struct! {
    #[derive(Clone, Copy, Debug, Default)]
    pub struct CUDA_ARRAY_MEMORY_REQUIREMENTS {
        pub size: usize,
        pub alignment: usize,
        pub reserved: [c_uint; 4],
    }
}
