//! Prefetches and discards of managed memory that a program gives as lists.
//!
//! A list is checked as a whole before its first entry has an effect. Discarded memory keeps its bytes: CUDA says that
//! reading it gives any value until it is written or prefetched.
//! Source: CUDA runtime API, cudaMemPrefetchBatchAsync, cudaMemDiscardBatchAsync.
#![allow(non_snake_case, clippy::too_many_arguments)] // C's names and signatures

use super::{check_place, device_of, prefetch};
use crate::managed;
use crate::memory::batches::{check_list, covers};
use crate::types::{MemLocation, StreamHandle};
use session::call::{Error, Outcome};
use session::function::DefaultStream;
use std::ffi::{c_ulonglong, c_void};
use std::slice::from_raw_parts;

/// The ranges of a list, each of which is managed memory: start and size.
///
/// # Safety
/// Both arrays are null or have `count` entries.
unsafe fn ranges(
    default: DefaultStream,
    dptrs: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    flags: c_ulonglong,
    stream: StreamHandle,
) -> Outcome<Vec<(*const c_void, usize)>> {
    check_list(default, stream, count)?;
    if dptrs.is_null() || sizes.is_null() || flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: not null; the caller's promise.
    let (starts, sizes) = unsafe { (from_raw_parts(dptrs, count), from_raw_parts(sizes, count)) };
    let ranges = starts.iter().zip(sizes).map(|(start, size)| (start.cast_const(), *size));
    if ranges.clone().any(|(start, size)| size == 0 || !managed::holds(start as usize, size)) {
        return Err(Error::INVALID_VALUE);
    }
    Ok(ranges.collect())
}

pub unsafe fn prefetch_batch_async(
    default: DefaultStream,
    dptrs: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    prefetchLocs: *mut MemLocation,
    prefetchLocIdxs: *mut usize,
    numPrefetchLocs: usize,
    flags: c_ulonglong,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    let ranges = unsafe { ranges(default, dptrs, sizes, count, flags, stream) }?;
    if prefetchLocs.is_null() || prefetchLocIdxs.is_null() || numPrefetchLocs > count {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: not null; the program says that there are so many.
    let (places, firsts) =
        unsafe { (from_raw_parts(prefetchLocs, numPrefetchLocs), from_raw_parts(prefetchLocIdxs, numPrefetchLocs)) };
    if !covers(firsts, count) {
        return Err(Error::INVALID_VALUE);
    }
    let devices = places.iter().map(|place| device_of(*place)).collect::<Outcome<Vec<_>>>()?;
    devices.iter().try_for_each(|device| check_place(*device))?;
    for (index, (start, size)) in ranges.into_iter().enumerate() {
        // The last entry that begins at or before this one; the first begins at 0.
        let entry = firsts.partition_point(|first| *first <= index) - 1;
        prefetch(start, size, devices[entry])?;
    }
    Ok(())
}

pub unsafe fn discard_batch_async(
    default: DefaultStream,
    dptrs: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    flags: c_ulonglong,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { ranges(default, dptrs, sizes, count, flags, stream) }.map(drop)
}

/// The prefetch alone: a discard has no effect.
pub unsafe fn discard_and_prefetch_batch_async(
    default: DefaultStream,
    dptrs: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    prefetchLocs: *mut MemLocation,
    prefetchLocIdxs: *mut usize,
    numPrefetchLocs: usize,
    flags: c_ulonglong,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        prefetch_batch_async(
            default,
            dptrs,
            sizes,
            count,
            prefetchLocs,
            prefetchLocIdxs,
            numPrefetchLocs,
            flags,
            stream,
        )
    }
}
