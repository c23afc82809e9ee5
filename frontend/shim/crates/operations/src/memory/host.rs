//! Pinned memory as the API has it; the ranges themselves are `hostmem`'s. All of it is local, but starts CUDA as every
//! allocation does: without a session it fails, and so it does in the child of a fork, before any lock is touched.
#![allow(non_snake_case, non_upper_case_globals)] // C's names

use crate::hostmem;
use crate::managed::{self, Kind};
use crate::memory::addresses;
use crate::stream::held;
use crate::testing;
use session::call::{Error, Outcome};
use session::work::tracking;
use std::ffi::{c_uint, c_void};

const MAPPED_FLAGS: c_uint =
    crate::types::HOST_ALLOC_PORTABLE | crate::types::HOST_ALLOC_MAPPED | crate::types::HOST_ALLOC_WRITE_COMBINED;

pub unsafe fn malloc_host(ptr: *mut *mut c_void, size: usize) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { host_alloc(ptr, size, 0) }
}

pub unsafe fn host_alloc(pHost: *mut *mut c_void, size: usize, flags: c_uint) -> Outcome {
    if pHost.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    tracking()?;
    // Mapped memory is memory of both sides.
    let memory = if flags & crate::types::HOST_ALLOC_MAPPED != 0 && size != 0 {
        if flags & !MAPPED_FLAGS != 0 {
            return Err(Error::INVALID_VALUE);
        }
        managed::allocate(size, Kind::Mapped(flags))?
    } else {
        hostmem::allocate(size, flags, Some(addresses()?))?
    };
    // SAFETY: not null, and the program says that it is a pointer's place.
    unsafe { pHost.write(memory.cast()) };
    Ok(())
}

pub unsafe fn free_host(ptr: *mut c_void) -> Outcome {
    testing::ends()?;
    held::complete_all()?;
    let addresses = addresses()?;
    // Before its addresses may be another thread's.
    hostmem::end_reached(ptr as usize);
    if let Some(freed) = managed::free(ptr as usize, |kind| matches!(kind, Kind::Mapped(_))) {
        return freed;
    }
    hostmem::free(ptr.cast(), Some(addresses))
}

pub unsafe fn host_register(ptr: *mut c_void, size: usize, flags: c_uint) -> Outcome {
    tracking()?;
    hostmem::register(ptr as usize, size, flags)
}

pub unsafe fn host_unregister(ptr: *mut c_void) -> Outcome {
    tracking()?;
    hostmem::unregister(ptr as usize)
}

pub unsafe fn host_get_flags(pFlags: *mut c_uint, pHost: *mut c_void) -> Outcome {
    tracking()?;
    let mapped = || match managed::kind(pHost as usize) {
        Some(Kind::Mapped(flags)) => Some(flags),
        _ => None,
    };
    let flags = hostmem::find(pHost as usize).map(|found| found.flags).or_else(mapped);
    let flags = flags.filter(|_| !pFlags.is_null()).ok_or(Error::INVALID_VALUE)?;
    // SAFETY: not null, and the program says that it is such a place.
    unsafe { pFlags.write(flags) };
    Ok(())
}
