//! What lies at an address: device memory of this session, the program's pinned memory, or anything else.
//!
//! Owns the allocators (of device memory, and of addresses for pinned memory, at the window's end) and the ranges that
//! the host reported (variables whose address the program asked for). Every device range of a call is checked here
//! against what is live, before anything is recorded.
//!
//! Locking: one mutex around both; a caller that mints or releases an address holds it until the record is appended
//! (`allocator`), the others for one lookup.

use super::graphs::OfGraphs;
use super::pools::Pools;
use super::reservations::{Access, VirtualMemory};
use crate::allocator::{Allocation, Allocator, Refused, GRANULE};
use client::Welcome;
use session::call::Outcome;
use session::{contexts, process};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The addresses of the session.
static ADDRESSES: OnceLock<Addresses> = OnceLock::new();

/// The addresses of the session, which is opened if that has not happened.
///
/// # Errors
/// Why there is no session.
#[inline]
pub fn addresses() -> Outcome<&'static Addresses> {
    let session = process::session()?;
    Ok(ADDRESSES.get_or_init(|| Addresses::new(session.welcome())))
}

/// The addresses of the session, if there is one.
pub fn known() -> Option<&'static Addresses> {
    ADDRESSES.get()
}

/// The state behind the lock.
#[derive(Debug)]
pub struct Live {
    pub allocator: Allocator,
    /// Addresses for pinned memory, which costs no quota as long as kernels do not reach it.
    pub pinned: Allocator,
    /// Pinned memory that kernels reach: start -> size.
    reached: BTreeMap<u64, u64>,
    /// Start -> size of variables at addresses of the host's.
    reported: BTreeMap<u64, u64>,
    /// Start -> context of the allocations that are not the primary one's; `NONE` for those that are the device's.
    owners: BTreeMap<u64, u32>,
    pub pools: Pools,
    pub of_graphs: OfGraphs,
    pub virtual_memory: VirtualMemory,
}

/// What allocations and pinned memory share of a window; the rest of a larger one is for reservations.
const SHARED: u64 = 1 << 36;

/// Bytes at the window's end for pinned memory: half of what the quota leaves of it, where it is large enough that
/// device memory does not miss them.
fn pinned_bytes(welcome: &Welcome) -> u64 {
    let Welcome { window_size, memory_quota, .. } = *welcome;
    let twice = memory_quota.saturating_mul(2);
    if window_size < twice {
        return 0;
    }
    (window_size.min(twice.max(SHARED)) - memory_quota) / 2 / GRANULE * GRANULE
}

impl Live {
    fn new(welcome: &Welcome) -> Self {
        let Welcome { window_base, window_size, memory_quota, .. } = *welcome;
        let pinned = pinned_bytes(welcome);
        let size = window_size - pinned;
        Self {
            allocator: if welcome.checks.is_empty() {
                Allocator::new(window_base, size, memory_quota)
            } else {
                Allocator::spaced(window_base, size, memory_quota)
            },
            pinned: Allocator::new(window_base.saturating_add(size), pinned, pinned),
            reached: BTreeMap::new(),
            reported: BTreeMap::new(),
            owners: BTreeMap::new(),
            pools: Pools::default(),
            of_graphs: OfGraphs::default(),
            virtual_memory: VirtualMemory::default(),
        }
    }

    /// Everything forgotten: the device was reset. Pinned memory that kernels do not reach stays.
    pub fn reset(&mut self, welcome: &Welcome) {
        let Self { mut pinned, reached, mut virtual_memory, .. } = std::mem::replace(self, Self::new(welcome));
        for address in reached.into_keys() {
            // It was minted, so it can be given back.
            let _ = pinned.free(address);
        }
        self.pinned = pinned;
        virtual_memory.reset();
        self.virtual_memory = virtual_memory;
    }

    /// Pinned memory is device memory from now on.
    pub fn reach(&mut self, address: u64, size: u64) -> Result<(), Refused> {
        self.allocator.charge(size)?;
        self.reached.insert(address, size);
        Ok(())
    }

    /// The reverse of `reach`.
    pub fn unreach(&mut self, address: u64) {
        if let Some(size) = self.reached.remove(&address) {
            self.allocator.refund(size);
        }
    }

    /// A new allocation is the context's that the calling thread works for.
    pub fn own(&mut self, address: u64) {
        match contexts::acting() {
            contexts::PRIMARY => self.owners.remove(&address),
            context => self.owners.insert(address, context),
        };
    }

    /// A new allocation is the device's: it lasts longer than every context.
    pub fn disown(&mut self, address: u64) {
        self.owners.insert(address, contexts::NONE);
    }

    /// The context that the allocation at this start belongs to; `None` for the device's, and where there is no
    /// allocation.
    pub fn owner(&self, start: u64) -> Option<u32> {
        self.allocator.find(start).filter(|found| found.address == start)?;
        let owner = self.owners.get(&start).copied().unwrap_or(contexts::PRIMARY);
        (owner != contexts::NONE).then_some(owner)
    }

    /// The allocations of a context.
    pub fn owned_by(&self, context: u32) -> Vec<u64> {
        self.allocator.starts().filter(|start| self.owner(*start) == Some(context)).collect()
    }

