//! The module family: functions, symbols and libraries as the program asks about them.
//!
//! Owns what a kernel's or variable's name means and what of it the program can learn; almost everything is answered
//! from the image, without the network (`code`, `kernel`, `variable`). Launching is `launch`'s, registering
//! `registration`'s.
//!
//! Attributes of functions are the guest's estimate of what the device would say: parameters, shared and constant bytes
//! are exact; registers come from machine code for the device's major architecture when the image has some, else 32 (or
//! `.maxnreg`, if lower); local bytes of PTX are what the kernel itself declares.
//!
//! Source: CUDA runtime API, "Execution Control", "Memory Management" (symbols), "Library Management".

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use abi::{
    cudaFuncAttribute, cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributeNonPortableClusterSizeAllowed,
    cudaFuncAttributePreferredSharedMemoryCarveout, cudaFuncAttributeRequiredClusterDepth,
    cudaFuncAttributeRequiredClusterHeight, cudaFuncAttributeRequiredClusterWidth, cudaFuncAttributes, cudaFuncCache,
    cudaFunction_t, cudaKernel_t, cudaSharedMemConfig, CudaError,
};

use crate::call::{give, CudaResult};
use crate::registration;
use crate::runtime;

mod code;
mod kernel;
mod library;
pub mod loading;
mod managed;
mod resources;
mod source;
mod variable;

pub use code::{epoch, forget_all, Kind, Module, Refused};
pub use kernel::{Kernel, Signature};
pub use library::*;
pub use resources::{of_kernel as resources_of, resources};
pub use variable::Variable;

/// The kernel that the program means: a host stub's address, a `cudaKernel_t` or a `cudaFunction_t`.
#[inline(always)]
pub fn kernel_of(function: *const c_void) -> CudaResult<&'static Kernel> {
    registration::find_kernel(function as usize).ok_or(CudaError::INVALID_DEVICE_FUNCTION)
}

/// The tape's handle of a device variable, and its size.
///
/// # Errors
/// cudaErrorInvalidSymbol when nothing is registered at this address.
pub fn variable_of(symbol: *const c_void) -> CudaResult<(u32, usize)> {
    let variable = find_variable(symbol)?;
    Ok((variable.handle()?, variable.size))
}

fn find_variable(symbol: *const c_void) -> CudaResult<&'static Variable> {
    registration::with(|table| table.variable(symbol as usize)).ok_or(CudaError::INVALID_SYMBOL)
}

pub unsafe fn cudaFuncGetAttributes(attr: *mut cudaFuncAttributes, func: *const c_void) -> CudaResult {
    if attr.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let attributes = attributes_of(kernel_of(func)?)?;
    // SAFETY: the program's promise.
    unsafe { give(attr, attributes) }
}

/// What the program can learn about a kernel.
pub fn attributes_of(kernel: &Kernel) -> CudaResult<cudaFuncAttributes> {
    let needs = resources::of_kernel(kernel)?;
    let image = &kernel.signature()?.image;
    let cluster = image.required_cluster.or(kernel.set_cluster()).unwrap_or_default().map(|extent| extent as c_int);
    Ok(cudaFuncAttributes {
        sharedSizeBytes: needs.static_shared as usize,
        constSizeBytes: needs.constant as usize,
        localSizeBytes: needs.local as usize,
        maxThreadsPerBlock: needs.max_threads as c_int,
        numRegs: needs.registers as c_int,
        ptxVersion: needs.ptx_version as c_int,
        binaryVersion: needs.binary_version as c_int,
        cacheModeCA: 0,
        maxDynamicSharedSizeBytes: needs.max_dynamic_shared as c_int,
        preferredShmemCarveout: kernel.carveout.get().unwrap_or(-1),
        clusterDimMustBeSet: c_int::from(image.explicit_cluster),
        requiredClusterWidth: cluster[0],
        requiredClusterHeight: cluster[1],
        requiredClusterDepth: cluster[2],
        nonPortableClusterSizeAllowed: kernel.non_portable_clusters.get().unwrap_or(0),
        ..cudaFuncAttributes::default()
    })
}

/// Whether images are opened on the host as soon as they are loaded, as the program's environment says (CUDA_MODULE_LOADING).
pub fn is_eager() -> bool {
    static EAGER: OnceLock<bool> = OnceLock::new();
    *EAGER.get_or_init(|| std::env::var_os("CUDA_MODULE_LOADING").is_some_and(|mode| mode == "EAGER"))
}

pub unsafe fn cudaFuncGetName(name: *mut *const c_char, func: *const c_void) -> CudaResult {
    let kernel = kernel_of(func)?;
    // SAFETY: the program's promise.
    unsafe { give(name, kernel.name().as_ptr()) }
}

