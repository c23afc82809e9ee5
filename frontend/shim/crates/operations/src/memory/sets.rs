//! cudaMemset and its kin: deferred, one MEMSET record each (one for each slice when slices have gaps); pinned memory
//! is set here.
#![allow(non_snake_case, non_upper_case_globals)] // C's names

use super::shape::{parts, Extent, Layout};
use crate::graph::{self, Work};
use crate::memory::addresses;
use crate::types::{BoxExtent, MemsetParams, PitchedPtr, StreamHandle};
use crate::{hostmem, managed, stream};
use session::call::{Error, Outcome};
use session::function::DefaultStream;
use session::work::order::Stream;
use session::work::{self};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use tape::generated_operations as operation;
use tape::Writer;

/// What memory is filled with: elements of 1, 2 or 4 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    pub value: u32,
    pub size: u32,
}

impl Pattern {
    /// The low byte is the value, says CUDA's documentation.
    fn byte(value: c_int) -> Pattern {
        Pattern { value: value.to_le_bytes()[0].into(), size: 1 }
    }
}

/// Fills rows of `width` elements, `pitch` bytes apart; `start` and a pitch between rows are multiples of an element's
/// size.
///
/// # Errors
/// cudaErrorInvalidValue for memory that is not the device's, and for rows that overlap.
pub fn fill(
    default: DefaultStream,
    stream: StreamHandle,
    start: u64,
    pattern: Pattern,
    (width, height, pitch): (usize, usize, usize),
) -> Outcome {
    let size = u64::from(pattern.size);
    let bytes = (width as u64).checked_mul(size).ok_or(Error::INVALID_VALUE)?;
    let pitch = if height > 1 { pitch as u64 } else { bytes };
    if !start.is_multiple_of(size) || !pitch.is_multiple_of(size) {
        return Err(Error::INVALID_VALUE);
    }
    set(default, stream, start as *mut c_void, Layout::plane(pitch), pattern, Extent::plane(bytes, height as u64))
}

/// Sets a box of bytes at `start`, whose rows are whole elements.
fn set(
    default: DefaultStream,
    stream: StreamHandle,
    start: *mut c_void,
    layout: Layout,
    pattern: Pattern,
    extent: Extent,
) -> Outcome {
    let stream = stream::resolve(default, stream)?;
    if extent.is_empty() {
        return Ok(());
    }
    let address = start as u64;
    let rows_overlap = extent.height > 1 && layout.pitch < extent.width;
    let span = layout.span(&extent).filter(|_| !rows_overlap).ok_or(Error::INVALID_VALUE)?;
    if graph::diverts(&stream) {
        return divert_set(&stream, address, layout, pattern, extent);
    }
    let _kept = hostmem::keep();
    let address = managed::device_address(start as usize).map_or(address, |found| found as u64);
    if !addresses()?.holds(address, span) {
        return set_pinned(start.cast(), layout, pattern, extent, span as usize);
    }
    if !addresses()?.may_write(address) {
        return Err(Error::INVALID_VALUE);
    }
    let _held = managed::hand_over_for(&[address])?;
    let mut parts = parts(extent, layout, layout).peekable();
    while let Some(part) = parts.next() {
        let (address, pitch) = (address + part.to, layout.pitch.max(part.width));
        work::defer_piece(&stream, parts.peek().is_none(), |w| {
            operation::memset(w, address, pitch, part.width, part.height, pattern.value, pattern.size, stream.number);
        })?;
    }
    Ok(())
}

fn divert_set(stream: &Arc<Stream>, address: u64, layout: Layout, pattern: Pattern, extent: Extent) -> Outcome {
    for part in parts(extent, layout, layout) {
        let (dst, pitch) = ((address + part.to) as *mut c_void, layout.pitch.max(part.width) as usize);
        let Pattern { value, size: elementSize } = pattern;
        let (width, height) = (part.width as usize / elementSize as usize, part.height as usize);
        let set = MemsetParams { dst, pitch, value, elementSize, width, height };
        check_set(&set)?;
        graph::divert(stream, Work::Memset(set))?;
    }
    Ok(())
}

