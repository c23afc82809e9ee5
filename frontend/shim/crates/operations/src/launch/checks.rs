//! What CUDA refuses at once, before a launch is on its way.
//!
//! Pure: the device's limits, the kernel's and the launch's numbers in, the error out. Source: CUDA programming guide,
//! "Technical Specifications per Compute Capability"; CUDA runtime API, "Execution Control".

use crate::types::{
    DEV_ATTR_MAX_BLOCK_DIM_X, DEV_ATTR_MAX_BLOCK_DIM_Y, DEV_ATTR_MAX_BLOCK_DIM_Z, DEV_ATTR_MAX_GRID_DIM_X,
    DEV_ATTR_MAX_GRID_DIM_Y, DEV_ATTR_MAX_GRID_DIM_Z, DEV_ATTR_MAX_THREADS_PER_BLOCK,
};
use abi::{MAX_BLOCK, MAX_BLOCK_THREADS, MAX_GRID};
use session::call::{Error, Outcome};
use session::process::Device;

/// A device's limits on a launch.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    grid: [u32; 3],
    block: [u32; 3],
    threads: u32,
}

/// A kernel's limits on a launch.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// What its registers and the device allow.
    pub max_threads: u32,
    /// What it says of itself (`__launch_bounds__`, .maxntid); u32::MAX when it says nothing.
    pub declared_threads: u32,
    pub required_threads: Option<[u32; 3]>,
    pub max_dynamic_shared: u64,
}

impl Limits {
    /// The limits that the device tells, or else those of every device.
    pub fn of(device: &Device) -> Limits {
        let limit = |attribute, otherwise| {
            device.attribute(attribute).and_then(|value| u32::try_from(value).ok()).unwrap_or(otherwise)
        };
        Limits {
            grid: [
                limit(DEV_ATTR_MAX_GRID_DIM_X, MAX_GRID[0]),
                limit(DEV_ATTR_MAX_GRID_DIM_Y, MAX_GRID[1]),
                limit(DEV_ATTR_MAX_GRID_DIM_Z, MAX_GRID[2]),
            ],
            block: [
                limit(DEV_ATTR_MAX_BLOCK_DIM_X, MAX_BLOCK[0]),
                limit(DEV_ATTR_MAX_BLOCK_DIM_Y, MAX_BLOCK[1]),
                limit(DEV_ATTR_MAX_BLOCK_DIM_Z, MAX_BLOCK[2]),
            ],
            threads: limit(DEV_ATTR_MAX_THREADS_PER_BLOCK, MAX_BLOCK_THREADS),
        }
    }

    /// # Errors
    /// cudaErrorInvalidConfiguration for what no kernel can have on this device, cudaErrorLaunchOutOfResources for what
    /// this kernel cannot have, cudaErrorInvalidValue for too much shared memory and for more threads than the kernel
    /// was declared for: so NVIDIA's driver answers (Numba's tests assert it).
    #[inline]
    pub fn check(&self, grid: [u32; 3], block: [u32; 3], shared_bytes: usize, bounds: &Bounds) -> Outcome {
        for axis in 0..3 {
            let fits = |extent: u32, limit: u32| (1..=limit).contains(&extent);
            if !fits(grid[axis], self.grid[axis]) || !fits(block[axis], self.block[axis]) {
                return Err(Error::INVALID_CONFIGURATION);
            }
        }
        // At most 1024 * 1024 * 64 by now, or what the device says instead.
        let threads = block.iter().map(|extent| u64::from(*extent)).product::<u64>();
        if threads > u64::from(self.threads) {
            return Err(Error::INVALID_CONFIGURATION);
        }
        if threads > u64::from(bounds.declared_threads) {
            return Err(Error::INVALID_VALUE);
        }
        if threads > u64::from(bounds.max_threads) || bounds.required_threads.is_some_and(|shape| shape != block) {
            return Err(Error::LAUNCH_OUT_OF_RESOURCES);
        }
        if shared_bytes as u64 > bounds.max_dynamic_shared {
            return Err(Error::INVALID_VALUE);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { grid: [i32::MAX as u32, 65535, 65535], block: [1024, 1024, 64], threads: 1024 };
    const BOUNDS: Bounds =
        Bounds { max_threads: 1024, declared_threads: u32::MAX, required_threads: None, max_dynamic_shared: 49152 };

    fn check(grid: [u32; 3], block: [u32; 3], shared_bytes: usize) -> Option<i32> {
        LIMITS.check(grid, block, shared_bytes, &BOUNDS).err().map(|error| error.0)
    }

    #[test]
    fn shapes() {
        assert_eq!(check([1, 1, 1], [1024, 1, 1], 0), None);
        assert_eq!(check([i32::MAX as u32, 65535, 65535], [32, 32, 1], 49152), None);
        for (grid, block) in [
            ([0, 1, 1], [1, 1, 1]),
            ([1, 1, 1], [1, 0, 1]),
            ([1 << 31, 1, 1], [1, 1, 1]),
            ([1, 65536, 1], [1, 1, 1]),
            ([1, 1, 65536], [1, 1, 1]),
            ([1, 1, 1], [1025, 1, 1]),
            ([1, 1, 1], [1, 1, 65]),
            ([1, 1, 1], [32, 32, 2]),
        ] {
            assert_eq!(check(grid, block, 0), Some(9), "{grid:?} {block:?}");
        }
    }

    #[test]
    fn what_a_kernel_allows() {
        assert_eq!(check([1; 3], [1; 3], 49153), Some(1));
        let bounds = Bounds { max_threads: 128, max_dynamic_shared: 0, ..BOUNDS };
        assert!(LIMITS.check([1; 3], [128, 1, 1], 0, &bounds).is_ok());
        assert_eq!(LIMITS.check([1; 3], [129, 1, 1], 0, &bounds), Err(Error::LAUNCH_OUT_OF_RESOURCES));
        let declared = Bounds { declared_threads: 64, ..bounds };
        assert_eq!(LIMITS.check([1; 3], [65, 1, 1], 0, &declared), Err(Error::INVALID_VALUE));
        let bounds = Bounds { required_threads: Some([16, 4, 1]), ..bounds };
        assert!(LIMITS.check([1; 3], [16, 4, 1], 0, &bounds).is_ok());
        assert_eq!(LIMITS.check([1; 3], [4, 16, 1], 0, &bounds), Err(Error::LAUNCH_OUT_OF_RESOURCES));
    }
}
