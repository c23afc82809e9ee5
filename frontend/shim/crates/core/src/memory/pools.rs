//! The device's default memory pool, the only one there is.
//!
//! Owns the pool's attributes and the account of stream-ordered allocations. Their memory comes from the same allocator as all other:
//! the pool holds nothing back, so trimming finds nothing to release, and the release threshold and the reuse policies
//! are kept and answered but have no effect (the tape's order is stricter than any of them).
//!
//! Source: CUDA runtime API, "Stream Ordered Memory Allocator".
#![allow(non_snake_case, non_upper_case_globals)] // C's names

use crate::call::CudaResult;
use crate::runtime;
use crate::work::handle::{encode, Tag};
use crate::work::tracking;
use abi::{
    cudaMemPoolAttr, cudaMemPoolAttrReleaseThreshold, cudaMemPoolAttrReservedMemCurrent,
    cudaMemPoolAttrReservedMemHigh, cudaMemPoolAttrUsedMemCurrent, cudaMemPoolAttrUsedMemHigh,
    cudaMemPoolReuseAllowInternalDependencies, cudaMemPoolReuseAllowOpportunistic,
    cudaMemPoolReuseFollowEventDependencies, cudaMemPool_t, CudaError,
};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

const NUMBER: u32 = 16;

/// What the pool keeps.
#[derive(Debug, Default)]
pub struct Pool {
    sizes: BTreeMap<u64, u64>,
    used: u64,
    high: u64,
    /// Release threshold (u64) and reuse policies (int), where the program has set them.
    set: BTreeMap<cudaMemPoolAttr, u64>,
}

impl Pool {
    /// An allocation came from the pool.
    pub fn add(&mut self, address: u64, size: u64) {
        self.sizes.insert(address, size);
        self.used += size;
        self.high = self.high.max(self.used);
    }

    /// An allocation, perhaps one of the pool's, was released.
    pub fn remove(&mut self, address: u64) {
        self.used -= self.sizes.remove(&address).unwrap_or(0);
    }

    fn get(&self, attribute: cudaMemPoolAttr) -> Option<u64> {
        let initial = match attribute {
            cudaMemPoolAttrReservedMemCurrent | cudaMemPoolAttrUsedMemCurrent => self.used,
            cudaMemPoolAttrReservedMemHigh | cudaMemPoolAttrUsedMemHigh => self.high,
            cudaMemPoolAttrReleaseThreshold => 0,
            _ => 1,
        };
        (is_policy(attribute) || is_size(attribute)).then(|| self.set.get(&attribute).copied().unwrap_or(initial))
    }

    fn put(&mut self, attribute: cudaMemPoolAttr, value: u64) -> CudaResult {
        match attribute {
            cudaMemPoolAttrReleaseThreshold => drop(self.set.insert(attribute, value)),
            // The high-water marks can be set back, nothing else.
            cudaMemPoolAttrReservedMemHigh | cudaMemPoolAttrUsedMemHigh if value == 0 => self.high = self.used,
            _ if is_policy(attribute) => drop(self.set.insert(attribute, u64::from(value != 0))),
            _ => return Err(CudaError::INVALID_VALUE),
        }
        Ok(())
    }
}

/// Attributes whose value is an `int`.
fn is_policy(attribute: cudaMemPoolAttr) -> bool {
    matches!(
        attribute,
        cudaMemPoolReuseFollowEventDependencies
            | cudaMemPoolReuseAllowOpportunistic
            | cudaMemPoolReuseAllowInternalDependencies
    )
}

/// Attributes whose value is a `cuuint64_t`.
fn is_size(attribute: cudaMemPoolAttr) -> bool {
    (cudaMemPoolAttrReleaseThreshold..=cudaMemPoolAttrUsedMemHigh).contains(&attribute)
}

fn handle() -> cudaMemPool_t {
    encode(Tag::Pool, NUMBER) as cudaMemPool_t
}

/// Refuses what is not the default pool.
pub fn check(pool: cudaMemPool_t) -> CudaResult {
    if pool == handle() {
        Ok(())
    } else {
        Err(CudaError::INVALID_VALUE)
    }
}

