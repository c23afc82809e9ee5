//! The program's page-locked memory: allocated by cudaMallocHost and cudaHostAlloc, or registered by the program.
//!
//! Owns which ranges of host memory are pinned and with which flags; the guest has no device, so nothing is really locked.
//! Everything is local, unless a copy to the memory is on its way when it is released. A kernel cannot reach the guest's memory, therefore cudaHostGetDevicePointer is unsupported; the flag
//! cudaHostAllocMapped is accepted, because CUDA too reports only then that memory could not be mapped.
//!
//! Locking: one read-write lock around the ranges, held for one lookup or change.
//! Source: CUDA runtime API, "Memory Management" (cudaHostAlloc, cudaHostRegister).

use crate::call::CudaResult;
use crate::work;
use abi::CudaError;
use std::alloc::{alloc, dealloc, Layout};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What CUDA aligns page-locked memory to.
const PAGE: usize = 4096;

/// cudaHostAllocPortable, Mapped, WriteCombined.
const ALLOCATE_FLAGS: u32 = 7;
/// cudaHostRegisterPortable, Mapped, IoMemory, ReadOnly.
const REGISTER_FLAGS: u32 = 15;
const IO_MEMORY: u32 = 4;
/// Of either.
const MAPPED: u32 = 2;

/// One pinned range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub start: usize,
    pub size: usize,
    pub flags: u32,
    /// Registered by the program, which owns the memory; otherwise allocated here.
    registered: bool,
}

/// The pinned ranges, disjoint, by start.
#[derive(Debug, Default)]
struct Pinned(BTreeMap<usize, Range>);

impl Pinned {
    fn find(&self, address: usize) -> Option<Range> {
        let (_, range) = self.0.range(..=address).next_back()?;
        (address - range.start < range.size).then_some(*range)
    }

    fn overlaps(&self, start: usize, size: usize) -> bool {
        self.find(start).is_some() || self.0.range(start..start.saturating_add(size)).next().is_some()
    }

    fn register(&mut self, start: usize, size: usize, flags: u32) -> CudaResult {
        if start == 0 || size == 0 || start.checked_add(size).is_none() || flags & !REGISTER_FLAGS != 0 {
            return Err(CudaError::INVALID_VALUE);
        }
        if flags & IO_MEMORY != 0 {
            return Err(CudaError::NOT_SUPPORTED);
        }
        if self.overlaps(start, size) {
            return Err(CudaError::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.0.insert(start, Range { start, size, flags, registered: true });
        Ok(())
    }

    /// Takes out the range that starts at the address, when it came about that way.
    fn remove(&mut self, start: usize, registered: bool) -> Option<Range> {
        self.0.get(&start).filter(|range| range.registered == registered)?;
        self.0.remove(&start)
    }
}

static PINNED: RwLock<Pinned> = RwLock::new(Pinned(BTreeMap::new()));

fn pinned() -> RwLockReadGuard<'static, Pinned> {
    PINNED.read().unwrap_or_else(PoisonError::into_inner)
}

fn pinned_mut() -> RwLockWriteGuard<'static, Pinned> {
    PINNED.write().unwrap_or_else(PoisonError::into_inner)
}

fn layout(size: usize) -> CudaResult<Layout> {
    Layout::from_size_align(size, PAGE).map_err(|_| CudaError::MEMORY_ALLOCATION)
}

/// The pinned range that holds the address.
pub fn find(address: usize) -> Option<Range> {
    pinned().find(address)
}

/// Whether all of `[start, start + length)` is in one pinned range.
pub fn holds(start: usize, length: usize) -> bool {
    find(start).is_some_and(|range| length <= range.size - (start - range.start))
}

/// Whether a device could write to any pinned range without a call of the program: it is mapped, or registered.
pub fn any_device_written() -> bool {
    crate::managed::any() || pinned().0.values().any(|range| range.registered || range.flags & MAPPED != 0)
}

