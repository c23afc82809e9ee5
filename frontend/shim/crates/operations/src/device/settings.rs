//! Settings of a device: flags, limits, cache and bank preferences.
//!
//! Owns their values, which are each context's own; limits are also sent to the host, which has one value for the
//! session (the last one) and may hold less than the real device does. Preferences have no effect on results and stay
//! here.

use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::types::{
    FuncCache, Limit, SharedMemConfig, DEVICE_LMEM_RESIZE_TO_MAX, DEVICE_MAP_HOST, DEVICE_SCHEDULE_MASK,
    DEVICE_SYNC_MEMOPS, FUNC_CACHE_PREFER_EQUAL, FUNC_CACHE_PREFER_NONE, INIT_DEVICE_FLAGS_ARE_VALID,
    LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, LIMIT_MALLOC_HEAP_SIZE, LIMIT_MAX_L2_FETCH_GRANULARITY,
    LIMIT_PERSISTING_L2_CACHE_SIZE, LIMIT_PRINTF_FIFO_SIZE, LIMIT_STACK_SIZE, SHARED_MEM_BANK_SIZE_EIGHT_BYTE,
    SHARED_MEM_BANK_SIZE_FOUR_BYTE,
};
use session::call::{Error, Outcome};
use session::{contexts, process, work};
use tape::generated_operations as operation;

use super::{device_of, give};

const LIMITS: usize = 7;
/// The most local memory of one thread (CUDA programming guide, "Technical specifications per compute capability").
const MAX_STACK_BYTES: usize = 512 << 10;
const MAX_L2_FETCH_BYTES: usize = 128;

#[derive(Clone, Copy)]
struct Settings {
    flags: c_uint,
    cache: FuncCache,
    limits: [usize; LIMITS],
}

/// As CUDA starts, by cudaLimit; the synchronization depth (3) is gone from CUDA 12 on.
const INITIAL: Settings =
    Settings { flags: 0, cache: FUNC_CACHE_PREFER_NONE, limits: [1024, 1 << 20, 8 << 20, 0, 2048, 128, 0] };

/// By context.
static SETTINGS: Mutex<Vec<(u32, Settings)>> = Mutex::new(Vec::new());

fn lock() -> MutexGuard<'static, Vec<(u32, Settings)>> {
    SETTINGS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn with<T>(device: c_int, body: impl FnOnce(&mut Settings) -> T) -> Outcome<T> {
    device_of(device)?;
    let (mut settings, context) = (lock(), contexts::acting());
    let place = settings.iter().position(|(of, _)| *of == context).unwrap_or_else(|| {
        settings.push((context, INITIAL));
        settings.len() - 1
    });
    Ok(body(&mut settings[place].1))
}

/// A context's are as at the start: it has ended.
pub fn forget_settings(context: u32) {
    lock().retain(|(of, _)| *of != context);
}

/// The same for all: the device was reset.
pub fn forget_all_settings() {
    lock().clear();
}

fn check_flags(flags: c_uint) -> Outcome {
    let known = DEVICE_SCHEDULE_MASK | DEVICE_MAP_HOST | DEVICE_LMEM_RESIZE_TO_MAX | DEVICE_SYNC_MEMOPS;
    let schedule = flags & DEVICE_SCHEDULE_MASK;
    if flags & !known != 0 || !matches!(schedule, 0 | 1 | 2 | 4) {
        return Err(Error::INVALID_VALUE);
    }
    Ok(())
}

pub unsafe fn set_device_flags(flags: c_uint) -> Outcome {
    check_flags(flags)?;
    with(process::current_device(), |settings| settings.flags = flags)
}

/// The flags of the device's primary context, which both APIs set.
pub fn primary_flags(device: c_int) -> c_uint {
    // A device that is not there has no settings.
    with(device, |settings| settings.flags).unwrap_or(0)
}

/// As `set_device_flags`, with flags that the caller has checked.
pub fn set_primary_flags(device: c_int, flags: c_uint) -> Outcome {
    with(device, |settings| settings.flags = flags)
}

pub unsafe fn get_device_flags(flags: *mut c_uint) -> Outcome {
    let value = with(process::current_device(), |settings| settings.flags)?;
    // SAFETY: the caller's place for the flags.
    unsafe { give(flags, value) }
}

