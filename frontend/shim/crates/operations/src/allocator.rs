//! Mints the session's device addresses (architecture: "Device addresses are minted by the client").
//!
//! Owns which addresses of the window are live and how much of the quota they hold. Owns no device memory: the host
//! backs what is minted here, when it replays the ALLOCATE record. Knows neither the tape nor CUDA's API.
//!
//! Layout: the window is cut into granules of 2 MiB, the unit in which a real device backs memory and therefore the
//! unit in which the quota is charged. An allocation of at least `SMALL_LIMIT` bytes takes whole granules; smaller ones
//! are packed at `ALIGNMENT` bytes into granules set aside for them, and a granule whose last small allocation is freed
//! goes back. Free ranges are kept by address (to coalesce) and by size (best fit, the lowest address among equals):
//! every operation is O(log n), and the same sequence of calls always yields the same addresses.
//!
//! An address may be minted ahead of the memory (`reserve`): it costs quota from `back` to `unback` only.
//!
//! Reservations (`take_range`) are addresses that cost no quota. They come from the window's high end, and leave twice
//! the quota to allocations.
//!
//! A spaced allocator (`spaced`) leaves addresses free behind every allocation, so that a kernel that runs past an end
//! is seen by a host that checks: `ALIGNMENT` bytes behind small ones, a granule, which costs no quota, behind others.
//!
//! Locking: none here. The caller holds the allocator's lock until the matching ALLOCATE or FREE record is appended,
//! otherwise an address could be minted again before its release is on the tape.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The unit of backing and of the quota.
pub const GRANULE: u64 = 2 << 20;
/// Alignment of small allocations: what CUDA's own allocator guarantees in practice (its documentation promises 256).
pub const ALIGNMENT: u64 = 512;
/// Allocations of at least this size take granules of their own.
pub const SMALL_LIMIT: u64 = 1 << 20;

/// A number for a new allocation, which no other allocation of the process has or will have.
pub fn new_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Relaxed) + 1
}

/// Why an address was not minted or released.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// The quota, or the window's addresses, do not suffice.
    OutOfMemory,
    /// Not the start of a live allocation.
    NotAllocated,
}

/// A live allocation, as the program asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allocation {
    pub address: u64,
    pub size: u64,
}

/// What is kept of a live allocation.
#[derive(Debug, Clone, Copy)]
struct Block {
    /// As the program asked for it. What the allocation occupies follows from it (`occupied`).
    size: u64,
    id: u64,
}

