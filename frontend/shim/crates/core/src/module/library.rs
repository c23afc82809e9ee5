//! Libraries: images that the program loads at run time (cudaLibraryLoadData and its relatives).
//!
//! A library is a module like a registered one, with the image in memory of ours. Its value (`cudaLibrary_t`) is the
//! module's address, followed only when it is registered.

// The parameters are NVIDIA's to choose.
#![allow(clippy::too_many_arguments)]

use std::ffi::{c_char, c_uint, c_void, CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

use abi::{cudaJitOption, cudaKernel_t, cudaLibraryOption, cudaLibrary_t, CudaError};
use image::{container_length, Wrapper, CONTAINER_HEADER, WRAPPER_SIZE};

use super::{give, Kernel, Module, Variable};
use crate::call::CudaResult;
use crate::log;
use crate::registration::{self, mapped::Map};

pub unsafe fn cudaLibraryLoadData(
    library: *mut cudaLibrary_t,
    code: *const c_void,
    _jitOptions: *mut cudaJitOption,
    _jitOptionsValues: *mut *mut c_void,
    _numJitOptions: c_uint,
    _libraryOptions: *mut cudaLibraryOption,
    _libraryOptionValues: *mut *mut c_void,
    _numLibraryOptions: c_uint,
) -> CudaResult {
    if library.is_null() || code.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the program's promise; what is not readable is found out.
    let bytes = unsafe { image_at(&Map::read(), code as u64) }.map_err(|error| {
        log::error(format_args!("cudaLibraryLoadData: {error}"));
        CudaError::INVALID_KERNEL_IMAGE
    })?;
    // SAFETY: the program's promise.
    unsafe { load(library, bytes.to_vec()) }
}

pub unsafe fn cudaLibraryLoadFromFile(
    library: *mut cudaLibrary_t,
    fileName: *const c_char,
    _jitOptions: *mut cudaJitOption,
    _jitOptionsValues: *mut *mut c_void,
    _numJitOptions: c_uint,
    _libraryOptions: *mut cudaLibraryOption,
    _libraryOptionValues: *mut *mut c_void,
    _numLibraryOptions: c_uint,
) -> CudaResult {
    if library.is_null() || fileName.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(fileName) }.to_bytes());
    let bytes = std::fs::read(path).map_err(|_| CudaError::FILE_NOT_FOUND)?;
    // SAFETY: the program's promise.
    unsafe { load(library, bytes) }
}

unsafe fn load(library: *mut cudaLibrary_t, bytes: Vec<u8>) -> CudaResult {
    let module: &'static Module = Box::leak(Box::new(Module::from_bytes(bytes)));
    module.note_use();
    // Here, unlike for registered images, the program expects to be told of damage.
    module.contents()?;
    let handle = std::ptr::from_ref(module) as usize;
    registration::with(|table| table.add_module(handle, module));
    // SAFETY: the caller's promise.
    unsafe { give(library, handle as cudaLibrary_t) }
}

pub unsafe fn cudaLibraryUnload(library: cudaLibrary_t) -> CudaResult {
    let module = registration::with(|table| table.remove_module(library as usize));
    module.ok_or(CudaError::INVALID_RESOURCE_HANDLE)?.close();
    Ok(())
}

fn find(library: cudaLibrary_t) -> CudaResult<&'static Module> {
    registration::with(|table| table.module(library as usize)).ok_or(CudaError::INVALID_RESOURCE_HANDLE)
}

