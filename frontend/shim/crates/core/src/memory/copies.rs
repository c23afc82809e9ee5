//! cudaMemcpy and its kin: arguments to the two ends and the box that `copy` takes.
//!
//! The plain and the Async functions differ in their stream only; see `copy` for what waits. CUDA arrays are not supported.

use super::copy::{copy, places, End, Place};
use super::shape::{Extent, Layout};
use crate::call::{CudaResult, DefaultStream};
use crate::{runtime, stream};
use abi::{
    cudaExtent, cudaMemcpy3DParms, cudaMemcpy3DPeerParms, cudaMemcpyKind, cudaPitchedPtr, cudaPos, cudaStream_t,
    CudaError,
};
use std::ffi::{c_int, c_void};

const NULL: cudaStream_t = std::ptr::null_mut();

/// A copy of `count` bytes.
unsafe fn line(
    default: DefaultStream,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    (to, from): (Place, Place),
    stream: cudaStream_t,
) -> CudaResult {
    let count = count as u64;
    // SAFETY: the caller's promise.
    unsafe { plane(default, (dst, count), (src, count), Extent::line(count), (to, from), stream) }
}

/// A copy of rows; an end is a pointer and a pitch.
unsafe fn plane(
    default: DefaultStream,
    (dst, to_pitch): (*mut c_void, u64),
    (src, from_pitch): (*const c_void, u64),
    extent: Extent,
    (to, from): (Place, Place),
    stream: cudaStream_t,
) -> CudaResult {
    let stream = stream::resolve(default, stream)?;
    if extent.is_empty() {
        return Ok(());
    }
    let to = End::at(dst, to, Layout::plane(to_pitch), &extent)?;
    let from = End::at(src, from, Layout::plane(from_pitch), &extent)?;
    // SAFETY: the caller's promise.
    unsafe { copy(&stream, to, from, extent) }
}

/// The start and the layout of a box at `pos` of a pitched range.
fn corner(pitched: &cudaPitchedPtr, pos: cudaPos, extent: &Extent) -> CudaResult<(*const c_void, Layout)> {
    let (pitch, rows) = (pitched.pitch as u64, pitched.ysize as u64);
    let slice = pitch.checked_mul(rows).ok_or(CudaError::INVALID_VALUE)?;
    if extent.depth > 1 && rows < extent.height {
        return Err(CudaError::INVALID_VALUE);
    }
    let (y, z) = ((pos.y as u64).checked_mul(pitch), (pos.z as u64).checked_mul(slice));
    let offset =
        y.zip(z).and_then(|(y, z)| y.checked_add(z)?.checked_add(pos.x as u64)).ok_or(CudaError::INVALID_VALUE)?;
    let start = (pitched.ptr as u64).checked_add(offset).ok_or(CudaError::INVALID_VALUE)?;
    Ok((start as *const c_void, Layout { pitch, slice }))
}

/// A copy of a box between two pitched ranges.
unsafe fn volume(
    default: DefaultStream,
    (dst, dst_pos): (&cudaPitchedPtr, cudaPos),
    (src, src_pos): (&cudaPitchedPtr, cudaPos),
    extent: cudaExtent,
    (to, from): (Place, Place),
    stream: cudaStream_t,
) -> CudaResult {
    let stream = stream::resolve(default, stream)?;
    let extent = Extent { width: extent.width as u64, height: extent.height as u64, depth: extent.depth as u64 };
    if extent.is_empty() {
        return Ok(());
    }
    let (dst, dst_layout) = corner(dst, dst_pos, &extent)?;
    let (src, src_layout) = corner(src, src_pos, &extent)?;
    let to = End::at(dst, to, dst_layout, &extent)?;
    let from = End::at(src, from, src_layout, &extent)?;
    // SAFETY: the caller's promise.
    unsafe { copy(&stream, to, from, extent) }
}

pub unsafe fn cudaMemcpy(
    default: DefaultStream,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    // SAFETY: the program's promise, here and below.
    unsafe { line(default, dst, src, count, places(kind)?, NULL) }
}

pub unsafe fn cudaMemcpyAsync(
    default: DefaultStream,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { line(default, dst, src, count, places(kind)?, stream) }
}

pub unsafe fn cudaMemcpy2D(
    default: DefaultStream,
    dst: *mut c_void,
    dpitch: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { cudaMemcpy2DAsync(default, dst, dpitch, src, spitch, width, height, kind, NULL) }
}

