//! The texture family: not supported, but for the description of a channel, which needs no texture.

use std::ffi::c_int;

use abi::{cudaChannelFormatDesc, cudaChannelFormatKind};

pub unsafe fn cudaCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    f: cudaChannelFormatKind,
) -> cudaChannelFormatDesc {
    cudaChannelFormatDesc { x, y, z, w, f }
}
