//! The texture family: texture and surface objects.
//!
//! An object is the device address of a descriptor of 128 bytes, which is written here like any copy to the device; the
//! code of kernels reads it where they name the object (`backend/jit/lowering/families/images/textures.py`). So objects
//! need no operation of the tape. A host that makes objects of its own (a real GPU's are its driver's) gets the same
//! bytes, and answers with the object: one round trip.
//!
//! Source: protos/tape.md, "Textures" (the bytes); CUDA runtime API, "Texture Object Management", "Surface Object
//! Management".
#![allow(non_snake_case)] // C's names

use std::collections::HashMap;
use std::ffi::c_int;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::memory::payloads::{self, Target};
use crate::memory::{self, channels};
use crate::testing;
use crate::types::{
    ChannelFormatDesc, ChannelFormatKind, ResourceDesc, ResourceViewDesc, SurfaceObject, TextureDesc, TextureObject,
};
use session::call::{give, Error, Outcome};
use session::{contexts, log, process, work};

use tape::generated_operations as operation;

mod descriptor;
mod view;

/// What an object was made of.
#[derive(Debug, Clone, Copy)]
struct Object {
    context: u32,
    resource: ResourceDesc,
    /// `None` for a surface.
    texture: Option<TextureDesc>,
    view: Option<ResourceViewDesc>,
}

/// By the object, and whether it is a surface: a GPU's driver may give the same value to one of each.
type Objects = HashMap<(u64, bool), Object>;

static OBJECTS: LazyLock<Mutex<Objects>> = LazyLock::new(Mutex::default);

fn objects() -> MutexGuard<'static, Objects> {
    OBJECTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the objects of a context.
pub fn end_of(context: u32) {
    let of: Vec<(u64, bool)> =
        objects().iter().filter(|(_, object)| object.context == context).map(|(key, _)| *key).collect();
    for (object, surface) in of {
        // It is there; a session that is over has ended it.
        let _ = end(object, surface);
    }
}

/// How many textures and surfaces there are.
pub fn count() -> (usize, usize) {
    let objects = objects();
    let surfaces = objects.keys().filter(|(_, surface)| *surface).count();
    (objects.len() - surfaces, surfaces)
}

/// The device was reset: there are none.
pub fn forget() {
    objects().clear();
}

fn refused<T>(what: &str) -> Outcome<T> {
    log::error(format_args!("textures: {what} are not supported yet"));
    Err(Error::NOT_SUPPORTED)
}

fn made_by_host() -> Outcome<bool> {
    Ok(process::device()?.description.makes_objects)
}

