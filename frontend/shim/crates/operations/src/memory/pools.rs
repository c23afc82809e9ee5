//! Memory pools: the device's default one, and those that the program makes.
//!
//! Owns the pools' attributes and the accounts of stream-ordered allocations. Their memory comes from the same
//! allocator as all other: a pool holds nothing back, so trimming finds nothing to release, and the release threshold
//! and the reuse policies are kept and answered but have no effect: memory had back is used behind all that used it before
//! (on the simulated device by the tape's order; a GPU's streams are joined, backend/plane/src/device/cuda/order.rs). A
//! pool's greatest size has one.
//!
//! Locking: part of the state behind `Addresses::lock`.
//! Source: CUDA runtime API, "Stream Ordered Memory Allocator".

pub mod functions;

use crate::memory::addresses;
use crate::types::{
    MemPoolAttr, MemPoolHandle, MEM_POOL_ATTR_RELEASE_THRESHOLD, MEM_POOL_ATTR_RESERVED_MEM_CURRENT,
    MEM_POOL_ATTR_RESERVED_MEM_HIGH, MEM_POOL_ATTR_USED_MEM_CURRENT, MEM_POOL_ATTR_USED_MEM_HIGH,
    MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC,
    MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES,
};
use session::call::{Error, Outcome};
use session::work::handle::{decode, encode, Tag};
use std::collections::BTreeMap;

/// The default pool's number; the program's have higher ones.
const DEFAULT: u32 = 16;

/// What one pool keeps.
#[derive(Debug, Default)]
struct Pool {
    used: u64,
    high: u64,
    /// The most that it may hold; 0 for no bound of its own.
    limit: u64,
    /// Release threshold (u64) and reuse policies (int), where the program has set them.
    set: BTreeMap<MemPoolAttr, u64>,
}

impl Pool {
    fn get(&self, attribute: MemPoolAttr) -> Option<u64> {
        let initial = match attribute {
            MEM_POOL_ATTR_RESERVED_MEM_CURRENT | MEM_POOL_ATTR_USED_MEM_CURRENT => self.used,
            MEM_POOL_ATTR_RESERVED_MEM_HIGH | MEM_POOL_ATTR_USED_MEM_HIGH => self.high,
            MEM_POOL_ATTR_RELEASE_THRESHOLD => 0,
            _ => 1,
        };
        (is_policy(attribute) || is_size(attribute)).then(|| self.set.get(&attribute).copied().unwrap_or(initial))
    }

    fn put(&mut self, attribute: MemPoolAttr, value: u64) -> Outcome {
        match attribute {
            MEM_POOL_ATTR_RELEASE_THRESHOLD => drop(self.set.insert(attribute, value)),
            // The high-water marks can be set back, nothing else.
            MEM_POOL_ATTR_RESERVED_MEM_HIGH | MEM_POOL_ATTR_USED_MEM_HIGH if value == 0 => self.high = self.used,
            _ if is_policy(attribute) => drop(self.set.insert(attribute, u64::from(value != 0))),
            _ => return Err(Error::INVALID_VALUE),
        }
        Ok(())
    }
}

/// All pools of a session.
#[derive(Debug)]
pub struct Pools {
    pools: BTreeMap<u32, Pool>,
    /// Address -> pool and size of what is allocated. The pool may be destroyed: it ends with its last allocation.
    owners: BTreeMap<u64, (u32, u64)>,
    /// Where the device's stream-ordered allocations come from.
    current: u32,
    last: u32,
}

impl Default for Pools {
    fn default() -> Self {
        let pools = BTreeMap::from([(DEFAULT, Pool::default())]);
        Self { pools, owners: BTreeMap::new(), current: DEFAULT, last: DEFAULT }
    }
}

impl Pools {
    /// The pool that an allocation is to come from, when it has room for it.
    pub fn room(&self, pool: Option<u32>, size: u64) -> Outcome<u32> {
        let number = pool.unwrap_or(self.current);
        let found = self.pools.get(&number).ok_or(Error::INVALID_VALUE)?;
        if found.limit != 0 && found.used.saturating_add(size) > found.limit {
            return Err(Error::MEMORY_ALLOCATION);
        }
        Ok(number)
    }

    /// The pool that the allocation at that address came from.
    pub fn owner(&self, address: u64) -> Option<u32> {
        self.owners.get(&address).map(|(number, _)| *number)
    }

    /// An allocation came from a pool.
    pub fn add(&mut self, number: u32, address: u64, size: u64) {
        self.owners.insert(address, (number, size));
        if let Some(pool) = self.pools.get_mut(&number) {
            pool.used += size;
            pool.high = pool.high.max(pool.used);
        }
    }

    /// An allocation, perhaps one of a pool's, was released.
    pub fn remove(&mut self, address: u64) {
        if let Some((number, size)) = self.owners.remove(&address) {
            if let Some(pool) = self.pools.get_mut(&number) {
                pool.used -= size;
            }
        }
    }