    /// Reservations, physical allocations, mappings, and allocations of contexts.
    pub fn counts(&self) -> (usize, usize, usize, usize) {
        let (reservations, physical, mappings) = self.virtual_memory.counts();
        let owned = self.allocator.starts().filter(|start| self.owner(*start).is_some()).count();
        (reservations, physical, mappings, owned)
    }

    /// Ends device memory of either kind.
    pub fn free(&mut self, address: u64) -> Result<(), Refused> {
        self.owners.remove(&address);
        let Some(size) = self.reached.remove(&address) else { return self.allocator.free(address) };
        self.allocator.refund(size);
        self.pinned.free(address)
    }

    /// The number of the allocation that starts there: no other has it, or will.
    pub fn id(&self, start: u64) -> Option<u64> {
        self.allocator.id(start).or_else(|| self.pinned.id(start))
    }

    /// The allocation, variable or run of accessible mappings that holds the address.
    pub fn find(&self, address: u64) -> Option<Allocation> {
        let within = |ranges: &BTreeMap<u64, u64>| {
            let (&start, &size) = ranges.range(..=address).next_back()?;
            (address - start < size).then_some(Allocation { address: start, size })
        };
        let run = || self.virtual_memory.run(address).map(|(address, size, _)| Allocation { address, size });
        self.allocator.find(address).or_else(|| within(&self.reached)).or_else(|| within(&self.reported)).or_else(run)
    }
}

/// See the module's comment.
#[derive(Debug)]
pub struct Addresses {
    base: u64,
    /// Of the part of the window that is the device's alone.
    size: u64,
    /// Whether memory was ever mapped for reading only.
    read_only: AtomicBool,
    live: Mutex<Live>,
}

impl Addresses {
    pub fn new(welcome: &Welcome) -> Self {
        let Welcome { window_base, window_size, .. } = *welcome;
        Self {
            base: window_base,
            size: window_size - pinned_bytes(welcome),
            read_only: AtomicBool::new(false),
            live: Mutex::new(Live::new(welcome)),
        }
    }

    pub fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host reported where a variable lies.
    pub fn tell(&self, address: u64, size: u64) {
        self.lock().reported.insert(address, size);
    }

    /// Memory is mapped for reading only from now on.
    pub fn some_read_only(&self) {
        self.read_only.store(true, Ordering::Relaxed);
    }

    /// Whether copies and sets may write there, if the address is live at all.
    pub fn may_write(&self, address: u64) -> bool {
        !self.read_only.load(Ordering::Relaxed)
            || !matches!(self.lock().virtual_memory.run(address), Some((_, _, Access::Read)))
    }

    /// Whether the address can only be the device's, live or not.
    pub fn is_device(&self, address: u64) -> bool {
        address.wrapping_sub(self.base) < self.size || self.lock().find(address).is_some()
    }

    /// Whether `[address, address + length)` lies in one live allocation or variable.
    pub fn holds(&self, address: u64, length: u64) -> bool {
        let Some(found) = self.lock().find(address) else {
            return false;
        };
        length <= found.size - (address - found.address)
    }
}

impl From<Refused> for session::call::Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::OutOfMemory => Self::MEMORY_ALLOCATION,
            Refused::NotAllocated => Self::INVALID_VALUE,
        }
    }
}