fn make(resource: &ResourceDesc, texture: Option<&TextureDesc>, view: Option<&ResourceViewDesc>) -> Outcome<u64> {
    let by_host = made_by_host()?;
    if by_host && view.is_some() {
        return refused("resource views");
    }
    let object = match texture {
        Some(_) if resource.resType == crate::types::RESOURCE_TYPE_MIPMAPPED_ARRAY && by_host => {
            return refused("mipmapped arrays")
        }
        Some(texture) if resource.resType == crate::types::RESOURCE_TYPE_MIPMAPPED_ARRAY => {
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
        Object { context: contexts::acting(), resource: *resource, texture: texture.copied(), view: view.copied() },
    );
    Ok(object)
}

fn ask(bytes: &[u8; descriptor::BYTES]) -> Outcome<u64> {
    work::request(|w, slot| operation::object_create(w, slot, bytes))
}

fn put_on_device(bytes: &[u8]) -> Outcome<u64> {
    let address = memory::allocate(bytes.len())? as u64;
    let width = bytes.len() as u64;
    let legacy = work::tracking()?.order.legacy.clone();
    payloads::write(&legacy, Target { address, pitch: width, width, height: 1 }, true, |_| bytes)?;
    Ok(address)
}

fn end(object: u64, surface: bool) -> Outcome {
    testing::ends()?;
    objects().remove(&(object, surface)).ok_or(Error::INVALID_VALUE)?;
    if made_by_host()? {
        return work::append(|w| operation::object_destroy(w, object, u32::from(surface)));
    }
    memory::free(object as *mut std::ffi::c_void)
}

fn find(object: u64, surface: bool) -> Outcome<Object> {
    objects().get(&(object, surface)).copied().ok_or(Error::INVALID_VALUE)
}

pub unsafe fn create_channel_desc(x: c_int, y: c_int, z: c_int, w: c_int, f: ChannelFormatKind) -> ChannelFormatDesc {
    ChannelFormatDesc { x, y, z, w, f }
}

pub unsafe fn create_texture_object(
    pTexObject: *mut TextureObject,
    pResDesc: *const ResourceDesc,
    pTexDesc: *const TextureDesc,
    pResViewDesc: *const ResourceViewDesc,
) -> Outcome {
    process::session()?;
    // SAFETY: the program says that they are such structs, or null.
    let (resource, texture, view) = unsafe { (pResDesc.as_ref(), pTexDesc.as_ref(), pResViewDesc.as_ref()) };
    let (Some(resource), Some(texture), false) = (resource, texture, pTexObject.is_null()) else {
        return Err(Error::INVALID_VALUE);
    };
    let object = make(resource, Some(texture), view)?;
    // SAFETY: the program's promise.
    unsafe { give(pTexObject, object) }
}

pub unsafe fn destroy_texture_object(texObject: TextureObject) -> Outcome {
    end(texObject, false)
}

pub unsafe fn create_surface_object(pSurfObject: *mut SurfaceObject, pResDesc: *const ResourceDesc) -> Outcome {
    process::session()?;
    // SAFETY: the program says that it is such a struct, or null.
    let resource = unsafe { pResDesc.as_ref() }.filter(|_| !pSurfObject.is_null()).ok_or(Error::INVALID_VALUE)?;
    if resource.resType != crate::types::RESOURCE_TYPE_ARRAY {
        return Err(Error::INVALID_VALUE);
    }
    let array = memory::array_of(resource.start as crate::types::ConstArrayHandle)?;
    if array.flags & crate::types::ARRAY_SURFACE_LOAD_STORE == 0 {
        return Err(Error::INVALID_VALUE);
    }
    let object = make(resource, None, None)?;
    // SAFETY: the program's promise.
    unsafe { give(pSurfObject, object) }
}

pub unsafe fn destroy_surface_object(surfObject: SurfaceObject) -> Outcome {
    end(surfObject, true)
}

pub unsafe fn get_texture_object_resource_desc(pResDesc: *mut ResourceDesc, texObject: TextureObject) -> Outcome {
    // SAFETY: the program's promise, here and below.
    unsafe { give(pResDesc, find(texObject, false)?.resource) }
}

pub unsafe fn get_texture_object_texture_desc(pTexDesc: *mut TextureDesc, texObject: TextureObject) -> Outcome {
    let texture = find(texObject, false)?.texture.ok_or(Error::INVALID_VALUE)?;
    // SAFETY: as above.
    unsafe { give(pTexDesc, texture) }
}

pub unsafe fn get_texture_object_resource_view_desc(
    pResViewDesc: *mut ResourceViewDesc,
    texObject: TextureObject,
) -> Outcome {
    let view = find(texObject, false)?.view.ok_or(Error::INVALID_VALUE)?;
    // SAFETY: as above.
    unsafe { give(pResViewDesc, view) }
}

pub unsafe fn get_surface_object_resource_desc(pResDesc: *mut ResourceDesc, surfObject: SurfaceObject) -> Outcome {
    // SAFETY: as above.
    unsafe { give(pResDesc, find(surfObject, true)?.resource) }
}

pub unsafe fn device_get_texture_1d_linear_max_width(
    maxWidthInElements: *mut usize,
    fmtDesc: *const ChannelFormatDesc,
    device: c_int,
) -> Outcome {
    process::check_device(device)?;
    // SAFETY: the program says that it is such a struct, or null.
    channels(unsafe { fmtDesc.as_ref() }.ok_or(Error::INVALID_VALUE)?)?;
    // SAFETY: the program's promise.
    unsafe { give(maxWidthInElements, descriptor::MOST_LINEAR) }
}
