//! Copies of bytes and of rows to and from arrays, and between them.
//!
//! Source: CUDA runtime API, "Memory Management".
#![allow(non_snake_case, clippy::too_many_arguments)] // C's names and signatures

use super::array_of;
use crate::memory::copies::How;
use crate::memory::copy::{copy, places, End, Place};
use crate::memory::shape::{Extent, Layout};
use crate::memory::Wait;
use crate::stream;
use crate::types::{ArrayHandle, ConstArrayHandle, CopyKind, StreamHandle};
use session::call::{Error, Outcome};
use session::function::DefaultStream;
use std::ffi::c_void;

/// Rows of the program's memory (or the device's), `pitch` bytes apart, to or from an array.
unsafe fn rows(
    how: How,
    (array, x, y): (ConstArrayHandle, usize, usize),
    (pointer, pitch): (*const c_void, usize),
    (width, height): (usize, usize),
    kind: CopyKind,
    to_array: bool,
) -> Outcome {
    let stream = stream::resolve(how.default, how.stream)?;
    let array = array_of(array)?;
    let extent = Extent::plane(width as u64, height as u64);
    if extent.is_empty() {
        return Ok(());
    }
    let (to, from) = places(kind)?;
    let there = array.end(x as u64, y as u64, 0, &extent)?;
    let declared = if to_array { from } else { to };
    if (if to_array { to } else { from }) == Place::Host {
        return Err(Error::INVALID_MEMCPY_DIRECTION);
    }
    let here = End::at(pointer, declared, Layout::plane(pitch as u64), &extent)?;
    let (to, from) = if to_array { (there, here) } else { (here, there) };
    // SAFETY: the caller's promise.
    unsafe { copy(&stream, to, from, extent, how.wait) }
}

pub unsafe fn memcpy_2d_to_array(
    default: DefaultStream,
    dst: ArrayHandle,
    wOffset: usize,
    hOffset: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: CopyKind,
) -> Outcome {
    let how = How::waiting(default);
    // SAFETY: the program's promise, here and below.
    unsafe { rows(how, (dst, wOffset, hOffset), (src, spitch), (width, height), kind, true) }
}

pub unsafe fn memcpy_2d_to_array_async(
    default: DefaultStream,
    dst: ArrayHandle,
    wOffset: usize,
    hOffset: usize,
    src: *const c_void,
    spitch: usize,
    width: usize,
    height: usize,
    kind: CopyKind,
    stream: StreamHandle,
) -> Outcome {
    let how = How::asynchronous(default, stream);
    // SAFETY: as above.
    unsafe { rows(how, (dst, wOffset, hOffset), (src, spitch), (width, height), kind, true) }
}

pub unsafe fn memcpy_2d_from_array(
    default: DefaultStream,
    dst: *mut c_void,
    dpitch: usize,
    src: ConstArrayHandle,
    wOffset: usize,
    hOffset: usize,
    width: usize,
    height: usize,
    kind: CopyKind,
) -> Outcome {
    let how = How::waiting(default);
    // SAFETY: as above.
    unsafe { rows(how, (src, wOffset, hOffset), (dst, dpitch), (width, height), kind, false) }
}

pub unsafe fn memcpy_2d_from_array_async(
    default: DefaultStream,
    dst: *mut c_void,
    dpitch: usize,
    src: ConstArrayHandle,
    wOffset: usize,
    hOffset: usize,
    width: usize,
    height: usize,
    kind: CopyKind,
    stream: StreamHandle,
) -> Outcome {
    let how = How::asynchronous(default, stream);
    // SAFETY: as above.
    unsafe { rows(how, (src, wOffset, hOffset), (dst, dpitch), (width, height), kind, false) }
}

/// Whole rows of an array from its start, or a part of one row: what `count` bytes are.
fn shape(array: ConstArrayHandle, x: usize, count: usize) -> Outcome<(usize, usize, usize)> {
    let array = array_of(array)?;
    let row = array.extent.width * array.texel as usize;
    if x == 0 && count > row && count.is_multiple_of(row) {
        return Ok((row, row, count / row));
    }
    if x.checked_add(count).is_some_and(|end| end <= row) {
        return Ok((count, count, 1));
    }
    session::log::error(format_args!("copies to and from arrays that end within another row are not supported"));
    Err(Error::NOT_SUPPORTED)
}

