//! Libraries and kernels as the driver API has them: the runtime's cudaLibrary* and cudaKernel* handles are the same
//! objects.
//!
//! Source: CUDA driver API, "Library Management".

// The parameters are NVIDIA's to choose.
#![allow(clippy::too_many_arguments)]

use std::ffi::{c_char, c_int, c_uint, c_void};

use abi::driver::{
    CUdevice, CUdeviceptr, CUfunc_cache, CUfunction, CUfunction_attribute, CUjit_option, CUkernel, CUlibrary,
    CUlibraryOption, CUmodule,
};
use operations::module::{self, loading, Kind};
use session::call::{Error, Outcome};
use session::process;

use super::jit::Logs;
use crate::give;
use crate::module::{attribute, function};

pub unsafe fn cuLibraryLoadData(
    library: *mut CUlibrary,
    code: *const c_void,
    jitOptions: *mut CUjit_option,
    jitOptionsValues: *mut *mut c_void,
    numJitOptions: c_uint,
    libraryOptions: *mut CUlibraryOption,
    _libraryOptionValues: *mut *mut c_void,
    numLibraryOptions: c_uint,
) -> Outcome {
    if library.is_null() || code.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    unsafe {
        let logs = Logs::read(numJitOptions, jitOptions, jitOptionsValues)?;
        let stays = module::stays(libraryOptions, numLibraryOptions)?;
        let loaded = logs.tell_code(loading::load(Kind::Library, code, stays), |loaded| loaded.contents().ok())?;
        give(library, loaded.handle() as CUlibrary)
    }
}

pub unsafe fn cuLibraryLoadFromFile(
    library: *mut CUlibrary,
    fileName: *const c_char,
    jitOptions: *mut CUjit_option,
    jitOptionsValues: *mut *mut c_void,
    numJitOptions: c_uint,
    libraryOptions: *mut CUlibraryOption,
    libraryOptionValues: *mut *mut c_void,
    numLibraryOptions: c_uint,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        Logs::read(numJitOptions, jitOptions, jitOptionsValues)?;
        module::library_load_from_file(
            library,
            fileName,
            jitOptions,
            jitOptionsValues,
            numJitOptions,
            libraryOptions,
            libraryOptionValues,
            numLibraryOptions,
        )
    }
}

pub unsafe fn cuLibraryUnload(library: CUlibrary) -> Outcome {
    // SAFETY: no pointer takes part.
    unsafe { module::library_unload(library) }
}

pub unsafe fn cuLibraryGetKernel(pKernel: *mut CUkernel, library: CUlibrary, name: *const c_char) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { module::library_get_kernel(pKernel, library, name) }
}

pub unsafe fn cuLibraryGetKernelCount(count: *mut c_uint, lib: CUlibrary) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { module::library_get_kernel_count(count, lib) }
}

pub unsafe fn cuLibraryEnumerateKernels(kernels: *mut CUkernel, numKernels: c_uint, lib: CUlibrary) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { module::library_enumerate_kernels(kernels, numKernels, lib) }
}

pub unsafe fn cuLibraryGetModule(pMod: *mut CUmodule, library: CUlibrary) -> Outcome {
    let handle = module::find(library)?.handle();
    // SAFETY: the caller's place for the handle.
    unsafe { give(pMod, handle as CUmodule) }
}

pub unsafe fn cuLibraryGetGlobal(
    dptr: *mut CUdeviceptr,
    bytes: *mut usize,
    library: CUlibrary,
    name: *const c_char,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { module::global(module::find(library)?, name, dptr, bytes) }
}

pub unsafe fn cuLibraryGetManaged(
    dptr: *mut CUdeviceptr,
    bytes: *mut usize,
    library: CUlibrary,
    name: *const c_char,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { module::managed_variable(module::find(library)?, name, dptr, bytes) }
}

pub unsafe fn cuKernelGetFunction(pFunc: *mut CUfunction, kernel: CUkernel) -> Outcome {
    let handle = function(kernel.cast())?.handle();
    // SAFETY: the caller's place for the handle.
    unsafe { give(pFunc, handle as CUfunction) }
}

pub unsafe fn cuKernelGetLibrary(pLib: *mut CUlibrary, kernel: CUkernel) -> Outcome {
    let module = function(kernel.cast())?.module;
    if module.kind == Kind::Module {
        return Err(Error::INVALID_RESOURCE_HANDLE);
    }
    // SAFETY: the caller's place for the handle.
    unsafe { give(pLib, module.handle() as CUlibrary) }
}

pub unsafe fn cuKernelGetName(name: *mut *const c_char, hfunc: CUkernel) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { module::func_get_name(name, hfunc.cast_const().cast()) }
}

pub unsafe fn cuKernelGetParamCount(kernel: CUkernel, paramCount: *mut usize) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { module::func_get_param_count(kernel.cast_const().cast(), paramCount) }
}

pub unsafe fn cuKernelGetParamInfo(
    kernel: CUkernel,
    paramIndex: usize,
    paramOffset: *mut usize,
    paramSize: *mut usize,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { module::func_get_param_info(kernel.cast_const().cast(), paramIndex, paramOffset, paramSize) }
}

pub unsafe fn cuKernelGetAttribute(
    pi: *mut c_int,
    attrib: CUfunction_attribute,
    kernel: CUkernel,
    dev: CUdevice,
) -> Outcome {
    process::check_device(dev)?;
    // SAFETY: the caller's place for the value.
    unsafe { give(pi, attribute(function(kernel.cast())?, attrib)?) }
}

pub unsafe fn cuKernelSetAttribute(
    attrib: CUfunction_attribute,
    val: c_int,
    kernel: CUkernel,
    dev: CUdevice,
) -> Outcome {
    process::check_device(dev)?;
    module::set_attribute(function(kernel.cast())?, attrib, val)
}

pub unsafe fn cuKernelSetCacheConfig(kernel: CUkernel, config: CUfunc_cache, dev: CUdevice) -> Outcome {
    process::check_device(dev)?;
    // SAFETY: no pointer is followed.
    unsafe { module::func_set_cache_config(kernel.cast_const().cast(), config) }
}