/// The program's live allocations, for a tool in the same process: the pytest plugin asks what a test has left
/// (frontend/pytest_plugin.py). Opens no session: where none is open, nothing is allocated.
///
/// Writes start and size of each, as many as there is room for, and returns how many there are.
///
/// # Safety
/// `list` has room for `room` pairs of numbers.
#[no_mangle]
pub unsafe extern "C" fn farlane_allocations(list: *mut [u64; 2], room: usize) -> usize {
    let Some(addresses) = known() else { return 0 };
    let live = addresses.lock();
    let found = live.allocator.starts().filter_map(|start| live.allocator.find(start));
    let mut count = 0;
    for allocation in found {
        if count < room {
            // SAFETY: the caller's promise.
            unsafe { list.add(count).write([allocation.address, allocation.size]) };
        }
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::super::reservations::Properties;
    use super::*;

    const BASE: u64 = 0x2000_0000_0000;

    fn addresses() -> Addresses {
        let (window_size, memory_quota) = (1 << 36, 1 << 30);
        Addresses::new(&Welcome { window_base: BASE, window_size, memory_quota, ..Welcome::default() })
    }

    #[test]
    fn ranges_must_lie_in_one_live_allocation() {
        let addresses = addresses();
        let one = addresses.lock().allocator.allocate(1000).unwrap();
        addresses.lock().allocator.allocate(1000).unwrap();
        assert!(addresses.holds(one, 1000) && addresses.holds(one + 999, 1) && addresses.holds(one + 500, 0));
        assert!(!addresses.holds(one, 1001) && !addresses.holds(one + 999, 2) && !addresses.holds(one, u64::MAX));
        addresses.lock().allocator.free(one).unwrap();
        assert!(!addresses.holds(one, 1) && addresses.is_device(one));
    }

    #[test]
    fn pinned_memory_is_the_devices_only_when_kernels_reach_it() {
        let addresses = addresses();
        let one = addresses.lock().pinned.allocate(8192).unwrap();
        assert_eq!(one % 4096, 0);
        assert!(one > BASE + (1 << 35) && one < BASE + (1 << 36));
        assert!(!addresses.is_device(one) && !addresses.holds(one, 1));
        assert_eq!(addresses.lock().allocator.available(), 1 << 30);
        addresses.lock().reach(one, 8192).unwrap();
        assert!(addresses.is_device(one + 8191) && addresses.holds(one, 8192) && !addresses.is_device(one + 8192));
        assert_eq!(addresses.lock().allocator.available(), (1 << 30) - 8192);
        assert_eq!(addresses.lock().reach(one + 8192, 1 << 30), Err(Refused::OutOfMemory));
        addresses.lock().free(one).unwrap();
        assert!(!addresses.is_device(one) && addresses.lock().free(one).is_err());
        assert_eq!(addresses.lock().allocator.available(), 1 << 30);
        assert_eq!(addresses.lock().pinned.allocate(8192), Ok(one), "it is free again");
    }

    #[test]
    fn a_reset_ends_what_kernels_reach_and_leaves_other_pinned_memory() {
        let welcome = Welcome { window_base: BASE, window_size: 1 << 36, memory_quota: 1 << 30, ..Welcome::default() };
        let addresses = Addresses::new(&welcome);
        let mut live = addresses.lock();
        let (kept, gone) = (live.pinned.allocate(4096).unwrap(), live.pinned.allocate(4096).unwrap());
        live.reach(gone, 4096).unwrap();
        live.reset(&welcome);
        assert_eq!(live.allocator.available(), 1 << 30);
        assert_eq!((live.pinned.free(kept), live.pinned.free(gone)), (Ok(()), Err(Refused::NotAllocated)));
    }

    #[test]
    fn a_window_that_device_memory_needs_has_no_room_for_pinned_memory() {
        let (window_size, memory_quota) = (17 << 26, 1 << 30);
        let addresses = Addresses::new(&Welcome { window_base: BASE, window_size, memory_quota, ..Welcome::default() });
        assert_eq!(addresses.lock().pinned.allocate(4096), Err(Refused::OutOfMemory));
        assert!(addresses.is_device(BASE + window_size - 1));
    }

    #[test]
    fn variables_are_device_memory_wherever_they_lie() {
        let addresses = addresses();
        assert!(!addresses.is_device(0x5555_0000));
        addresses.tell(0x5555_0000, 64);
        assert!(
            addresses.is_device(0x5555_003f) && addresses.holds(0x5555_0010, 48) && !addresses.holds(0x5555_0010, 49)
        );
        assert!(!addresses.is_device(0x5555_0040) && !addresses.is_device(0x5554_ffff));
    }

    #[test]
    fn a_large_window_has_room_for_16_times_the_devices_memory() {
        let quota = 1_u64 << 33;
        let window_size = (1 << 36) + 17 * quota;
        let addresses =
            Addresses::new(&Welcome { window_base: BASE, window_size, memory_quota: quota, ..Welcome::default() });
        let mut live = addresses.lock();
        assert!(live.allocator.take_range(16 * quota, GRANULE, 0).is_ok());
        assert!(live.allocator.allocate(quota).is_ok() && live.pinned.allocate(quota).is_ok());
    }

    #[test]
    fn mapped_memory_is_live_where_it_may_be_accessed() {
        let addresses = addresses();
        let start = addresses.lock().allocator.take_range(4 * GRANULE, GRANULE, 0).unwrap();
        let mut live = addresses.lock();
        live.virtual_memory.reserved(start, 4 * GRANULE);
        let memory = live.virtual_memory.create(2 * GRANULE, Properties::default());
        for granules in [0, 2] {
            live.virtual_memory.map(start + granules * GRANULE, 2 * GRANULE, memory).unwrap();
        }
        live.virtual_memory.set_access(start, Access::ReadWrite);
        drop(live);
        assert!(addresses.holds(start, 2 * GRANULE) && !addresses.holds(start, 2 * GRANULE + 1));
        addresses.lock().virtual_memory.set_access(start + 2 * GRANULE, Access::ReadWrite);
        assert!(addresses.holds(start + 5, 4 * GRANULE - 5) && addresses.may_write(start));
        addresses.some_read_only();
        addresses.lock().virtual_memory.set_access(start, Access::Read);
        assert!(addresses.holds(start, 8) && !addresses.may_write(start) && addresses.may_write(start + 2 * GRANULE));
        addresses.lock().virtual_memory.unmap(start);
        assert!(!addresses.holds(start, 1) && addresses.is_device(start));
    }

    #[test]
    fn nothing_outside_the_window_is_the_devices() {
        let addresses = addresses();
        for address in [0, 1, BASE - 1, BASE + (1 << 36) - 1, BASE + (1 << 36), u64::MAX] {
            assert!(!addresses.is_device(address) && !addresses.holds(address, 0), "{address:#x}");
        }
    }
}
