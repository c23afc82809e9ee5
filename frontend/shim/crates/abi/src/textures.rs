//! Descriptions of textures and surfaces.

use std::ffi::{c_int, c_uint};

use crate::cudaChannelFormatDesc;

pub type cudaTextureObject_t = u64;
pub type cudaSurfaceObject_t = u64;

pub const cudaChannelFormatKindSigned: c_int = 0;
pub const cudaChannelFormatKindUnsigned: c_int = 1;
pub const cudaChannelFormatKindFloat: c_int = 2;

pub const cudaArrayLayered: c_uint = 1;
pub const cudaArraySurfaceLoadStore: c_uint = 2;
pub const cudaArrayCubemap: c_uint = 4;
pub const cudaArrayTextureGather: c_uint = 8;

pub const cudaResourceTypeArray: c_int = 0;
pub const cudaResourceTypeMipmappedArray: c_int = 1;
pub const cudaResourceTypeLinear: c_int = 2;
pub const cudaResourceTypePitch2D: c_int = 3;

/// What CUDA 12 and 13 have in common of cudaResourceDesc: an array's handle or an address, and for addresses what
/// follows.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct cudaResourceDesc {
    pub resType: c_int,
    pub start: usize,
    pub desc: cudaChannelFormatDesc,
    /// Bytes of linear memory; texels of a row.
    pub width: usize,
    pub height: usize,
    pub pitchInBytes: usize,
}

/// What CUDA 12 and 13 have in common of it: 13 adds words that must be zero.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct cudaResourceViewDesc {
    /// cudaResourceViewFormat.
    pub format: c_int,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
    pub firstMipmapLevel: c_uint,
    pub lastMipmapLevel: c_uint,
    pub firstLayer: c_uint,
    pub lastLayer: c_uint,
}

c_struct! {
    #[derive(Clone, Copy, Debug)]
    pub struct cudaTextureDesc {
        pub addressMode: [c_int; 3],
        pub filterMode: c_int,
        pub readMode: c_int,
        pub sRGB: c_int,
        pub borderColor: [f32; 4],
        pub normalizedCoords: c_int,
        pub maxAnisotropy: c_uint,
        pub mipmapFilterMode: c_int,
        pub mipmapLevelBias: f32,
        pub minMipmapLevelClamp: f32,
        pub maxMipmapLevelClamp: f32,
        pub disableTrilinearOptimization: c_int,
        pub seamlessCubemap: c_int,
    }
}
