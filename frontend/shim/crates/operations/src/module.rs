//! The module family: functions, symbols and libraries as the program asks about them.
//!
//! Owns what a kernel's or variable's name means and what of it the program can learn; almost everything is answered
//! from the image, without the network (`code`, `kernel`, `variable`). Launching is `launch`'s, registering
//! the faces'.
//!
//! Attributes of functions are the guest's estimate of what the device would say: parameters, shared and constant bytes
//! are exact; registers come from machine code for the device's major architecture when the image has some, else 32 (or
//! `.maxnreg`, if lower); local bytes of PTX are what the kernel itself declares.
//!
//! Source: CUDA runtime API, "Execution Control", "Memory Management" (symbols), "Library Management".

use std::ffi::{c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::types::{
    FuncAttribute, FuncAttributes, FuncCache, FunctionHandle, KernelHandle, SharedMemConfig,
    FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_MEMORY_SIZE, FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
    FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH,
    FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH,
};
use session::call::{give, Error, Outcome};
use session::process;

mod code;
pub mod images;
mod kernel;
mod library;
pub mod loading;
mod managed;
pub mod mapped;
mod of_context;
mod resources;
mod source;
pub mod table;
mod variable;

pub use code::{Kind, Module, Refused};
pub use kernel::{Kernel, Signature};
pub use library::*;
pub use resources::{of_kernel as resources_of, resources};
pub use variable::Variable;

/// The kernel that the program means: a host stub's address, a `cudaKernel_t` or a `cudaFunction_t`.
#[inline(always)]
pub fn kernel_of(function: *const c_void) -> Outcome<&'static Kernel> {
    table::find_kernel(function as usize).ok_or(Error::INVALID_DEVICE_FUNCTION)
}

/// The tape's handle of a device variable, and its size.
///
/// # Errors
/// cudaErrorInvalidSymbol when nothing is registered at this address.
pub fn variable_of(symbol: *const c_void) -> Outcome<(u32, usize)> {
    let variable = find_variable(symbol)?;
    Ok((variable.handle()?, variable.size))
}

fn find_variable(symbol: *const c_void) -> Outcome<&'static Variable> {
    table::with(|table| table.variable(symbol as usize)).ok_or(Error::INVALID_SYMBOL)
}

pub unsafe fn func_get_attributes(attr: *mut FuncAttributes, func: *const c_void) -> Outcome {
    if attr.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let attributes = attributes_of(kernel_of(func)?)?;
    // SAFETY: the program's promise.
    unsafe { give(attr, attributes) }
}

/// What the program can learn about a kernel.
pub fn attributes_of(kernel: &Kernel) -> Outcome<FuncAttributes> {
    let needs = resources::of_kernel(kernel)?;
    let image = &kernel.signature()?.image;
    let cluster = image.required_cluster.or(kernel.set_cluster()).unwrap_or_default().map(|extent| extent as c_int);
    Ok(FuncAttributes {
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
        ..FuncAttributes::default()
    })
}

/// Whether images are opened on the host as soon as they are loaded, as the program's environment says
/// (CUDA_MODULE_LOADING).
pub fn is_eager() -> bool {
    static EAGER: OnceLock<bool> = OnceLock::new();
    *EAGER.get_or_init(|| std::env::var_os("CUDA_MODULE_LOADING").is_some_and(|mode| mode == "EAGER"))
}

pub unsafe fn func_get_name(name: *mut *const c_char, func: *const c_void) -> Outcome {
    let kernel = kernel_of(func)?;
    // SAFETY: the program's promise.
    unsafe { give(name, kernel.name().as_ptr()) }
}

pub unsafe fn func_get_param_info(
    func: *const c_void,
    paramIndex: usize,
    paramOffset: *mut usize,
    paramSize: *mut usize,
) -> Outcome {
    let signature = kernel_of(func)?.signature()?;
    let parameter = signature.image.parameters.get(paramIndex).ok_or(Error::INVALID_VALUE)?;
    // SAFETY: the program's promise; the size is optional.
    unsafe {
        give(paramOffset, parameter.offset as usize)?;
        if paramSize.is_null() {
            return Ok(());
        }
        give(paramSize, parameter.size as usize)
    }
}

