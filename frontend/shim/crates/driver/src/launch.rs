//! Launches as the driver API has them: the same records, checks and captures as the runtime API's
//! (`operations::launch`).
//!
//! Source: CUDA driver API, "Execution Control".

// The parameters are NVIDIA's to choose.
#![allow(clippy::too_many_arguments)]

pub(crate) mod occupancy;

use std::ffi::{c_uint, c_void};

use abi::driver::{
    CUfunction, CUlaunchConfig, CUstream, CU_LAUNCH_PARAM_BUFFER_POINTER, CU_LAUNCH_PARAM_BUFFER_SIZE,
    CU_LAUNCH_PARAM_END,
};
use operations::launch::{self, Launch};
use operations::types::{Dim3, LaunchConfig};
use session::call::{Error, Outcome};
use session::function::DefaultStream;

use super::module::function;

/// More pairs than there are kinds of them.
const MOST_EXTRAS: usize = 8;

/// A launch without attributes.
fn plain(grid: [c_uint; 3], block: [c_uint; 3], shared: c_uint, stream: CUstream, cooperative: bool) -> Launch {
    let extents = |[x, y, z]: [c_uint; 3]| Dim3 { x, y, z };
    Launch {
        grid: extents(grid),
        block: extents(block),
        shared_bytes: shared as usize,
        stream,
        cooperative,
        cluster: None,
    }
}

pub unsafe fn cuLaunchKernel(
    default: DefaultStream,
    f: CUfunction,
    gridDimX: c_uint,
    gridDimY: c_uint,
    gridDimZ: c_uint,
    blockDimX: c_uint,
    blockDimY: c_uint,
    blockDimZ: c_uint,
    sharedMemBytes: c_uint,
    hStream: CUstream,
    kernelParams: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome {
    let (grid, block) = ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]);
    let launch = plain(grid, block, sharedMemBytes, hStream, false);
    // SAFETY: the program's promise.
    unsafe { submit(default, f, launch, kernelParams, extra) }
}

pub unsafe fn cuLaunchKernelEx(
    default: DefaultStream,
    config: *const CUlaunchConfig,
    f: CUfunction,
    kernelParams: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome {
    // SAFETY: the program's promise: null or such a structure.
    let config = unsafe { runtime_config(config) }?;
    // SAFETY: the program's promise.
    let (config, meaning) = unsafe { launch::read_config("cuLaunchKernelEx", &config) }?;
    let launch = Launch {
        grid: config.gridDim,
        block: config.blockDim,
        shared_bytes: config.dynamicSmemBytes,
        stream: config.stream,
        cooperative: meaning.cooperative,
        cluster: meaning.cluster,
    };
    // SAFETY: the program's promise.
    unsafe { submit(default, f, launch, kernelParams, extra) }
}

pub unsafe fn cuLaunchCooperativeKernel(
    default: DefaultStream,
    f: CUfunction,
    gridDimX: c_uint,
    gridDimY: c_uint,
    gridDimZ: c_uint,
    blockDimX: c_uint,
    blockDimY: c_uint,
    blockDimZ: c_uint,
    sharedMemBytes: c_uint,
    hStream: CUstream,
    kernelParams: *mut *mut c_void,
) -> Outcome {
    let (grid, block) = ([gridDimX, gridDimY, gridDimZ], [blockDimX, blockDimY, blockDimZ]);
    let launch = plain(grid, block, sharedMemBytes, hStream, true);
    // SAFETY: the program's promise.
    unsafe { submit(default, f, launch, kernelParams, std::ptr::null_mut()) }
}

/// The configuration as the runtime API has it.
///
/// # Safety
/// `config` is null or such a structure.
pub unsafe fn runtime_config(config: *const CUlaunchConfig) -> Outcome<LaunchConfig> {
    // SAFETY: the caller's promise.
    let config = unsafe { config.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    Ok(LaunchConfig {
        gridDim: Dim3 { x: config.gridDimX, y: config.gridDimY, z: config.gridDimZ },
        blockDim: Dim3 { x: config.blockDimX, y: config.blockDimY, z: config.blockDimZ },
        dynamicSmemBytes: config.sharedMemBytes as usize,
        stream: config.hStream,
        attrs: config.attrs,
        numAttrs: config.numAttrs,
    })
}

/// # Safety
/// `parameters` is as the kernel's signature says, or `extra` is as the driver API says.
#[inline]
unsafe fn submit(
    default: DefaultStream,
    f: CUfunction,
    launch: Launch,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome {
    let function = f.cast_const().cast();
    if extra.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { launch::submit(default, function, launch, parameters) };
    }
    if !parameters.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let mut pointers = unsafe { from_buffer(f, extra) }?;
    // SAFETY: a pointer for each parameter, into the program's buffer.
    unsafe { launch::submit(default, function, launch, pointers.as_mut_ptr()) }
}

/// A pointer to each parameter in the buffer that `extra` tells.
///
/// # Errors
/// cudaErrorInvalidValue when there is no such buffer, or the kernel takes more than it holds.
///
/// # Safety
/// `extra` is such an array.
#[cold]
unsafe fn from_buffer(f: CUfunction, extra: *mut *mut c_void) -> Outcome<Vec<*mut c_void>> {
    let (mut buffer, mut size) = (std::ptr::null_mut::<u8>(), None);
    for pair in 0..MOST_EXTRAS {
        // SAFETY: the array goes on until its end mark, which is no pair.
        let at = |index: usize| unsafe { extra.add(2 * pair + index).read() };
        match at(0) as usize {
            CU_LAUNCH_PARAM_END => break,
            CU_LAUNCH_PARAM_BUFFER_POINTER => buffer = at(1).cast(),
            // SAFETY: a pointer to the size, or null.
            CU_LAUNCH_PARAM_BUFFER_SIZE => size = unsafe { at(1).cast::<usize>().as_ref() }.copied(),
            _ => return Err(Error::INVALID_VALUE),
        }
    }
    let image = &function(f)?.signature()?.image;
    let size = size.ok_or(Error::INVALID_VALUE)?;
    let needed = image.parameters.iter().map(|place| (place.offset + place.size) as usize).max().unwrap_or(0);
    if buffer.is_null() || size < needed {
        return Err(Error::INVALID_VALUE);
    }
    Ok(image.parameters.iter().map(|place| buffer.wrapping_add(place.offset as usize).cast()).collect())
}
