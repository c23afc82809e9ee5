//! Managed memory as the API has it; the memory itself is `crate::managed`'s. Prefetches and advice are hints: what
//! they are about is checked, and a prefetch to the CPU makes the next touch fetch all of the range.
#![allow(non_snake_case)] // C's names

mod batches;

pub use batches::*;

use super::advice;
use crate::managed::{self, Kind};
use crate::types::{MemLocation, MemoryAdvise, StreamHandle};
use crate::{hostmem, stream};
use session::call::{Error, Outcome};
use session::function::DefaultStream;
use session::process;
use std::ffi::{c_int, c_uint, c_void};

const ATTACH_GLOBAL: c_uint = 1;
const ATTACH_HOST: c_uint = 2;
const ATTACH_SINGLE: c_uint = 4;
const CPU: c_int = -1;
/// cudaMemLocationType: a device, the host, and the two ways to name a NUMA node.
const DEVICE: c_int = 1;
const HOST: c_int = 2;
const HOST_NUMA: std::ops::RangeInclusive<c_int> = 3..=4;
/// cudaMemAdviseSetReadMostly to cudaMemAdviseUnsetAccessedBy.
const ADVICE: std::ops::RangeInclusive<MemoryAdvise> = 1..=6;

pub unsafe fn malloc_managed(devPtr: *mut *mut c_void, size: usize, flags: c_uint) -> Outcome {
    if devPtr.is_null() || size == 0 || !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST) {
        return Err(Error::INVALID_VALUE);
    }
    let memory = managed::allocate(size, Kind::Managed)?;
    advice::fresh(memory as usize, size);
    // SAFETY: not null, and the program says that it is a pointer's place.
    unsafe { devPtr.write(memory.cast()) };
    Ok(())
}

/// The device that a location names; `None` for the host.
pub(super) fn device_of(location: MemLocation) -> Outcome<Option<c_int>> {
    match location.type_ {
        DEVICE => Ok(Some(location.id)),
        HOST => Ok(None),
        kind if HOST_NUMA.contains(&kind) => Ok(None),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// Whether memory can be prefetched to there.
pub(super) fn check_place(device: Option<c_int>) -> Outcome {
    device.map_or(Ok(()), process::check_device)
}

pub(super) fn prefetch(start: *const c_void, count: usize, device: Option<c_int>) -> Outcome {
    if count == 0 || !managed::holds(start as usize, count) {
        return Err(Error::INVALID_VALUE);
    }
    check_place(device)?;
    if device.is_none() {
        managed::expect_reads(start as usize, count)?;
    }
    advice::prefetched(start as usize, count, device);
    Ok(())
}

pub unsafe fn prefetch_async_before_13(
    default: DefaultStream,
    devPtr: *const c_void,
    count: usize,
    dstDevice: c_int,
    stream: StreamHandle,
) -> Outcome {
    stream::resolve(default, stream)?;
    prefetch(devPtr, count, (dstDevice != CPU).then_some(dstDevice))
}

pub unsafe fn prefetch_async(
    default: DefaultStream,
    devPtr: *const c_void,
    count: usize,
    location: MemLocation,
    flags: c_uint,
    stream: StreamHandle,
) -> Outcome {
    stream::resolve(default, stream)?;
    if flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    prefetch(devPtr, count, device_of(location)?)
}

fn advise_range(start: *const c_void, count: usize, advice: MemoryAdvise, device: Option<c_int>) -> Outcome {
    if count == 0 || !ADVICE.contains(&advice) || !managed::holds(start as usize, count) {
        return Err(Error::INVALID_VALUE);
    }
    // The device does not matter where something is unset, or to read-mostly memory.
    if let Some(device) = device.filter(|_| matches!(advice, 3 | 5)) {
        process::check_device(device)?;
    }
    advice::advised(start as usize, count, advice, device);
    Ok(())
}

pub unsafe fn advise_before_13(devPtr: *const c_void, count: usize, advice: MemoryAdvise, device: c_int) -> Outcome {
    advise_range(devPtr, count, advice, (device != CPU).then_some(device))
}

pub unsafe fn advise(devPtr: *const c_void, count: usize, advice: MemoryAdvise, location: MemLocation) -> Outcome {
    let device = match advice {
        3 | 5 => device_of(location)?,
        _ => device_of(location).unwrap_or(None),
    };
    advise_range(devPtr, count, advice, device)
}

pub unsafe fn stream_attach_mem_async(
    default: DefaultStream,
    stream: StreamHandle,
    devPtr: *mut c_void,
    length: usize,
    flags: c_uint,
) -> Outcome {
    stream::resolve(default, stream)?;
    // The memory is coherent whatever stream it is attached to.
    let whole = managed::holds(devPtr as usize, length.max(1));
    if !whole || !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST | ATTACH_SINGLE) {
        return Err(Error::INVALID_VALUE);
    }
    Ok(())
}

/// The device has pinned memory at the address that the program has, but what the program has registered.
pub unsafe fn host_get_device_pointer(pDevice: *mut *mut c_void, pHost: *mut c_void, flags: c_uint) -> Outcome {
    process::session()?;
    if pDevice.is_null() || flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let found = if matches!(managed::kind(pHost as usize), Some(Kind::Mapped(_))) {
        pHost as usize
    } else {
        hostmem::device_pointer(pHost as usize)?.ok_or(Error::INVALID_VALUE)?
    };
    // SAFETY: not null, and the program says that it is a pointer's place.
    unsafe { pDevice.write(found as *mut c_void) };
    Ok(())
}
