//! Modules and functions as the driver API has them; what a module is, both APIs share (`operations::module`).
//!
//! A `CUmodule` is the value of the library or module that it is of; a `CUfunction` is a kernel's handle, and so is a
//! `CUkernel`.
//!
//! Rooms: `library` and `link` (the families of those names), `archive` (of objects, for the linker), `jit` (options of
//! loads and links).
//!
//! Source: CUDA driver API, "Module Management", "Execution Control".

mod archive;
mod jit;
pub(crate) mod library;
pub(crate) mod link;

use std::ffi::{c_char, c_int, c_uint, c_void, CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

use abi::driver::{
    CUdeviceptr, CUfunction, CUfunctionLoadingState, CUfunction_attribute, CUjit_option, CUmodule, CUmoduleLoadingMode,
    CU_FUNCTION_LOADING_STATE_LOADED, CU_FUNCTION_LOADING_STATE_UNLOADED, CU_MODULE_EAGER_LOADING,
    CU_MODULE_LAZY_LOADING,
};
use operations::module::loading::{self, Stays};
use operations::module::{self, kernel_of, Kernel, Kind, Module};
use session::call::{Error, Outcome};

use self::jit::Logs;
use super::give;

/// # Safety
/// `place` is null or such a place; the image is as `loading::load` wants it.
unsafe fn load(place: *mut CUmodule, image: *const c_void, logs: Logs) -> Outcome {
    if place.is_null() || image.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let loaded = unsafe { loading::load(Kind::Module, image, Stays::Unknown) };
    let loaded = logs.tell_code(loaded, |loaded| loaded.contents().ok())?;
    // SAFETY: not null, the caller's place for the handle.
    unsafe { give(place, loaded.handle() as CUmodule) }
}

pub unsafe fn cuModuleLoad(module: *mut CUmodule, fname: *const c_char) -> Outcome {
    if module.is_null() || fname.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(fname) }.to_bytes());
    let loaded = loading::load_file(Kind::Module, path.as_ref())?;
    // SAFETY: not null, the caller's place for the handle.
    unsafe { give(module, loaded.handle() as CUmodule) }
}

pub unsafe fn cuModuleLoadData(module: *mut CUmodule, image: *const c_void) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { load(module, image, Logs::default()) }
}

pub unsafe fn cuModuleLoadDataEx(
    module: *mut CUmodule,
    image: *const c_void,
    numOptions: c_uint,
    options: *mut CUjit_option,
    optionValues: *mut *mut c_void,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { load(module, image, Logs::read(numOptions, options, optionValues)?) }
}

pub unsafe fn cuModuleLoadFatBinary(module: *mut CUmodule, fatCubin: *const c_void) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { load(module, fatCubin, Logs::default()) }
}

pub unsafe fn cuModuleUnload(hmod: CUmodule) -> Outcome {
    loading::unload(Kind::Module, hmod as usize)
}

fn find(module: CUmodule) -> Outcome<&'static Module> {
    loading::find(module as usize)
}

pub unsafe fn cuModuleGetFunction(hfunc: *mut CUfunction, hmod: CUmodule, name: *const c_char) -> Outcome {
    if hfunc.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    let name = unsafe { module::text(name) }?;
    let found = loading::kernel(find(hmod)?, name)?;
    // SAFETY: not null, the caller's place for the handle.
    unsafe { give(hfunc, found.handle() as CUfunction) }
}

pub unsafe fn cuModuleGetFunctionCount(count: *mut c_uint, mod_: CUmodule) -> Outcome {
    let kernels = find(mod_)?.contents()?.kernels.len();
    // SAFETY: the caller's place for the number.
    unsafe { give(count, kernels as c_uint) }
}

pub unsafe fn cuModuleEnumerateFunctions(functions: *mut CUfunction, numFunctions: c_uint, mod_: CUmodule) -> Outcome {
    let module = find(mod_)?;
    // SAFETY: the program says that there is room for so many.
    unsafe { module::enumerate(module, functions.cast(), numFunctions) }
}

pub unsafe fn cuModuleGetGlobal_v2(
    dptr: *mut CUdeviceptr,
    bytes: *mut usize,
    hmod: CUmodule,
    name: *const c_char,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { module::global(find(hmod)?, name, dptr, bytes) }
}

pub unsafe fn cuModuleGetLoadingMode(mode: *mut CUmoduleLoadingMode) -> Outcome {
    let known = if module::is_eager() { CU_MODULE_EAGER_LOADING } else { CU_MODULE_LAZY_LOADING };
    // SAFETY: the caller's place for the mode.
    unsafe { give(mode, known) }
}

/// The kernel that the program means with a `CUfunction` or `CUkernel`.
pub fn function(handle: CUfunction) -> Outcome<&'static Kernel> {
    kernel_of(handle.cast_const().cast())
}

/// The value of an attribute.
///
/// # Errors
/// cudaErrorInvalidValue for an attribute that there is not.
pub fn attribute(kernel: &Kernel, attribute: CUfunction_attribute) -> Outcome<c_int> {
    let known = module::attributes_of(kernel)?;
    let bytes = |value: usize| c_int::try_from(value).unwrap_or(c_int::MAX);
    Ok(match attribute {
        0 => known.maxThreadsPerBlock,
        1 => bytes(known.sharedSizeBytes),
        2 => bytes(known.constSizeBytes),
        3 => bytes(known.localSizeBytes),
        4 => known.numRegs,
        5 => known.ptxVersion,
        6 => known.binaryVersion,
        7 => known.cacheModeCA,
        8 => known.maxDynamicSharedSizeBytes,
        9 => known.preferredShmemCarveout,
        10 => known.clusterDimMustBeSet,
        11 => known.requiredClusterWidth,
        12 => known.requiredClusterHeight,
        13 => known.requiredClusterDepth,
        14 => known.nonPortableClusterSizeAllowed,
        15 => known.clusterSchedulingPolicyPreference,
        // Whether nodes of it can be updated from the device, and its mode of shared memory: no, and the default one.
        16 | 17 => 0,
        _ => return Err(Error::INVALID_VALUE),
    })
}

pub unsafe fn cuFuncGetAttribute(pi: *mut c_int, attrib: CUfunction_attribute, hfunc: CUfunction) -> Outcome {
    // SAFETY: the caller's place for the value.
    unsafe { give(pi, attribute(function(hfunc)?, attrib)?) }
}

pub unsafe fn cuFuncSetAttribute(hfunc: CUfunction, attrib: CUfunction_attribute, value: c_int) -> Outcome {
    module::set_attribute(function(hfunc)?, attrib, value)
}

pub unsafe fn cuFuncGetModule(hmod: *mut CUmodule, hfunc: CUfunction) -> Outcome {
    let handle = function(hfunc)?.module.handle();
    // SAFETY: the caller's place for the handle.
    unsafe { give(hmod, handle as CUmodule) }
}

pub unsafe fn cuFuncIsLoaded(state: *mut CUfunctionLoadingState, function: CUfunction) -> Outcome {
    let loaded = self::function(function)?.is_open();
    let known = if loaded { CU_FUNCTION_LOADING_STATE_LOADED } else { CU_FUNCTION_LOADING_STATE_UNLOADED };
    // SAFETY: the caller's place for the state.
    unsafe { give(state, known) }
}

pub unsafe fn cuFuncLoad(function: CUfunction) -> Outcome {
    self::function(function)?.load()
}
