//! Images that the program loads at run time, from its memory or from a file, as a module or as a library.
//!
//! Nothing tells how long an image in memory is: its own headers do, or the NUL behind a text; only memory that is
//! mapped is read. A fat binary is neither copied, hashed nor decompressed here where it stays in place: in the
//! constant data of a loaded object, or where the program says so.
//!
//! Source: CUDA driver API, "Module Management", "Library Management".

use std::ffi::c_void;
use std::path::Path;

use crate::module::mapped::{self, Map};
use crate::module::table;
use crate::testing;
use image::{container_length, Wrapper, CONTAINER_HEADER, WRAPPER_SIZE};
use session::call::{Error, Outcome};
use session::log;

use super::code::{self, Kind, Module, Refused};
use super::source::{loader, Origin, Source};
use super::{Kernel, Variable};

/// Larger texts and images than any program has.
const LONGEST: usize = 1 << 30;

/// Whether the bytes that the program passes stay as they are until it unloads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    Unknown,
    Promised,
}

/// Loads the image at that address.
///
/// # Errors
/// cudaErrorInvalidKernelImage for what is no image, or is not mapped; cudaErrorNoKernelImageForDevice,
/// cudaErrorInvalidPtx.
///
/// # Safety
/// Nothing changes or unmaps the image meanwhile; where `stays` promises so, until it is unloaded.
pub unsafe fn load(kind: Kind, address: *const c_void, stays: Stays) -> Result<&'static Module, Refused> {
    let refused = |error: image::Error| {
        match error {
            image::Error::NoUsableEntry(_) => log::error(format_args!("an image that {} loads: {error}", loader())),
            _ => log::info(format_args!("the image at {address:p} that {} loads: {error}", loader())),
        }
        Refused { error: code::error_of(&error), message: error.to_string() }
    };
    // SAFETY: the caller's promise.
    let origin = unsafe { image_at(address as u64, stays) }.map_err(refused)?;
    if stays == Stays::Unknown && matches!(origin, Origin::Wrapper(_)) {
        // What is to be linked, which lies in several places.
        let source = Source::find(&origin, Some(&code::target()?), &Map::read()).map_err(refused)?;
        return add(kind, Origin::Bytes(source.bytes(&origin).map_err(refused)?.to_vec()));
    }
    add(kind, origin)
}

/// Loads a file.
///
/// # Errors
/// cudaErrorFileNotFound, and as above.
pub fn load_file(kind: Kind, path: &Path) -> Result<&'static Module, Refused> {
    let mut bytes = std::fs::read(path).map_err(|_| Error::FILE_NOT_FOUND)?;
    // What follows a fat binary has no owner.
    bytes.truncate(container_length(&bytes).unwrap_or(usize::MAX));
    add(kind, Origin::Bytes(bytes))
}

fn add(kind: Kind, origin: Origin) -> Result<&'static Module, Refused> {
    let module = Module::new(kind, origin);
    module.note_use();
    // Here, unlike for registered images, the program expects to be told of damage.
    module.check()?;
    let module: &'static Module = Box::leak(Box::new(module));
    table::with(|table| table.add_module(module.handle(), module));
    if super::is_eager() {
        for name in names(module)? {
            kernel(module, &name)?.function()?;
        }
        module.confirm()?;
    }
    Ok(module)
}

/// Whether the host accepts a translation unit that will be linked with others.
///
/// # Errors
/// cudaErrorInvalidKernelImage, cudaErrorNoKernelImageForDevice, cudaErrorInvalidPtx.
pub fn check_unit(bytes: &[u8]) -> Result<(), Refused> {
    let unit = Module::new(Kind::Module, Origin::Bytes(bytes.to_vec()));
    unit.contents()?;
    unit.verify(true)
}

/// What was linked, where the host accepts it.
///
/// # Errors
/// As above, and for what is defined twice or nowhere.
pub fn check_linked(bytes: &[u8]) -> Result<Module, Refused> {
    let linked = Module::new(Kind::Module, Origin::Bytes(bytes.to_vec()));
    linked.check()?;
    Ok(linked)
}

/// How many modules the program has loaded into contexts and not unloaded.
pub fn count() -> usize {
    table::with(|table| table.modules()).iter().filter(|module| module.context.is_some()).count()
}

/// Ends a module or library.
///
/// # Errors
/// cudaErrorInvalidResourceHandle when there is none, cudaErrorNotPermitted when it was loaded in another way.
pub fn unload(kind: Kind, handle: usize) -> Outcome {
    testing::ends()?;
    let removed = table::with(|table| {
        let module = table.module(handle).ok_or(Error::INVALID_RESOURCE_HANDLE)?;
        if module.kind != kind {
            return Err(Error::NOT_PERMITTED);
        }
        Ok(table.remove_module(handle))
    })?;
    if let Some(module) = removed {
        module.close();
    }
    Ok(())
}

