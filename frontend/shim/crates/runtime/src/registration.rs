//! The registration family: what nvcc's and clang's start-up code calls before `main`, and when a library is loaded.
//!
//! Owns which images, kernels and variables the process has, and nothing about what is in them: registering is
//! bookkeeping. No image is read, no network is used, nothing is logged before the program makes its first CUDA call
//! that needs them (`module`). A damaged image spoils its own kernels only.
//!
//! Calling convention (crt/host_runtime.h of CUDA 12 and 13): the wrapper's address goes to `__cudaRegisterFatBinary`,
//! whose result is passed back opaquely; `__cudaRegisterFatBinaryEnd` follows the last entity;
//! `__cudaUnregisterFatBinary` comes from `atexit`, or from the destructor of a library that is closed.

// The parameters are the compilers' and NVIDIA's to choose.
#![allow(clippy::too_many_arguments)]

use std::ffi::{c_char, c_int, c_void, CStr};

use abi::{dim3, uint3};
use operations::module::table::with;
use operations::module::{Kernel, Module};
use session::lifecycle;

pub unsafe fn __cudaRegisterFatBinary(fatCubin: *mut c_void) -> *mut *mut c_void {
    lifecycle::watch_forks();
    let module: &'static Module = Box::leak(Box::new(Module::from_wrapper(fatCubin as usize)));
    let handle = module.handle();
    with(|table| table.add_module(handle, module));
    handle as *mut *mut c_void
}

pub unsafe fn __cudaRegisterFatBinaryEnd(_fatCubinHandle: *mut *mut c_void) {
    // Everything was noted when it was registered.
}

pub unsafe fn __cudaUnregisterFatBinary(fatCubinHandle: *mut *mut c_void) {
    if lifecycle::is_forked_child() {
        return;
    }
    if let Some(module) = with(|table| table.remove_module(fatCubinHandle as usize)) {
        module.close();
    }
}

pub unsafe fn __cudaRegisterFunction(
    fatCubinHandle: *mut *mut c_void,
    hostFun: *const c_char,
    _deviceFun: *mut c_char,
    deviceName: *const c_char,
    _thread_limit: c_int,
    _tid: *mut uint3,
    _bid: *mut uint3,
    _bDim: *mut dim3,
    _gDim: *mut dim3,
    _wSize: *mut c_int,
) {
    // SAFETY: the compiler's start-up code passes a string constant.
    let Some(name) = (unsafe { name_of(deviceName) }) else { return };
    with(|table| {
        let Some(module) = table.module(fatCubinHandle as usize) else { return };
        module.note_use();
        let kernel: &'static Kernel = Box::leak(Box::new(Kernel::new(module, name, hostFun as usize)));
        module.add_kernel(kernel);
        if !hostFun.is_null() {
            table.add_kernel(hostFun as usize, kernel);
        }
        table.add_kernel(kernel.handle(), kernel);
    });
}

pub unsafe fn __cudaRegisterVar(
    fatCubinHandle: *mut *mut c_void,
    hostVar: *mut c_char,
    _deviceAddress: *mut c_char,
    deviceName: *const c_char,
    _ext: c_int,
    size: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: as in __cudaRegisterFunction.
    let Some(name) = (unsafe { name_of(deviceName) }) else { return };
    with(|table| {
        let Some(module) = table.module(fatCubinHandle as usize) else { return };
        module.note_use();
        table.add_variable(hostVar as usize, module.variable(&name, size));
    });
}

pub unsafe fn __cudaRegisterManagedVar(
    fatCubinHandle: *mut *mut c_void,
    hostVarPtrAddress: *mut *mut c_void,
    _deviceAddress: *mut c_char,
    deviceName: *const c_char,
    _ext: c_int,
    size: usize,
    _constant: c_int,
    _global: c_int,
) {
    // SAFETY: as in __cudaRegisterFunction.
    let Some(name) = (unsafe { name_of(deviceName) }) else { return };
    with(|table| {
        let Some(module) = table.module(fatCubinHandle as usize) else { return };
        module.note_use();
        module.managed.add(name, hostVarPtrAddress as usize, size);
    });
}

pub unsafe fn __cudaRegisterHostVar(
    _fatCubinHandle: *mut *mut c_void,
    _deviceName: *const c_char,
    _hostVar: *mut c_char,
    _size: usize,
) {
    // A host variable that kernels name: the image refers to it, and the host refuses the image where it does.
}

pub unsafe fn __cudaInitModule(fatCubinHandle: *mut *mut c_void) -> c_char {
    // Called where the program is about to touch a managed variable.
    if let Some(module) = with(|table| table.module(fatCubinHandle as usize)) {
        module.back_managed();
    }
    1
}

/// A name given by the program's start-up code; `None` for null and for what is no UTF-8.
unsafe fn name_of(name: *const c_char) -> Option<String> {
    if name.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(name) }.to_str().ok().map(str::to_owned)
}
