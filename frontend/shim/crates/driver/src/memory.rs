//! Memory of the driver API that the runtime API has in another form: allocations, ranges, attributes of pointers.
//!
//! Rooms, one family of functions each: `array`, `copy` (its `boxes` are copies of more than one row), `set`, `tensor`,
//! `virtual_memory`. What they share: `copies` (descriptions of boxes) and `formats` (of texels).
//!
//! Source: CUDA driver API, "Memory Management", "Unified Addressing".

pub(crate) mod array;
mod boxes;
pub(crate) mod copies;
pub(crate) mod copy;
pub(crate) mod formats;
pub(crate) mod set;
pub(crate) mod tensor;
pub(crate) mod virtual_memory;

use std::collections::BTreeSet;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{ptr, slice};

use abi::driver::{CUcontext, CUdeviceptr, CUpointer_attribute};
use operations::memory::{self, malloc, malloc_managed, malloc_pitch, pointer_get_attributes};
use operations::types::{MemPoolHandle, PointerAttributes};
use operations::{hostmem, managed};
use session::call::{Error, Outcome};

use super::contexts::{self, Context};
use super::{current, give_if_wanted};

/// More attributes than there are.
const MOST_ATTRIBUTES: c_uint = 64;
const MEMORY_TYPE_HOST: c_uint = 1;
const MEMORY_TYPE_DEVICE: c_uint = 2;
const ACCESS_READ_WRITE: c_int = 3;
const SYNC_MEMOPS: CUpointer_attribute = 6;
const BUFFER_ID: CUpointer_attribute = 7;
/// Of the numbers of variables and of mapped memory, which are no allocations.
const OF_AN_ADDRESS: u64 = 1 << 63;

/// The numbers of the allocations that SYNC_MEMOPS was set for. None is ever given to another allocation.
static SYNCHRONOUS: Mutex<BTreeSet<u64>> = Mutex::new(BTreeSet::new());

fn synchronous() -> MutexGuard<'static, BTreeSet<u64>> {
    SYNCHRONOUS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The runtime API gives a null pointer for no bytes, this API refuses.
pub unsafe fn cuMemAlloc_v2(dptr: *mut CUdeviceptr, bytesize: usize) -> Outcome {
    if bytesize == 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise; an address is as large as a pointer.
    unsafe { malloc(dptr.cast(), bytesize) }
}

pub unsafe fn cuMemAllocManaged(dptr: *mut CUdeviceptr, bytesize: usize, flags: c_uint) -> Outcome {
    if bytesize == 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise; an address is as large as a pointer.
    unsafe { malloc_managed(dptr.cast(), bytesize, flags) }
}

pub unsafe fn cuMemAllocPitch_v2(
    dptr: *mut CUdeviceptr,
    pPitch: *mut usize,
    WidthInBytes: usize,
    Height: usize,
    ElementSizeBytes: c_uint,
) -> Outcome {
    if !matches!(ElementSizeBytes, 4 | 8 | 16) || WidthInBytes == 0 || Height == 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise; an address is as large as a pointer.
    unsafe { malloc_pitch(dptr.cast(), pPitch, WidthInBytes, Height) }
}

/// What the driver knows of an address.
struct Described {
    /// CU_MEMORYTYPE_HOST or _DEVICE.
    memory_type: c_uint,
    device_pointer: u64,
    host_pointer: u64,
    start: u64,
    size: u64,
    id: u64,
    managed: bool,
    /// The context that it was allocated in, by its number on the tape; not for the device's.
    owner: Option<u32>,
    pool: MemPoolHandle,
}

