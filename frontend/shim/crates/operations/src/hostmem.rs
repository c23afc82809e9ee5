//! The program's page-locked memory: allocated by cudaMallocHost and cudaHostAlloc, or registered by the program.
//!
//! Owns which ranges of host memory are pinned and with which flags; the guest has no device, so nothing is really
//! locked. Everything is local, unless a copy to the memory is on its way when it is released.
//!
//! Kernels may use pinned memory by the address that the program has (unified addressing). What is allocated here lies
//! at addresses that the device can have too (`placed`), and becomes memory of both sides (`managed`) when a kernel is
//! given an address in it or cudaHostGetDevicePointer is asked (`reach`). Memory that the program registered lies
//! elsewhere: kernels reach it by the pointer that cudaHostGetDevicePointer gives (`device_pointer`), and by the
//! program's own once one was given that (`reach_registered`).
//!
//! Locking: one read-write lock around the ranges, held for one lookup or change.
//! Source: CUDA runtime API, "Memory Management" (cudaHostAlloc, cudaHostRegister).

mod found;
mod placed;
mod ranges;

pub use placed::{keep, near as near_placed};
pub use ranges::Range;

use crate::managed;
use crate::memory::Addresses;
use crate::page;
use crate::types::{HOST_ALLOC_MAPPED, HOST_ALLOC_PORTABLE, HOST_ALLOC_WRITE_COMBINED};
use ranges::{Pinned, Place};
use session::call::{Error, Outcome};
use session::{log, process, work};
use std::alloc::{alloc, dealloc, Layout};
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What CUDA aligns page-locked memory to.
const PAGE: usize = 4096;

const ALLOCATE_FLAGS: u32 = HOST_ALLOC_PORTABLE | HOST_ALLOC_MAPPED | HOST_ALLOC_WRITE_COMBINED;

/// All that was ever registered lies in `[LOW, HIGH)`.
static LOW: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGH: AtomicUsize = AtomicUsize::new(0);

static PINNED: RwLock<Pinned> = RwLock::new(Pinned::new());

fn pinned() -> RwLockReadGuard<'static, Pinned> {
    PINNED.read().unwrap_or_else(PoisonError::into_inner)
}

fn pinned_mut() -> RwLockWriteGuard<'static, Pinned> {
    PINNED.write().unwrap_or_else(PoisonError::into_inner)
}

fn layout(size: usize) -> Outcome<Layout> {
    Layout::from_size_align(size, PAGE).map_err(|_| Error::MEMORY_ALLOCATION)
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
    let written = |range: &Range| range.place == Place::Registered || range.flags & HOST_ALLOC_MAPPED != 0;
    managed::any() || pinned().0.values().any(written)
}

/// Memory of `size` bytes, null for none, in the window if there is room. Zeroed it is not, as with CUDA.
pub fn allocate(size: usize, flags: u32, addresses: Option<&Addresses>) -> Outcome<*mut u8> {
    if flags & !ALLOCATE_FLAGS != 0 {
        return Err(Error::INVALID_VALUE);
    }
    if size == 0 {
        return Ok(std::ptr::null_mut());
    }
    let in_window = addresses.and_then(|addresses| placed::map(addresses, size));
    let (memory, place) = match in_window {
        Some(memory) => (memory, Place::Window),
        // SAFETY: the size is not 0.
        None => (unsafe { alloc(layout(size)?) }, Place::Heap),
    };
    if memory.is_null() {
        return Err(Error::MEMORY_ALLOCATION);
    }
    let start = memory as usize;
    let mut pinned = pinned_mut();
    // What lies here was unmapped by the program without unregistering it; the memory is new now.
    while let Some(stale) = pinned.find(start).or_else(|| pinned.0.range(start..start + size).next().map(|(_, r)| *r)) {
        pinned.0.remove(&stale.start);
    }
    pinned.0.insert(start, Range::new(start, size, flags, place));
    Ok(memory)
}

