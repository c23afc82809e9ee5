//! The device family: which devices there are, which one is current, what they can do; synchronization and reset.
//!
//! Everything but the last two is answered from the handshake, without the network. One file per part: `attributes` (what
//! the host said, and what a guest of Farlane sees differently), `properties` (cudaDeviceProp), `settings` (flags, limits,
//! preferences), `identity` (PCI addresses, the choice of a device), `peers` (access between devices: none).
//!
//! Source: CUDA runtime API, "Device Management", "Version Management", "Peer Device Memory Access", "Profiler Control".

use std::ffi::{c_double, c_int, c_uint};

use abi::{cudaDeviceAttr, CudaError};

use crate::call::{give, CudaResult};
use crate::driver::contexts;
use crate::runtime::{self, device_of};
use crate::{module, permission, work};

mod attributes;
mod driver;
mod identity;
mod peers;
mod properties;
mod settings;

pub use attributes::attribute;
pub use driver::*;
pub use identity::*;
pub use peers::*;
pub use properties::*;
pub use settings::*;

/// The newest CUDA whose runtime API the shim knows: what the driver supports, and what each library says it is.
pub(crate) const DRIVER_VERSION: c_int = 13050;
const RUNTIME_VERSION_12: c_int = 12090;
const RUNTIME_VERSION_13: c_int = 13050;

pub unsafe fn cudaGetDeviceCount(count: *mut c_int) -> CudaResult {
    if count.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let devices = runtime::devices();
    let number = devices.map_or(0, |devices| c_int::try_from(devices.len()).unwrap_or(c_int::MAX));
    // SAFETY: the caller's place for the count.
    unsafe { give(count, number)? };
    devices.map(drop)
}

pub unsafe fn cudaGetDevice(device: *mut c_int) -> CudaResult {
    runtime::devices()?;
    // SAFETY: the caller's place for the number.
    unsafe { give(device, runtime::current_device()) }
}

pub unsafe fn cudaSetDevice(device: c_int) -> CudaResult {
    runtime::set_current_device(device)
}

/// The list says which devices CUDA may choose by itself; it chooses the first.
pub unsafe fn cudaSetValidDevices(device_arr: *mut c_int, len: c_int) -> CudaResult {
    let count = runtime::devices()?.len();
    let length = usize::try_from(len).ok().filter(|length| *length <= count).ok_or(CudaError::INVALID_VALUE)?;
    if length > 0 && device_arr.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let mut wanted = Vec::with_capacity(length);
    for index in 0..length {
        // SAFETY: the program says that the array has `len` elements.
        let number = unsafe { device_arr.add(index).read() };
        device_of(number)?;
        if wanted.contains(&number) {
            return Err(CudaError::INVALID_DEVICE);
        }
        wanted.push(number);
    }
    runtime::set_current_device(wanted.first().copied().unwrap_or(0))
}

pub unsafe fn cudaDeviceGetAttribute(value: *mut c_int, attr: cudaDeviceAttr, device: c_int) -> CudaResult {
    let answer = attribute(device_of(device)?, attr).ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: the caller's place for the value.
    unsafe { give(value, answer) }
}

pub unsafe fn cudaDriverGetVersion(driverVersion: *mut c_int) -> CudaResult {
    // SAFETY: the caller's place for the version.
    unsafe { give(driverVersion, DRIVER_VERSION) }
}

pub unsafe fn cudaRuntimeGetVersion_v12(runtimeVersion: *mut c_int) -> CudaResult {
    // SAFETY: the caller's place for the version.
    unsafe { give(runtimeVersion, RUNTIME_VERSION_12) }
}

pub unsafe fn cudaRuntimeGetVersion_v13(runtimeVersion: *mut c_int) -> CudaResult {
    // SAFETY: the caller's place for the version.
    unsafe { give(runtimeVersion, RUNTIME_VERSION_13) }
}

pub unsafe fn cudaDeviceSynchronize() -> CudaResult {
    if permission::local_sync() {
        return work::settled();
    }
    work::synchronize_device()
}

/// A process that never used the device has nothing to reset.
pub unsafe fn cudaDeviceReset() -> CudaResult {
    if !runtime::was_touched() {
        return Ok(());
    }
    crate::graph::forget();
    crate::managed::forget();
    crate::hostmem::forget_reached();
    crate::memory::forget_arrays();
    crate::memory::forget_mipmapped_arrays();
    crate::texture::forget();
    work::reset_device()?;
    module::forget_all();
    settings::reset(runtime::current_device());
    contexts::reset_primary(runtime::current_device())
}

/// There is no profiler to start; collecting nothing is what a program without one sees from NVIDIA's library, too.
pub unsafe fn cudaProfilerStart() -> CudaResult {
    Ok(())
}

pub unsafe fn cudaProfilerStop() -> CudaResult {
    Ok(())
}

/// Converted for devices without double precision, of which none is left; NVIDIA's library leaves the value as it is.
pub unsafe fn cudaSetDoubleForDevice(_d: *mut c_double) -> CudaResult {
    Ok(())
}

pub unsafe fn cudaSetDoubleForHost(_d: *mut c_double) -> CudaResult {
    Ok(())
}

/// Writes of other devices reach this one only through Farlane: there is nothing to flush.
pub unsafe fn cudaDeviceFlushGPUDirectRDMAWrites(
    _target: abi::cudaFlushGPUDirectRDMAWritesTarget,
    _scope: abi::cudaFlushGPUDirectRDMAWritesScope,
) -> CudaResult {
    Err(CudaError::NOT_SUPPORTED)
}

pub unsafe fn cudaDeviceGetStreamPriorityRange(leastPriority: *mut c_int, greatestPriority: *mut c_int) -> CudaResult {
    let supported = attribute(runtime::device()?, abi::cudaDevAttrStreamPrioritiesSupported) == Some(1);
    let (least, greatest) = if supported { crate::stream::PRIORITY_RANGE } else { (0, 0) };
    for (place, value) in [(leastPriority, least), (greatestPriority, greatest)] {
        if !place.is_null() {
            // SAFETY: the caller's place for the priority.
            unsafe { give(place, value)? };
        }
    }
    Ok(())
}

/// Atomic operations between host and device memory: none, the memories are not shared.
pub unsafe fn cudaDeviceGetHostAtomicCapabilities(
    capabilities: *mut c_uint,
    operations: *const abi::cudaAtomicOperation,
    count: c_uint,
    device: c_int,
) -> CudaResult {
    device_of(device)?;
    // SAFETY: the program says that the array has `count` elements.
    unsafe { no_capabilities(capabilities, operations, count) }
}

/// Fills `count` answers with "none".
unsafe fn no_capabilities(
    capabilities: *mut c_uint,
    operations: *const abi::cudaAtomicOperation,
    count: c_uint,
) -> CudaResult {
    if capabilities.is_null() || operations.is_null() || count == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    for index in 0..count as usize {
        // SAFETY: the caller's promise.
        unsafe { capabilities.add(index).write(0) };
    }
    Ok(())
}
