//! cudaMemcpy and its kin: arguments to the two ends and the box that `copy` takes.
//!
//! The plain and the Async functions differ in their stream only; see `copy` for what waits. Arrays are `arrays`'.
#![allow(non_snake_case, clippy::too_many_arguments)] // C's names and signatures

use super::arrays::{array_of, Array};
use super::copy::{copy, places, End, Place, Wait};
use super::shape::{Extent, Layout};
use crate::stream;
use crate::types::{BoxExtent, Copy3D, Copy3DPeer, CopyKind, PitchedPtr, Pos, StreamHandle};
use session::call::{Error, Outcome};
use session::function::DefaultStream;
use session::process;
use std::ffi::{c_int, c_void};

/// In which stream, and whether the call waits.
#[derive(Clone, Copy)]
pub(super) struct How {
    pub default: DefaultStream,
    pub stream: StreamHandle,
    pub wait: Wait,
}

impl How {
    pub fn waiting(default: DefaultStream) -> Self {
        Self { default, stream: std::ptr::null_mut(), wait: Wait::Always }
    }

    pub fn asynchronous(default: DefaultStream, stream: StreamHandle) -> Self {
        Self { default, stream, wait: Wait::Pageable }
    }
}

/// A copy of `count` bytes.
unsafe fn line(how: How, dst: *mut c_void, src: *const c_void, count: usize, (to, from): (Place, Place)) -> Outcome {
    let count = count as u64;
    // SAFETY: the caller's promise.
    unsafe { plane(how, (dst, count), (src, count), Extent::line(count), (to, from)) }
}

/// A copy of rows; an end is a pointer and a pitch.
unsafe fn plane(
    how: How,
    (dst, to_pitch): (*mut c_void, u64),
    (src, from_pitch): (*const c_void, u64),
    extent: Extent,
    (to, from): (Place, Place),
) -> Outcome {
    let stream = stream::resolve(how.default, how.stream)?;
    if extent.is_empty() {
        return Ok(());
    }
    let to = End::at(dst, to, Layout::plane(to_pitch), &extent)?;
    let from = End::at(src, from, Layout::plane(from_pitch), &extent)?;
    // SAFETY: the caller's promise.
    unsafe { copy(&stream, to, from, extent, how.wait) }
}

/// The start and the layout of a box at `pos` of a pitched range.
fn corner(pitched: &PitchedPtr, pos: Pos, extent: &Extent) -> Outcome<(*const c_void, Layout)> {
    let (pitch, rows) = (pitched.pitch as u64, pitched.ysize as u64);
    let slice = pitch.checked_mul(rows).ok_or(Error::INVALID_VALUE)?;
    if extent.depth > 1 && rows < extent.height {
        return Err(Error::INVALID_VALUE);
    }
    let (y, z) = ((pos.y as u64).checked_mul(pitch), (pos.z as u64).checked_mul(slice));
    let offset = y.zip(z).and_then(|(y, z)| y.checked_add(z)?.checked_add(pos.x as u64)).ok_or(Error::INVALID_VALUE)?;
    let start = (pitched.ptr as u64).checked_add(offset).ok_or(Error::INVALID_VALUE)?;
    Ok((start as *const c_void, Layout { pitch, slice }))
}

/// A copy of a box between two pitched ranges.
unsafe fn volume(
    how: How,
    (dst, dst_pos): (&PitchedPtr, Pos),
    (src, src_pos): (&PitchedPtr, Pos),
    extent: BoxExtent,
    (to, from): (Place, Place),
) -> Outcome {
    let stream = stream::resolve(how.default, how.stream)?;
    let extent = Extent { width: extent.width as u64, height: extent.height as u64, depth: extent.depth as u64 };
    if extent.is_empty() {
        return Ok(());
    }
    let (dst, dst_layout) = corner(dst, dst_pos, &extent)?;
    let (src, src_layout) = corner(src, src_pos, &extent)?;
    let to = End::at(dst, to, dst_layout, &extent)?;
    let from = End::at(src, from, src_layout, &extent)?;
    // SAFETY: the caller's promise.
    unsafe { copy(&stream, to, from, extent, how.wait) }
}