pub unsafe fn memcpy_to_array(
    default: DefaultStream,
    dst: ArrayHandle,
    wOffset: usize,
    hOffset: usize,
    src: *const c_void,
    count: usize,
    kind: CopyKind,
) -> Outcome {
    let (pitch, width, height) = shape(dst, wOffset, count)?;
    // SAFETY: as above.
    unsafe { rows(How::waiting(default), (dst, wOffset, hOffset), (src, pitch), (width, height), kind, true) }
}

pub unsafe fn memcpy_from_array(
    default: DefaultStream,
    dst: *mut c_void,
    src: ConstArrayHandle,
    wOffset: usize,
    hOffset: usize,
    count: usize,
    kind: CopyKind,
) -> Outcome {
    let (pitch, width, height) = shape(src, wOffset, count)?;
    // SAFETY: as above.
    unsafe { rows(How::waiting(default), (src, wOffset, hOffset), (dst, pitch), (width, height), kind, false) }
}

pub unsafe fn memcpy_to_array_async(
    default: DefaultStream,
    dst: ArrayHandle,
    wOffset: usize,
    hOffset: usize,
    src: *const c_void,
    count: usize,
    kind: CopyKind,
    stream: StreamHandle,
) -> Outcome {
    let (pitch, width, height) = shape(dst, wOffset, count)?;
    let how = How::asynchronous(default, stream);
    // SAFETY: as above.
    unsafe { rows(how, (dst, wOffset, hOffset), (src, pitch), (width, height), kind, true) }
}

pub unsafe fn memcpy_from_array_async(
    default: DefaultStream,
    dst: *mut c_void,
    src: ConstArrayHandle,
    wOffset: usize,
    hOffset: usize,
    count: usize,
    kind: CopyKind,
    stream: StreamHandle,
) -> Outcome {
    let (pitch, width, height) = shape(src, wOffset, count)?;
    let how = How::asynchronous(default, stream);
    // SAFETY: as above.
    unsafe { rows(how, (src, wOffset, hOffset), (dst, pitch), (width, height), kind, false) }
}

pub unsafe fn memcpy_array_to_array(
    default: DefaultStream,
    dst: ArrayHandle,
    wOffsetDst: usize,
    hOffsetDst: usize,
    src: ConstArrayHandle,
    wOffsetSrc: usize,
    hOffsetSrc: usize,
    count: usize,
    kind: CopyKind,
) -> Outcome {
    let (found, other) = (shape(dst, wOffsetDst, count)?, shape(src, wOffsetSrc, count)?);
    if found != other {
        session::log::error(format_args!("bytes of several rows are copied between arrays of the same width only"));
        return Err(Error::NOT_SUPPORTED);
    }
    let (_, width, height) = found;
    // SAFETY: the caller's promise.
    unsafe {
        memcpy_2d_array_to_array(default, dst, wOffsetDst, hOffsetDst, src, wOffsetSrc, hOffsetSrc, width, height, kind)
    }
}

pub unsafe fn memcpy_2d_array_to_array(
    default: DefaultStream,
    dst: ArrayHandle,
    wOffsetDst: usize,
    hOffsetDst: usize,
    src: ConstArrayHandle,
    wOffsetSrc: usize,
    hOffsetSrc: usize,
    width: usize,
    height: usize,
    kind: CopyKind,
) -> Outcome {
    let stream = stream::resolve(default, std::ptr::null_mut())?;
    places(kind)?;
    let extent = Extent::plane(width as u64, height as u64);
    if extent.is_empty() {
        return Ok(());
    }
    let to = array_of(dst)?.end(wOffsetDst as u64, hOffsetDst as u64, 0, &extent)?;
    let from = array_of(src)?.end(wOffsetSrc as u64, hOffsetSrc as u64, 0, &extent)?;
    // SAFETY: no memory of the program takes part.
    unsafe { copy(&stream, to, from, extent, Wait::Always) }
}
