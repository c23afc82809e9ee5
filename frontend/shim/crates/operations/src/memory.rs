//! The memory family: allocation, sets, copies, pinned memory, what a pointer is.
//!
//! One file per part: `addresses` (what is live), `shape` (boxes of rows), `copy` (what every copy does), `copies` and
//! `sets` (the API's functions), `host` (pinned memory), `pools` (memory pools). This file has allocation and the
//! queries.
//!
//! Allocation is deferred: the address is minted here, out of memory is known from the quota. The allocator's lock is
//! held until the record is appended, so that an address that is minted again comes after its release on the tape.
//!
//! Source: CUDA runtime API, "Memory Management", "Stream Ordered Memory Allocator".
#![allow(non_snake_case, non_upper_case_globals)] // C's names

mod addresses;
mod advice;
mod arrays;
mod batches;
mod copies;
pub mod copy;
mod graphs;
mod host;
mod managed;
pub mod payloads;
mod pools;
mod reservations;
mod sets;
mod shape;
pub mod virtual_memory;

pub use addresses::addresses;
pub use addresses::Addresses;
pub use advice::*;
pub use arrays::*;
pub use batches::*;
pub use copies::*;
pub use copy::{copy, reach_ends, write_copy, End, Place, Wait};
pub use graphs::{
    free_of_graph, graph_memory_used, launch_steps, reset_graph_memory_high, trim_graph_memory, GraphMemory, Step,
};
pub use host::*;
pub use managed::*;
pub use pools::functions::*;
pub use reservations::{Access, Properties};
pub use sets::*;
pub use shape::{Extent, Layout};

use crate::allocator::Refused;
use crate::graph::{capture, Work};
use crate::hostmem;
use crate::managed::{self as regions, Kind};
use crate::stream::{self, held};
use crate::types::{BoxExtent, MemPoolHandle, PitchedPtr, PointerAttributes, StreamHandle};
use session::call::{Error, Outcome};
use session::function::DefaultStream;
use session::work;
use std::ffi::c_void;
use tape::generated_operations as operation;

/// Rows of a pitched allocation start at multiples of this, as on NVIDIA's devices.
const PITCH: usize = 512;

/// Bytes from which on an allocation waits for the host's answer. Guests that share a GPU can all have what their quotas
/// allow only one after the other, so the host may have no memory left; what is smaller hears of that too late to go on.
const CONFIRMED: u64 = 256 << 20;

/// Around a record that allocates so many bytes: an error that the host has not told yet.
fn confirm(size: u64) -> Outcome {
    if size < CONFIRMED {
        return Ok(());
    }
    work::request(operation::fence).map(drop)
}

/// Mints an address and appends its ALLOCATE; null for no bytes.
pub fn allocate(size: usize) -> Outcome<*mut c_void> {
    if size == 0 {
        return Ok(std::ptr::null_mut());
    }
    let mut live = addresses()?.lock();
    let address = match live.allocator.allocate(size as u64) {
        Err(Refused::OutOfMemory) if graphs::trim(&mut live) => live.allocator.allocate(size as u64),
        minted => minted,
    }?;
    if let Err(earlier) = confirm(size as u64) {
        live.allocator.free(address)?;
        return Err(earlier);
    }
    let recorded = work::append(|w| operation::allocate(w, address, size as u64));
    if let Err(error) = recorded.and_then(|()| confirm(size as u64)) {
        live.allocator.free(address)?;
        let _ = work::append(|w| operation::free(w, address)); // the address is as good as any other again
        return Err(error);
    }
    live.own(address);
    Ok(address as *mut c_void)
}

pub fn free(pointer: *mut c_void) -> Outcome {
    if !pointer.is_null() {
        held::complete_all()?;
    }
    free_now(pointer)
}

fn free_now(pointer: *mut c_void) -> Outcome {
    let addresses = addresses()?;
    // Freeing null does nothing, but is how programs start CUDA: the session is open afterwards.
    if pointer.is_null() {
        return Ok(());
    }
    if let Some(freed) = regions::free(pointer as usize, |kind| kind == Kind::Managed) {
        return freed;
    }
    let address = pointer as u64;
    let mut live = addresses.lock();
    if let Some(freed) = graphs::free(&mut live, address) {
        return freed;
    }
    live.free(address)?;
    live.pools.remove(address);
    work::append(|w| operation::free(w, address))
}

/// The context, by its number on the tape, that memory of any kind was allocated in; `None` for the device's, and for
/// what is no such memory.
pub fn owner(address: u64) -> Option<u32> {
    if let Some(pinned) = hostmem::find(address as usize) {
        return Some(pinned.context);
    }
    let raw = regions::allocation(address as usize).unwrap_or(address);
    let live = addresses().ok()?.lock();
    live.owner(live.allocator.find(raw)?.address)
}

/// Allocates rows of `width` bytes; returns the pointer and the pitch.
fn allocate_rows(width: usize, rows: Option<usize>) -> Outcome<(*mut c_void, usize)> {
    let pitch = width.checked_next_multiple_of(PITCH).ok_or(Error::MEMORY_ALLOCATION)?;
    let size = rows.and_then(|rows| pitch.checked_mul(rows)).ok_or(Error::MEMORY_ALLOCATION)?;
    Ok((allocate(size)?, pitch))
}

pub unsafe fn malloc(devPtr: *mut *mut c_void, size: usize) -> Outcome {
    if devPtr.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let pointer = allocate(size)?;
    // SAFETY: not null, and the program says that it is a pointer's place.
    unsafe { devPtr.write(pointer) };
    Ok(())
}