/// `None` for memory that CUDA did not allocate and that was not registered.
fn describe(address: u64) -> Outcome<Option<Described>> {
    // SAFETY: an all-zero value of this C struct is valid.
    let mut known: PointerAttributes = unsafe { std::mem::zeroed() };
    // SAFETY: a place of ours.
    unsafe { pointer_get_attributes(&mut known, address as *const c_void) }?;
    let memory_type = match known.type_ {
        operations::types::MEMORY_TYPE_UNREGISTERED => return Ok(None),
        operations::types::MEMORY_TYPE_HOST => MEMORY_TYPE_HOST,
        _ => MEMORY_TYPE_DEVICE,
    };
    let of_pinned = |range: hostmem::Range| (range.start as u64, range.size as u64);
    let of_region = || managed::range(address as usize).map(|(start, size)| (start as u64, size as u64));
    let of_device =
        || operations::memory::addresses().ok()?.lock().find(address).map(|found| (found.address, found.size));
    // Pinned memory that kernels use is a region, too, of whole pages.
    let range = hostmem::find(address as usize).map(of_pinned).or_else(of_region).or_else(of_device);
    let (start, size) = range.unwrap_or((address, 1));
    let of_allocation = || memory::addresses().ok()?.lock().id(start);
    let id = hostmem::find(address as usize).map(|range| range.id).or_else(of_allocation);
    Ok(Some(Described {
        owner: memory::owner(address),
        memory_type,
        device_pointer: known.devicePointer as u64,
        host_pointer: known.hostPointer as u64,
        start,
        size,
        id: id.unwrap_or(OF_AN_ADDRESS | start),
        managed: known.type_ == operations::types::MEMORY_TYPE_MANAGED,
        pool: memory::pool_of(start)?,
    }))
}

/// Device memory alone has a range; either place may be left out.
pub unsafe fn cuMemGetAddressRange_v2(pbase: *mut CUdeviceptr, psize: *mut usize, dptr: CUdeviceptr) -> Outcome {
    let found = describe(dptr)?.filter(|found| found.device_pointer != 0).ok_or(super::entry::NOT_FOUND)?;
    // SAFETY: the caller's places, or null.
    unsafe {
        give_if_wanted(pbase, found.start);
        give_if_wanted(psize, found.size as usize);
    }
    Ok(())
}

/// A value of one of the attributes' types.
enum Value {
    Context(CUcontext),
    Pool(MemPoolHandle),
    Address(u64),
    Unsigned(c_uint),
    Signed(c_int),
    Flag(bool),
    Tokens,
}

impl Value {
    /// # Safety
    /// `place` is one of the attribute's type.
    unsafe fn write(self, place: *mut c_void) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Value::Context(context) => place.cast::<CUcontext>().write(context),
                Value::Pool(pool) => place.cast::<MemPoolHandle>().write(pool),
                Value::Address(number) => place.cast::<u64>().write(number),
                Value::Unsigned(number) => place.cast::<c_uint>().write(number),
                Value::Signed(number) => place.cast::<c_int>().write(number),
                Value::Flag(set) => place.cast::<u8>().write(set.into()),
                Value::Tokens => place.cast::<[u64; 2]>().write([0; 2]),
            }
        }
    }
}

