//! What a kernel needs of a multiprocessor: for attributes, occupancy and the checks of a launch.

use std::ffi::c_void;

use abi::{
    cudaDevAttrMaxRegistersPerBlock, cudaDevAttrMaxSharedMemoryPerBlock, cudaDevAttrMaxSharedMemoryPerBlockOptin,
    cudaDevAttrMaxThreadsPerBlock, cudaDeviceAttr,
};

use super::{kernel_of, Kernel};
use crate::call::CudaResult;
use crate::runtime::{self, Device};

/// Registers per thread where nothing tells: what most kernels have.
const REGISTERS: u32 = 32;
/// Registers are given to warps in units of 256, eight per lane.
const REGISTER_UNIT: u32 = 8;
const WARP: u32 = 32;

/// A kernel's needs and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resources {
    /// Per thread; `known` tells whether machine code said so.
    pub registers: u32,
    pub registers_known: bool,
    pub static_shared: u64,
    /// The most dynamic shared memory that a launch may ask for now.
    pub max_dynamic_shared: u64,
    pub constant: u64,
    pub local: u64,
    /// The most threads of a block.
    pub max_threads: u32,
    pub ptx_version: u32,
    pub binary_version: u32,
}

/// The resources of the kernel that the program means.
pub fn resources(function: *const c_void) -> CudaResult<Resources> {
    of_kernel(kernel_of(function)?)
}

pub fn of_kernel(kernel: &Kernel) -> CudaResult<Resources> {
    let device = runtime::device()?;
    let contents = kernel.module.contents()?;
    let signature = kernel.signature()?;
    let registers = signature.registers.unwrap_or(REGISTERS.min(signature.max_registers.unwrap_or(REGISTERS)));
    let binary_version = match contents.source {
        image::Source::Ptx => device.compute.0 * 10 + device.compute.1,
        image::Source::MachineCode => contents.architecture,
    };
    Ok(Resources {
        registers,
        registers_known: signature.registers.is_some(),
        static_shared: signature.static_shared_bytes,
        max_dynamic_shared: max_dynamic_shared(kernel, signature, device),
        constant: contents.constant_bytes,
        local: signature.local_bytes,
        max_threads: max_threads(signature, device),
        ptx_version: contents.architecture,
        binary_version,
    })
}

fn attribute(device: &Device, attribute: cudaDeviceAttr, otherwise: u32) -> u32 {
    device.attribute(attribute).and_then(|value| u32::try_from(value).ok()).unwrap_or(otherwise)
}

/// What a launch may ask for: what the program set, or what is left of the ordinary limit.
pub fn max_dynamic_shared(kernel: &Kernel, signature: &image::Kernel, device: &Device) -> u64 {
    match kernel.max_dynamic_shared.get() {
        Some(set) => set.max(0) as u64,
        None => {
            let limit = attribute(device, cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10);
            u64::from(limit).saturating_sub(signature.static_shared_bytes)
        }
    }
}

/// The most that cudaFuncAttributeMaxDynamicSharedMemorySize may be set to.
pub fn most_dynamic_shared(kernel: &Kernel) -> CudaResult<u64> {
    let device = runtime::device()?;
    let ordinary = attribute(device, cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10);
    let limit = attribute(device, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinary);
    Ok(u64::from(limit).saturating_sub(kernel.signature()?.static_shared_bytes))
}

/// The device's limit, the kernel's own (`__launch_bounds__`), and what its registers allow.
pub fn max_threads(signature: &image::Kernel, device: &Device) -> u32 {
    let mut most = attribute(device, cudaDevAttrMaxThreadsPerBlock, 1024);
    for shape in [signature.max_threads, signature.required_threads].into_iter().flatten() {
        most = most.min(shape.iter().fold(1u32, |product, extent| product.saturating_mul(*extent)));
    }
    match signature.registers {
        Some(registers) if registers > 0 => {
            let per_block = attribute(device, cudaDevAttrMaxRegistersPerBlock, 65536);
            let per_warp = registers.next_multiple_of(REGISTER_UNIT) * WARP;
            most.min(per_block / per_warp * WARP)
        }
        _ => most,
    }
}
