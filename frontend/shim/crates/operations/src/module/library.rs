//! Libraries: images that the program loads at run time (cudaLibraryLoadData and its relatives).
//!
//! A library is a module like a registered one (`loading`). Its value (`cudaLibrary_t`) is the module's address,
//! followed only when it is registered.

// The parameters are NVIDIA's to choose.
#![allow(clippy::too_many_arguments)]

use std::ffi::{c_char, c_uint, c_void, CStr, OsStr};
use std::os::unix::ffi::OsStrExt;

use crate::types::{JitOption, KernelHandle, LibraryHandle, LibraryOption};
use session::call::{Error, Outcome};

use super::code::{Kind, Module};
use super::give;
use super::loading::{self, Stays};

/// cudaLibraryBinaryIsPreserved.
const PRESERVED: LibraryOption = 1;
/// More options than there are kinds of them.
const MOST_OPTIONS: c_uint = 64;

pub unsafe fn library_load_data(
    library: *mut LibraryHandle,
    code: *const c_void,
    _jitOptions: *mut JitOption,
    _jitOptionsValues: *mut *mut c_void,
    _numJitOptions: c_uint,
    libraryOptions: *mut LibraryOption,
    _libraryOptionValues: *mut *mut c_void,
    numLibraryOptions: c_uint,
) -> Outcome {
    if library.is_null() || code.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    let loaded = unsafe { loading::load(Kind::Library, code, stays(libraryOptions, numLibraryOptions)?) }?;
    // SAFETY: the program's promise.
    unsafe { give(library, loaded.handle() as LibraryHandle) }
}

pub unsafe fn library_load_from_file(
    library: *mut LibraryHandle,
    fileName: *const c_char,
    _jitOptions: *mut JitOption,
    _jitOptionsValues: *mut *mut c_void,
    _numJitOptions: c_uint,
    libraryOptions: *mut LibraryOption,
    _libraryOptionValues: *mut *mut c_void,
    numLibraryOptions: c_uint,
) -> Outcome {
    if library.is_null() || fileName.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    if unsafe { stays(libraryOptions, numLibraryOptions) }? == Stays::Promised {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    let path = OsStr::from_bytes(unsafe { CStr::from_ptr(fileName) }.to_bytes());
    let loaded = loading::load_file(Kind::Library, path.as_ref())?;
    // SAFETY: the program's promise.
    unsafe { give(library, loaded.handle() as LibraryHandle) }
}

/// What the options of a library say of its image. The table of functions that host and device share is passed over: no
/// image that the device takes uses it.
///
/// # Safety
/// There are as many options.
pub unsafe fn stays(options: *const LibraryOption, count: c_uint) -> Outcome<Stays> {
    if count == 0 {
        return Ok(Stays::Unknown);
    }
    if options.is_null() || count > MOST_OPTIONS {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    let given = unsafe { std::slice::from_raw_parts(options, count as usize) };
    if given.iter().any(|option| !(0..=PRESERVED).contains(option)) {
        return Err(Error::INVALID_VALUE);
    }
    Ok(if given.contains(&PRESERVED) { Stays::Promised } else { Stays::Unknown })
}

pub unsafe fn library_unload(library: LibraryHandle) -> Outcome {
    find(library)?;
    loading::unload(Kind::Library, library as usize)
}

/// The library that the program means: one that it loaded, or the images that were registered for the runtime.
pub fn find(library: LibraryHandle) -> Outcome<&'static Module> {
    loading::find(library as usize).and_then(|module| match module.kind {
        Kind::Module => Err(Error::INVALID_RESOURCE_HANDLE),
        Kind::Library | Kind::Registered => Ok(module),
    })
}

pub unsafe fn library_get_kernel(pKernel: *mut KernelHandle, library: LibraryHandle, name: *const c_char) -> Outcome {
    // SAFETY: the program's promise.
    let name = unsafe { text(name) }?;
    let found = loading::kernel(find(library)?, name)?;
    // SAFETY: the program's promise.
    unsafe { give(pKernel, found.handle() as KernelHandle) }
}

pub unsafe fn library_get_kernel_count(count: *mut c_uint, lib: LibraryHandle) -> Outcome {
    let kernels = find(lib)?.contents()?.kernels.len();
    // SAFETY: the program's promise.
    unsafe { give(count, kernels as c_uint) }
}

pub unsafe fn library_enumerate_kernels(kernels: *mut KernelHandle, numKernels: c_uint, lib: LibraryHandle) -> Outcome {
    let module = find(lib)?;
    // SAFETY: the program says that there is room for so many.
    unsafe { enumerate(module, kernels.cast(), numKernels) }
}

/// Writes the handles of the module's kernels, as many as there is room for.
///
/// # Safety
/// There is room for `most`.
pub unsafe fn enumerate(module: &'static Module, places: *mut usize, most: c_uint) -> Outcome {
    for (index, name) in loading::names(module)?.iter().take(most as usize).enumerate() {
        let found = loading::kernel(module, name)?;
        if places.is_null() {
            return Err(Error::INVALID_VALUE);
        }
        // SAFETY: the caller's promise.
        unsafe { places.add(index).write(found.handle()) };
    }
    Ok(())
}

pub unsafe fn library_get_global(
    dptr: *mut *mut c_void,
    bytes: *mut usize,
    library: LibraryHandle,
    name: *const c_char,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { global(find(library)?, name, dptr.cast(), bytes) }
}

pub unsafe fn library_get_managed(
    dptr: *mut *mut c_void,
    bytes: *mut usize,
    library: LibraryHandle,
    name: *const c_char,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { managed_variable(find(library)?, name, dptr.cast(), bytes) }
}

/// A variable's address and size; both results are optional.
///
/// # Safety
/// The name is a string or null, the places are null or such places.
pub unsafe fn global(module: &'static Module, name: *const c_char, address: *mut u64, bytes: *mut usize) -> Outcome {
    // SAFETY: the caller's promise.
    let name = unsafe { text(name) }?;
    let variable = loading::variable(module, name)?;
    // SAFETY: the caller's promise.
    unsafe {
        if !address.is_null() {
            if loading::is_managed(module, name)? {
                module.share_managed()?;
            }
            give(address, variable.address()?)?;
        }
        if !bytes.is_null() {
            give(bytes, variable.size)?;
        }
    }
    Ok(())
}

/// As `global`, for a managed variable; one of the results is optional.
///
/// # Errors
/// cudaErrorSymbolNotFound for another variable, too.
///
/// # Safety
/// As `global`.
pub unsafe fn managed_variable(
    module: &'static Module,
    name: *const c_char,
    address: *mut u64,
    bytes: *mut usize,
) -> Outcome {
    if address.is_null() && bytes.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    if !loading::is_managed(module, unsafe { text(name) }?)? {
        return Err(Error::SYMBOL_NOT_FOUND);
    }
    // SAFETY: the caller's promise.
    unsafe { global(module, name, address, bytes) }
}

/// # Safety
/// A string, or null.
pub unsafe fn text<'a>(name: *const c_char) -> Outcome<&'a str> {
    if name.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Error::SYMBOL_NOT_FOUND)
}
