//! The occupancy family: how many blocks of a kernel fit on a multiprocessor, computed in the guest.
//!
//! The formula is NVIDIA's published one (CUDA best practices guide, "Calculating Occupancy"; CUDA programming guide,
//! "Technical specifications per compute capability"): blocks are limited by warps, registers, shared memory and the
//! multiprocessor's block slots, each in the hardware's units of allocation. The expected values of the tests were
//! computed with the toolkit's header `cuda_occupancy.h` (13.5), for compute capabilities from 7.0 to 12.0.
//! Preferences (cache configuration, carve-out) are hints and do not enter it. A kernel that comes as PTX alone has the
//! registers that most kernels have: what its host will compile it to is not known here.

use std::ffi::{c_int, c_uint, c_void};

use crate::launch;
use crate::launch::clusters::{self, Bounds};
use crate::types::{
    LaunchConfig, DEV_ATTR_CLUSTER_LAUNCH, DEV_ATTR_MAX_BLOCKS_PER_MULTIPROCESSOR, DEV_ATTR_MAX_REGISTERS_PER_BLOCK,
    DEV_ATTR_MAX_REGISTERS_PER_MULTIPROCESSOR, DEV_ATTR_MAX_SHARED_MEMORY_PER_BLOCK,
    DEV_ATTR_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, DEV_ATTR_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
    DEV_ATTR_MAX_THREADS_PER_BLOCK, DEV_ATTR_MAX_THREADS_PER_MULTI_PROCESSOR, DEV_ATTR_MULTI_PROCESSOR_COUNT,
    DEV_ATTR_RESERVED_SHARED_MEMORY_PER_BLOCK, DEV_ATTR_WARP_SIZE, OCCUPANCY_DEFAULT,
    OCCUPANCY_DISABLE_CACHING_OVERRIDE,
};
use crate::{device, module};
use session::call::{Error, Outcome};
use session::process::{self, Device};

/// Registers are allocated to a warp in units of this many (every compute capability since 3.0).
const REGISTER_UNIT: usize = 256;

/// What the formula needs to know of a multiprocessor.
#[derive(Clone, Copy, Debug)]
struct Multiprocessor {
    warp: usize,
    threads: usize,
    blocks: usize,
    registers: usize,
    /// Of one block.
    block_threads: usize,
    block_registers: usize,
    shared: usize,
    /// Of one block, unless the function asked for more.
    block_shared: usize,
    block_shared_optin: usize,
    /// Taken by the system for each block.
    reserved_shared: usize,
    /// Of an allocation.
    shared_unit: usize,
    /// The schedulers, each with its own part of the registers.
    partitions: usize,
}

/// What it needs to know of a kernel.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    threads_limit: usize,
    registers: usize,
    static_shared: usize,
    dynamic_shared_limit: usize,
}

