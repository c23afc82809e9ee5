//! Occupancy as the driver API has it: the formula is `operations::occupancy`'s.
//!
//! Source: CUDA driver API, "Occupancy".

use std::ffi::{c_int, c_uint};

use abi::driver::{CUfunction, CUlaunchConfig, CUoccupancyB2DSize};
use operations::device::attribute;
use operations::types::{
    LaunchConfig, DEV_ATTR_MAX_BLOCKS_PER_MULTIPROCESSOR, DEV_ATTR_MAX_THREADS_PER_MULTI_PROCESSOR,
    DEV_ATTR_MULTI_PROCESSOR_COUNT, DEV_ATTR_WARP_SIZE, OCCUPANCY_DEFAULT, OCCUPANCY_DISABLE_CACHING_OVERRIDE,
};
use operations::{launch, module, occupancy};
use session::call::{Error, Outcome};
use session::process;

use crate::give;
use crate::launch::runtime_config;
use crate::module::function;

pub unsafe fn cuOccupancyMaxPotentialClusterSize(
    clusterSize: *mut c_int,
    func: CUfunction,
    config: *const CUlaunchConfig,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        let config = runtime_config(config)?;
        occupancy::max_potential_cluster_size(clusterSize, func.cast_const().cast(), &config)
    }
}

/// cuBLASLt names no function: the clusters of one that needs nothing but its threads.
///
/// # Safety
/// The configuration's attributes are as the driver API says.
unsafe fn clusters_of_any(config: &LaunchConfig) -> Outcome<c_int> {
    let device = process::device()?;
    let value = |which| attribute(device, which).unwrap_or(0);
    // SAFETY: the caller's promise.
    let (config, meaning) = unsafe { launch::read_config("cuOccupancyMaxActiveClusters", config) }?;
    let product = |shape: [u32; 3]| c_int::try_from(shape.iter().map(|extent| u64::from(*extent)).product::<u64>());
    let threads = product([config.blockDim.x, config.blockDim.y, config.blockDim.z]);
    let blocks = product(meaning.cluster.ok_or(Error::INVALID_VALUE)?);
    let (Ok(threads @ 1..), Ok(blocks @ 1..)) = (threads, blocks) else { return Err(Error::INVALID_VALUE) };
    let resident = value(DEV_ATTR_MAX_THREADS_PER_MULTI_PROCESSOR) / threads;
    let resident = resident.min(value(DEV_ATTR_MAX_BLOCKS_PER_MULTIPROCESSOR));
    Ok(resident.saturating_mul(value(DEV_ATTR_MULTI_PROCESSOR_COUNT)) / blocks)
}

pub unsafe fn cuOccupancyMaxActiveClusters(
    numClusters: *mut c_int,
    func: CUfunction,
    config: *const CUlaunchConfig,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        let config = runtime_config(config)?;
        if func.is_null() {
            return give(numClusters, clusters_of_any(&config)?);
        }
        occupancy::max_active_clusters(numClusters, func.cast_const().cast(), &config)
    }
}

pub unsafe fn cuOccupancyMaxPotentialBlockSize(
    minGridSize: *mut c_int,
    blockSize: *mut c_int,
    func: CUfunction,
    blockSizeToDynamicSMemSize: CUoccupancyB2DSize,
    dynamicSMemSize: usize,
    blockSizeLimit: c_int,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        cuOccupancyMaxPotentialBlockSizeWithFlags(
            minGridSize,
            blockSize,
            func,
            blockSizeToDynamicSMemSize,
            dynamicSMemSize,
            blockSizeLimit,
            OCCUPANCY_DEFAULT,
        )
    }
}

/// The block with which the most threads run at once, and the grid that fills the device: the largest block of those
/// that do equally well, as the runtime API's header of the same name finds it.
pub unsafe fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    minGridSize: *mut c_int,
    blockSize: *mut c_int,
    func: CUfunction,
    blockSizeToDynamicSMemSize: CUoccupancyB2DSize,
    dynamicSMemSize: usize,
    blockSizeLimit: c_int,
    flags: c_uint,
) -> Outcome {
    if !matches!(flags, OCCUPANCY_DEFAULT | OCCUPANCY_DISABLE_CACHING_OVERRIDE) || blockSizeLimit < 0 {
        return Err(Error::INVALID_VALUE);
    }
    if minGridSize.is_null() || blockSize.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let resources = module::resources_of(function(func)?)?;
    let device = process::device()?;
    let number = |attribute| device.attribute(attribute).unwrap_or(1).max(1);
    let (multiprocessors, warp) = (number(DEV_ATTR_MULTI_PROCESSOR_COUNT), number(DEV_ATTR_WARP_SIZE));
    let most = c_int::try_from(resources.max_threads).unwrap_or(c_int::MAX);
    let limit = if blockSizeLimit == 0 { most } else { most.min(blockSizeLimit) };
    let (mut best, mut found) = (0, (0, 0));
    let mut aligned = (limit + warp - 1) / warp * warp;
    while aligned > 0 {
        let threads = aligned.min(limit);
        // SAFETY: the program says that it is such a function.
        let dynamic = blockSizeToDynamicSMemSize.map_or(dynamicSMemSize, |size| unsafe { size(threads) });
        let mut blocks = 0;
        // SAFETY: a place for the number.
        unsafe {
            occupancy::max_active_blocks_per_multiprocessor(&mut blocks, func.cast_const().cast(), threads, dynamic)
        }?;
        if blocks * threads > best {
            (best, found) = (blocks * threads, (blocks * multiprocessors, threads));
        }
        aligned -= warp;
    }
    // SAFETY: the caller's places for the numbers.
    unsafe {
        give(minGridSize, found.0)?;
        give(blockSize, found.1)
    }
}
