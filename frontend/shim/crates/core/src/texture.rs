//! The texture family: texture and surface objects.
//!
//! An object is the device address of a descriptor of 128 bytes, which is written here like any copy to the device; the code of kernels reads it where
//! they name the object (`backend/jit/families/textures.py`). So objects need no operation of the tape. A host that makes objects of its own
//! (a real GPU's are its driver's) gets the same bytes, and answers with the object: one round trip.
//!
//! Source: protos/tape.md, "Textures" (the bytes); CUDA runtime API, "Texture Object Management", "Surface Object Management".
#![allow(non_snake_case)] // C's names

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use abi::{
    cudaChannelFormatDesc, cudaChannelFormatKind, cudaResourceDesc, cudaResourceViewDesc, cudaSurfaceObject_t,
    cudaTextureDesc, cudaTextureObject_t, CudaError,
};

use crate::call::{give, CudaResult};
use crate::memory::payloads::{self, Target};
use crate::memory::{self, channels};
use crate::{log, runtime, work};
use tape::generated_operations as operation;

mod descriptor;
mod view;

/// What an object was made of.
#[derive(Debug, Clone, Copy)]
struct Object {
    resource: cudaResourceDesc,
    /// `None` for a surface.
    texture: Option<cudaTextureDesc>,
    view: Option<cudaResourceViewDesc>,
}

/// By the object, and whether it is a surface: a GPU's driver may give the same value to one of each.
type Objects = HashMap<(u64, bool), Object>;

static OBJECTS: LazyLock<Mutex<Objects>> = LazyLock::new(Mutex::default);

fn objects() -> MutexGuard<'static, Objects> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The device was reset: there are none.
pub fn forget() {
    objects().clear();
}

fn refused<T>(what: &str) -> CudaResult<T> {
    log::error(format_args!("textures: {what} are not supported yet"));
    Err(CudaError::NOT_SUPPORTED)
}

fn made_by_host() -> CudaResult<bool> {
    Ok(runtime::device()?.description.makes_objects)
}

fn make(
    resource: &cudaResourceDesc,
    texture: Option<&cudaTextureDesc>,
    view: Option<&cudaResourceViewDesc>,
) -> CudaResult<u64> {
    let by_host = made_by_host()?;
    if by_host && view.is_some() {
        return refused("resource views");
    }
    let object = match texture {
        Some(_) if resource.resType == abi::cudaResourceTypeMipmappedArray && by_host => {
            return refused("mipmapped arrays")
        }
        Some(texture) if resource.resType == abi::cudaResourceTypeMipmappedArray => {
            put_on_device(&descriptor::of_levels(resource, texture, view)?)?
        }
        _ => {
            let bytes = descriptor::of(resource, texture, view)?;
            if by_host {
                ask(&bytes)?
            } else {
                put_on_device(&bytes)?
            }
        }
    };
    objects().insert(
        (object, texture.is_none()),
        Object { resource: *resource, texture: texture.copied(), view: view.copied() },
    );
    Ok(object)
}

fn ask(bytes: &[u8; descriptor::BYTES]) -> CudaResult<u64> {
    work::request(|w, slot| operation::object_create(w, slot, bytes))
}

fn put_on_device(bytes: &[u8]) -> CudaResult<u64> {
    let address = memory::allocate(bytes.len())? as u64;
    let width = bytes.len() as u64;
    let legacy = work::tracking()?.order.legacy.clone();
    payloads::write(&legacy, Target { address, pitch: width, width, height: 1 }, true, |_| bytes)?;
    Ok(address)
}

fn end(object: u64, surface: bool) -> CudaResult {
    objects().remove(&(object, surface)).ok_or(CudaError::INVALID_VALUE)?;
    if made_by_host()? {
        return work::append(|w| operation::object_destroy(w, object, u32::from(surface)));
    }
    memory::free(object as *mut std::ffi::c_void)
}

fn find(object: u64, surface: bool) -> CudaResult<Object> {
    objects().get(&(object, surface)).copied().ok_or(CudaError::INVALID_VALUE)
}

