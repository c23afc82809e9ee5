//! Tensor maps: 128 opaque bytes. CUDA leaves open what is in them; here it is what
//! `backend/jit/lowering/families/tensors/tensor_maps.py` reads.

use std::ffi::c_int;

pub type CUtensorMapDataType = c_int;
pub type CUtensorMapInterleave = c_int;
pub type CUtensorMapSwizzle = c_int;
pub type CUtensorMapL2promotion = c_int;
pub type CUtensorMapFloatOOBfill = c_int;
pub type CUtensorMapAllocClass = c_int;

pub const CU_TENSOR_MAP_ALLOC_CLASS_SMALL: CUtensorMapAllocClass = 1;
pub const CU_TENSOR_MAP_ALLOC_CLASS_LARGE: CUtensorMapAllocClass = 2;

pub const CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED: c_int = 127;

/// A tensor map. Headers align it to 64 or 128 bytes, by their version; programs may place it at any multiple of 64.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CUtensorMap {
    pub address: u64,
    pub magic: u32,
    pub rank: u8,
    pub data_type: u8,
    pub mode: u8,
    pub interleave: u8,
    pub swizzle: u8,
    pub fill: u8,
    pub promotion: u8,
    pub unused: u8,
    /// 2^32 is 0.
    pub sizes: [u32; 5],
    pub bounds: [u16; 5],
    pub element_strides: [u8; 5],
    pub unused_too: u8,
    pub strides: [u64; 4],
    pub lower: [i16; 3],
    pub upper: [i16; 3],
    pub pixels: u16,
    pub rest: [u8; 26],
}

impl CUtensorMap {
    /// What says that a map was made here.
    pub const MAGIC: u32 = 0x504D_5446;
    pub const TILED: u8 = 0;
    pub const IM2COL: u8 = 1;
}

const _: () = assert!(size_of::<CUtensorMap>() == 128);