/// The kernel of that name: the same one each time.
fn kernel(module: &'static Module, name: &str) -> CudaResult<&'static Kernel> {
    if !module.contents()?.kernels.contains_key(name) {
        return Err(CudaError::SYMBOL_NOT_FOUND);
    }
    Ok(registration::with(|table| {
        table.kernel_of_module(module, name).unwrap_or_else(|| {
            let kernel: &'static Kernel = Box::leak(Box::new(Kernel::new(module, name.to_owned(), 0)));
            table.add_kernel(kernel.handle(), kernel);
            kernel
        })
    }))
}

pub unsafe fn cudaLibraryGetKernel(
    pKernel: *mut cudaKernel_t,
    library: cudaLibrary_t,
    name: *const c_char,
) -> CudaResult {
    // SAFETY: the program's promise.
    let name = unsafe { text(name) }?;
    let found = kernel(find(library)?, name)?;
    // SAFETY: the program's promise.
    unsafe { give(pKernel, found.handle() as cudaKernel_t) }
}

pub unsafe fn cudaLibraryGetKernelCount(count: *mut c_uint, lib: cudaLibrary_t) -> CudaResult {
    let kernels = find(lib)?.contents()?.kernels.len();
    // SAFETY: the program's promise.
    unsafe { give(count, kernels as c_uint) }
}

pub unsafe fn cudaLibraryEnumerateKernels(
    kernels: *mut cudaKernel_t,
    numKernels: c_uint,
    lib: cudaLibrary_t,
) -> CudaResult {
    let module = find(lib)?;
    let contents = module.contents()?;
    let mut names: Vec<_> = contents.kernels.keys().collect();
    names.sort_unstable();
    for (index, name) in names.into_iter().take(numKernels as usize).enumerate() {
        let found = kernel(module, name)?;
        if kernels.is_null() {
            return Err(CudaError::INVALID_VALUE);
        }
        // SAFETY: the program says that there is room for so many.
        unsafe { kernels.add(index).write(found.handle() as cudaKernel_t) };
    }
    Ok(())
}

pub unsafe fn cudaLibraryGetGlobal(
    dptr: *mut *mut c_void,
    bytes: *mut usize,
    library: cudaLibrary_t,
    name: *const c_char,
) -> CudaResult {
    // SAFETY: the program's promise.
    let name = unsafe { text(name) }?;
    let module = find(library)?;
    let size = *module.contents()?.variables.get(name).ok_or(CudaError::SYMBOL_NOT_FOUND)?;
    let variable = registration::with(|table| {
        table.variable_of_module(module, name).unwrap_or_else(|| {
            let variable: &'static Variable =
                Box::leak(Box::new(Variable::new(module, name.to_owned(), size as usize)));
            table.add_variable(std::ptr::from_ref(variable) as usize, variable);
            variable
        })
    });
    // SAFETY: the program's promise; both results are optional.
    unsafe {
        if !dptr.is_null() {
            give(dptr, variable.address()? as *mut c_void)?;
        }
        if !bytes.is_null() {
            give(bytes, variable.size)?;
        }
    }
    Ok(())
}

unsafe fn text<'a>(name: *const c_char) -> CudaResult<&'a str> {
    if name.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| CudaError::SYMBOL_NOT_FOUND)
}

/// The image that starts at an address: a wrapper's container, a container, machine code, or PTX up to its NUL.
///
/// # Safety
/// What is readable there stays so, unchanged, while the slice is used.
unsafe fn image_at(map: &Map, address: u64) -> Result<&'static [u8], image::Error> {
    let readable = map.readable(address);
    let unreadable = || image::Error::Malformed(format!("the image at {address:#x} is not readable memory"));
    // SAFETY: the caller's promise.
    let bytes = unsafe { map.slice(address, readable) }.ok_or_else(unreadable)?;
    let head = bytes.get(..CONTAINER_HEADER).unwrap_or_default();
    if let Some(wrapper) = bytes.get(..WRAPPER_SIZE).and_then(|wrapper| Wrapper::parse(wrapper).ok()) {
        // SAFETY: the caller's promise.
        return unsafe { container_at(map, wrapper.container) };
    }
    if container_length(head).is_ok() {
        // SAFETY: the caller's promise.
        return unsafe { container_at(map, address) };
    }
    let length = image::machine_code_length(bytes).or_else(|| bytes.iter().position(|byte| *byte == 0));
    length.and_then(|length| bytes.get(..length)).ok_or_else(unreadable)
}

unsafe fn container_at(map: &Map, address: u64) -> Result<&'static [u8], image::Error> {
    let unreadable = || image::Error::Malformed(format!("the fat binary at {address:#x} is not readable memory"));
    // SAFETY: the caller's promise.
    unsafe {
        let header = map.slice(address, CONTAINER_HEADER).ok_or_else(unreadable)?;
        map.slice(address, container_length(header)?).ok_or_else(unreadable)
    }
}