pub unsafe fn init_device(device: c_int, deviceFlags: c_uint, flags: c_uint) -> Outcome {
    if flags & !INIT_DEVICE_FLAGS_ARE_VALID != 0 {
        return Err(Error::INVALID_VALUE);
    }
    device_of(device)?;
    if flags & INIT_DEVICE_FLAGS_ARE_VALID != 0 {
        check_flags(deviceFlags)?;
        with(device, |settings| settings.flags = deviceFlags)?;
    }
    Ok(())
}

/// The index of a limit that this version of CUDA has.
fn limit_index(limit: Limit) -> Outcome<usize> {
    match limit {
        LIMIT_STACK_SIZE
        | LIMIT_PRINTF_FIFO_SIZE
        | LIMIT_MALLOC_HEAP_SIZE
        | LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT
        | LIMIT_MAX_L2_FETCH_GRANULARITY
        | LIMIT_PERSISTING_L2_CACHE_SIZE => Ok(limit as usize),
        0..=9 => Err(Error::UNSUPPORTED_LIMIT),
        _ => Err(Error::INVALID_VALUE),
    }
}

pub unsafe fn set_limit(limit: Limit, value: usize) -> Outcome {
    let index = limit_index(limit)?;
    let too_much = match limit {
        LIMIT_STACK_SIZE => value > MAX_STACK_BYTES,
        LIMIT_MAX_L2_FETCH_GRANULARITY => value > MAX_L2_FETCH_BYTES,
        _ => false,
    };
    if too_much {
        return Err(Error::INVALID_VALUE);
    }
    let device = process::current_device();
    device_of(device)?;
    work::append(|w| operation::device_limit(w, limit.cast_unsigned(), value as u64))?;
    with(device, |settings| settings.limits[index] = value)
}

pub unsafe fn get_limit(pValue: *mut usize, limit: Limit) -> Outcome {
    let index = limit_index(limit)?;
    let value = with(process::current_device(), |settings| settings.limits[index])?;
    // SAFETY: the caller's place for the limit.
    unsafe { give(pValue, value) }
}

pub unsafe fn set_cache_config(cacheConfig: FuncCache) -> Outcome {
    if !(FUNC_CACHE_PREFER_NONE..=FUNC_CACHE_PREFER_EQUAL).contains(&cacheConfig) {
        return Err(Error::INVALID_VALUE);
    }
    with(process::current_device(), |settings| settings.cache = cacheConfig)
}

pub unsafe fn get_cache_config(pCacheConfig: *mut FuncCache) -> Outcome {
    let value = with(process::current_device(), |settings| settings.cache)?;
    // SAFETY: the caller's place for the preference.
    unsafe { give(pCacheConfig, value) }
}

/// Devices with banks of a configurable width are no longer supported by CUDA: the width stays four bytes.
pub unsafe fn set_shared_mem_config(config: SharedMemConfig) -> Outcome {
    if !(0..=SHARED_MEM_BANK_SIZE_EIGHT_BYTE).contains(&config) {
        return Err(Error::INVALID_VALUE);
    }
    process::device().map(drop)
}

pub unsafe fn get_shared_mem_config(pConfig: *mut SharedMemConfig) -> Outcome {
    process::device()?;
    // SAFETY: the caller's place for the preference.
    unsafe { give(pConfig, SHARED_MEM_BANK_SIZE_FOUR_BYTE) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_one_way_of_waiting() {
        assert_eq!(check_flags(0), Ok(()));
        assert_eq!(check_flags(4 | DEVICE_MAP_HOST), Ok(()));
        assert_eq!(check_flags(3), Err(Error::INVALID_VALUE));
        assert_eq!(check_flags(0x40), Err(Error::INVALID_VALUE));
    }

    #[test]
    fn limits_that_cuda_12_dropped_are_unsupported() {
        assert_eq!(limit_index(3), Err(Error::UNSUPPORTED_LIMIT));
        assert_eq!(limit_index(7), Err(Error::UNSUPPORTED_LIMIT));
        assert_eq!(limit_index(-1), Err(Error::INVALID_VALUE));
        assert_eq!(limit_index(LIMIT_PERSISTING_L2_CACHE_SIZE), Ok(6));
    }
}
