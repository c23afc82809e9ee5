//! The API's functions of memory pools. What they do is in the parent.
#![allow(non_snake_case)] // C's names

use super::{handle, is_policy, number, DEFAULT};
use crate::memory::addresses;
use crate::types::{
    MemAccessDesc, MemAccessFlags, MemAllocationType, MemLocation, MemPoolAttr, MemPoolHandle, MemPoolProps,
    MEM_ACCESS_FLAGS_PROT_NONE, MEM_ACCESS_FLAGS_PROT_READ_WRITE, MEM_ALLOCATION_TYPE_PINNED, MEM_LOCATION_TYPE_DEVICE,
};
use session::call::{Error, Outcome};
use session::process;
use std::ffi::{c_int, c_void};

/// Only memory of a device has pools here.
///
/// # Safety
/// `location` is that of a location, or null.
unsafe fn check_location(location: *const MemLocation, kind: MemAllocationType) -> Outcome {
    // SAFETY: the caller's promise.
    let location = unsafe { location.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if location.type_ != MEM_LOCATION_TYPE_DEVICE || kind != MEM_ALLOCATION_TYPE_PINNED {
        return Err(Error::NOT_SUPPORTED);
    }
    process::check_device(location.id)
}

/// # Safety
/// `place` is that of a pool, or null.
unsafe fn answer(place: *mut MemPoolHandle, number: u32) -> Outcome {
    // SAFETY: the caller's promise.
    *unsafe { place.as_mut() }.ok_or(Error::INVALID_VALUE)? = handle(number);
    Ok(())
}

/// The pool that the device memory at that address was allocated from; null for what is of no pool.
pub fn pool_of(address: u64) -> Outcome<MemPoolHandle> {
    Ok(addresses()?.lock().pools.owner(address).map_or(std::ptr::null_mut(), handle))
}

pub unsafe fn device_get_default_mem_pool(memPool: *mut MemPoolHandle, device: c_int) -> Outcome {
    process::check_device(device)?;
    // SAFETY: the program's promise.
    unsafe { answer(memPool, DEFAULT) }
}

pub unsafe fn device_get_mem_pool(memPool: *mut MemPoolHandle, device: c_int) -> Outcome {
    process::check_device(device)?;
    let current = addresses()?.lock().pools.current;
    // SAFETY: the program's promise.
    unsafe { answer(memPool, current) }
}

pub unsafe fn device_set_mem_pool(device: c_int, memPool: MemPoolHandle) -> Outcome {
    process::check_device(device)?;
    let number = number(memPool)?;
    addresses()?.lock().pools.current = number;
    Ok(())
}

pub unsafe fn get_default_mem_pool(
    memPool: *mut MemPoolHandle,
    location: *mut MemLocation,
    r#type: MemAllocationType,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        check_location(location, r#type)?;
        answer(memPool, DEFAULT)
    }
}

pub unsafe fn get_mem_pool(
    memPool: *mut MemPoolHandle,
    location: *mut MemLocation,
    r#type: MemAllocationType,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        check_location(location, r#type)?;
        device_get_mem_pool(memPool, (*location).id)
    }
}

pub unsafe fn set_mem_pool(location: *mut MemLocation, r#type: MemAllocationType, memPool: MemPoolHandle) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        check_location(location, r#type)?;
        device_set_mem_pool((*location).id, memPool)
    }
}

/// Whether there may be a pool like that. The device says that it shares none between processes
/// (cudaDevAttrMemoryPoolSupportedHandleTypes), so CUDA calls it an invalid value to ask for that.
fn check_properties(properties: &MemPoolProps) -> Outcome {
    let invalid = properties.allocType <= 0
        || properties.location.type_ <= 0
        || properties.handleTypes != 0
        || properties.reserved.iter().any(|byte| *byte != 0);
    if invalid {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: a place inside the properties.
    unsafe { check_location(&properties.location, properties.allocType) }.map_err(|error| {
        if error == Error::INVALID_DEVICE {
            return Error::INVALID_VALUE;
        }
        error
    })
}

pub unsafe fn pool_create(memPool: *mut MemPoolHandle, poolProps: *const MemPoolProps) -> Outcome {
    // SAFETY: the program says that it is such a place, or null.
    let properties = unsafe { poolProps.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if memPool.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    check_properties(properties)?;
    let number = addresses()?.lock().pools.create(properties.maxSize as u64)?;
    // SAFETY: not null, and the program says that it is such a place.
    unsafe { answer(memPool, number) }
}

pub unsafe fn pool_destroy(memPool: MemPoolHandle) -> Outcome {
    let number = number(memPool)?;
    addresses()?.lock().pools.destroy(number)
}

/// The device always has access to its own memory, and there is no other.
pub unsafe fn pool_set_access(memPool: MemPoolHandle, descList: *const MemAccessDesc, count: usize) -> Outcome {
    number(memPool)?;
    if descList.is_null() && count != 0 {
        return Err(Error::INVALID_VALUE);
    }
    for index in 0..count {
        // SAFETY: the program says that there are so many.
        let access = unsafe { descList.add(index).read() };
        // SAFETY: a place of our own.
        unsafe { check_location(&access.location, MEM_ALLOCATION_TYPE_PINNED) }?;
        if access.flags != MEM_ACCESS_FLAGS_PROT_READ_WRITE {
            return Err(Error::INVALID_VALUE);
        }
    }
    Ok(())
}

pub unsafe fn pool_get_access(
    flags: *mut MemAccessFlags,
    memPool: MemPoolHandle,
    location: *mut MemLocation,
) -> Outcome {
    number(memPool)?;
    // SAFETY: the program says that they are such places, or null.
    let (flags, location) = unsafe { flags.as_mut().zip(location.as_ref()) }.ok_or(Error::INVALID_VALUE)?;
    *flags = if location.type_ == MEM_LOCATION_TYPE_DEVICE {
        process::check_device(location.id)?;
        MEM_ACCESS_FLAGS_PROT_READ_WRITE
    } else {
        MEM_ACCESS_FLAGS_PROT_NONE
    };
    Ok(())
}

pub unsafe fn pool_trim_to(memPool: MemPoolHandle, _minBytesToKeep: usize) -> Outcome {
    number(memPool).map(drop)
}

pub unsafe fn pool_set_attribute(memPool: MemPoolHandle, attr: MemPoolAttr, value: *mut c_void) -> Outcome {
    let number = number(memPool)?;
    if value.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let value = if is_policy(attr) {
        // SAFETY: the program says that it is a value of the attribute's type.
        let value = unsafe { value.cast::<c_int>().read() };
        u64::from(value != 0)
    } else {
        // SAFETY: as above.
        unsafe { value.cast::<u64>().read() }
    };
    addresses()?.lock().pools.pool(number)?.put(attr, value)
}

pub unsafe fn pool_get_attribute(memPool: MemPoolHandle, attr: MemPoolAttr, value: *mut c_void) -> Outcome {
    let number = number(memPool)?;
    let found = addresses()?.lock().pools.pool(number)?.get(attr);
    let found = found.filter(|_| !value.is_null()).ok_or(Error::INVALID_VALUE)?;
    if is_policy(attr) {
        // SAFETY: the program says that it is a place of the attribute's type.
        unsafe { value.cast::<c_int>().write(c_int::from(found != 0)) };
    } else {
        // SAFETY: as above.
        unsafe { value.cast::<u64>().write(found) };
    }
    Ok(())
}