pub unsafe fn malloc_pitch(devPtr: *mut *mut c_void, pitch: *mut usize, width: usize, height: usize) -> Outcome {
    if devPtr.is_null() || pitch.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let (pointer, bytes) = allocate_rows(width, Some(height))?;
    // SAFETY: as above.
    unsafe {
        devPtr.write(pointer);
        pitch.write(bytes);
    }
    Ok(())
}

pub unsafe fn malloc_3d(pitchedDevPtr: *mut PitchedPtr, extent: BoxExtent) -> Outcome {
    if pitchedDevPtr.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let (ptr, pitch) = allocate_rows(extent.width, extent.height.checked_mul(extent.depth))?;
    // SAFETY: as above.
    unsafe { pitchedDevPtr.write(PitchedPtr { ptr, pitch, xsize: extent.width, ysize: extent.height }) };
    Ok(())
}

pub unsafe fn malloc_async(
    default: DefaultStream,
    devPtr: *mut *mut c_void,
    size: usize,
    hStream: StreamHandle,
) -> Outcome {
    let stream = stream::resolve(default, hStream)?;
    if capture::of(&stream) {
        let address = capture::allocate(&stream, size)?;
        // SAFETY: the program says that it is a pointer's place, or null.
        *unsafe { devPtr.as_mut() }.ok_or(Error::INVALID_VALUE)? = address;
        return Ok(());
    }
    if capture::any() {
        capture::allow(false)?;
    }
    // SAFETY: the caller's promise.
    unsafe { allocate_from(None, devPtr, size) }
}

/// From a pool, the device's current one unless another is named. Streams that use the memory one after the other need not say so (`pools`).
///
/// # Safety
/// `place` is that of a pointer, or null.
unsafe fn allocate_from(pool: Option<u32>, place: *mut *mut c_void, size: usize) -> Outcome {
    let addresses = addresses()?;
    let pool = addresses.lock().pools.room(pool, size as u64)?;
    // SAFETY: the caller's promise.
    unsafe { malloc(place, size) }?;
    // SAFETY: it was written just now.
    let address = unsafe { place.read() } as u64;
    if address != 0 {
        let mut live = addresses.lock();
        live.pools.add(pool, address, size as u64);
        live.disown(address);
    }
    Ok(())
}

pub unsafe fn malloc_from_pool_async(
    default: DefaultStream,
    ptr: *mut *mut c_void,
    size: usize,
    memPool: MemPoolHandle,
    stream: StreamHandle,
) -> Outcome {
    let pool = pools::number(memPool)?;
    let capturing = capture::of(&*stream::resolve(default, stream)?);
    if capturing {
        // SAFETY: the caller's promise. Memory of graphs has an account of its own.
        return unsafe { malloc_async(default, ptr, size, stream) };
    }
    // SAFETY: the caller's promise.
    unsafe { allocate_from(Some(pool), ptr, size) }
}

pub unsafe fn free_async(default: DefaultStream, devPtr: *mut c_void, hStream: StreamHandle) -> Outcome {
    let stream = stream::resolve(default, hStream)?;
    if devPtr.is_null() {
        // cuSPARSE counts on it (cusparseDestroyCsrilu02Info).
        return Ok(());
    }
    if capture::of(&stream) {
        return capture::add(&stream, Work::Free(free_of_graph(devPtr)?)).map(drop);
    }
    if held::blocks(&stream) {
        held::add_call(&stream, move || free_now(devPtr));
        return Ok(());
    }
    free_now(devPtr)
}

pub unsafe fn get_info(free: *mut usize, total: *mut usize) -> Outcome {
    if free.is_null() || total.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let live = addresses()?.lock();
    let bytes = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    // SAFETY: not null, and the program says that they are such places.
    unsafe {
        free.write(bytes(live.allocator.available()));
        total.write(bytes(live.allocator.quota()));
    }
    Ok(())
}

pub unsafe fn pointer_get_attributes(attributes: *mut PointerAttributes, ptr: *const c_void) -> Outcome {
    if attributes.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: an all-zero value of this C struct is valid: unregistered, no pointers.
    let mut found: PointerAttributes = unsafe { std::mem::zeroed() };
    if let Some(kind) = regions::kind(ptr as usize) {
        let mapped = matches!(kind, Kind::Mapped(_) | Kind::Registered);
        (found.type_, found.device) =
            (if mapped { crate::types::MEMORY_TYPE_HOST } else { crate::types::MEMORY_TYPE_MANAGED }, 0);
        let there = regions::device_address(ptr as usize).map_or(ptr.cast_mut(), |there| there as *mut c_void);
        (found.devicePointer, found.hostPointer) = (there, ptr.cast_mut());
    } else if addresses()?.lock().find(ptr as u64).is_some() {
        (found.type_, found.device) = (crate::types::MEMORY_TYPE_DEVICE, 0);
        found.devicePointer = ptr.cast_mut();
    } else if let Some(pinned) = hostmem::find(ptr as usize) {
        (found.type_, found.device) = (crate::types::MEMORY_TYPE_HOST, 0);
        found.hostPointer = ptr.cast_mut();
        if pinned.reachable() {
            found.devicePointer = ptr.cast_mut();
        }
    } else {
        // CUDA's answer for memory it does not know: no device.
        (found.type_, found.device) = (crate::types::MEMORY_TYPE_UNREGISTERED, -2);
        found.hostPointer = ptr.cast_mut();
    }
    // SAFETY: not null, and the program says that it is such a place.
    unsafe { attributes.write(found) };
    Ok(())
}