/// Disjoint free ranges, coalesced.
#[derive(Debug, Default)]
struct FreeRanges {
    by_address: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl FreeRanges {
    fn remove(&mut self, start: u64, size: u64) {
        self.by_address.remove(&start);
        self.by_size.remove(&(size, start));
    }

    fn add(&mut self, start: u64, size: u64) {
        if size != 0 {
            self.by_address.insert(start, size);
            self.by_size.insert((size, start));
        }
    }

    /// Takes `size` bytes from the low end of the smallest range that holds them.
    fn take(&mut self, size: u64) -> Option<u64> {
        let &(found, start) = self.by_size.range((size, 0)..).next()?;
        self.remove(start, found);
        self.add(start + size, found - size);
        Some(start)
    }

    /// Takes exactly that range, if it is free.
    fn take_at(&mut self, start: u64, size: u64) -> bool {
        let Some((&low, &length)) = self.by_address.range(..=start).next_back() else { return false };
        let Some(end) = start.checked_add(size).filter(|end| *end <= low + length) else { return false };
        self.remove(low, length);
        self.add(low, start - low);
        self.add(end, low + length - end);
        true
    }

    /// Takes an aligned range from the high end of the highest free range that holds one.
    fn take_high(&mut self, size: u64, alignment: u64) -> Option<u64> {
        let fits = |(&low, &length): (&u64, &u64)| {
            let start = (low + length).checked_sub(size)? / alignment * alignment;
            (start >= low).then_some(start)
        };
        let start = self.by_address.iter().rev().find_map(fits)?;
        self.take_at(start, size).then_some(start)
    }

    /// Gives a range back and returns the coalesced range that now holds it.
    fn give(&mut self, start: u64, size: u64) -> (u64, u64) {
        let (mut low, mut high) = (start, start + size);
        if let Some((&before, &length)) = self.by_address.range(..start).next_back() {
            if before + length == start {
                self.remove(before, length);
                low = before;
            }
        }
        if let Some(&length) = self.by_address.get(&high) {
            self.remove(high, length);
            high += length;
        }
        self.add(low, high - low);
        (low, high - low)
    }
}

/// See the module's comment.
#[derive(Debug)]
pub struct Allocator {
    quota: u64,
    charged: u64,
    granules: FreeRanges,
    small: FreeRanges,
    /// By start.
    live: BTreeMap<u64, Block>,
    /// Those of them that take granules and cost no quota now.
    unbacked: BTreeSet<u64>,
    /// Bytes that reservations may take yet.
    reservable: u64,
    spaced: bool,
}

fn round_up(value: u64, unit: u64) -> Option<u64> {
    value.checked_next_multiple_of(unit)
}

/// Bytes of address space that an allocation of `size` bytes takes; `None` when that overflows.
fn occupied(size: u64) -> Option<u64> {
    round_up(size, if size < SMALL_LIMIT { ALIGNMENT } else { GRANULE })
}

impl Allocator {
    /// An allocator for the window `[base, base + size)`. The quota is what may be backed at once.
    pub fn new(base: u64, size: u64, quota: u64) -> Self {
        let mut granules = FreeRanges::default();
        let end = base.saturating_add(size) / GRANULE * GRANULE;
        // Address 0 is CUDA's null pointer: never minted, even from a window that claims it.
        if let Some(start) = round_up(base.max(1), GRANULE) {
            granules.add(start, end.saturating_sub(start));
        }
        let (small, live, unbacked) = Default::default();
        let reservable = size.saturating_sub(quota.saturating_mul(2));
        Self { quota, charged: 0, granules, small, live, unbacked, reservable, spaced: false }
    }

    /// The same, with addresses between allocations that belong to none.
    pub fn spaced(base: u64, size: u64, quota: u64) -> Self {
        Self { spaced: true, ..Self::new(base, size, quota) }
    }

    fn space(&self, unit: u64) -> u64 {
        if self.spaced {
            unit
        } else {
            0
        }
    }

    /// Takes `size` bytes, and as many addresses more as `space` says.
    fn take_granules(&mut self, size: u64, space: u64) -> Option<u64> {
        if self.charged.checked_add(size)? > self.quota {
            return None;
        }
        let start = self.granules.take(size.checked_add(space)?)?;
        self.charged += size;
        Some(start)
    }

    fn give_granules(&mut self, start: u64, size: u64, space: u64) {
        self.granules.give(start, size + space);
        self.charged -= size;
    }

    fn take_small(&mut self, size: u64) -> Option<u64> {
        if let Some(start) = self.small.take(size) {
            return Some(start);
        }
        let fresh = self.take_granules(GRANULE, 0)?;
        self.small.give(fresh, GRANULE);
        self.small.take(size)
    }

    fn give_small(&mut self, start: u64, size: u64) {
        let (low, length) = self.small.give(start, size);
        let high = low + length;
        let (first, last) = (low.next_multiple_of(GRANULE), high / GRANULE * GRANULE);
        if first < last {
            self.small.remove(low, length);
            self.small.add(low, first - low);
            self.small.add(last, high - last);
            self.give_granules(first, last - first, 0);
        }
    }

    /// Mints an address for `size` bytes, `size` not 0.
    pub fn allocate(&mut self, size: u64) -> Result<u64, Refused> {
        debug_assert!(size != 0);
        let bytes = occupied(size).ok_or(Refused::OutOfMemory)?;
        let taken = if size < SMALL_LIMIT {
            self.take_small(bytes + self.space(ALIGNMENT))
        } else {
            self.take_granules(bytes, self.space(GRANULE))
        };
        let address = taken.ok_or(Refused::OutOfMemory)?;
        self.live.insert(address, Block { size, id: new_id() });
        Ok(address)
    }