fn check_device(device: c_int) -> CudaResult {
    let devices = runtime::devices()?.len();
    usize::try_from(device).ok().filter(|device| *device < devices).map(drop).ok_or(CudaError::INVALID_DEVICE)
}

pub unsafe fn cudaDeviceGetDefaultMemPool(memPool: *mut cudaMemPool_t, device: c_int) -> CudaResult {
    check_device(device)?;
    // SAFETY: the program says that it is such a place, or null.
    let place = unsafe { memPool.as_mut() }.ok_or(CudaError::INVALID_VALUE)?;
    *place = handle();
    Ok(())
}

pub unsafe fn cudaDeviceGetMemPool(memPool: *mut cudaMemPool_t, device: c_int) -> CudaResult {
    // SAFETY: as above.
    unsafe { cudaDeviceGetDefaultMemPool(memPool, device) }
}

pub unsafe fn cudaDeviceSetMemPool(device: c_int, memPool: cudaMemPool_t) -> CudaResult {
    check_device(device)?;
    check(memPool)
}

pub unsafe fn cudaMemPoolTrimTo(memPool: cudaMemPool_t, _minBytesToKeep: usize) -> CudaResult {
    check(memPool)
}

pub unsafe fn cudaMemPoolSetAttribute(memPool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut c_void) -> CudaResult {
    check(memPool)?;
    if value.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let value = if is_policy(attr) {
        // SAFETY: the program says that it is a value of the attribute's type.
        let value = unsafe { value.cast::<c_int>().read() };
        u64::from(value != 0)
    } else {
        // SAFETY: as above.
        unsafe { value.cast::<u64>().read() }
    };
    tracking()?.addresses.lock().pool.put(attr, value)
}

pub unsafe fn cudaMemPoolGetAttribute(memPool: cudaMemPool_t, attr: cudaMemPoolAttr, value: *mut c_void) -> CudaResult {
    check(memPool)?;
    let found =
        tracking()?.addresses.lock().pool.get(attr).filter(|_| !value.is_null()).ok_or(CudaError::INVALID_VALUE)?;
    if is_policy(attr) {
        // SAFETY: the program says that it is a place of the attribute's type.
        unsafe { value.cast::<c_int>().write(c_int::from(found != 0)) };
    } else {
        // SAFETY: as above.
        unsafe { value.cast::<u64>().write(found) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_account_follows_the_pools_allocations_only() {
        let mut pool = Pool::default();
        pool.add(0x1000, 100);
        pool.add(0x2000, 50);
        pool.remove(0x1000);
        pool.remove(0x9999);
        assert_eq!(pool.get(cudaMemPoolAttrUsedMemCurrent), Some(50));
        assert_eq!(pool.get(cudaMemPoolAttrUsedMemHigh), Some(150));
        assert_eq!(pool.put(cudaMemPoolAttrUsedMemHigh, 1), Err(CudaError::INVALID_VALUE));
        assert_eq!(pool.put(cudaMemPoolAttrUsedMemHigh, 0), Ok(()));
        assert_eq!(pool.get(cudaMemPoolAttrReservedMemHigh), Some(50));
    }

    #[test]
    fn policies_and_the_threshold_are_kept() {
        let mut pool = Pool::default();
        assert_eq!(pool.get(cudaMemPoolReuseAllowOpportunistic), Some(1));
        assert_eq!(pool.put(cudaMemPoolReuseAllowOpportunistic, 0), Ok(()));
        assert_eq!(pool.put(cudaMemPoolAttrReleaseThreshold, u64::MAX), Ok(()));
        assert_eq!(pool.get(cudaMemPoolReuseAllowOpportunistic), Some(0));
        assert_eq!(pool.get(cudaMemPoolAttrReleaseThreshold), Some(u64::MAX));
        for attribute in [0, 9, -1] {
            assert_eq!((pool.get(attribute), pool.put(attribute, 0)), (None, Err(CudaError::INVALID_VALUE)));
        }
        assert_eq!(pool.put(cudaMemPoolAttrUsedMemCurrent, 0), Err(CudaError::INVALID_VALUE));
    }
}