    fn create(&mut self, limit: u64) -> Outcome<u32> {
        self.last = self.last.checked_add(1).ok_or(Error::MEMORY_ALLOCATION)?;
        self.pools.insert(self.last, Pool { limit, ..Pool::default() });
        Ok(self.last)
    }

    /// What was allocated from it stays until it is freed. The device's allocations come from the default pool again,
    /// if they came from this one.
    fn destroy(&mut self, number: u32) -> Outcome {
        if number == DEFAULT {
            return Err(Error::INVALID_VALUE);
        }
        self.pools.remove(&number).ok_or(Error::INVALID_VALUE)?;
        if self.current == number {
            self.current = DEFAULT;
        }
        Ok(())
    }

    fn pool(&mut self, number: u32) -> Outcome<&mut Pool> {
        self.pools.get_mut(&number).ok_or(Error::INVALID_VALUE)
    }
}

/// Attributes whose value is an `int`.
fn is_policy(attribute: MemPoolAttr) -> bool {
    matches!(
        attribute,
        MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES
            | MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC
            | MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES
    )
}

/// Attributes whose value is a `cuuint64_t`.
fn is_size(attribute: MemPoolAttr) -> bool {
    (MEM_POOL_ATTR_RELEASE_THRESHOLD..=MEM_POOL_ATTR_USED_MEM_HIGH).contains(&attribute)
}

fn handle(number: u32) -> MemPoolHandle {
    encode(Tag::Pool, number) as MemPoolHandle
}

/// The number of a pool that is there.
pub fn number(pool: MemPoolHandle) -> Outcome<u32> {
    let number = decode(Tag::Pool, pool as usize).ok_or(Error::INVALID_VALUE)?;
    addresses()?.lock().pools.pool(number)?;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_account_follows_its_pools_allocations_only() {
        let mut pools = Pools::default();
        let other = pools.create(0).unwrap();
        pools.add(DEFAULT, 0x1000, 100);
        pools.add(DEFAULT, 0x2000, 50);
        pools.add(other, 0x3000, 7);
        pools.remove(0x1000);
        pools.remove(0x9999);
        let pool = pools.pool(DEFAULT).unwrap();
        assert_eq!(pool.get(MEM_POOL_ATTR_USED_MEM_CURRENT), Some(50));
        assert_eq!(pool.get(MEM_POOL_ATTR_USED_MEM_HIGH), Some(150));
        assert_eq!(pool.put(MEM_POOL_ATTR_USED_MEM_HIGH, 1), Err(Error::INVALID_VALUE));
        assert_eq!(pool.put(MEM_POOL_ATTR_USED_MEM_HIGH, 0), Ok(()));
        assert_eq!(pool.get(MEM_POOL_ATTR_RESERVED_MEM_HIGH), Some(50));
        assert_eq!(pools.pool(other).unwrap().get(MEM_POOL_ATTR_USED_MEM_CURRENT), Some(7));
    }

    #[test]
    fn policies_and_the_threshold_are_kept() {
        let mut pool = Pool::default();
        assert_eq!(pool.get(MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC), Some(1));
        assert_eq!(pool.put(MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, 0), Ok(()));
        assert_eq!(pool.put(MEM_POOL_ATTR_RELEASE_THRESHOLD, u64::MAX), Ok(()));
        assert_eq!(pool.get(MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC), Some(0));
        assert_eq!(pool.get(MEM_POOL_ATTR_RELEASE_THRESHOLD), Some(u64::MAX));
        for attribute in [0, 9, -1] {
            assert_eq!((pool.get(attribute), pool.put(attribute, 0)), (None, Err(Error::INVALID_VALUE)));
        }
        assert_eq!(pool.put(MEM_POOL_ATTR_USED_MEM_CURRENT, 0), Err(Error::INVALID_VALUE));
    }

    #[test]
    fn a_pools_bound_holds_and_memory_outlives_its_pool() {
        let mut pools = Pools::default();
        let number = pools.create(1000).unwrap();
        pools.current = number;
        assert_eq!(pools.room(None, 1000), Ok(number));
        pools.add(number, 0x1000, 600);
        assert_eq!(pools.room(Some(number), 401), Err(Error::MEMORY_ALLOCATION));
        assert_eq!(pools.room(Some(number), u64::MAX), Err(Error::MEMORY_ALLOCATION));
        assert_eq!((pools.destroy(number), pools.destroy(number)), (Ok(()), Err(Error::INVALID_VALUE)));
        assert_eq!((pools.room(None, 5000), pools.room(Some(number), 1)), (Ok(DEFAULT), Err(Error::INVALID_VALUE)));
        pools.remove(0x1000);
        assert_eq!(pools.destroy(DEFAULT), Err(Error::INVALID_VALUE));
    }
}
