//! Pinned memory as the API has it; the ranges themselves are `hostmem`'s. All of it is local, but starts CUDA as every
//! allocation does: without a session it fails, and so it does in the child of a fork, before any lock is touched.
#![allow(non_snake_case, non_upper_case_globals)] // C's names

use crate::call::CudaResult;
use crate::hostmem;
use crate::managed::{self, Kind};
use crate::work::tracking;
use abi::CudaError;
use std::ffi::{c_uint, c_void};

const MAPPED_FLAGS: c_uint = abi::cudaHostAllocPortable | abi::cudaHostAllocMapped | abi::cudaHostAllocWriteCombined;

pub unsafe fn cudaMallocHost(ptr: *mut *mut c_void, size: usize) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { cudaHostAlloc(ptr, size, 0) }
}

pub unsafe fn cudaHostAlloc(pHost: *mut *mut c_void, size: usize, flags: c_uint) -> CudaResult {
    if pHost.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    tracking()?;
    // Mapped memory is memory of both sides.
    let memory = if flags & abi::cudaHostAllocMapped != 0 && size != 0 {
        if flags & !MAPPED_FLAGS != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        managed::allocate(size, Kind::Mapped(flags))?
    } else {
        hostmem::allocate(size, flags, Some(&tracking()?.addresses))?
    };
    // SAFETY: not null, and the program says that it is a pointer's place.
    unsafe { pHost.write(memory.cast()) };
    Ok(())
}

pub unsafe fn cudaFreeHost(ptr: *mut c_void) -> CudaResult {
    let addresses = &tracking()?.addresses;
    // Before its addresses may be another thread's.
    hostmem::end_reached(ptr as usize);
    if let Some(freed) = managed::free(ptr as usize, |kind| matches!(kind, Kind::Mapped(_))) {
        return freed;
    }
    hostmem::free(ptr.cast(), Some(addresses))
}

pub unsafe fn cudaHostRegister(ptr: *mut c_void, size: usize, flags: c_uint) -> CudaResult {
    tracking()?;
    hostmem::register(ptr as usize, size, flags)
}

pub unsafe fn cudaHostUnregister(ptr: *mut c_void) -> CudaResult {
    tracking()?;
    hostmem::unregister(ptr as usize)
}

pub unsafe fn cudaHostGetFlags(pFlags: *mut c_uint, pHost: *mut c_void) -> CudaResult {
    tracking()?;
    let mapped = || match managed::kind(pHost as usize) {
        Some(Kind::Mapped(flags)) => Some(flags),
        _ => None,
    };
    let flags = hostmem::find(pHost as usize).map(|found| found.flags).or_else(mapped);
    let flags = flags.filter(|_| !pFlags.is_null()).ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: not null, and the program says that it is such a place.
    unsafe { pFlags.write(flags) };
    Ok(())
}
