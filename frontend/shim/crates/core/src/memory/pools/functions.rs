//! The API's functions of memory pools. What they do is in the parent.
#![allow(non_snake_case)] // C's names

use super::{handle, is_policy, number, DEFAULT};
use crate::call::CudaResult;
use crate::runtime;
use crate::work::tracking;
use abi::{
    cudaMemAccessDesc, cudaMemAccessFlags, cudaMemAccessFlagsProtNone, cudaMemAccessFlagsProtReadWrite,
    cudaMemAllocationType, cudaMemAllocationTypePinned, cudaMemLocation, cudaMemLocationTypeDevice, cudaMemPoolAttr,
    cudaMemPoolProps, cudaMemPool_t, CudaError,
};
use std::ffi::{c_int, c_void};

/// Only memory of a device has pools here.
///
/// # Safety
/// `location` is that of a location, or null.
unsafe fn check_location(location: *const cudaMemLocation, kind: cudaMemAllocationType) -> CudaResult {
    // SAFETY: the caller's promise.
    let location = unsafe { location.as_ref() }.ok_or(CudaError::INVALID_VALUE)?;
    if location.type_ != cudaMemLocationTypeDevice || kind != cudaMemAllocationTypePinned {
        return Err(CudaError::NOT_SUPPORTED);
    }
    runtime::check_device(location.id)
}

/// # Safety
/// `place` is that of a pool, or null.
unsafe fn answer(place: *mut cudaMemPool_t, number: u32) -> CudaResult {
    // SAFETY: the caller's promise.
    *unsafe { place.as_mut() }.ok_or(CudaError::INVALID_VALUE)? = handle(number);
    Ok(())
}

/// The pool that the device memory at that address was allocated from; null for what is of no pool.
pub fn pool_of(address: u64) -> CudaResult<cudaMemPool_t> {
    Ok(tracking()?.addresses.lock().pools.owner(address).map_or(std::ptr::null_mut(), handle))
}

pub unsafe fn cudaDeviceGetDefaultMemPool(memPool: *mut cudaMemPool_t, device: c_int) -> CudaResult {
    runtime::check_device(device)?;
    // SAFETY: the program's promise.
    unsafe { answer(memPool, DEFAULT) }
}

pub unsafe fn cudaDeviceGetMemPool(memPool: *mut cudaMemPool_t, device: c_int) -> CudaResult {
    runtime::check_device(device)?;
    let current = tracking()?.addresses.lock().pools.current;
    // SAFETY: the program's promise.
    unsafe { answer(memPool, current) }
}

pub unsafe fn cudaDeviceSetMemPool(device: c_int, memPool: cudaMemPool_t) -> CudaResult {
    runtime::check_device(device)?;
    let number = number(memPool)?;
    tracking()?.addresses.lock().pools.current = number;
    Ok(())
}

pub unsafe fn cudaMemGetDefaultMemPool(
    memPool: *mut cudaMemPool_t,
    location: *mut cudaMemLocation,
    r#type: cudaMemAllocationType,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe {
        check_location(location, r#type)?;
        answer(memPool, DEFAULT)
    }
}

pub unsafe fn cudaMemGetMemPool(
    memPool: *mut cudaMemPool_t,
    location: *mut cudaMemLocation,
    r#type: cudaMemAllocationType,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe {
        check_location(location, r#type)?;
        cudaDeviceGetMemPool(memPool, (*location).id)
    }
}

pub unsafe fn cudaMemSetMemPool(
    location: *mut cudaMemLocation,
    r#type: cudaMemAllocationType,
    memPool: cudaMemPool_t,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe {
        check_location(location, r#type)?;
        cudaDeviceSetMemPool((*location).id, memPool)
    }
}

pub unsafe fn cudaMemPoolCreate(memPool: *mut cudaMemPool_t, poolProps: *const cudaMemPoolProps) -> CudaResult {
    // SAFETY: the program says that it is such a place, or null.
    let properties = unsafe { poolProps.as_ref() }.ok_or(CudaError::INVALID_VALUE)?;
    if memPool.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: a place inside the properties.
    unsafe { check_location(&properties.location, properties.allocType) }?;
    if properties.handleTypes != 0 {
        return Err(CudaError::NOT_SUPPORTED); // to be shared between processes
    }
    let number = tracking()?.addresses.lock().pools.create(properties.maxSize as u64)?;
    // SAFETY: not null, and the program says that it is such a place.
    unsafe { answer(memPool, number) }
}

pub unsafe fn cudaMemPoolDestroy(memPool: cudaMemPool_t) -> CudaResult {
    let number = number(memPool)?;
    tracking()?.addresses.lock().pools.destroy(number)
}

/// The device always has access to its own memory, and there is no other.
pub unsafe fn cudaMemPoolSetAccess(
    memPool: cudaMemPool_t,
    descList: *const cudaMemAccessDesc,
    count: usize,
) -> CudaResult {
    number(memPool)?;
    if descList.is_null() && count != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    for index in 0..count {
        // SAFETY: the program says that there are so many.
        let access = unsafe { descList.add(index).read() };
        // SAFETY: a place of our own.
        unsafe { check_location(&access.location, cudaMemAllocationTypePinned) }?;
        if access.flags != cudaMemAccessFlagsProtReadWrite {
            return Err(CudaError::INVALID_VALUE);
        }
    }
    Ok(())
}

pub unsafe fn cudaMemPoolGetAccess(
    flags: *mut cudaMemAccessFlags,
    memPool: cudaMemPool_t,
    location: *mut cudaMemLocation,
) -> CudaResult {
    number(memPool)?;
    // SAFETY: the program says that they are such places, or null.
    let (flags, location) = unsafe { flags.as_mut().zip(location.as_ref()) }.ok_or(CudaError::INVALID_VALUE)?;
    *flags = if location.type_ == cudaMemLocationTypeDevice {
        runtime::check_device(location.id)?;
        cudaMemAccessFlagsProtReadWrite
    } else {
        cudaMemAccessFlagsProtNone
    };
    Ok(())
}

pub unsafe fn cudaMemPoolTrimTo(memPool: cudaMemPool_t, _minBytesToKeep: usize) -> CudaResult {
    number(memPool).map(drop)
}

pub unsafe fn cudaMemPoolSetAttribute(memPool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut c_void) -> CudaResult {
    let number = number(memPool)?;
    if value.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let value = if is_policy(attr) {
        // SAFETY: the program says that it is a value of the attribute's type.
        let value = unsafe { value.cast::<c_int>().read() };
        u64::from(value != 0)
    } else {
        // SAFETY: as above.
        unsafe { value.cast::<u64>().read() }
    };
    tracking()?.addresses.lock().pools.pool(number)?.put(attr, value)
}

pub unsafe fn cudaMemPoolGetAttribute(memPool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut c_void) -> CudaResult {
    let number = number(memPool)?;
    let found = tracking()?.addresses.lock().pools.pool(number)?.get(attr);
    let found = found.filter(|_| !value.is_null()).ok_or(CudaError::INVALID_VALUE)?;
    if is_policy(attr) {
        // SAFETY: the program says that it is a place of the attribute's type.
        unsafe { value.cast::<c_int>().write(c_int::from(found != 0)) };
    } else {
        // SAFETY: as above.
        unsafe { value.cast::<u64>().write(found) };
    }
    Ok(())
}