/// Whether a node of a graph may set that memory: as the call, in elements of 1, 2 or 4 bytes.
pub fn check_set(set: &MemsetParams) -> Outcome {
    let bytes = set.width.checked_mul(set.elementSize as usize).ok_or(Error::INVALID_VALUE)?;
    let extent = Extent::plane(bytes as u64, set.height as u64);
    let span = Layout::plane(set.pitch as u64).span(&extent).ok_or(Error::INVALID_VALUE)?;
    let rows_overlap = set.height > 1 && set.pitch < bytes;
    if !matches!(set.elementSize, 1 | 2 | 4) || extent.is_empty() || rows_overlap {
        return Err(Error::INVALID_VALUE);
    }
    let (addresses, address) = (addresses()?, set.dst as u64);
    if !addresses.holds(address, span) || !addresses.may_write(address) {
        return Err(Error::INVALID_VALUE);
    }
    Ok(())
}

/// The record of a node's set. False when the memory is no longer there.
pub fn write_set(w: &mut Writer, set: &MemsetParams, stream: u32) -> Outcome<bool> {
    if check_set(set).is_err() {
        return Ok(false);
    }
    let width = set.width as u64 * u64::from(set.elementSize);
    let pitch = (set.pitch as u64).max(width);
    operation::memset(w, set.dst as u64, pitch, width, set.height as u64, set.value, set.elementSize, stream);
    Ok(true)
}

/// Pinned memory is memory of the device too, to CUDA. The only work of a stream that writes to it is a copy on its
/// way.
fn set_pinned(start: *mut u8, layout: Layout, pattern: Pattern, extent: Extent, span: usize) -> Outcome {
    if !hostmem::holds(start as usize, span) {
        return Err(Error::INVALID_VALUE);
    }
    work::complete_copies(start as usize, span)?;
    let element = &pattern.value.to_le_bytes()[..pattern.size as usize];
    for part in parts(extent, layout, layout) {
        for row in 0..part.height {
            let first = (part.to + row * layout.pitch) as usize;
            // SAFETY: inside the span, which is pinned memory of the program.
            let bytes = unsafe { std::slice::from_raw_parts_mut(start.add(first), part.width as usize) };
            bytes.chunks_exact_mut(element.len()).for_each(|place| place.copy_from_slice(element));
        }
    }
    Ok(())
}

fn plane(pitch: usize, width: usize, height: usize) -> (Layout, Extent) {
    (Layout::plane(pitch as u64), Extent::plane(width as u64, height as u64))
}

fn volume(pitched: &PitchedPtr, extent: BoxExtent) -> Outcome<(Layout, Extent)> {
    let (pitch, rows) = (pitched.pitch as u64, pitched.ysize as u64);
    let slice = pitch.checked_mul(rows).ok_or(Error::INVALID_VALUE)?;
    let BoxExtent { width, height, depth } = extent;
    if extent.depth > 1 && rows < height as u64 {
        return Err(Error::INVALID_VALUE);
    }
    Ok((Layout { pitch, slice }, Extent { width: width as u64, height: height as u64, depth: depth as u64 }))
}

pub unsafe fn memset(default: DefaultStream, devPtr: *mut c_void, value: c_int, count: usize) -> Outcome {
    let (layout, extent) = plane(count, count, 1);
    set(default, std::ptr::null_mut(), devPtr, layout, Pattern::byte(value), extent)
}

pub unsafe fn memset_2d(
    default: DefaultStream,
    devPtr: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> Outcome {
    let (layout, extent) = plane(pitch, width, height);
    set(default, std::ptr::null_mut(), devPtr, layout, Pattern::byte(value), extent)
}

pub unsafe fn memset_3d(default: DefaultStream, pitchedDevPtr: PitchedPtr, value: c_int, extent: BoxExtent) -> Outcome {
    let (layout, extent) = volume(&pitchedDevPtr, extent)?;
    set(default, std::ptr::null_mut(), pitchedDevPtr.ptr, layout, Pattern::byte(value), extent)
}

pub unsafe fn memset_async(
    default: DefaultStream,
    devPtr: *mut c_void,
    value: c_int,
    count: usize,
    stream: StreamHandle,
) -> Outcome {
    let (layout, extent) = plane(count, count, 1);
    set(default, stream, devPtr, layout, Pattern::byte(value), extent)
}

pub unsafe fn memset_2d_async(
    default: DefaultStream,
    devPtr: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    stream: StreamHandle,
) -> Outcome {
    let (layout, extent) = plane(pitch, width, height);
    set(default, stream, devPtr, layout, Pattern::byte(value), extent)
}

pub unsafe fn memset_3d_async(
    default: DefaultStream,
    pitchedDevPtr: PitchedPtr,
    value: c_int,
    extent: BoxExtent,
    stream: StreamHandle,
) -> Outcome {
    let (layout, extent) = volume(&pitchedDevPtr, extent)?;
    set(default, stream, pitchedDevPtr.ptr, layout, Pattern::byte(value), extent)
}
