//! Copies of rows that are apart, as the driver takes them.
//!
//! Source: CUDA driver API, cuMemcpy2DAsync, CUDA_MEMCPY2D.

const HOST: u32 = 1; // CU_MEMORYTYPE_HOST
const DEVICE: u32 = 2; // CU_MEMORYTYPE_DEVICE

/// One side of a copy.
#[repr(C)]
#[derive(Default)]
pub(super) struct End {
    x: usize,
    y: usize,
    kind: u32,
    host: usize,
    device: u64,
    array: usize,
    pitch: usize,
}

impl End {
    pub(super) fn host(address: usize, pitch: usize) -> Self {
        Self { kind: HOST, host: address, pitch, ..Self::default() }
    }

    pub(super) fn device(address: u64, pitch: u64) -> Self {
        Self { kind: DEVICE, device: address, pitch: pitch as usize, ..Self::default() }
    }
}

/// CUDA_MEMCPY2D.
#[repr(C)]
pub(super) struct Box2D {
    source: End,
    destination: End,
    width: usize,
    height: usize,
}

impl Box2D {
    /// The pitch of a single row says nothing, but must not be smaller than the row.
    pub(super) fn new(mut source: End, mut destination: End, width: usize, height: usize) -> Self {
        if height == 1 {
            (source.pitch, destination.pitch) = (width, width);
        }
        Self { source, destination, width, height }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// prototypes.py has the same numbers, and a test compares those with cuda.h.
    #[test]
    fn the_structure_is_the_drivers() {
        assert_eq!((offset_of!(End, kind), offset_of!(End, host), offset_of!(End, device)), (16, 24, 32));
        assert_eq!((offset_of!(End, array), offset_of!(End, pitch)), (40, 48));
        assert_eq!((offset_of!(Box2D, destination), offset_of!(Box2D, width), size_of::<Box2D>()), (56, 112, 128));
    }
}