    /// Mints an address as `allocate` does, for memory that comes with `back`. Small ones share granules, and cost
    /// quota at once.
    pub fn reserve(&mut self, size: u64) -> Result<u64, Refused> {
        if size < SMALL_LIMIT {
            return self.allocate(size);
        }
        let bytes = occupied(size).filter(|bytes| *bytes <= self.quota).ok_or(Refused::OutOfMemory)?;
        let taken = bytes.checked_add(self.space(GRANULE)).and_then(|bytes| self.granules.take(bytes));
        let address = taken.ok_or(Refused::OutOfMemory)?;
        self.live.insert(address, Block { size, id: new_id() });
        self.unbacked.insert(address);
        Ok(address)
    }

    /// Counts what a reserved allocation takes against the quota.
    pub fn back(&mut self, address: u64) -> Result<(), Refused> {
        if self.unbacked.contains(&address) {
            self.charge(self.taken(address)?)?;
            self.unbacked.remove(&address);
        }
        Ok(())
    }

    /// The reverse of `back`.
    pub fn unback(&mut self, address: u64) -> Result<(), Refused> {
        let bytes = self.taken(address)?;
        if bytes >= SMALL_LIMIT && self.unbacked.insert(address) {
            self.refund(bytes);
        }
        Ok(())
    }

    /// Bytes of address space of a live allocation.
    fn taken(&self, address: u64) -> Result<u64, Refused> {
        self.live.get(&address).and_then(|block| occupied(block.size)).ok_or(Refused::NotAllocated)
    }

    /// Releases the allocation that starts at `address`.
    pub fn free(&mut self, address: u64) -> Result<(), Refused> {
        let size = self.live.remove(&address).ok_or(Refused::NotAllocated)?.size;
        let bytes = occupied(size).expect("computed when it was allocated");
        if self.unbacked.remove(&address) {
            self.granules.give(address, bytes + self.space(GRANULE));
        } else if size < SMALL_LIMIT {
            self.give_small(address, bytes + self.space(ALIGNMENT));
        } else {
            self.give_granules(address, bytes, self.space(GRANULE));
        }
        Ok(())
    }

    /// Mints a range of addresses without memory, at `hint` if that is aligned and free. `alignment` is a multiple of
    /// `GRANULE`.
    pub fn take_range(&mut self, size: u64, alignment: u64, hint: u64) -> Result<u64, Refused> {
        let bytes = round_up(size, GRANULE).filter(|bytes| *bytes <= self.reservable).ok_or(Refused::OutOfMemory)?;
        let hinted = hint != 0 && hint.is_multiple_of(alignment) && self.granules.take_at(hint, bytes);
        let taken = if hinted { Some(hint) } else { self.granules.take_high(bytes, alignment) };
        self.reservable -= taken.map_or(0, |_| bytes);
        taken.ok_or(Refused::OutOfMemory)
    }

    /// Gives a range back that `take_range` minted.
    pub fn give_range(&mut self, start: u64, size: u64) {
        let bytes = occupied(size.max(SMALL_LIMIT)).expect("computed when it was taken");
        self.granules.give(start, bytes);
        self.reservable += bytes;
    }

    /// Counts bytes that lie elsewhere against the quota.
    pub fn charge(&mut self, bytes: u64) -> Result<(), Refused> {
        let charged = self.charged.checked_add(bytes).filter(|charged| *charged <= self.quota);
        self.charged = charged.ok_or(Refused::OutOfMemory)?;
        Ok(())
    }

    /// The reverse of `charge`.
    pub fn refund(&mut self, bytes: u64) {
        self.charged -= bytes;
    }

    /// Where live allocations start.
    pub fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.live.keys().copied()
    }

    /// The live allocation that holds `address`.
    pub fn find(&self, address: u64) -> Option<Allocation> {
        let (&start, &Block { size, .. }) = self.live.range(..=address).next_back()?;
        (address - start < size).then_some(Allocation { address: start, size })
    }

    /// The number (`new_id`) of the live allocation that starts there.
    pub fn id(&self, start: u64) -> Option<u64> {
        self.live.get(&start).map(|block| block.id)
    }

    /// Bytes of the quota not in use.
    pub fn available(&self) -> u64 {
        self.quota.saturating_sub(self.charged)
    }

    pub fn quota(&self) -> u64 {
        self.quota
    }
}

#[cfg(test)]
mod tests;
