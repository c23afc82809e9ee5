//! Sets of the driver API: elements of 8, 16 and 32 bits.
//!
//! Source: CUDA driver API, "Memory Management".

use std::ffi::{c_uchar, c_uint, c_ushort};
use std::ptr;

use abi::driver::{CUdeviceptr, CUstream};
use operations::memory::{fill, Pattern};
use session::call::Outcome;
use session::function::DefaultStream;

/// The sets of one element: of a range and of rows, each with its twin in a stream.
macro_rules! sets {
    ($($range:ident $range_in_stream:ident $rows:ident $rows_in_stream:ident ($value:ident: $Value:ty);)*) => {$(
        pub unsafe fn $range(default: DefaultStream, dstDevice: CUdeviceptr, $value: $Value, N: usize) -> Outcome {
            fill(default, ptr::null_mut(), dstDevice, pattern($value), (N, 1, 0))
        }

        pub unsafe fn $range_in_stream(
            default: DefaultStream,
            dstDevice: CUdeviceptr,
            $value: $Value,
            N: usize,
            hStream: CUstream,
        ) -> Outcome {
            fill(default, hStream, dstDevice, pattern($value), (N, 1, 0))
        }

        pub unsafe fn $rows(
            default: DefaultStream,
            dstDevice: CUdeviceptr,
            dstPitch: usize,
            $value: $Value,
            Width: usize,
            Height: usize,
        ) -> Outcome {
            fill(default, ptr::null_mut(), dstDevice, pattern($value), (Width, Height, dstPitch))
        }

        pub unsafe fn $rows_in_stream(
            default: DefaultStream,
            dstDevice: CUdeviceptr,
            dstPitch: usize,
            $value: $Value,
            Width: usize,
            Height: usize,
            hStream: CUstream,
        ) -> Outcome {
            fill(default, hStream, dstDevice, pattern($value), (Width, Height, dstPitch))
        }
    )*};
}

sets! {
    cuMemsetD8_v2 cuMemsetD8Async cuMemsetD2D8_v2 cuMemsetD2D8Async (uc: c_uchar);
    cuMemsetD16_v2 cuMemsetD16Async cuMemsetD2D16_v2 cuMemsetD2D16Async (us: c_ushort);
    cuMemsetD32_v2 cuMemsetD32Async cuMemsetD2D32_v2 cuMemsetD2D32Async (ui: c_uint);
}

fn pattern<T: Into<u32>>(value: T) -> Pattern {
    Pattern { value: value.into(), size: size_of::<T>() as u32 }
}