pub unsafe fn cudaFuncGetParamInfo(
    func: *const c_void,
    paramIndex: usize,
    paramOffset: *mut usize,
    paramSize: *mut usize,
) -> CudaResult {
    let signature = kernel_of(func)?.signature()?;
    let parameter = signature.image.parameters.get(paramIndex).ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: the program's promise; the size is optional.
    unsafe {
        give(paramOffset, parameter.offset as usize)?;
        if paramSize.is_null() {
            return Ok(());
        }
        give(paramSize, parameter.size as usize)
    }
}

pub unsafe fn cudaFuncGetParamCount(func: *const c_void, paramCount: *mut usize) -> CudaResult {
    let count = kernel_of(func)?.signature()?.image.parameters.len();
    // SAFETY: the program's promise.
    unsafe { give(paramCount, count) }
}

pub unsafe fn cudaGetFuncBySymbol(functionPtr: *mut cudaFunction_t, symbolPtr: *const c_void) -> CudaResult {
    let handle = kernel_of(symbolPtr)?.handle();
    // SAFETY: the program's promise.
    unsafe { give(functionPtr, handle as cudaFunction_t) }
}

pub unsafe fn cudaGetKernel(kernelPtr: *mut cudaKernel_t, entryFuncAddr: *const c_void) -> CudaResult {
    let handle = kernel_of(entryFuncAddr)?.handle();
    // SAFETY: the program's promise.
    unsafe { give(kernelPtr, handle as cudaKernel_t) }
}

pub unsafe fn cudaGetSymbolSize(size: *mut usize, symbol: *const c_void) -> CudaResult {
    let bytes = find_variable(symbol)?.size;
    // SAFETY: the program's promise.
    unsafe { give(size, bytes) }
}

pub unsafe fn cudaGetSymbolAddress(devPtr: *mut *mut c_void, symbol: *const c_void) -> CudaResult {
    if devPtr.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let address = find_variable(symbol)?.address()?;
    // SAFETY: the program's promise.
    unsafe { give(devPtr, address as *mut c_void) }
}

pub unsafe fn cudaFuncSetAttribute(func: *const c_void, attr: cudaFuncAttribute, value: c_int) -> CudaResult {
    set_attribute(kernel_of(func)?, attr, value)
}

pub unsafe fn cudaKernelSetAttributeForDevice(
    kernel: cudaKernel_t,
    attr: cudaFuncAttribute,
    value: c_int,
    device: c_int,
) -> CudaResult {
    runtime::check_device(device)?;
    set_attribute(kernel_of(kernel.cast_const().cast())?, attr, value)
}

pub fn set_attribute(kernel: &Kernel, attribute: cudaFuncAttribute, value: c_int) -> CudaResult {
    let setting = match attribute {
        cudaFuncAttributeMaxDynamicSharedMemorySize => {
            if value < 0 || value as u64 > kernel.signature()?.limits.dynamic_shared_optin {
                return Err(CudaError::INVALID_VALUE);
            }
            &kernel.max_dynamic_shared
        }
        cudaFuncAttributePreferredSharedMemoryCarveout => {
            if !(-1..=100).contains(&value) {
                return Err(CudaError::INVALID_VALUE);
            }
            &kernel.carveout
        }
        cudaFuncAttributeNonPortableClusterSizeAllowed => &kernel.non_portable_clusters,
        // Whether there are such clusters is checked at a launch, which tells the host of its own.
        cudaFuncAttributeRequiredClusterWidth
        | cudaFuncAttributeRequiredClusterHeight
        | cudaFuncAttributeRequiredClusterDepth => {
            if !(0..1024).contains(&value) {
                return Err(CudaError::INVALID_VALUE);
            }
            if kernel.signature()?.image.required_cluster.is_some() {
                return Err(CudaError::NOT_PERMITTED);
            }
            kernel.require_cluster((attribute - cudaFuncAttributeRequiredClusterWidth) as usize, value);
            return Ok(());
        }
        _ => return Err(CudaError::INVALID_VALUE),
    };
    kernel.send_attribute(attribute, value)?;
    setting.set(value);
    Ok(())
}

pub unsafe fn cudaFuncSetCacheConfig(func: *const c_void, cacheConfig: cudaFuncCache) -> CudaResult {
    // A preference between two uses of the same memory, without effect on results: checked, and passed over.
    kernel_of(func)?;
    if (0..=3).contains(&cacheConfig) {
        Ok(())
    } else {
        Err(CudaError::INVALID_VALUE)
    }
}

pub unsafe fn cudaFuncSetSharedMemConfig(func: *const c_void, config: cudaSharedMemConfig) -> CudaResult {
    // As above; without effect on every architecture since 5.0.
    kernel_of(func)?;
    if (0..=2).contains(&config) {
        Ok(())
    } else {
        Err(CudaError::INVALID_VALUE)
    }
}