/// The ends of a copy as `cudaMemcpy3D` takes it, for a node of a graph.
pub fn ends(p: &Copy3D) -> Outcome<(End, End, Extent)> {
    if !p.srcArray.is_null() || !p.dstArray.is_null() {
        return with_arrays(p);
    }
    let (width, height, depth) = (p.extent.width as u64, p.extent.height as u64, p.extent.depth as u64);
    let extent = Extent { width, height, depth };
    if extent.is_empty() {
        return Err(Error::INVALID_VALUE);
    }
    let (to, from) = places(p.kind)?;
    let (dst, dst_layout) = corner(&p.dstPtr, p.dstPos, &extent)?;
    let (src, src_layout) = corner(&p.srcPtr, p.srcPos, &extent)?;
    Ok((End::at(dst, to, dst_layout, &extent)?, End::at(src, from, src_layout, &extent)?, extent))
}

/// The same where an array takes part: the width, and places in arrays, are texels.
fn with_arrays(p: &Copy3D) -> Outcome<(End, End, Extent)> {
    let array =
        |handle: crate::types::ArrayHandle| if handle.is_null() { Ok(None) } else { array_of(handle).map(Some) };
    let (dst, src) = (array(p.dstArray)?, array(p.srcArray)?);
    let texel = match (&dst, &src) {
        (Some(dst), Some(src)) if dst.texel != src.texel => return Err(Error::INVALID_VALUE),
        (Some(found), _) | (None, Some(found)) => found.texel,
        (None, None) => 1,
    };
    let width = (p.extent.width as u64).checked_mul(texel).ok_or(Error::INVALID_VALUE)?;
    let extent = Extent { width, height: p.extent.height as u64, depth: p.extent.depth as u64 };
    if extent.is_empty() {
        return Err(Error::INVALID_VALUE);
    }
    let (to, from) = places(p.kind)?;
    let end = |array: Option<Array>, ptr: &PitchedPtr, pos: Pos, place: Place| match array {
        Some(_) if place == Place::Host => Err(Error::INVALID_MEMCPY_DIRECTION),
        Some(array) => array.end_at(pos, &extent),
        None => {
            let (start, layout) = corner(ptr, pos, &extent)?;
            End::at(start, place, layout, &extent)
        }
    };
    Ok((end(dst, &p.dstPtr, p.dstPos, to)?, end(src, &p.srcPtr, p.srcPos, from)?, extent))
}

