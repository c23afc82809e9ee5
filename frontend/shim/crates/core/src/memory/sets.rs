//! cudaMemset and its kin: deferred, one MEMSET record each (one for each slice when slices have gaps); pinned memory is set here.
#![allow(non_snake_case, non_upper_case_globals)] // C's names

use super::shape::{parts, Extent, Layout};
use crate::call::{CudaResult, DefaultStream};
use crate::graph::{capture, Work};
use crate::work::order::Stream;
use crate::work::{self, tracking};
use crate::{hostmem, managed, stream};
use abi::{cudaExtent, cudaMemsetParams, cudaPitchedPtr, cudaStream_t, CudaError};
use std::ffi::{c_int, c_void};
use tape::generated_operations as operation;
use tape::Writer;

/// Sets a box of bytes at `start` to the low byte of the value.
fn set(
    default: DefaultStream,
    stream: cudaStream_t,
    start: *mut c_void,
    layout: Layout,
    value: c_int,
    extent: Extent,
) -> CudaResult {
    let stream = stream::resolve(default, stream)?;
    if extent.is_empty() {
        return Ok(());
    }
    let address = start as u64;
    let rows_overlap = extent.height > 1 && layout.pitch < extent.width;
    let span = layout.span(&extent).filter(|_| !rows_overlap).ok_or(CudaError::INVALID_VALUE)?;
    // The low byte is the value, says CUDA's documentation.
    let value = value.to_le_bytes()[0];
    if capture::of(&stream) {
        return capture_set(&stream, address, layout, value, extent);
    }
    let _kept = hostmem::keep();
    let address = managed::device_address(start as usize).map_or(address, |found| found as u64);
    if !tracking()?.addresses.holds(address, span) {
        return set_pinned(start.cast(), layout, value, extent, span as usize);
    }
    if !tracking()?.addresses.may_write(address) {
        return Err(CudaError::INVALID_VALUE);
    }
    let _held = managed::hand_over_for(&[address])?;
    let mut parts = parts(extent, layout, layout).peekable();
    while let Some(part) = parts.next() {
        let (address, pitch) = (address + part.to, layout.pitch.max(part.width));
        work::defer_piece(&stream, parts.peek().is_none(), |w| {
            operation::memset(w, address, pitch, part.width, part.height, value.into(), 1, stream.number);
        })?;
    }
    Ok(())
}

fn capture_set(stream: &Stream, address: u64, layout: Layout, value: u8, extent: Extent) -> CudaResult {
    for part in parts(extent, layout, layout) {
        let (dst, pitch) = ((address + part.to) as *mut c_void, layout.pitch.max(part.width) as usize);
        let (value, elementSize, width, height) = (value.into(), 1, part.width as usize, part.height as usize);
        let set = cudaMemsetParams { dst, pitch, value, elementSize, width, height };
        check_set(&set)?;
        capture::add(stream, Work::Memset(set))?;
    }
    Ok(())
}

/// Whether a node of a graph may set that memory: as the call, in elements of 1, 2 or 4 bytes.
pub fn check_set(set: &cudaMemsetParams) -> CudaResult {
    let bytes = set.width.checked_mul(set.elementSize as usize).ok_or(CudaError::INVALID_VALUE)?;
    let extent = Extent::plane(bytes as u64, set.height as u64);
    let span = Layout::plane(set.pitch as u64).span(&extent).ok_or(CudaError::INVALID_VALUE)?;
    let rows_overlap = set.height > 1 && set.pitch < bytes;
    if !matches!(set.elementSize, 1 | 2 | 4) || extent.is_empty() || rows_overlap {
        return Err(CudaError::INVALID_VALUE);
    }
    let (addresses, address) = (&tracking()?.addresses, set.dst as u64);
    if !addresses.holds(address, span) || !addresses.may_write(address) {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(())
}

/// The record of a node's set. False when the memory is no longer there.
pub fn write_set(w: &mut Writer, set: &cudaMemsetParams, stream: u32) -> CudaResult<bool> {
    if check_set(set).is_err() {
        return Ok(false);
    }
    let width = set.width as u64 * u64::from(set.elementSize);
    let pitch = (set.pitch as u64).max(width);
    operation::memset(w, set.dst as u64, pitch, width, set.height as u64, set.value, set.elementSize, stream);
    Ok(true)
}

/// Pinned memory is memory of the device too, to CUDA. The only work of a stream that writes to it is a copy on its way.
fn set_pinned(start: *mut u8, layout: Layout, value: u8, extent: Extent, span: usize) -> CudaResult {
    if !hostmem::holds(start as usize, span) {
        return Err(CudaError::INVALID_VALUE);
    }
    work::settle_memory(start as usize, span)?;
    for part in parts(extent, layout, layout) {
        for row in 0..part.height {
            // SAFETY: inside the span, which is pinned memory of the program.
            unsafe { start.add((part.to + row * layout.pitch) as usize).write_bytes(value, part.width as usize) };
        }
    }
    Ok(())
}

fn plane(pitch: usize, width: usize, height: usize) -> (Layout, Extent) {
    (Layout::plane(pitch as u64), Extent::plane(width as u64, height as u64))
}

fn volume(pitched: &cudaPitchedPtr, extent: cudaExtent) -> CudaResult<(Layout, Extent)> {
    let (pitch, rows) = (pitched.pitch as u64, pitched.ysize as u64);
    let slice = pitch.checked_mul(rows).ok_or(CudaError::INVALID_VALUE)?;
    let cudaExtent { width, height, depth } = extent;
    if extent.depth > 1 && rows < height as u64 {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok((Layout { pitch, slice }, Extent { width: width as u64, height: height as u64, depth: depth as u64 }))
}

pub unsafe fn cudaMemset(default: DefaultStream, devPtr: *mut c_void, value: c_int, count: usize) -> CudaResult {
    let (layout, extent) = plane(count, count, 1);
    set(default, std::ptr::null_mut(), devPtr, layout, value, extent)
}

pub unsafe fn cudaMemset2D(
    default: DefaultStream,
    devPtr: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
) -> CudaResult {
    let (layout, extent) = plane(pitch, width, height);
    set(default, std::ptr::null_mut(), devPtr, layout, value, extent)
}

pub unsafe fn cudaMemset3D(
    default: DefaultStream,
    pitchedDevPtr: cudaPitchedPtr,
    value: c_int,
    extent: cudaExtent,
) -> CudaResult {
    let (layout, extent) = volume(&pitchedDevPtr, extent)?;
    set(default, std::ptr::null_mut(), pitchedDevPtr.ptr, layout, value, extent)
}

pub unsafe fn cudaMemsetAsync(
    default: DefaultStream,
    devPtr: *mut c_void,
    value: c_int,
    count: usize,
    stream: cudaStream_t,
) -> CudaResult {
    let (layout, extent) = plane(count, count, 1);
    set(default, stream, devPtr, layout, value, extent)
}

pub unsafe fn cudaMemset2DAsync(
    default: DefaultStream,
    devPtr: *mut c_void,
    pitch: usize,
    value: c_int,
    width: usize,
    height: usize,
    stream: cudaStream_t,
) -> CudaResult {
    let (layout, extent) = plane(pitch, width, height);
    set(default, stream, devPtr, layout, value, extent)
}

pub unsafe fn cudaMemset3DAsync(
    default: DefaultStream,
    pitchedDevPtr: cudaPitchedPtr,
    value: c_int,
    extent: cudaExtent,
    stream: cudaStream_t,
) -> CudaResult {
    let (layout, extent) = volume(&pitchedDevPtr, extent)?;
    set(default, stream, pitchedDevPtr.ptr, layout, value, extent)
}
