//! Managed memory as the API has it; the memory itself is `crate::managed`'s. Prefetches and advice are hints: what they are about is checked, and
//! a prefetch to the CPU makes the next touch fetch all of the range.
#![allow(non_snake_case)] // C's names

use super::advice;
use crate::call::{CudaResult, DefaultStream};
use crate::managed::{self, Kind};
use crate::{hostmem, runtime, stream};
use abi::{cudaMemLocation, cudaMemoryAdvise, cudaStream_t, CudaError};
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
const ADVICE: std::ops::RangeInclusive<cudaMemoryAdvise> = 1..=6;

pub unsafe fn cudaMallocManaged(devPtr: *mut *mut c_void, size: usize, flags: c_uint) -> CudaResult {
    if devPtr.is_null() || size == 0 || !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST) {
        return Err(CudaError::INVALID_VALUE);
    }
    let memory = managed::allocate(size, Kind::Managed)?;
    advice::fresh(memory as usize, size);
    // SAFETY: not null, and the program says that it is a pointer's place.
    unsafe { devPtr.write(memory.cast()) };
    Ok(())
}

/// The device that a location names; `None` for the host.
pub(super) fn device_of(location: cudaMemLocation) -> CudaResult<Option<c_int>> {
    match location.type_ {
        DEVICE => Ok(Some(location.id)),
        HOST => Ok(None),
        kind if HOST_NUMA.contains(&kind) => Ok(None),
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// Whether memory can be prefetched to there.
pub(super) fn check_place(device: Option<c_int>) -> CudaResult {
    device.map_or(Ok(()), runtime::check_device)
}

pub(super) fn prefetch(start: *const c_void, count: usize, device: Option<c_int>) -> CudaResult {
    if count == 0 || !managed::holds(start as usize, count) {
        return Err(CudaError::INVALID_VALUE);
    }
    check_place(device)?;
    if device.is_none() {
        managed::expect_reads(start as usize, count)?;
    }
    advice::prefetched(start as usize, count, device);
    Ok(())
}

pub unsafe fn cudaMemPrefetchAsync_v12(
    default: DefaultStream,
    devPtr: *const c_void,
    count: usize,
    dstDevice: c_int,
    stream: cudaStream_t,
) -> CudaResult {
    stream::resolve(default, stream)?;
    prefetch(devPtr, count, (dstDevice != CPU).then_some(dstDevice))
}

pub unsafe fn cudaMemPrefetchAsync_v13(
    default: DefaultStream,
    devPtr: *const c_void,
    count: usize,
    location: cudaMemLocation,
    flags: c_uint,
    stream: cudaStream_t,
) -> CudaResult {
    stream::resolve(default, stream)?;
    if flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    prefetch(devPtr, count, device_of(location)?)
}

pub unsafe fn cudaMemPrefetchAsync_v2(
    default: DefaultStream,
    devPtr: *const c_void,
    count: usize,
    location: cudaMemLocation,
    flags: c_uint,
    stream: cudaStream_t,
) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { cudaMemPrefetchAsync_v13(default, devPtr, count, location, flags, stream) }
}

fn advise(start: *const c_void, count: usize, advice: cudaMemoryAdvise, device: Option<c_int>) -> CudaResult {
    if count == 0 || !ADVICE.contains(&advice) || !managed::holds(start as usize, count) {
        return Err(CudaError::INVALID_VALUE);
    }
    // The device does not matter where something is unset, or to read-mostly memory.
    if let Some(device) = device.filter(|_| matches!(advice, 3 | 5)) {
        runtime::check_device(device)?;
    }
    advice::advised(start as usize, count, advice, device);
    Ok(())
}

pub unsafe fn cudaMemAdvise_v12(
    devPtr: *const c_void,
    count: usize,
    advice: cudaMemoryAdvise,
    device: c_int,
) -> CudaResult {
    advise(devPtr, count, advice, (device != CPU).then_some(device))
}

pub unsafe fn cudaMemAdvise_v13(
    devPtr: *const c_void,
    count: usize,
    advice: cudaMemoryAdvise,
    location: cudaMemLocation,
) -> CudaResult {
    let device = match advice {
        3 | 5 => device_of(location)?,
        _ => device_of(location).unwrap_or(None),
    };
    advise(devPtr, count, advice, device)
}

pub unsafe fn cudaMemAdvise_v2(
    devPtr: *const c_void,
    count: usize,
    advice: cudaMemoryAdvise,
    location: cudaMemLocation,
) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { cudaMemAdvise_v13(devPtr, count, advice, location) }
}

pub unsafe fn cudaStreamAttachMemAsync(
    default: DefaultStream,
    stream: cudaStream_t,
    devPtr: *mut c_void,
    length: usize,
    flags: c_uint,
) -> CudaResult {
    stream::resolve(default, stream)?;
    // The memory is coherent whatever stream it is attached to.
    let whole = managed::holds(devPtr as usize, length.max(1));
    if !whole || !matches!(flags, ATTACH_GLOBAL | ATTACH_HOST | ATTACH_SINGLE) {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(())
}

/// The device has pinned memory at the address that the program has, but what the program has registered.
pub unsafe fn cudaHostGetDevicePointer(pDevice: *mut *mut c_void, pHost: *mut c_void, flags: c_uint) -> CudaResult {
    runtime::session()?;
    if pDevice.is_null() || flags != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    let found = if matches!(managed::kind(pHost as usize), Some(Kind::Mapped(_))) {
        pHost as usize
    } else {
        hostmem::device_pointer(pHost as usize)?.ok_or(CudaError::INVALID_VALUE)?
    };
    // SAFETY: not null, and the program says that it is a pointer's place.
    unsafe { pDevice.write(found as *mut c_void) };
    Ok(())
}
