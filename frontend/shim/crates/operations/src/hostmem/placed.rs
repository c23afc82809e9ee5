//! Where pinned memory lies: at addresses of the session's window, so that a kernel can have it at the address that the
//! program has.
//!
//! Owns the mapping of such memory, and the bounds of all of it. It is the program's alone, neither device memory nor
//! protected, until `hostmem::reach` is asked for an address in it: programs that only copy never come to that. It is
//! shared memory because `managed` then needs a second mapping of it. Small mappings that ended are kept for the next
//! ones of their size, so that those cost no system call and no page faults.
//!
//! Locking: a mutex around what is kept, a leaf. Who moves pinned memory's bytes keeps `keep` locked for reading
//! meanwhile, `hostmem::reach` holds it for writing.

use crate::memory::Addresses;
use crate::page;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// From here on huge pages may back it.
const LARGE: usize = 2 << 20;

/// The largest mapping that is kept, and how many bytes are at once.
const MOST_FREE_MAPPING: usize = 1 << 20;
const MOST_FREE: usize = 8 << 20;

/// Mappings that have ended, by size, and the bytes of all.
struct FreeMappings {
    starts: BTreeMap<usize, Vec<usize>>,
    bytes: usize,
}

impl FreeMappings {
    fn take(&mut self, bytes: usize) -> Option<usize> {
        let start = self.starts.get_mut(&bytes)?.pop()?;
        self.bytes -= bytes;
        Some(start)
    }

    /// False when there is no room for it.
    fn keep(&mut self, start: usize, bytes: usize) -> bool {
        let room = bytes <= MOST_FREE_MAPPING && self.bytes + bytes <= MOST_FREE;
        if room {
            self.starts.entry(bytes).or_default().push(start);
            self.bytes += bytes;
        }
        room
    }
}

static FREE: Mutex<FreeMappings> = Mutex::new(FreeMappings { starts: BTreeMap::new(), bytes: 0 });

fn free_mappings() -> MutexGuard<'static, FreeMappings> {
    FREE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that there ever was lies in `[LOW, HIGH)`.
static LOW: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGH: AtomicUsize = AtomicUsize::new(0);
static MOVING: RwLock<()> = RwLock::new(());
/// There is other memory that may become the device's: registered.
static CHANGES: AtomicBool = AtomicBool::new(false);

/// Whether there ever was any.
#[inline]
pub fn any() -> bool {
    HIGH.load(Acquire) != 0
}

/// Whether an address may be in such memory.
#[inline]
pub fn near(address: usize) -> bool {
    address >= LOW.load(Acquire) && address < HIGH.load(Acquire)
}

/// All addresses that are near lie from the first to before the second.
pub fn bounds() -> (usize, usize) {
    (LOW.load(Acquire), HIGH.load(Acquire))
}

/// As long as the caller has this, pinned memory that kernels do not reach stays so. `None` where there is no such
/// memory.
pub fn keep() -> Option<RwLockReadGuard<'static, ()>> {
    (any() || CHANGES.load(Acquire)).then(|| MOVING.read().unwrap_or_else(PoisonError::into_inner))
}

/// From now on memory outside of the window may become the device's, too.
pub fn expect_changes() {
    CHANGES.store(true, Release);
}

pub fn change() -> RwLockWriteGuard<'static, ()> {
    MOVING.write().unwrap_or_else(PoisonError::into_inner)
}

/// Whole pages at an address of the window; `None` where there is no room, or where this process has something else.
pub fn map(addresses: &Addresses, size: usize) -> Option<*mut u8> {
    let bytes = size.checked_next_multiple_of(page::size())?;
    if let Some(start) = free_mappings().take(bytes) {
        return Some(start as *mut u8);
    }
    let start = usize::try_from(addresses.lock().pinned.allocate(bytes as u64).ok()?).ok()?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
    // SAFETY: it replaces no mapping.
    let view = unsafe { libc::mmap(start as *mut c_void, bytes, access, flags, -1, 0) };
    if view as usize == start && start % page::size() == 0 {
        if bytes >= LARGE {
            // SAFETY: mapped just now. A hint.
            unsafe { libc::madvise(view, bytes, libc::MADV_HUGEPAGE) };
        }
        LOW.fetch_min(start, Release);
        HIGH.fetch_max(start + bytes, Release);
        return Some(view.cast());
    }
    if view != libc::MAP_FAILED {
        // SAFETY: mapped just now; an old kernel that does not know the flag took another place.
        unsafe { libc::munmap(view, bytes) };
    }
    give_back(addresses, start);
    None
}

/// Ends what `map` made.
pub fn unmap(addresses: &Addresses, start: usize, size: usize) {
    let bytes = size.next_multiple_of(page::size());
    if free_mappings().keep(start, bytes) {
        return;
    }
    // SAFETY: whole pages of a mapping of which no other code has an address.
    unsafe { libc::munmap(start as *mut c_void, bytes) };
    give_back(addresses, start);
}

fn give_back(addresses: &Addresses, start: usize) {
    // It was minted, so it can be given back.
    let _ = addresses.lock().pinned.free(start as u64);
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use client::Welcome;

    /// These addresses are near from now on.
    pub fn bound(low: usize, high: usize) {
        LOW.fetch_min(low, Release);
        HIGH.fetch_max(high, Release);
    }

    #[test]
    fn memory_lies_in_the_window_and_small_mappings_serve_again() {
        let (window_base, memory_quota) = (0x4324_0000_0000, 1 << 30);
        let addresses =
            Addresses::new(&Welcome { window_base, window_size: 1 << 36, memory_quota, ..Welcome::default() });
        let two_pages = page::size() + 1000;
        let small = map(&addresses, two_pages).unwrap();
        let large = map(&addresses, MOST_FREE_MAPPING + 1).unwrap();
        for (memory, size) in [(small, two_pages), (large, MOST_FREE_MAPPING + 1)] {
            assert!(near(memory as usize) && any() && keep().is_some());
            // SAFETY: it has so many bytes.
            unsafe { memory.add(size - 1).write(7) };
            unmap(&addresses, memory as usize, size);
        }
        assert_eq!(map(&addresses, 2 * page::size()), Some(small));
        assert_eq!(map(&addresses, MOST_FREE_MAPPING + 1), Some(large), "the same address, mapped anew");
        // SAFETY: as above; new memory is zero.
        assert_eq!(unsafe { large.add(MOST_FREE_MAPPING).read() }, 0);
        unmap(&addresses, large as usize, MOST_FREE_MAPPING + 1);
        unmap(&addresses, small as usize, 2 * page::size());
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut free_mappings = FreeMappings { starts: BTreeMap::new(), bytes: 0 };
        assert!(!free_mappings.keep(1, MOST_FREE_MAPPING + page::size()));
        assert_eq!(
            (0..20).filter(|start| free_mappings.keep(*start, MOST_FREE_MAPPING)).count(),
            MOST_FREE / MOST_FREE_MAPPING
        );
        assert_eq!((free_mappings.take(page::size()), free_mappings.take(MOST_FREE_MAPPING)), (None, Some(7)));
        assert!(free_mappings.keep(30, page::size()));
    }
}