/// Memory of `size` bytes, null for none. Zeroed it is not, as with CUDA.
pub fn allocate(size: usize, flags: u32) -> CudaResult<*mut u8> {
    if flags & !ALLOCATE_FLAGS != 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    if size == 0 {
        return Ok(std::ptr::null_mut());
    }
    // SAFETY: the size is not 0.
    let memory = unsafe { alloc(layout(size)?) };
    if memory.is_null() {
        return Err(CudaError::MEMORY_ALLOCATION);
    }
    let start = memory as usize;
    let mut pinned = pinned_mut();
    // What lies here was unmapped by the program without unregistering it; the memory is new now.
    while let Some(stale) = pinned.find(start).or_else(|| pinned.0.range(start..start + size).next().map(|(_, r)| *r)) {
        pinned.0.remove(&stale.start);
    }
    pinned.0.insert(start, Range { start, size, flags, registered: false });
    Ok(memory)
}

/// Releases what `allocate` returned, once no copy to it is on its way. Null is success.
pub fn free(memory: *mut u8) -> CudaResult {
    if memory.is_null() {
        return Ok(());
    }
    let range = find(memory as usize).filter(|range| !range.registered).ok_or(CudaError::INVALID_VALUE)?;
    let settled = work::settle_memory(range.start, range.size);
    pinned_mut().remove(memory as usize, false).ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: it was allocated with this layout, and taken out of the table by this call alone.
    unsafe { dealloc(memory, layout(range.size)?) };
    settled
}

/// cudaHostRegister.
pub fn register(start: usize, size: usize, flags: u32) -> CudaResult {
    pinned_mut().register(start, size, flags)
}

/// cudaHostUnregister: the memory may be released afterwards, so copies to it are waited for.
pub fn unregister(start: usize) -> CudaResult {
    let range = pinned_mut().remove(start, true).ok_or(CudaError::HOST_MEMORY_NOT_REGISTERED)?;
    work::settle_memory(range.start, range.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_ranges_are_disjoint_and_found_inside() {
        let mut pinned = Pinned::default();
        assert_eq!(pinned.register(0x1000, 0x100, 0), Ok(()));
        for (start, size) in [(0x1000, 1), (0x10ff, 1), (0xfff, 2), (0x800, 0x1000), (0x1050, 0x1000)] {
            assert_eq!(pinned.register(start, size, 0), Err(CudaError::HOST_MEMORY_ALREADY_REGISTERED), "{start:#x}");
        }
        assert_eq!(pinned.register(0x1100, 0x100, 1), Ok(()));
        assert_eq!(pinned.find(0x11ff).map(|r| (r.start, r.flags)), Some((0x1100, 1)));
        assert_eq!((pinned.find(0xfff), pinned.find(0x1200)), (None, None));
    }

    #[test]
    fn bad_registrations_are_refused() {
        let mut pinned = Pinned::default();
        for (start, size, flags) in [(0, 8, 0), (8, 0, 0), (usize::MAX, 2, 0), (8, 8, 16)] {
            assert_eq!(pinned.register(start, size, flags), Err(CudaError::INVALID_VALUE));
        }
        assert_eq!(pinned.register(8, 8, IO_MEMORY), Err(CudaError::NOT_SUPPORTED));
        assert!(pinned.0.is_empty());
    }

    #[test]
    fn only_what_was_registered_is_unregistered_and_only_what_was_allocated_is_freed() {
        let memory = allocate(10_000, 1).unwrap();
        let start = memory as usize;
        assert_eq!(start % PAGE, 0);
        assert_eq!(find(start + 9_999).map(|range| range.flags), Some(1));
        assert_eq!(unregister(start), Err(CudaError::HOST_MEMORY_NOT_REGISTERED));
        // SAFETY: inside the allocation.
        assert_eq!(free(unsafe { memory.add(1) }), Err(CudaError::INVALID_VALUE));
        assert_eq!(free(memory), Ok(()));
        assert_eq!(find(start), None);

        let own = [0_u8; 64];
        let start = own.as_ptr() as usize;
        register(start, 64, 0).unwrap();
        assert!(any_device_written());
        assert_eq!(free(start as *mut u8), Err(CudaError::INVALID_VALUE));
        assert_eq!((unregister(start), unregister(start)), (Ok(()), Err(CudaError::HOST_MEMORY_NOT_REGISTERED)));
    }

    #[test]
    fn no_memory_is_null_and_too_much_is_refused() {
        assert_eq!(allocate(0, 0), Ok(std::ptr::null_mut()));
        assert_eq!(free(std::ptr::null_mut()), Ok(()));
        assert_eq!(allocate(usize::MAX - 4096, 0), Err(CudaError::MEMORY_ALLOCATION));
        assert_eq!(allocate(8, 8), Err(CudaError::INVALID_VALUE));
    }
}