pub unsafe fn cudaCreateChannelDesc(
    x: c_int,
    y: c_int,
    z: c_int,
    w: c_int,
    f: cudaChannelFormatKind,
) -> cudaChannelFormatDesc {
    cudaChannelFormatDesc { x, y, z, w, f }
}

pub unsafe fn cudaCreateTextureObject(
    pTexObject: *mut cudaTextureObject_t,
    pResDesc: *const cudaResourceDesc,
    pTexDesc: *const cudaTextureDesc,
    pResViewDesc: *const cudaResourceViewDesc,
) -> CudaResult {
    runtime::session()?;
    // SAFETY: the program says that they are such structs, or null.
    let (resource, texture, view) = unsafe { (pResDesc.as_ref(), pTexDesc.as_ref(), pResViewDesc.as_ref()) };
    let (Some(resource), Some(texture), false) = (resource, texture, pTexObject.is_null()) else {
        return Err(CudaError::INVALID_VALUE);
    };
    let object = make(resource, Some(texture), view)?;
    // SAFETY: the program's promise.
    unsafe { give(pTexObject, object) }
}

pub unsafe fn cudaDestroyTextureObject(texObject: cudaTextureObject_t) -> CudaResult {
    end(texObject, false)
}

pub unsafe fn cudaCreateSurfaceObject(
    pSurfObject: *mut cudaSurfaceObject_t,
    pResDesc: *const cudaResourceDesc,
) -> CudaResult {
    runtime::session()?;
    // SAFETY: the program says that it is such a struct, or null.
    let resource = unsafe { pResDesc.as_ref() }.filter(|_| !pSurfObject.is_null()).ok_or(CudaError::INVALID_VALUE)?;
    if resource.resType != abi::cudaResourceTypeArray {
        return Err(CudaError::INVALID_VALUE);
    }
    let object = make(resource, None, None)?;
    // SAFETY: the program's promise.
    unsafe { give(pSurfObject, object) }
}

pub unsafe fn cudaDestroySurfaceObject(surfObject: cudaSurfaceObject_t) -> CudaResult {
    end(surfObject, true)
}

pub unsafe fn cudaGetTextureObjectResourceDesc(
    pResDesc: *mut cudaResourceDesc,
    texObject: cudaTextureObject_t,
) -> CudaResult {
    // SAFETY: the program's promise, here and below.
    unsafe { give(pResDesc, find(texObject, false)?.resource) }
}

pub unsafe fn cudaGetTextureObjectTextureDesc(
    pTexDesc: *mut cudaTextureDesc,
    texObject: cudaTextureObject_t,
) -> CudaResult {
    let texture = find(texObject, false)?.texture.ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: as above.
    unsafe { give(pTexDesc, texture) }
}

pub unsafe fn cudaGetTextureObjectResourceViewDesc(
    pResViewDesc: *mut cudaResourceViewDesc,
    texObject: cudaTextureObject_t,
) -> CudaResult {
    let view = find(texObject, false)?.view.ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: as above.
    unsafe { give(pResViewDesc, view) }
}

pub unsafe fn cudaGetSurfaceObjectResourceDesc(
    pResDesc: *mut cudaResourceDesc,
    surfObject: cudaSurfaceObject_t,
) -> CudaResult {
    // SAFETY: as above.
    unsafe { give(pResDesc, find(surfObject, true)?.resource) }
}

pub unsafe fn cudaDeviceGetTexture1DLinearMaxWidth(
    maxWidthInElements: *mut usize,
    fmtDesc: *const cudaChannelFormatDesc,
    device: c_int,
) -> CudaResult {
    runtime::check_device(device)?;
    // SAFETY: the program says that it is such a struct, or null.
    channels(unsafe { fmtDesc.as_ref() }.ok_or(CudaError::INVALID_VALUE)?)?;
    // SAFETY: the program's promise.
    unsafe { give(maxWidthInElements, descriptor::MOST_LINEAR) }
}
