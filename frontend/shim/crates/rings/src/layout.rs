//! Where things lie in the shared memory. The crate's page has the picture.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use crate::error::Violation;
use crate::memory::Memory;

/// The smallest ring: a page.
pub const SMALLEST_CAPACITY: usize = 4096;
/// The largest ring.
pub const LARGEST_CAPACITY: usize = 1 << 30;

/// The bytes before the first ring's.
const CONTROL_BYTES: usize = 4096;

/// Two cache lines: the processor's prefetcher fetches pairs of them.
#[repr(C, align(128))]
pub(crate) struct Line<T>(pub T);

/// Where a side that sleeps waits, and how the other wakes it.
#[repr(C)]
pub(crate) struct Bell {
    /// The futex: 1 while its owner sleeps or is about to.
    pub flag: AtomicU32,
    _unused: u32,
    /// The peer's index for which the owner waits.
    pub wanted: AtomicU64,
}

/// What both sides know of a ring.
#[repr(C)]
pub(crate) struct Control {
    pub head: Line<AtomicU64>,
    pub tail: Line<AtomicU64>,
    pub receiver: Line<Bell>,
    pub sender: Line<Bell>,
}

/// Behind both rings' control: the processor that each side waited on last, and one; 0: unknown. A hint.
#[repr(C)]
struct Processors([Line<AtomicU32>; 2]);

/// Capacities of both rings: of the offering side's outgoing one, and of its incoming one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Capacities(pub [usize; 2]);

impl Capacities {
    pub fn check(self, largest: usize) -> Result<Self, Violation> {
        for capacity in self.0 {
            let possible = SMALLEST_CAPACITY..=largest.min(LARGEST_CAPACITY);
            if !capacity.is_power_of_two() || !possible.contains(&capacity) {
                return Err(Violation::Capacity(capacity as u64));
            }
        }
        Ok(self)
    }

    /// The size of the memory.
    pub fn bytes(self) -> usize {
        CONTROL_BYTES + self.0[0] + self.0[1]
    }
}

/// One ring in the shared memory: addresses and the capacity, which never change.
pub(crate) struct Ring {
    number: usize,
    control: NonNull<Control>,
    processors: NonNull<Processors>,
    data: NonNull<u8>,
    capacity: usize,
    pub memory: Arc<Memory>,
}

// SAFETY: the addresses are those of memory that `memory` keeps mapped. Control is made of atomics; the bytes are
// touched by the one Sender and the one Receiver of this process, each in the part that the indices give it.
unsafe impl Send for Ring {}
// SAFETY: as above; through a shared reference only atomics are reached.
unsafe impl Sync for Ring {}

impl Ring {
    /// Ring 0 or 1 of a memory that has `capacities.bytes()` bytes.
    pub fn new(memory: &Arc<Memory>, capacities: Capacities, number: usize) -> Self {
        const { assert!(2 * size_of::<Control>() + size_of::<Processors>() <= CONTROL_BYTES) };
        let base = memory.base();
        let data = CONTROL_BYTES + if number == 0 { 0 } else { capacities.0[0] };
        // SAFETY: the offsets are inside the memory.
        let [control, processors, data] =
            [number * size_of::<Control>(), 2 * size_of::<Control>(), data].map(|offset| unsafe { base.add(offset) });
        Ring {
            number,
            control: control.cast(),
            processors: processors.cast(),
            data,
            capacity: capacities.0[number],
            memory: memory.clone(),
        }
    }

    #[cfg(test)]
    pub fn again(&self) -> Self {
        Ring { memory: self.memory.clone(), ..*self }
    }

    #[inline]
    pub fn capacity(&self) -> u64 {
        self.capacity as u64
    }

    /// Only where the memory is mapped: not in the child of a fork ([`Memory::is_here`]).
    #[inline]
    pub fn control(&self) -> &Control {
        // SAFETY: the memory is mapped, as the caller has checked, zeroed at first, aligned to a page, and only holds
        // atomics.
        unsafe { self.control.as_ref() }
    }

    /// Where the sending side, or else the receiving one, says its processor. As with `control`.
    #[inline]
    pub fn processor(&self, sending: bool) -> &AtomicU32 {
        let side = if sending { self.number } else { 1 - self.number };
        // SAFETY: as above.
        &unsafe { self.processors.as_ref() }.0[side].0
    }

    /// The addresses of `length` bytes from index `index` on: up to the ring's end, and from its beginning.
    #[inline]
    pub fn places(&self, index: u64, length: usize) -> ((*mut u8, usize), (*mut u8, usize)) {
        debug_assert!(length <= self.capacity);
        let length = length.min(self.capacity);
        let offset = (index & (self.capacity as u64 - 1)) as usize;
        let first = length.min(self.capacity - offset);
        // SAFETY: the offset is below the capacity.
        ((unsafe { self.data.as_ptr().add(offset) }, first), (self.data.as_ptr(), length - first))
    }

    /// The word of a message's length at `index`, which is a multiple of eight. It is the peer's as well: load it once.
    #[inline]
    fn word(&self, index: u64) -> &AtomicU64 {
        let offset = (index & (self.capacity as u64 - 1) & !7) as usize;
        // SAFETY: the offset is aligned and eight bytes behind it are inside the ring, whose size is a multiple of
        // eight.
        unsafe { self.data.add(offset).cast::<AtomicU64>().as_ref() }
    }

    #[inline]
    pub fn load_length(&self, index: u64) -> u64 {
        u64::from_le(self.word(index).load(Ordering::Relaxed))
    }

    #[inline]
    pub fn store_length(&self, index: u64, length: u64) {
        self.word(index).store(length.to_le(), Ordering::Relaxed);
    }
}
