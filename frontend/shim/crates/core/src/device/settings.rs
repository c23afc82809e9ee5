//! Settings of a device: flags, limits, cache and bank preferences.
//!
//! Owns their values for this process, per device; limits are also sent to the host, which may hold less than the real device
//! does. Preferences have no effect on results and stay here.

use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, MutexGuard, PoisonError};

use abi::{
    cudaDeviceLmemResizeToMax, cudaDeviceMapHost, cudaDeviceScheduleMask, cudaDeviceSyncMemops, cudaFuncCache,
    cudaFuncCachePreferEqual, cudaFuncCachePreferNone, cudaInitDeviceFlagsAreValid, cudaLimit,
    cudaLimitDevRuntimePendingLaunchCount, cudaLimitMallocHeapSize, cudaLimitMaxL2FetchGranularity,
    cudaLimitPersistingL2CacheSize, cudaLimitPrintfFifoSize, cudaLimitStackSize, cudaSharedMemBankSizeEightByte,
    cudaSharedMemBankSizeFourByte, cudaSharedMemConfig, CudaError,
};
use tape::generated_operations as operation;

use super::{device_of, give};
use crate::call::CudaResult;
use crate::{runtime, work};

const LIMITS: usize = 7;
/// The most local memory of one thread (CUDA programming guide, "Technical specifications per compute capability").
const MAX_STACK_BYTES: usize = 512 << 10;
const MAX_L2_FETCH_BYTES: usize = 128;

#[derive(Clone, Copy)]
struct Settings {
    flags: c_uint,
    cache: cudaFuncCache,
    limits: [usize; LIMITS],
}

/// As CUDA starts, by cudaLimit; the synchronization depth (3) is gone from CUDA 12 on.
const INITIAL: Settings =
    Settings { flags: 0, cache: cudaFuncCachePreferNone, limits: [1024, 1 << 20, 8 << 20, 0, 2048, 128, 0] };

static SETTINGS: Mutex<Vec<Settings>> = Mutex::new(Vec::new());

fn with<T>(device: c_int, body: impl FnOnce(&mut Settings) -> T) -> CudaResult<T> {
    let number = usize::try_from(device).map_err(|_| CudaError::INVALID_DEVICE)?;
    device_of(device)?;
    let mut settings: MutexGuard<'_, Vec<Settings>> = SETTINGS.lock().unwrap_or_else(PoisonError::into_inner);
    if settings.len() <= number {
        settings.resize(number + 1, INITIAL);
    }
    Ok(body(&mut settings[number]))
}

/// As after cudaDeviceReset.
pub fn reset(device: c_int) {
    // A device that is not there has no settings.
    let _ = with(device, |settings| *settings = INITIAL);
}