/// The value of an attribute; of unknown memory that of CUDA's documentation.
///
/// # Errors
/// cudaErrorInvalidValue for an attribute that this memory, or CUDA, does not have.
fn value(attribute: CUpointer_attribute, address: u64, found: Option<&Described>) -> Outcome<Value> {
    let context = || {
        let owner = found.and_then(|found| found.owner).and_then(contexts::of_tape);
        owner.or_else(current::get).map_or(ptr::null_mut(), Context::handle)
    };
    let device = found.filter(|found| found.device_pointer != 0);
    let wanted = |number: Option<u64>| number.filter(|number| *number != 0).ok_or(Error::INVALID_VALUE);
    Ok(match attribute {
        1 => Value::Context(found.map(|_| context()).ok_or(Error::INVALID_VALUE)?),
        2 => Value::Unsigned(found.ok_or(Error::INVALID_VALUE)?.memory_type),
        3 => Value::Address(wanted(found.map(|found| found.device_pointer))?),
        4 => Value::Address(wanted(found.map(|found| found.host_pointer))?),
        5 => Value::Tokens,
        SYNC_MEMOPS => Value::Flag(found.is_some_and(|found| synchronous().contains(&found.id))),
        BUFFER_ID => Value::Address(found.ok_or(Error::INVALID_VALUE)?.id),
        20 => Value::Address(found.ok_or(Error::INVALID_VALUE)?.start),
        8 => Value::Unsigned(found.is_some_and(|found| found.managed).into()), // of four bytes: a runtime reads them all
        9 => Value::Signed(found.map(|_| 0).ok_or(Error::INVALID_VALUE)?),
        10 | 15 | 21 => Value::Flag(false),
        11 | 19 => Value::Address(found.ok_or(Error::INVALID_VALUE)?.start),
        12 | 18 => Value::Address(found.ok_or(Error::INVALID_VALUE)?.size),
        13 => Value::Flag(device.is_some_and(|found| address - found.start < found.size)),
        14 => Value::Address(0),
        16 => Value::Signed(if device.is_some() { ACCESS_READ_WRITE } else { 0 }),
        17 => Value::Pool(found.map_or(ptr::null_mut(), |found| found.pool)),
        22 => Value::Signed(-1),
        _ => return Err(Error::INVALID_VALUE),
    })
}

/// What the plural form writes where an attribute has no value.
fn absent(attribute: CUpointer_attribute) -> Value {
    match attribute {
        1 => Value::Context(ptr::null_mut()),
        2 => Value::Unsigned(0),
        9 => Value::Signed(-2),
        _ => Value::Address(0),
    }
}

pub unsafe fn cuPointerGetAttribute(data: *mut c_void, attribute: CUpointer_attribute, ptr: CUdeviceptr) -> Outcome {
    if data.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let found = describe(ptr)?;
    // SAFETY: the program says that it is a place of the attribute's type.
    unsafe { value(attribute, ptr, found.as_ref())?.write(data) };
    Ok(())
}

/// Attributes without a value read as null or zero: this form does not fail for unknown memory.
pub unsafe fn cuPointerGetAttributes(
    numAttributes: c_uint,
    attributes: *mut CUpointer_attribute,
    data: *mut *mut c_void,
    ptr: CUdeviceptr,
) -> Outcome {
    if attributes.is_null() || data.is_null() || numAttributes == 0 || numAttributes > MOST_ATTRIBUTES {
        return Err(Error::INVALID_VALUE);
    }
    let count = numAttributes as usize;
    // SAFETY: the program says that there are as many of both.
    let (wanted, places) = unsafe { (slice::from_raw_parts(attributes, count), slice::from_raw_parts(data, count)) };
    if wanted.iter().any(|attribute| !(1..=22).contains(attribute)) || places.iter().any(|place| place.is_null()) {
        return Err(Error::INVALID_VALUE);
    }
    let found = describe(ptr)?;
    for (attribute, place) in wanted.iter().zip(places) {
        let value = value(*attribute, ptr, found.as_ref()).unwrap_or_else(|_| absent(*attribute));
        // SAFETY: the program says that it is a place of the attribute's type.
        unsafe { value.write(*place) };
    }
    Ok(())
}

/// Copies are always synchronous as far as this attribute asks for it; what is set is read back.
pub unsafe fn cuPointerSetAttribute(value: *const c_void, attribute: CUpointer_attribute, ptr: CUdeviceptr) -> Outcome {
    let found = describe(ptr)?.filter(|found| found.device_pointer != 0).ok_or(Error::INVALID_VALUE)?;
    if value.is_null() || attribute != SYNC_MEMOPS {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's boolean, of one byte or of four: its first byte says which it is.
    if unsafe { value.cast::<u8>().read() } != 0 {
        synchronous().insert(found.id);
    } else {
        synchronous().remove(&found.id);
    }
    Ok(())
}
