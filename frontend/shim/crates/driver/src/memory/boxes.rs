//! Copies of rows, boxes and one-dimensional arrays, all as one CUDA_MEMCPY3D (`copies` has what it means).
//!
//! Source: CUDA driver API, "Memory Management".

use std::ffi::c_void;
use std::ptr;

use abi::driver::{
    CUarray, CUdeviceptr, CUmemorytype, CUstream, CUDA_MEMCPY2D, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER,
    CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST,
};
use operations::memory::{memcpy_3d, memcpy_3d_async};
use session::call::{Error, Outcome};
use session::function::DefaultStream;

use crate::{contexts, copies};

unsafe fn wait(default: DefaultStream, given: &CUDA_MEMCPY3D) -> Outcome {
    let parameters = copies::parameters(given)?;
    // SAFETY: a structure of ours; what it points to is the program's promise.
    unsafe { memcpy_3d(default, &parameters) }
}

unsafe fn in_stream(default: DefaultStream, given: &CUDA_MEMCPY3D, stream: CUstream) -> Outcome {
    let parameters = copies::parameters(given)?;
    // SAFETY: as above.
    unsafe { memcpy_3d_async(default, &parameters, stream) }
}

/// A box of nothing: no memory at either end.
fn empty() -> CUDA_MEMCPY3D {
    // SAFETY: an all-zero value of this C structure is valid.
    unsafe { std::mem::zeroed() }
}

/// Rows are a box of one slice.
fn of_rows(given: &CUDA_MEMCPY2D) -> CUDA_MEMCPY3D {
    CUDA_MEMCPY3D {
        srcXInBytes: given.srcXInBytes,
        srcY: given.srcY,
        srcMemoryType: given.srcMemoryType,
        srcHost: given.srcHost,
        srcDevice: given.srcDevice,
        srcArray: given.srcArray,
        srcPitch: given.srcPitch,
        dstXInBytes: given.dstXInBytes,
        dstY: given.dstY,
        dstMemoryType: given.dstMemoryType,
        dstHost: given.dstHost,
        dstDevice: given.dstDevice,
        dstArray: given.dstArray,
        dstPitch: given.dstPitch,
        WidthInBytes: given.WidthInBytes,
        Height: given.Height,
        Depth: 1,
        ..empty()
    }
}

/// The contexts must be alive: those of a process share the device's addresses.
fn of_peers(given: &CUDA_MEMCPY3D_PEER) -> Outcome<CUDA_MEMCPY3D> {
    contexts::living(given.srcContext)?;
    contexts::living(given.dstContext)?;
    // SAFETY: the same structure but for the contexts, which stand in reserved places.
    let mut plain = unsafe { ptr::from_ref(given).cast::<CUDA_MEMCPY3D>().read() };
    (plain.reserved0, plain.reserved1) = (ptr::null_mut(), ptr::null_mut());
    Ok(plain)
}

const _: () = assert!(size_of::<CUDA_MEMCPY3D_PEER>() == size_of::<CUDA_MEMCPY3D>());

/// # Safety
/// The pointer is null or to such a structure.
unsafe fn given<'a, T>(structure: *const T) -> Outcome<&'a T> {
    // SAFETY: the caller's promise.
    unsafe { structure.as_ref() }.ok_or(Error::INVALID_VALUE)
}

pub unsafe fn cuMemcpy2D_v2(default: DefaultStream, pCopy: *const CUDA_MEMCPY2D) -> Outcome {
    // SAFETY: the program's promise, here and below.
    unsafe { wait(default, &of_rows(given(pCopy)?)) }
}

pub unsafe fn cuMemcpy2DUnaligned_v2(default: DefaultStream, pCopy: *const CUDA_MEMCPY2D) -> Outcome {
    // SAFETY: as above.
    unsafe { cuMemcpy2D_v2(default, pCopy) }
}

pub unsafe fn cuMemcpy2DAsync_v2(default: DefaultStream, pCopy: *const CUDA_MEMCPY2D, hStream: CUstream) -> Outcome {
    // SAFETY: as above.
    unsafe { in_stream(default, &of_rows(given(pCopy)?), hStream) }
}

pub unsafe fn cuMemcpy3D_v2(default: DefaultStream, pCopy: *const CUDA_MEMCPY3D) -> Outcome {
    // SAFETY: as above.
    unsafe { wait(default, given(pCopy)?) }
}

pub unsafe fn cuMemcpy3DAsync_v2(default: DefaultStream, pCopy: *const CUDA_MEMCPY3D, hStream: CUstream) -> Outcome {
    // SAFETY: as above.
    unsafe { in_stream(default, given(pCopy)?, hStream) }
}

pub unsafe fn cuMemcpy3DPeer(default: DefaultStream, pCopy: *const CUDA_MEMCPY3D_PEER) -> Outcome {
    // SAFETY: as above.
    unsafe { wait(default, &of_peers(given(pCopy)?)?) }
}