/// Releases what `allocate` returned, once no copy to it is on its way. Null is success.
pub(crate) fn free(memory: *mut u8, addresses: Option<&Addresses>) -> Outcome {
    if memory.is_null() {
        return Ok(());
    }
    let range = find(memory as usize).filter(|range| range.place != Place::Registered);
    let range = range.ok_or(Error::INVALID_VALUE)?;
    let completed = work::complete_copies(range.start, range.size);
    pinned_mut().remove(memory as usize, false).ok_or(Error::INVALID_VALUE)?;
    match (range.place, addresses) {
        (Place::Window, Some(addresses)) => placed::unmap(addresses, range.start, range.size),
        // SAFETY: it was allocated with this layout, and taken out of the table by this call alone.
        (Place::Heap, _) => unsafe { dealloc(memory, layout(range.size)?) },
        _ => return Err(Error::INVALID_VALUE),
    }
    completed
}

/// Whether kernels may be given addresses of pinned memory: there is, or was, some.
#[inline]
pub fn any() -> bool {
    placed::any() || HIGH.load(Acquire) != 0
}

/// Whether an address is in memory that the program has registered.
pub fn is_registered(address: usize) -> bool {
    let near = address >= LOW.load(Acquire) && address < HIGH.load(Acquire);
    near && find(address).is_some_and(|range| range.place == Place::Registered)
}

/// A kernel may use this address: pinned memory that holds it becomes memory of both sides. Whether kernels reach the
/// address then.
fn reach(address: usize) -> Outcome<bool> {
    if !placed::near(address) {
        return Ok(false);
    }
    match find(address).map(|range| range.place) {
        Some(Place::Reached) => return Ok(true),
        Some(Place::Window) => {}
        _ => return Ok(false),
    }
    // From here on no copy moves its bytes, and none is on its way.
    let _changing = placed::change();
    let Some(range) = find(address) else { return Ok(false) };
    if range.place != Place::Window {
        return Ok(range.place == Place::Reached);
    }
    work::complete_copies(range.start, range.size)?;
    managed::adopt(range.start, range.size.next_multiple_of(page::size()))?;
    if let Some(range) = pinned_mut().0.get_mut(&range.start) {
        range.place = Place::Reached;
    }
    Ok(true)
}

/// As `reach`, and so does the pinned memory of which addresses are found there.
pub fn reach_from(address: usize) -> Outcome {
    let mut open = vec![address];
    while let Some(address) = open.pop() {
        let Some(range) = find(address).filter(|range| range.place == Place::Window) else { continue };
        work::complete_copies(range.start, range.size)?;
        // SAFETY: the program's memory, all of which can be read as long as no kernel reaches it.
        let bytes = unsafe { std::slice::from_raw_parts(range.start as *const u8, range.size) };
        found::addresses(bytes, 0, |address| open.push(address));
        reach(address)?;
    }
    Ok(())
}

/// Kernels will see these bytes, the first of them at an address that is `start` modulo 8: pinned memory of which
/// addresses are among them becomes memory of both sides.
pub fn reach_found(bytes: &[u8], start: u64) -> Outcome {
    let mut open = Vec::new();
    found::addresses(bytes, start, |address| open.push(address));
    open.into_iter().try_for_each(reach_from)
}

/// Whether there is, or was, pinned memory that kernels may reach by the program's address.
#[inline]
pub fn any_placed() -> bool {
    placed::any()
}

/// Where kernels find pinned memory, which becomes memory of both sides. `None` where the address is not in such
/// memory.
pub fn device_pointer(address: usize) -> Outcome<Option<usize>> {
    if placed::near(address) {
        reach_from(address)?;
    }
    if reach(address)? {
        return Ok(Some(address));
    }
    if !is_registered(address) {
        return Ok(None);
    }
    // From here on no copy moves its bytes, and none is on its way.
    let _changing = placed::change();
    if let Some(known) = managed::device_address(address) {
        return Ok(Some(known));
    }
    let Some(range) = find(address) else { return Ok(None) };
    work::complete_copies(range.start, range.size)?;
    managed::mirror(range.start, range.size)?;
    Ok(managed::device_address(address))
}