/// The ends of a copy to a variable.
pub fn ends_to_symbol(
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome<(End, End, Extent)> {
    let (to, from) = places(kind)?;
    if to == Place::Host {
        return Err(Error::INVALID_MEMCPY_DIRECTION);
    }
    let (to, extent) = (End::variable(symbol, offset, count)?, Extent::line(count as u64));
    Ok((to, End::at(src, from, Layout::plane(extent.width), &extent)?, extent))
}

/// The ends of a copy from a variable.
pub fn ends_from_symbol(
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome<(End, End, Extent)> {
    let (to, from) = places(kind)?;
    if from == Place::Host {
        return Err(Error::INVALID_MEMCPY_DIRECTION);
    }
    let (from, extent) = (End::variable(symbol, offset, count)?, Extent::line(count as u64));
    Ok((End::at(dst, to, Layout::plane(extent.width), &extent)?, from, extent))
}

/// A copy of a box as `cudaMemcpy3D` takes it.
unsafe fn parameters(how: How, p: *const Copy3D) -> Outcome {
    // SAFETY: the program says that it is such a struct, or null.
    let p = unsafe { p.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if !p.srcArray.is_null() || !p.dstArray.is_null() {
        let stream = stream::resolve(how.default, how.stream)?;
        if p.extent.width == 0 || p.extent.height == 0 || p.extent.depth == 0 {
            return Ok(());
        }
        let (to, from, extent) = with_arrays(p)?;
        // SAFETY: the caller's promise.
        return unsafe { copy(&stream, to, from, extent, how.wait) };
    }
    // SAFETY: the caller's promise.
    unsafe { volume(how, (&p.dstPtr, p.dstPos), (&p.srcPtr, p.srcPos), p.extent, places(p.kind)?) }
}

/// The ends of a copy between devices: both must be the session's.
fn peers(dst: c_int, src: c_int) -> Outcome<(Place, Place)> {
    process::check_device(dst)?;
    process::check_device(src)?;
    Ok((Place::Device, Place::Device))
}

/// A copy of a box as `cudaMemcpy3DPeer` takes it.
unsafe fn peer_parameters(how: How, p: *const Copy3DPeer) -> Outcome {
    // SAFETY: the program says that it is such a struct, or null.
    let p = unsafe { p.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if !p.srcArray.is_null() || !p.dstArray.is_null() {
        return Err(Error::NOT_SUPPORTED);
    }
    let places = peers(p.dstDevice, p.srcDevice)?;
    // SAFETY: the caller's promise.
    unsafe { volume(how, (&p.dstPtr, p.dstPos), (&p.srcPtr, p.srcPos), p.extent, places) }
}

/// A copy to a variable.
unsafe fn to_symbol(
    how: How,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome {
    let stream = stream::resolve(how.default, how.stream)?;
    if count == 0 {
        return places(kind).map(drop);
    }
    let (to, from, extent) = ends_to_symbol(symbol, src, count, offset, kind)?;
    // SAFETY: the caller's promise.
    unsafe { copy(&stream, to, from, extent, how.wait) }
}

/// A copy from a variable.
unsafe fn from_symbol(
    how: How,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome {
    let stream = stream::resolve(how.default, how.stream)?;
    if count == 0 {
        return places(kind).map(drop);
    }
    let (to, from, extent) = ends_from_symbol(dst, symbol, count, offset, kind)?;
    // SAFETY: the caller's promise.
    unsafe { copy(&stream, to, from, extent, how.wait) }
}

pub unsafe fn memcpy(
    default: DefaultStream,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: CopyKind,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { line(How::waiting(default), dst, src, count, places(kind)?) }
}

pub unsafe fn memcpy_2d(
    default: DefaultStream,
    dst: *mut c_void,
    dpitch: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: CopyKind,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        plane(
            How::waiting(default),
            (dst, dpitch as u64),
            (src, spitch as u64),
            Extent::plane(width as u64, height as u64),
            places(kind)?,
        )
    }
}

pub unsafe fn memcpy_3d(default: DefaultStream, p: *const Copy3D) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { parameters(How::waiting(default), p) }
}

pub unsafe fn memcpy_peer(
    dst: *mut c_void,
    dstDevice: c_int,
    src: *const c_void,
    srcDevice: c_int,
    count: usize,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { line(How::waiting(DefaultStream::Legacy), dst, src, count, peers(dstDevice, srcDevice)?) }
}

pub unsafe fn memcpy_3d_peer(default: DefaultStream, p: *const Copy3DPeer) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { peer_parameters(How::waiting(default), p) }
}

pub unsafe fn memcpy_to_symbol(
    default: DefaultStream,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { to_symbol(How::waiting(default), symbol, src, count, offset, kind) }
}

pub unsafe fn memcpy_from_symbol(
    default: DefaultStream,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { from_symbol(How::waiting(default), dst, symbol, count, offset, kind) }
}

pub unsafe fn memcpy_async(
    default: DefaultStream,
    dst: *mut c_void,
    src: *const c_void,
    count: usize,
    kind: CopyKind,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { line(How::asynchronous(default, stream), dst, src, count, places(kind)?) }
}

pub unsafe fn memcpy_2d_async(
    default: DefaultStream,
    dst: *mut c_void,
    dpitch: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: CopyKind,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        plane(
            How::asynchronous(default, stream),
            (dst, dpitch as u64),
            (src, spitch as u64),
            Extent::plane(width as u64, height as u64),
            places(kind)?,
        )
    }
}

pub unsafe fn memcpy_3d_async(default: DefaultStream, p: *const Copy3D, stream: StreamHandle) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { parameters(How::asynchronous(default, stream), p) }
}

pub unsafe fn memcpy_peer_async(
    dst: *mut c_void,
    dstDevice: c_int,
    src: *const c_void,
    srcDevice: c_int,
    count: usize,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { line(How::asynchronous(DefaultStream::Legacy, stream), dst, src, count, peers(dstDevice, srcDevice)?) }
}

pub unsafe fn memcpy_3d_peer_async(default: DefaultStream, p: *const Copy3DPeer, stream: StreamHandle) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { peer_parameters(How::asynchronous(default, stream), p) }
}

pub unsafe fn memcpy_to_symbol_async(
    default: DefaultStream,
    symbol: *const c_void,
    src: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { to_symbol(How::asynchronous(default, stream), symbol, src, count, offset, kind) }
}

pub unsafe fn memcpy_from_symbol_async(
    default: DefaultStream,
    dst: *mut c_void,
    symbol: *const c_void,
    count: usize,
    offset: usize,
    kind: CopyKind,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { from_symbol(How::asynchronous(default, stream), dst, symbol, count, offset, kind) }
}