pub unsafe fn cuMemcpy3DPeerAsync(
    default: DefaultStream,
    pCopy: *const CUDA_MEMCPY3D_PEER,
    hStream: CUstream,
) -> Outcome {
    // SAFETY: as above.
    unsafe { in_stream(default, &of_peers(given(pCopy)?)?, hStream) }
}

/// One end of a copy to or from an array.
#[derive(Clone, Copy)]
enum Side {
    Host(*mut c_void),
    Device(CUdeviceptr),
    /// An array, and a place in its first row, in bytes.
    Array(CUarray, usize),
}

impl Side {
    fn parts(self) -> (CUmemorytype, *mut c_void, CUdeviceptr, CUarray, usize) {
        match self {
            Side::Host(pointer) => (CU_MEMORYTYPE_HOST, pointer, 0, ptr::null_mut(), 0),
            Side::Device(address) => (CU_MEMORYTYPE_DEVICE, ptr::null_mut(), address, ptr::null_mut(), 0),
            Side::Array(array, offset) => (CU_MEMORYTYPE_ARRAY, ptr::null_mut(), 0, array, offset),
        }
    }
}

/// A line of bytes; an array is one-dimensional, or the line ends within its first row.
fn line(to: Side, from: Side, bytes: usize) -> CUDA_MEMCPY3D {
    let (dstMemoryType, dstHost, dstDevice, dstArray, dstXInBytes) = to.parts();
    let (srcMemoryType, srcHost, srcDevice, srcArray, srcXInBytes) = from.parts();
    CUDA_MEMCPY3D {
        srcMemoryType,
        srcHost: srcHost.cast_const(),
        srcDevice,
        srcArray,
        srcXInBytes,
        dstMemoryType,
        dstHost,
        dstDevice,
        dstArray,
        dstXInBytes,
        WidthInBytes: bytes,
        Height: 1,
        Depth: 1,
        ..empty()
    }
}

pub unsafe fn cuMemcpyHtoA_v2(
    default: DefaultStream,
    dstArray: CUarray,
    dstOffset: usize,
    srcHost: *const c_void,
    ByteCount: usize,
) -> Outcome {
    // SAFETY: as above.
    unsafe { wait(default, &line(Side::Array(dstArray, dstOffset), Side::Host(srcHost.cast_mut()), ByteCount)) }
}

pub unsafe fn cuMemcpyHtoAAsync_v2(
    default: DefaultStream,
    dstArray: CUarray,
    dstOffset: usize,
    srcHost: *const c_void,
    ByteCount: usize,
    hStream: CUstream,
) -> Outcome {
    let copy = line(Side::Array(dstArray, dstOffset), Side::Host(srcHost.cast_mut()), ByteCount);
    // SAFETY: as above.
    unsafe { in_stream(default, &copy, hStream) }
}

pub unsafe fn cuMemcpyAtoH_v2(
    default: DefaultStream,
    dstHost: *mut c_void,
    srcArray: CUarray,
    srcOffset: usize,
    ByteCount: usize,
) -> Outcome {
    // SAFETY: as above.
    unsafe { wait(default, &line(Side::Host(dstHost), Side::Array(srcArray, srcOffset), ByteCount)) }
}

pub unsafe fn cuMemcpyAtoHAsync_v2(
    default: DefaultStream,
    dstHost: *mut c_void,
    srcArray: CUarray,
    srcOffset: usize,
    ByteCount: usize,
    hStream: CUstream,
) -> Outcome {
    let copy = line(Side::Host(dstHost), Side::Array(srcArray, srcOffset), ByteCount);
    // SAFETY: as above.
    unsafe { in_stream(default, &copy, hStream) }
}

pub unsafe fn cuMemcpyDtoA_v2(
    default: DefaultStream,
    dstArray: CUarray,
    dstOffset: usize,
    srcDevice: CUdeviceptr,
    ByteCount: usize,
) -> Outcome {
    // SAFETY: as above.
    unsafe { wait(default, &line(Side::Array(dstArray, dstOffset), Side::Device(srcDevice), ByteCount)) }
}

pub unsafe fn cuMemcpyAtoD_v2(
    default: DefaultStream,
    dstDevice: CUdeviceptr,
    srcArray: CUarray,
    srcOffset: usize,
    ByteCount: usize,
) -> Outcome {
    // SAFETY: as above.
    unsafe { wait(default, &line(Side::Device(dstDevice), Side::Array(srcArray, srcOffset), ByteCount)) }
}

pub unsafe fn cuMemcpyAtoA_v2(
    default: DefaultStream,
    dstArray: CUarray,
    dstOffset: usize,
    srcArray: CUarray,
    srcOffset: usize,
    ByteCount: usize,
) -> Outcome {
    // SAFETY: as above.
    unsafe { wait(default, &line(Side::Array(dstArray, dstOffset), Side::Array(srcArray, srcOffset), ByteCount)) }
}
