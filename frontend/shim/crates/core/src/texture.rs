//! Family texture: skeleton.
#![allow(non_snake_case)]

use std::ffi::*;

use abi::*;

use crate::call::{CudaResult, DefaultStream};

pub unsafe fn cudaCreateChannelDesc(_x: c_int, _y: c_int, _z: c_int, _w: c_int, _f: cudaChannelFormatKind) -> cudaChannelFormatDesc {
    cudaChannelFormatDesc::default() // not yet
}