/// A kernel may use this address of memory that the program has registered: it becomes memory of both sides, at the
/// program's addresses. Where it cannot, stderr says so, once, and kernels fault.
pub fn reach_registered(address: usize) -> Outcome {
    let Some(range) = find(address).filter(|range| !range.refused) else { return Ok(()) };
    let reached = if process::device()?.description.has_host_mappings {
        device_pointer(address).and_then(|_| managed::map_to_host_address(address))
    } else {
        log::error(format_args!(
            "kernels of this device reach memory at {:#x}, which the program has registered, only by the pointer that cudaHostGetDevicePointer gives",
            range.start
        ));
        Err(Error::NOT_SUPPORTED)
    };
    if reached != Err(Error::NOT_SUPPORTED) {
        return reached;
    }
    if let Some(range) = pinned_mut().0.get_mut(&range.start) {
        range.refused = true;
    }
    Ok(())
}

/// Forgets what starts there if it is memory of both sides, which the caller ends.
pub fn end_reached(start: usize) {
    let mut pinned = pinned_mut();
    if pinned.0.get(&start).is_some_and(|range| range.place == Place::Reached) {
        pinned.0.remove(&start);
    }
}

/// The memory that was allocated in a context: all of it, or (`reached`) what is memory of both sides.
pub fn of_context(context: u32, reached: bool) -> Vec<usize> {
    let is_meant = |range: &&Range| {
        range.context == context && range.place != Place::Registered && (!reached || range.place == Place::Reached)
    };
    pinned().0.values().filter(is_meant).map(|range| range.start).collect()
}

/// How many ranges were allocated and not released.
pub fn count() -> usize {
    pinned().0.values().filter(|range| range.place != Place::Registered).count()
}

/// The memory that was registered in a context.
pub fn registered_in(context: u32) -> Vec<usize> {
    let is_meant = |range: &&Range| range.context == context && range.place == Place::Registered;
    pinned().0.values().filter(is_meant).map(|range| range.start).collect()
}

/// The device was reset: memory of both sides is gone, and nothing is registered.
pub fn forget_reached() {
    pinned_mut().0.retain(|_, range| !matches!(range.place, Place::Reached | Place::Registered));
}

/// cudaHostRegister.
pub fn register(start: usize, size: usize, flags: u32) -> Outcome {
    pinned_mut().register(start, size, flags)?;
    placed::expect_changes();
    LOW.fetch_min(start, Release);
    HIGH.fetch_max(start + size, Release);
    Ok(())
}

/// cudaHostUnregister: the memory may be released afterwards, so copies to it are waited for.
pub fn unregister(start: usize) -> Outcome {
    let range = pinned_mut().remove(start, true).ok_or(Error::HOST_MEMORY_NOT_REGISTERED)?;
    work::complete_copies(range.start, range.size)?;
    let _changing = placed::change();
    managed::end_mirror(range.start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_registered_is_unregistered_and_only_what_was_allocated_is_freed() {
        let memory = allocate(10_000, 1, None).unwrap();
        let start = memory as usize;
        assert_eq!(start % PAGE, 0);
        assert_eq!(find(start + 9_999).map(|range| range.flags), Some(1));
        assert_eq!(unregister(start), Err(Error::HOST_MEMORY_NOT_REGISTERED));
        // SAFETY: inside the allocation.
        assert_eq!(free(unsafe { memory.add(1) }, None), Err(Error::INVALID_VALUE));
        assert_eq!(free(memory, None), Ok(()));
        assert_eq!(find(start), None);

        let own = [0_u8; 64];
        let start = own.as_ptr() as usize;
        register(start, 64, 0).unwrap();
        assert!(any_device_written());
        assert_eq!(free(start as *mut u8, None), Err(Error::INVALID_VALUE));
        assert_eq!((unregister(start), unregister(start)), (Ok(()), Err(Error::HOST_MEMORY_NOT_REGISTERED)));
    }

    #[test]
    fn no_memory_is_null_and_too_much_is_refused() {
        assert_eq!(allocate(0, 0, None), Ok(std::ptr::null_mut()));
        assert_eq!(free(std::ptr::null_mut(), None), Ok(()));
        assert_eq!(allocate(usize::MAX - 4096, 0, None), Err(Error::MEMORY_ALLOCATION));
        assert_eq!(allocate(8, 8, None), Err(Error::INVALID_VALUE));
    }
}