fn check_flags(flags: c_uint) -> CudaResult {
    let known = cudaDeviceScheduleMask | cudaDeviceMapHost | cudaDeviceLmemResizeToMax | cudaDeviceSyncMemops;
    let schedule = flags & cudaDeviceScheduleMask;
    if flags & !known != 0 || !matches!(schedule, 0 | 1 | 2 | 4) {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(())
}

pub unsafe fn cudaSetDeviceFlags(flags: c_uint) -> CudaResult {
    check_flags(flags)?;
    with(runtime::current_device(), |settings| settings.flags = flags)
}

pub unsafe fn cudaGetDeviceFlags(flags: *mut c_uint) -> CudaResult {
    let value = with(runtime::current_device(), |settings| settings.flags)?;
    // SAFETY: the caller's place for the flags.
    unsafe { give(flags, value) }
}

pub unsafe fn cudaInitDevice(device: c_int, deviceFlags: c_uint, flags: c_uint) -> CudaResult {
    if flags & !cudaInitDeviceFlagsAreValid != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    device_of(device)?;
    if flags & cudaInitDeviceFlagsAreValid != 0 {
        check_flags(deviceFlags)?;
        with(device, |settings| settings.flags = deviceFlags)?;
    }
    Ok(())
}

/// The index of a limit that this version of CUDA has.
fn limit_index(limit: cudaLimit) -> CudaResult<usize> {
    match limit {
        cudaLimitStackSize
        | cudaLimitPrintfFifoSize
        | cudaLimitMallocHeapSize
        | cudaLimitDevRuntimePendingLaunchCount
        | cudaLimitMaxL2FetchGranularity
        | cudaLimitPersistingL2CacheSize => Ok(limit as usize),
        _ => Err(CudaError::UNSUPPORTED_LIMIT),
    }
}

pub unsafe fn cudaDeviceSetLimit(limit: cudaLimit, value: usize) -> CudaResult {
    let index = limit_index(limit)?;
    let too_much = match limit {
        cudaLimitStackSize => value > MAX_STACK_BYTES,
        cudaLimitMaxL2FetchGranularity => value > MAX_L2_FETCH_BYTES,
        _ => false,
    };
    if too_much {
        return Err(CudaError::INVALID_VALUE);
    }
    let device = runtime::current_device();
    device_of(device)?;
    work::append(|w| operation::device_limit(w, limit.cast_unsigned(), value as u64))?;
    with(device, |settings| settings.limits[index] = value)
}

pub unsafe fn cudaDeviceGetLimit(pValue: *mut usize, limit: cudaLimit) -> CudaResult {
    let index = limit_index(limit)?;
    let value = with(runtime::current_device(), |settings| settings.limits[index])?;
    // SAFETY: the caller's place for the limit.
    unsafe { give(pValue, value) }
}

pub unsafe fn cudaDeviceSetCacheConfig(cacheConfig: cudaFuncCache) -> CudaResult {
    if !(cudaFuncCachePreferNone..=cudaFuncCachePreferEqual).contains(&cacheConfig) {
        return Err(CudaError::INVALID_VALUE);
    }
    with(runtime::current_device(), |settings| settings.cache = cacheConfig)
}

pub unsafe fn cudaDeviceGetCacheConfig(pCacheConfig: *mut cudaFuncCache) -> CudaResult {
    let value = with(runtime::current_device(), |settings| settings.cache)?;
    // SAFETY: the caller's place for the preference.
    unsafe { give(pCacheConfig, value) }
}

/// Devices with banks of a configurable width are no longer supported by CUDA: the width stays four bytes.
pub unsafe fn cudaDeviceSetSharedMemConfig(config: cudaSharedMemConfig) -> CudaResult {
    if !(0..=cudaSharedMemBankSizeEightByte).contains(&config) {
        return Err(CudaError::INVALID_VALUE);
    }
    runtime::device().map(drop)
}

pub unsafe fn cudaDeviceGetSharedMemConfig(pConfig: *mut cudaSharedMemConfig) -> CudaResult {
    runtime::device()?;
    // SAFETY: the caller's place for the preference.
    unsafe { give(pConfig, cudaSharedMemBankSizeFourByte) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_name_one_way_of_waiting() {
        assert_eq!(check_flags(0), Ok(()));
        assert_eq!(check_flags(4 | cudaDeviceMapHost), Ok(()));
        assert_eq!(check_flags(3), Err(CudaError::INVALID_VALUE));
        assert_eq!(check_flags(0x40), Err(CudaError::INVALID_VALUE));
    }

    #[test]
    fn limits_that_cuda_12_dropped_are_unsupported() {
        assert_eq!(limit_index(3), Err(CudaError::UNSUPPORTED_LIMIT));
        assert_eq!(limit_index(7), Err(CudaError::UNSUPPORTED_LIMIT));
        assert_eq!(limit_index(-1), Err(CudaError::UNSUPPORTED_LIMIT));
        assert_eq!(limit_index(cudaLimitPersistingL2CacheSize), Ok(6));
    }
}