/// The module or library that the program means.
pub fn find(handle: usize) -> Outcome<&'static Module> {
    table::with(|table| table.module(handle)).ok_or(Error::INVALID_RESOURCE_HANDLE)
}

/// The names of its kernels, sorted.
pub fn names(module: &'static Module) -> Outcome<Vec<String>> {
    let mut names: Vec<String> = module.contents()?.kernels.keys().cloned().collect();
    names.sort_unstable();
    Ok(names)
}

/// The kernel of that name: the same one each time.
///
/// # Errors
/// cudaErrorSymbolNotFound.
pub fn kernel(module: &'static Module, name: &str) -> Outcome<&'static Kernel> {
    if let Some(known) = module.kernel_named(name) {
        return Ok(known);
    }
    if !module.contents()?.kernels.contains_key(name) {
        return Err(Error::SYMBOL_NOT_FOUND);
    }
    Ok(table::with(|table| {
        module.kernel_named(name).unwrap_or_else(|| {
            let kernel: &'static Kernel = Box::leak(Box::new(Kernel::new(module, name.to_owned(), 0)));
            module.add_kernel(kernel);
            table.add_kernel(kernel.handle(), kernel);
            kernel
        })
    }))
}

/// The variable of that name: the same one each time.
///
/// # Errors
/// cudaErrorSymbolNotFound.
pub fn variable(module: &'static Module, name: &str) -> Outcome<&'static Variable> {
    let known = *module.contents()?.variables.get(name).ok_or(Error::SYMBOL_NOT_FOUND)?;
    Ok(module.variable(name, known.size as usize))
}

/// Whether the program reaches the variable without a call.
///
/// # Errors
/// cudaErrorSymbolNotFound.
pub fn is_managed(module: &'static Module, name: &str) -> Outcome<bool> {
    Ok(module.contents()?.variables.get(name).ok_or(Error::SYMBOL_NOT_FOUND)?.managed)
}

/// All of the module's, sorted by name.
pub fn variables(module: &'static Module) -> Outcome<Vec<&'static Variable>> {
    let contents = module.contents()?;
    let mut known: Vec<_> = contents.variables.iter().collect();
    known.sort_unstable_by_key(|(name, _)| *name);
    Ok(known.into_iter().map(|(name, known)| module.variable(name, known.size as usize)).collect())
}

/// # Safety
/// As `load`.
unsafe fn image_at(address: u64, stays: Stays) -> Result<Origin, image::Error> {
    let unreadable = || image::Error::Malformed("it is not readable memory".to_owned());
    let memory = mapped::around(address).ok_or_else(unreadable)?;
    // SAFETY: the caller's promise; it was mapped just now.
    let bytes = unsafe { std::slice::from_raw_parts(address as *const u8, memory.readable.min(LONGEST)) };
    if let Some(wrapper) = bytes.get(..WRAPPER_SIZE).and_then(|wrapper| Wrapper::parse(wrapper).ok()) {
        if wrapper.to_link.is_some() {
            return Ok(Origin::Wrapper(address as usize));
        }
        // SAFETY: the caller's promise.
        return unsafe { container_at(wrapper.container, stays) };
    }
    if container_length(bytes.get(..CONTAINER_HEADER).unwrap_or_default()).is_ok() {
        // SAFETY: the caller's promise.
        return unsafe { container_at(address, stays) };
    }
    let length = image::length(bytes)?;
    Ok(Origin::Bytes(bytes[..length].to_vec()))
}

/// # Safety
/// As `load`.
unsafe fn container_at(address: u64, stays: Stays) -> Result<Origin, image::Error> {
    let unreadable = || image::Error::Malformed(format!("the fat binary at {address:#x} is not readable memory"));
    let memory = mapped::around(address).filter(|memory| memory.readable >= CONTAINER_HEADER).ok_or_else(unreadable)?;
    // SAFETY: the caller's promise; mapped and readable just now.
    let header = unsafe { std::slice::from_raw_parts(address as *const u8, CONTAINER_HEADER) };
    let length = container_length(header)?;
    if length > memory.readable {
        return Err(unreadable());
    }
    // SAFETY: as above.
    let container: &'static [u8] = unsafe { std::slice::from_raw_parts(address as *const u8, length) };
    Ok(match stays {
        Stays::Unknown if !memory.constant => Origin::Bytes(container.to_vec()),
        _ => Origin::Memory(container),
    })
}
