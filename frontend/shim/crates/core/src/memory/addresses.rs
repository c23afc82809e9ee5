//! What lies at an address: device memory of this session, the program's pinned memory, or anything else.
//!
//! Owns the allocator and the ranges that the host told of (variables whose address the program asked for). Every device
//! range of a call is checked here against what is live, before anything is recorded.
//!
//! Locking: one mutex around both; a caller that mints or releases an address holds it until the record is appended
//! (`allocator`), the others for one lookup.

use super::pools::Pools;
use crate::allocator::{Allocation, Allocator, Refused};
use client::Welcome;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The state behind the lock.
#[derive(Debug)]
pub struct Live {
    pub allocator: Allocator,
    /// Start -> size of variables at addresses of the host's.
    told: BTreeMap<u64, u64>,
    pub pools: Pools,
    /// Allocations that belong to graphs: freeing them is the graph's.
    pub of_graphs: BTreeMap<u64, u64>,
    /// The most bytes that graphs ever held at once.
    pub graphs_high: u64,
}

impl Live {
    fn new(welcome: &Welcome) -> Self {
        let Welcome { window_base, window_size, memory_quota, .. } = *welcome;
        Self {
            allocator: if welcome.checks.is_empty() {
                Allocator::new(window_base, window_size, memory_quota)
            } else {
                Allocator::spaced(window_base, window_size, memory_quota)
            },
            told: BTreeMap::new(),
            pools: Pools::default(),
            of_graphs: BTreeMap::new(),
            graphs_high: 0,
        }
    }

    /// Everything forgotten: the device was reset.
    pub fn reset(&mut self, welcome: &Welcome) {
        *self = Self::new(welcome);
    }

    /// The allocation or variable that holds the address.
    pub fn find(&self, address: u64) -> Option<Allocation> {
        self.allocator.find(address).or_else(|| {
            let (&start, &size) = self.told.range(..=address).next_back()?;
            (address - start < size).then_some(Allocation { address: start, size })
        })
    }
}

/// See the module's comment.
#[derive(Debug)]
pub struct Addresses {
    base: u64,
    size: u64,
    live: Mutex<Live>,
}

impl Addresses {
    pub fn new(welcome: &Welcome) -> Self {
        let Welcome { window_base, window_size, .. } = *welcome;
        Self { base: window_base, size: window_size, live: Mutex::new(Live::new(welcome)) }
    }

    pub fn lock(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The host told where a variable lies.
    pub fn tell(&self, address: u64, size: u64) {
        self.lock().told.insert(address, size);
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

impl From<Refused> for abi::CudaError {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::OutOfMemory => Self::MEMORY_ALLOCATION,
            Refused::NotAllocated => Self::INVALID_VALUE,
        }
    }
}

#[cfg(test)]
mod tests {
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
    fn nothing_outside_the_window_is_the_devices() {
        let addresses = addresses();
        for address in [0, 1, BASE - 1, BASE + (1 << 36), u64::MAX] {
            assert!(!addresses.is_device(address) && !addresses.holds(address, 0), "{address:#x}");
        }
    }
}