pub unsafe fn func_get_param_count(func: *const c_void, paramCount: *mut usize) -> Outcome {
    let count = kernel_of(func)?.signature()?.image.parameters.len();
    // SAFETY: the program's promise.
    unsafe { give(paramCount, count) }
}

pub unsafe fn get_func_by_symbol(functionPtr: *mut FunctionHandle, symbolPtr: *const c_void) -> Outcome {
    let handle = kernel_of(symbolPtr)?.handle();
    // SAFETY: the program's promise.
    unsafe { give(functionPtr, handle as FunctionHandle) }
}

pub unsafe fn get_kernel(kernelPtr: *mut KernelHandle, entryFuncAddr: *const c_void) -> Outcome {
    let handle = kernel_of(entryFuncAddr)?.handle();
    // SAFETY: the program's promise.
    unsafe { give(kernelPtr, handle as KernelHandle) }
}

pub unsafe fn get_symbol_size(size: *mut usize, symbol: *const c_void) -> Outcome {
    let bytes = find_variable(symbol)?.size;
    // SAFETY: the program's promise.
    unsafe { give(size, bytes) }
}

pub unsafe fn get_symbol_address(devPtr: *mut *mut c_void, symbol: *const c_void) -> Outcome {
    if devPtr.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let address = find_variable(symbol)?.address()?;
    // SAFETY: the program's promise.
    unsafe { give(devPtr, address as *mut c_void) }
}

pub unsafe fn func_set_attribute(func: *const c_void, attr: FuncAttribute, value: c_int) -> Outcome {
    set_attribute(kernel_of(func)?, attr, value)
}

pub unsafe fn kernel_set_attribute_for_device(
    kernel: KernelHandle,
    attr: FuncAttribute,
    value: c_int,
    device: c_int,
) -> Outcome {
    process::check_device(device)?;
    set_attribute(kernel_of(kernel.cast_const().cast())?, attr, value)
}

pub fn set_attribute(kernel: &Kernel, attribute: FuncAttribute, value: c_int) -> Outcome {
    let setting = match attribute {
        FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_MEMORY_SIZE => {
            if value < 0 || value as u64 > kernel.signature()?.limits.dynamic_shared_optin {
                return Err(Error::INVALID_VALUE);
            }
            &kernel.max_dynamic_shared
        }
        FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT => {
            if !(-1..=100).contains(&value) {
                return Err(Error::INVALID_VALUE);
            }
            &kernel.carveout
        }
        FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED => &kernel.non_portable_clusters,
        // Whether there are such clusters is checked at a launch, which tells the host of its own.
        FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH
        | FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT
        | FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH => {
            if !(0..1024).contains(&value) {
                return Err(Error::INVALID_VALUE);
            }
            if kernel.signature()?.image.required_cluster.is_some() {
                return Err(Error::NOT_PERMITTED);
            }
            kernel.require_cluster((attribute - FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH) as usize, value);
            return Ok(());
        }
        _ => return Err(Error::INVALID_VALUE),
    };
    kernel.send_attribute(attribute, value)?;
    setting.set(value);
    Ok(())
}

pub unsafe fn func_set_cache_config(func: *const c_void, cacheConfig: FuncCache) -> Outcome {
    // A preference between two uses of the same memory, without effect on results: checked, and passed over.
    kernel_of(func)?;
    if (0..=3).contains(&cacheConfig) {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
    }
}

pub unsafe fn func_set_shared_mem_config(func: *const c_void, config: SharedMemConfig) -> Outcome {
    // As above; without effect on every architecture since 5.0.
    kernel_of(func)?;
    if (0..=2).contains(&config) {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
    }
}
