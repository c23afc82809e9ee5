//! What a kernel needs of a multiprocessor, and what a launch of it may ask for.

use std::ffi::c_void;

use crate::types::{
    DeviceAttr, DEV_ATTR_MAX_REGISTERS_PER_BLOCK, DEV_ATTR_MAX_SHARED_MEMORY_PER_BLOCK,
    DEV_ATTR_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, DEV_ATTR_MAX_THREADS_PER_BLOCK,
};
use session::call::Outcome;
use session::process::{self, Device};

use super::kernel::{Kernel, Signature};
use super::kernel_of;

/// Registers per thread where nothing tells: what most kernels have.
const REGISTERS: u32 = 32;
/// Registers are given to warps in units of 256, eight per lane.
const REGISTER_UNIT: u32 = 8;
const WARP: u32 = 32;

/// What a kernel needs, and may have, on the session's device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Per thread.
    pub registers: u32,
    pub static_shared: u64,
    pub constant: u64,
    pub local: u64,
    /// The most threads of a block.
    pub max_threads: u32,
    /// The most dynamic shared memory that a launch may ask for now.
    pub max_dynamic_shared: u64,
    pub ptx_version: u32,
    pub binary_version: u32,
}

/// A kernel's limits on this device, fixed for the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most threads of a block.
    pub threads: u32,
    /// The most that the kernel was declared for; u32::MAX where it does not say.
    pub declared_threads: u32,
    /// The most dynamic shared memory of a block, unless the program sets it.
    pub dynamic_shared: u64,
    /// The most that the program may set.
    pub dynamic_shared_optin: u64,
}

/// The resources of the kernel that the program means.
pub fn resources(function: *const c_void) -> Outcome<Resources> {
    of_kernel(kernel_of(function)?)
}

pub fn of_kernel(kernel: &Kernel) -> Outcome<Resources> {
    let device = process::device()?;
    let contents = kernel.module.contents()?;
    let Signature { image: signature, limits } = kernel.signature()?;
    let registers = signature.registers.unwrap_or(REGISTERS.min(signature.max_registers.unwrap_or(REGISTERS)));
    let binary_version = match contents.source {
        image::Source::Ptx => device.compute.0 * 10 + device.compute.1,
        image::Source::MachineCode => contents.architecture,
    };
    Ok(Resources {
        registers,
        static_shared: signature.static_shared_bytes,
        constant: contents.constant_bytes,
        local: signature.local_bytes,
        max_threads: limits.threads,
        max_dynamic_shared: kernel.max_dynamic_shared(limits),
        ptx_version: contents.architecture,
        binary_version,
    })
}

/// The limits of a kernel of that signature.
pub fn limits(signature: &image::Kernel, device: &Device) -> Limits {
    let shared = attribute(device, DEV_ATTR_MAX_SHARED_MEMORY_PER_BLOCK, 48 << 10);
    let optin = attribute(device, DEV_ATTR_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, shared);
    let left = |limit: u32| u64::from(limit).saturating_sub(signature.static_shared_bytes);
    let threads = attribute(device, DEV_ATTR_MAX_THREADS_PER_BLOCK, 1024);
    let registers = attribute(device, DEV_ATTR_MAX_REGISTERS_PER_BLOCK, 65536);
    Limits {
        threads: max_threads(signature, threads, registers),
        declared_threads: signature.max_threads.map_or(u32::MAX, volume),
        dynamic_shared: left(shared),
        dynamic_shared_optin: left(optin),
    }
}

fn attribute(device: &Device, attribute: DeviceAttr, otherwise: u32) -> u32 {
    device.attribute(attribute).and_then(|value| u32::try_from(value).ok()).unwrap_or(otherwise)
}

/// The threads of a block of that shape, or the most there can be.
fn volume(shape: [u32; 3]) -> u32 {
    shape.iter().fold(1, |product, extent| product.saturating_mul(*extent))
}

/// The device's limit, the kernel's own (`__launch_bounds__`), and what its registers allow.
fn max_threads(signature: &image::Kernel, device_threads: u32, device_registers: u32) -> u32 {
    let mut most = device_threads;
    for shape in [signature.max_threads, signature.required_threads].into_iter().flatten() {
        most = most.min(volume(shape));
    }
    match signature.registers {
        Some(registers) if registers > 0 => {
            let per_warp = registers.min(device_registers).next_multiple_of(REGISTER_UNIT) * WARP;
            most.min(device_registers / per_warp * WARP)
        }
        _ => most,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn threads(signature: image::Kernel) -> u32 {
        max_threads(&signature, 1024, 65536)
    }

    #[test]
    fn the_lowest_limit_on_threads_counts() {
        let none = image::Kernel::default();
        assert_eq!(threads(none.clone()), 1024);
        assert_eq!(threads(image::Kernel { max_threads: Some([16, 8, 1]), ..none.clone() }), 128);
        assert_eq!(threads(image::Kernel { required_threads: Some([64, 1, 1]), ..none.clone() }), 64);
        assert_eq!(threads(image::Kernel { max_threads: Some([u32::MAX; 3]), ..none.clone() }), 1024);
    }

    #[test]
    fn registers_limit_the_block() {
        for (registers, expected) in
            [(0, 1024), (32, 1024), (64, 1024), (65, 896), (128, 512), (255, 256), (u32::MAX, 0)]
        {
            let signature = image::Kernel { registers: Some(registers), ..image::Kernel::default() };
            assert_eq!(threads(signature), expected, "{registers}");
        }
    }
}
