//! The device family: which devices there are, which one is current, what they can do; synchronization and reset.
//!
//! Everything but the last two is answered from the handshake, without the network. One file per part: `attributes`
//! (what the host said, and what a guest of Farlane sees differently), `properties` (cudaDeviceProp), `settings`
//! (flags, limits, preferences), `identity` (PCI addresses, the choice of a device), `peers` (access between devices:
//! none), `resources` (a device as one part), `capability` (what NVIDIA's libraries get).
//!
//! Source: CUDA runtime API, "Device Management", "Version Management", "Peer Device Memory Access", "Profiler
//! Control".

use std::ffi::{c_double, c_int, c_uint};

use crate::stream::held;
use crate::types::DeviceAttr;
use session::call::{give, Error, Outcome};
use session::process::{self, device_of};
use session::{contexts, permission, work};

mod attributes;
mod capability;
mod identity;
mod peers;
mod resources;
mod settings;

pub use attributes::attribute;
pub use capability::capability;
pub use identity::*;
pub use peers::*;
pub use resources::*;
pub use settings::*;

/// The newest CUDA whose runtime API the shim knows: what the driver supports, and what each library says it is.
pub const DRIVER_VERSION: c_int = 13050;

pub unsafe fn get_device_count(count: *mut c_int) -> Outcome {
    if count.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let devices = process::devices();
    let number = devices.map_or(0, |devices| c_int::try_from(devices.len()).unwrap_or(c_int::MAX));
    // SAFETY: the caller's place for the count.
    unsafe { give(count, number)? };
    devices.map(drop)
}

pub unsafe fn get_device(device: *mut c_int) -> Outcome {
    process::devices()?;
    // SAFETY: the caller's place for the number.
    unsafe { give(device, process::current_device()) }
}

pub unsafe fn set_device(device: c_int) -> Outcome {
    process::set_current_device(device)
}

/// The list says which devices CUDA may choose by itself; it chooses the first.
pub unsafe fn set_valid_devices(device_arr: *mut c_int, len: c_int) -> Outcome {
    let count = process::devices()?.len();
    let length = usize::try_from(len).ok().filter(|length| *length <= count).ok_or(Error::INVALID_VALUE)?;
    if length > 0 && device_arr.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let mut wanted = Vec::with_capacity(length);
    for index in 0..length {
        // SAFETY: the program says that the array has `len` elements.
        let number = unsafe { device_arr.add(index).read() };
        device_of(number)?;
        if wanted.contains(&number) {
            return Err(Error::INVALID_DEVICE);
        }
        wanted.push(number);
    }
    process::set_current_device(wanted.first().copied().unwrap_or(0))
}

pub unsafe fn get_attribute(value: *mut c_int, attr: DeviceAttr, device: c_int) -> Outcome {
    let answer = attribute(device_of(device)?, attr).ok_or(Error::INVALID_VALUE)?;
    // SAFETY: the caller's place for the value.
    unsafe { give(value, answer) }
}

pub unsafe fn driver_get_version(driverVersion: *mut c_int) -> Outcome {
    // SAFETY: the caller's place for the version.
    unsafe { give(driverVersion, DRIVER_VERSION) }
}

pub unsafe fn synchronize() -> Outcome {
    held::complete_all()?;
    if permission::local_sync() {
        return work::completed();
    }
    work::synchronize_device()
}

/// Ends everything that was made in the primary context; `alone`: there is no other. A process that never used the
/// device has nothing to reset.
pub fn reset(alone: bool) -> Outcome {
    if !process::was_touched() {
        return Ok(());
    }
    if !alone {
        return crate::ownership::end(contexts::PRIMARY);
    }
    crate::ownership::end_modules(contexts::PRIMARY);
    held::forget(None);
    crate::graph::forget();
    crate::managed::forget();
    crate::hostmem::forget_reached();
    crate::memory::forget_arrays();
    crate::memory::forget_mipmapped_arrays();
    crate::texture::forget();
    {
        // Held throughout, so that no address is minted between the record and the reset of the allocator.
        let mut addresses = crate::memory::addresses()?.lock();
        let staying = crate::testing::windows_stay().then(|| addresses.virtual_memory.clone());
        work::reset_device()?;
        addresses.reset(process::session()?.welcome());
        if let Some(staying) = staying {
            crate::memory::virtual_memory::make_again(&mut addresses, staying)?;
        }
    }
    crate::event::forget();
    contexts::device_was_reset();
    settings::forget_all_settings();
    Ok(())
}

/// There is no profiler to start; collecting nothing is what a program without one sees from NVIDIA's library, too.
pub unsafe fn profiler_start() -> Outcome {
    Ok(())
}

pub unsafe fn profiler_stop() -> Outcome {
    Ok(())
}

/// Converted for devices without double precision, of which none is left; NVIDIA's library leaves the value as it is.
pub unsafe fn set_double_for_device(_d: *mut c_double) -> Outcome {
    Ok(())
}

pub unsafe fn set_double_for_host(_d: *mut c_double) -> Outcome {
    Ok(())
}

/// Writes of other devices reach this one only through Farlane: there is nothing to flush.
pub unsafe fn flush_gpu_direct_rdma_writes(
    _target: crate::types::FlushGPUDirectRDMAWritesTarget,
    _scope: crate::types::FlushGPUDirectRDMAWritesScope,
) -> Outcome {
    Err(Error::NOT_SUPPORTED)
}

pub unsafe fn get_stream_priority_range(leastPriority: *mut c_int, greatestPriority: *mut c_int) -> Outcome {
    let supported = attribute(process::device()?, crate::types::DEV_ATTR_STREAM_PRIORITIES_SUPPORTED) == Some(1);
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
pub unsafe fn get_host_atomic_capabilities(
    capabilities: *mut c_uint,
    operations: *const crate::types::AtomicOperation,
    count: c_uint,
    device: c_int,
) -> Outcome {
    device_of(device)?;
    // SAFETY: the program says that the array has `count` elements.
    unsafe { no_capabilities(capabilities, operations, count) }
}

/// Fills `count` answers with "none".
unsafe fn no_capabilities(
    capabilities: *mut c_uint,
    operations: *const crate::types::AtomicOperation,
    count: c_uint,
) -> Outcome {
    if capabilities.is_null() || operations.is_null() || count == 0 {
        return Err(Error::INVALID_VALUE);
    }
    for index in 0..count as usize {
        // SAFETY: the caller's promise.
        unsafe { capabilities.add(index).write(0) };
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_newest_ptx_is_that_of_the_drivers_version() {
        let (major, minor) = image::NEWEST_PTX;
        // CUDA 13 has PTX 9, and as many minor versions.
        assert_eq!(super::DRIVER_VERSION.cast_unsigned(), (major + 4) * 1000 + minor * 10);
    }
}