pub unsafe fn cudaMemcpy2DAsync(
    default: DefaultStream,
    dst: *mut c_void,
    dpitch: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> CudaResult {
    let extent = Extent::plane(width as u64, height as u64);
    // SAFETY: as above.
    unsafe { plane(default, (dst, dpitch as u64), (src, spitch as u64), extent, places(kind)?, stream) }
}

pub unsafe fn cudaMemcpy3D(default: DefaultStream, p: *const cudaMemcpy3DParms) -> CudaResult {
    // SAFETY: as above.
    unsafe { cudaMemcpy3DAsync(default, p, NULL) }
}

pub unsafe fn cudaMemcpy3DAsync(
    default: DefaultStream,
    p: *const cudaMemcpy3DParms,
    stream: cudaStream_t,
) -> CudaResult {
    // SAFETY: the program says that it is such a struct, or null.
    let p = unsafe { p.as_ref() }.ok_or(CudaError::INVALID_VALUE)?;
    if !p.srcArray.is_null() || !p.dstArray.is_null() {
        return Err(CudaError::NOT_SUPPORTED);
    }
    let places = places(p.kind)?;
    // SAFETY: as above.
    unsafe { volume(default, (&p.dstPtr, p.dstPos), (&p.srcPtr, p.srcPos), p.extent, places, stream) }
}

/// The ends of a copy between devices: both must be the session's.
fn peers(dst: c_int, src: c_int) -> CudaResult<(Place, Place)> {
    let devices = runtime::devices()?.len();
    let known = |device: c_int| usize::try_from(device).is_ok_and(|device| device < devices);
    if known(dst) && known(src) {
        Ok((Place::Device, Place::Device))
    } else {
        Err(CudaError::INVALID_DEVICE)
    }
}

pub unsafe fn cudaMemcpyPeer(
    dst: *mut c_void,
    dstDevice: c_int,
    src: *const c_void,
    srcDevice: c_int,
    count: usize,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { cudaMemcpyPeerAsync(dst, dstDevice, src, srcDevice, count, NULL) }
}

pub unsafe fn cudaMemcpyPeerAsync(
    dst: *mut c_void,
    dstDevice: c_int,
    src: *const c_void,
    srcDevice: c_int,
    count: usize,
    stream: cudaStream_t,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { line(DefaultStream::Legacy, dst, src, count, peers(dstDevice, srcDevice)?, stream) }
}

pub unsafe fn cudaMemcpy3DPeer(default: DefaultStream, p: *const cudaMemcpy3DPeerParms) -> CudaResult {
    // SAFETY: as above.
    unsafe { cudaMemcpy3DPeerAsync(default, p, NULL) }
}

pub unsafe fn cudaMemcpy3DPeerAsync(
    default: DefaultStream,
    p: *const cudaMemcpy3DPeerParms,
    stream: cudaStream_t,
) -> CudaResult {
    // SAFETY: the program says that it is such a struct, or null.
    let p = unsafe { p.as_ref() }.ok_or(CudaError::INVALID_VALUE)?;
    if !p.srcArray.is_null() || !p.dstArray.is_null() {
        return Err(CudaError::NOT_SUPPORTED);
    }
    let places = peers(p.dstDevice, p.srcDevice)?;
    // SAFETY: as above.
    unsafe { volume(default, (&p.dstPtr, p.dstPos), (&p.srcPtr, p.srcPos), p.extent, places, stream) }
}

pub unsafe fn cudaMemcpyToSymbol(
    default: DefaultStream,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { cudaMemcpyToSymbolAsync(default, symbol, src, count, offset, kind, NULL) }
}

pub unsafe fn cudaMemcpyToSymbolAsync(
    default: DefaultStream,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> CudaResult {
    let stream = stream::resolve(default, stream)?;
    let (to, from) = places(kind)?;
    if to == Place::Host {
        return Err(CudaError::INVALID_MEMCPY_DIRECTION);
    }
    let (to, extent) = (End::variable(symbol, offset, count)?, Extent::line(count as u64));
    if extent.is_empty() {
        return Ok(());
    }
    let from = End::at(src, from, Layout::plane(extent.width), &extent)?;
    // SAFETY: as above.
    unsafe { copy(&stream, to, from, extent) }
}

pub unsafe fn cudaMemcpyFromSymbol(
    default: DefaultStream,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { cudaMemcpyFromSymbolAsync(default, dst, symbol, count, offset, kind, NULL) }
}

pub unsafe fn cudaMemcpyFromSymbolAsync(
    default: DefaultStream,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: cudaMemcpyKind,
    stream: cudaStream_t,
) -> CudaResult {
    let stream = stream::resolve(default, stream)?;
    let (to, from) = places(kind)?;
    if from == Place::Host {
        return Err(CudaError::INVALID_MEMCPY_DIRECTION);
    }
    let (from, extent) = (End::variable(symbol, offset, count)?, Extent::line(count as u64));
    if extent.is_empty() {
        return Ok(());
    }
    let to = End::at(dst, to, Layout::plane(extent.width), &extent)?;
    // SAFETY: as above.
    unsafe { copy(&stream, to, from, extent) }
}