impl Multiprocessor {
    fn of(device: &Device) -> Self {
        let get = |name| device::attribute(device, name).and_then(|value| usize::try_from(value).ok()).unwrap_or(0);
        let (major, _) = device.compute;
        Self {
            warp: get(DEV_ATTR_WARP_SIZE).max(1),
            threads: get(DEV_ATTR_MAX_THREADS_PER_MULTI_PROCESSOR),
            blocks: get(DEV_ATTR_MAX_BLOCKS_PER_MULTIPROCESSOR),
            registers: get(DEV_ATTR_MAX_REGISTERS_PER_MULTIPROCESSOR),
            block_threads: get(DEV_ATTR_MAX_THREADS_PER_BLOCK),
            block_registers: get(DEV_ATTR_MAX_REGISTERS_PER_BLOCK),
            shared: get(DEV_ATTR_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            block_shared: get(DEV_ATTR_MAX_SHARED_MEMORY_PER_BLOCK),
            block_shared_optin: get(DEV_ATTR_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            reserved_shared: get(DEV_ATTR_RESERVED_SHARED_MEMORY_PER_BLOCK),
            shared_unit: if major >= 8 { 128 } else { 256 },
            partitions: 4,
        }
    }

    /// What one block may take at most, the system's part included.
    fn shared_limit(&self) -> usize {
        self.block_shared.max(self.block_shared_optin) + self.reserved_shared
    }

    /// Shared memory that a block takes; `None` when no block may have that much.
    fn shared_of_block(&self, kernel: &Kernel, dynamic: usize) -> Option<usize> {
        if dynamic > kernel.dynamic_shared_limit {
            return None;
        }
        let wanted = kernel.static_shared.saturating_add(dynamic).saturating_add(self.reserved_shared);
        let taken = wanted.checked_next_multiple_of(self.shared_unit)?;
        (taken <= self.shared_limit()).then_some(taken)
    }

    /// How many blocks the registers allow.
    fn blocks_by_registers(&self, kernel: &Kernel, warps: usize) -> usize {
        if kernel.registers == 0 {
            return usize::MAX;
        }
        let of_warp = (kernel.registers * self.warp).next_multiple_of(REGISTER_UNIT);
        // A block's warps spread over the schedulers evenly, so it claims as if it filled its share of each.
        let of_block = of_warp * warps.next_multiple_of(self.partitions);
        if of_block > self.block_registers {
            return 0;
        }
        let warps_of_partition = self.registers / self.partitions / of_warp;
        warps_of_partition * self.partitions / warps
    }

    /// Blocks of `threads` threads and `dynamic` bytes of dynamic shared memory that run at once; 0 when none can.
    fn active_blocks(&self, kernel: &Kernel, threads: usize, dynamic: usize) -> usize {
        if threads > kernel.threads_limit.min(self.block_threads) {
            return 0;
        }
        let warps = threads.div_ceil(self.warp);
        let Some(shared) = self.shared_of_block(kernel, dynamic) else { return 0 };
        let by_shared = self.shared.checked_div(shared).unwrap_or(usize::MAX);
        let by_warps = self.threads / self.warp / warps;
        self.blocks.min(by_warps).min(by_shared).min(self.blocks_by_registers(kernel, warps))
    }

    /// The most dynamic shared memory with which `blocks` blocks still run at once, given that they do without any.
    fn dynamic_shared(&self, kernel: &Kernel, blocks: usize) -> usize {
        let whole = if blocks == 1 { self.shared_limit() } else { self.shared };
        let share = whole / blocks / self.shared_unit * self.shared_unit;
        let free = share.min(self.shared_limit()).saturating_sub(self.reserved_shared + kernel.static_shared);
        free.min(kernel.dynamic_shared_limit)
    }
}

fn kernel_of(function: *const c_void) -> Outcome<Kernel> {
    let resources = module::resources(function)?;
    let size = |value: u64| usize::try_from(value).unwrap_or(usize::MAX);
    Ok(Kernel {
        threads_limit: resources.max_threads as usize,
        registers: resources.registers as usize,
        static_shared: size(resources.static_shared),
        dynamic_shared_limit: size(resources.max_dynamic_shared),
    })
}

/// The number of threads of a block, which must be positive.
fn threads_of(block_size: c_int) -> Outcome<usize> {
    usize::try_from(block_size).ok().filter(|threads| *threads > 0).ok_or(Error::INVALID_VALUE)
}

pub unsafe fn max_active_blocks_per_multiprocessor(
    numBlocks: *mut c_int,
    func: *const c_void,
    blockSize: c_int,
    dynamicSMemSize: usize,
) -> Outcome {
    if numBlocks.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let threads = threads_of(blockSize)?;
    let multiprocessor = Multiprocessor::of(process::device()?);
    let blocks = multiprocessor.active_blocks(&kernel_of(func)?, threads, dynamicSMemSize);
    // SAFETY: not null, and the caller's place for the number.
    unsafe { numBlocks.write(c_int::try_from(blocks).unwrap_or(c_int::MAX)) };
    Ok(())
}

/// The flag concerns caches of compute capability 5.x, which the formula does not model: it changes nothing.
pub unsafe fn max_active_blocks_per_multiprocessor_with_flags(
    numBlocks: *mut c_int,
    func: *const c_void,
    blockSize: c_int,
    dynamicSMemSize: usize,
    flags: c_uint,
) -> Outcome {
    if !matches!(flags, OCCUPANCY_DEFAULT | OCCUPANCY_DISABLE_CACHING_OVERRIDE) {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: as the program called us.
    unsafe { max_active_blocks_per_multiprocessor(numBlocks, func, blockSize, dynamicSMemSize) }
}

pub unsafe fn available_dynamic_s_mem_per_block(
    dynamicSmemSize: *mut usize,
    func: *const c_void,
    numBlocks: c_int,
    blockSize: c_int,
) -> Outcome {
    if dynamicSmemSize.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let threads = threads_of(blockSize)?;
    let blocks = threads_of(numBlocks)?;
    let kernel = kernel_of(func)?;
    let multiprocessor = Multiprocessor::of(process::device()?);
    if multiprocessor.active_blocks(&kernel, threads, 0) < blocks {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: not null, and the caller's place for the size.
    unsafe { dynamicSmemSize.write(multiprocessor.dynamic_shared(&kernel, blocks)) };
    Ok(())
}

/// What the blocks of a configuration need: how many are there at once, on all multiprocessors, and what the kernel
/// says of clusters.
///
/// # Safety
/// `config` is null or such a struct.
unsafe fn clusters_of(
    name: &str,
    func: *const c_void,
    config: *const LaunchConfig,
) -> Outcome<(usize, Bounds, Option<[u32; 3]>)> {
    let device = process::device()?;
    if device.attribute(DEV_ATTR_CLUSTER_LAUNCH).unwrap_or(0) == 0 {
        return Err(Error::NOT_SUPPORTED);
    }
    // SAFETY: the caller's promise.
    let (config, meaning) = unsafe { launch::read_config(name, config) }?;
    let block = [config.blockDim.x, config.blockDim.y, config.blockDim.z];
    let threads = clusters::blocks(block).ok_or(Error::INVALID_VALUE)? as usize;
    let blocks = Multiprocessor::of(device).active_blocks(&kernel_of(func)?, threads, config.dynamicSmemBytes);
    let multiprocessors = device::attribute(device, DEV_ATTR_MULTI_PROCESSOR_COUNT).unwrap_or(1);
    let bounds = module::kernel_of(func)?.cluster_bounds()?;
    Ok((blocks * usize::try_from(multiprocessors).unwrap_or(1), bounds, meaning.cluster))
}

/// A cluster's blocks may be on any of the multiprocessors here.
pub unsafe fn max_potential_cluster_size(
    clusterSize: *mut c_int,
    func: *const c_void,
    launchConfig: *const LaunchConfig,
) -> Outcome {
    if clusterSize.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: as the program called us.
    let (blocks, bounds, _) = unsafe { clusters_of("cudaOccupancyMaxPotentialClusterSize", func, launchConfig) }?;
    // SAFETY: not null, and the caller's place for the number.
    unsafe { clusterSize.write(c_int::try_from(blocks.min(bounds.most() as usize)).unwrap_or(c_int::MAX)) };
    Ok(())
}

pub unsafe fn max_active_clusters(
    numClusters: *mut c_int,
    func: *const c_void,
    launchConfig: *const LaunchConfig,
) -> Outcome {
    if numClusters.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: as the program called us.
    let (blocks, bounds, asked) = unsafe { clusters_of("cudaOccupancyMaxActiveClusters", func, launchConfig) }?;
    // Without a shape that the kernel was compiled for, the configuration has to give one.
    let cluster = bounds.cluster(asked)?.and_then(clusters::blocks).ok_or(Error::INVALID_VALUE)?;
    // SAFETY: not null, and the caller's place for the number.
    unsafe { numClusters.write(c_int::try_from(blocks / cluster as usize).unwrap_or(c_int::MAX)) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of numbers; see the header of the file.
    const EXPECTED: &str = include_str!("occupancy/expected.txt");

    fn multiprocessor(numbers: &[usize]) -> Multiprocessor {
        Multiprocessor {
            warp: 32,
            threads: numbers[1],
            blocks: numbers[2],
            registers: 65536,
            block_threads: 1024,
            block_registers: 65536,
            shared: numbers[3],
            block_shared: 49152,
            block_shared_optin: numbers[4],
            reserved_shared: numbers[5],
            shared_unit: if numbers[0] >= 80 { 128 } else { 256 },
            partitions: 4,
        }
    }

    #[test]
    fn agrees_with_the_toolkit() {
        let mut compared = 0;
        for line in EXPECTED.lines().filter(|line| !line.starts_with('#')) {
            let numbers: Vec<usize> = line.split_whitespace().map(|number| number.parse().expect(line)).collect();
            let [threads_limit, registers, static_shared, dynamic_shared_limit, threads, dynamic, blocks, wanted, free] =
                numbers[6..]
            else {
                panic!("{line}")
            };
            let kernel = Kernel { threads_limit, registers, static_shared, dynamic_shared_limit };
            let device = multiprocessor(&numbers);
            assert_eq!(device.active_blocks(&kernel, threads, dynamic), blocks, "{line}");
            if device.active_blocks(&kernel, threads, 0) >= wanted {
                assert_eq!(device.dynamic_shared(&kernel, wanted), free, "{line}");
            }
            compared += 1;
        }
        assert!(compared >= 300, "{compared}");
    }

    #[test]
    fn no_number_overflows() {
        let numbers = [90, 2048, 32, 233_472, 232_448, 1024];
        let kernel = Kernel {
            threads_limit: 1024,
            registers: 255,
            static_shared: 49152,
            dynamic_shared_limit: i32::MAX as usize,
        };
        assert_eq!(multiprocessor(&numbers).active_blocks(&kernel, 1024, usize::MAX), 0);
        assert_eq!(multiprocessor(&numbers).active_blocks(&kernel, usize::MAX, 0), 0);
    }
}
