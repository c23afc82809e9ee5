//! Where pinned memory lies: at addresses of the session's window, so that a kernel can have it at the address that the program has.
//!
//! Owns the mapping of such memory, and the bounds of all of it. It is the program's alone, neither device memory nor protected, until `hostmem::reach`
//! is asked for an address in it: programs that only copy never come to that. It is shared memory because `managed` then needs a second
//! mapping of it.
//!
//! Locking: who moves pinned memory's bytes keeps `keep` locked for reading meanwhile, `hostmem::reach` holds it for writing.

use crate::memory::Addresses;
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

pub const PAGE: usize = 4096;
/// From here on huge pages may back it.
const LARGE: usize = 2 << 20;

/// All that there ever was lies in `[LOW, HIGH)`.
static LOW: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGH: AtomicUsize = AtomicUsize::new(0);
static MOVING: RwLock<()> = RwLock::new(());

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

/// As long as the caller has this, memory that kernels do not reach stays so. `None` where there is no such memory.
pub fn keep() -> Option<RwLockReadGuard<'static, ()>> {
    any().then(|| MOVING.read().unwrap_or_else(PoisonError::into_inner))
}

pub fn change() -> RwLockWriteGuard<'static, ()> {
    MOVING.write().unwrap_or_else(PoisonError::into_inner)
}

/// Whole pages at an address of the window; `None` where there is no room, or where this process has something else.
pub fn map(addresses: &Addresses, size: usize) -> Option<*mut u8> {
    let bytes = size.checked_next_multiple_of(PAGE)?;
    let start = usize::try_from(addresses.lock().pinned.allocate(bytes as u64).ok()?).ok()?;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
    // SAFETY: it replaces no mapping.
    let view = unsafe { libc::mmap(start as *mut c_void, bytes, access, flags, -1, 0) };
    if view as usize == start && start % PAGE == 0 {
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
    // SAFETY: whole pages of a mapping that nobody else has.
    unsafe { libc::munmap(start as *mut c_void, size.next_multiple_of(PAGE)) };
    give_back(addresses, start);
}

fn give_back(addresses: &Addresses, start: usize) {
    // It was minted, so it can be given back.
    let _ = addresses.lock().pinned.free(start as u64);
}
