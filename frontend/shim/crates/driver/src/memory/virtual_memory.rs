//! Virtual memory management: argument checks of cuMemAddressReserve, cuMemCreate, cuMemMap and their like.
//!
//! What they do is `memory::virtual_memory`'s. A handle is the number of the physical allocation. Memory lies on the
//! one device; memory of the host, and ways of exporting it, are not supported. POSIX file descriptors may be asked for
//! all the same: allocators do so without ever exporting, and the export itself is refused.
//!
//! Source: CUDA driver API, "Virtual Memory Management".

use std::ffi::{c_int, c_ulonglong, c_void};
use std::{ptr, slice};

use abi::driver::{
    CUdeviceptr, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationProp, CUmemGenericAllocationHandle,
    CUmemLocation, CU_MEM_ALLOCATION_TYPE_PINNED, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED, CU_MEM_CREATE_USAGES,
    CU_MEM_HANDLE_TYPES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, CU_MEM_LOCATION_TYPE_DEVICE,
    CU_MEM_LOCATION_TYPE_HOST, CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
};
use operations::memory::{virtual_memory, Access, Properties};
use session::call::{Error, Outcome};
use session::process;

use crate::give;

/// More descriptions of access than there are locations.
const MOST_LOCATIONS: usize = 1024;

fn number(handle: CUmemGenericAllocationHandle) -> Outcome<u32> {
    u32::try_from(handle).map_err(|_| Error::INVALID_VALUE)
}

fn check_location(location: CUmemLocation) -> Outcome {
    match location.type_ {
        CU_MEM_LOCATION_TYPE_DEVICE => process::check_device(location.id),
        CU_MEM_LOCATION_TYPE_HOST..=CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT => Err(Error::NOT_SUPPORTED),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// What the program wants, if it can have it.
///
/// # Safety
/// `prop` is null or the program's structure.
unsafe fn wanted(prop: *const CUmemAllocationProp) -> Outcome<Properties> {
    // SAFETY: the caller's promise.
    let prop = unsafe { prop.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    let [compression, direct_access, low, high, ..] = prop.allocFlags;
    let usage = u16::from_le_bytes([low, high]);
    let kinds = prop.requestedHandleTypes;
    if prop.type_ != CU_MEM_ALLOCATION_TYPE_PINNED
        || !prop.win32HandleMetaData.is_null()
        || kinds & !CU_MEM_HANDLE_TYPES != 0
        || compression > 1
        || usage & !CU_MEM_CREATE_USAGES != 0
    {
        return Err(Error::INVALID_VALUE);
    }
    check_location(prop.location)?;
    if kinds & !CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR != 0 || direct_access != 0 || usage != 0 {
        return Err(Error::NOT_SUPPORTED);
    }
    Ok(Properties { exports: kinds.cast_unsigned() })
}

pub unsafe fn cuMemAddressReserve(
    ptr: *mut CUdeviceptr,
    size: usize,
    alignment: usize,
    addr: CUdeviceptr,
    flags: c_ulonglong,
) -> Outcome {
    if ptr.is_null() || flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let start = virtual_memory::reserve(size as u64, alignment as u64, addr)?;
    // SAFETY: not null, the caller's place for the address.
    unsafe { give(ptr, start) }
}

pub unsafe fn cuMemAddressFree(ptr: CUdeviceptr, size: usize) -> Outcome {
    virtual_memory::unreserve(ptr, size as u64)
}

pub unsafe fn cuMemCreate(
    handle: *mut CUmemGenericAllocationHandle,
    size: usize,
    prop: *const CUmemAllocationProp,
    flags: c_ulonglong,
) -> Outcome {
    if handle.is_null() || flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let properties = unsafe { wanted(prop) }?;
    let memory = virtual_memory::create(size as u64, properties)?;
    // SAFETY: not null, the caller's place for the handle.
    unsafe { give(handle, memory.into()) }
}

pub unsafe fn cuMemRelease(handle: CUmemGenericAllocationHandle) -> Outcome {
    virtual_memory::release(number(handle)?)
}

pub unsafe fn cuMemMap(
    ptr: CUdeviceptr,
    size: usize,
    offset: usize,
    handle: CUmemGenericAllocationHandle,
    flags: c_ulonglong,
) -> Outcome {
    // The offset "currently must be zero", says CUDA's documentation.
    if flags != 0 || offset != 0 {
        return Err(Error::INVALID_VALUE);
    }
    virtual_memory::map(ptr, size as u64, number(handle)?)
}

pub unsafe fn cuMemUnmap(ptr: CUdeviceptr, size: usize) -> Outcome {
    virtual_memory::unmap(ptr, size as u64)
}

fn access_of(flags: c_int) -> Outcome<Access> {
    match flags {
        0 => Ok(Access::None),
        1 => Ok(Access::Read),
        3 => Ok(Access::ReadWrite),
        _ => Err(Error::INVALID_VALUE),
    }
}

pub unsafe fn cuMemSetAccess(ptr: CUdeviceptr, size: usize, desc: *const CUmemAccessDesc, count: usize) -> Outcome {
    if desc.is_null() || !(1..=MOST_LOCATIONS).contains(&count) {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program says that there are as many.
    let wanted = unsafe { slice::from_raw_parts(desc, count) };
    let mut access = Access::None;
    for one in wanted {
        check_location(one.location)?;
        access = access_of(one.flags)?;
    }
    virtual_memory::set_access(ptr, size as u64, access)
}

pub unsafe fn cuMemGetAccess(flags: *mut c_ulonglong, location: *const CUmemLocation, ptr: CUdeviceptr) -> Outcome {
    // SAFETY: the caller's structure, or null.
    let location = unsafe { location.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if flags.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    check_location(*location)?;
    let access = virtual_memory::access(ptr)?;
    // SAFETY: not null, the caller's place for the flags.
    unsafe { give(flags, access as c_ulonglong) }
}

pub unsafe fn cuMemGetAllocationGranularity(
    granularity: *mut usize,
    prop: *const CUmemAllocationProp,
    option: CUmemAllocationGranularity_flags,
) -> Outcome {
    if granularity.is_null() || !(0..=CU_MEM_ALLOC_GRANULARITY_RECOMMENDED).contains(&option) {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { wanted(prop) }?;
    // SAFETY: not null, the caller's place for the size.
    unsafe { give(granularity, virtual_memory::GRANULARITY as usize) }
}

pub unsafe fn cuMemGetAllocationPropertiesFromHandle(
    prop: *mut CUmemAllocationProp,
    handle: CUmemGenericAllocationHandle,
) -> Outcome {
    if prop.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let known = virtual_memory::properties(number(handle)?)?;
    let properties = CUmemAllocationProp {
        type_: CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: known.exports.cast_signed(),
        location: CUmemLocation { type_: CU_MEM_LOCATION_TYPE_DEVICE, id: 0 },
        win32HandleMetaData: ptr::null_mut(),
        allocFlags: [0; 8], // compression is a hint that is not taken
    };
    // SAFETY: not null, the caller's place for the structure.
    unsafe { give(prop, properties) }
}

pub unsafe fn cuMemRetainAllocationHandle(handle: *mut CUmemGenericAllocationHandle, addr: *mut c_void) -> Outcome {
    if handle.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let memory = virtual_memory::retain(addr as u64)?;
    // SAFETY: not null, the caller's place for the handle.
    unsafe { give(handle, memory.into()) }
}
