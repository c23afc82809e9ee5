//! Texture and surface objects of the driver API: its descriptions converted to those that the operations take, and
//! back.
//!
//! Source: CUDA driver API, "Texture Object Management", "Surface Object Management".

use std::ffi::{c_int, c_uint};

use abi::driver::{
    CUsurfObject, CUtexObject, CUDA_RESOURCE, CUDA_RESOURCE_DESC, CUDA_RESOURCE_LINEAR, CUDA_RESOURCE_PITCH2D,
    CUDA_RESOURCE_VIEW_DESC, CUDA_TEXTURE_DESC,
};
use operations::memory::{array_of, levels_of};
use operations::texture;
use operations::types::{ChannelFormatDesc, ResourceDesc, ResourceViewDesc, TextureDesc};
use session::call::{Error, Outcome};

use super::{formats, give};

/// CU_TRSF_*: how a texture is read.
const READ_AS_INTEGER: c_uint = 0x01;
const NORMALIZED_COORDINATES: c_uint = 0x02;
const SRGB: c_uint = 0x10;
const DISABLE_TRILINEAR_OPTIMIZATION: c_uint = 0x20;
const SEAMLESS_CUBEMAP: c_uint = 0x40;
const ALL_FLAGS: c_uint =
    READ_AS_INTEGER | NORMALIZED_COORDINATES | SRGB | DISABLE_TRILINEAR_OPTIMIZATION | SEAMLESS_CUBEMAP;

const READ_ELEMENTS: c_int = 0;
const READ_NORMALIZED: c_int = 1;

/// What a texture is read from, and the format of its texels.
fn resource(given: &CUDA_RESOURCE_DESC) -> Outcome<(ResourceDesc, ChannelFormatDesc)> {
    if given.flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let empty = ChannelFormatDesc::default();
    let described = |start: usize, desc, (width, height, pitchInBytes)| ResourceDesc {
        resType: given.resType,
        start,
        desc,
        width,
        height,
        pitchInBytes,
    };
    // SAFETY: the kind says which member of the union is meant; every bit pattern is one of each.
    unsafe {
        Ok(match given.resType {
            operations::types::RESOURCE_TYPE_ARRAY => {
                let handle = given.res.handle;
                (described(handle, empty, (0, 0, 0)), array_of(handle as operations::types::ConstArrayHandle)?.desc)
            }
            operations::types::RESOURCE_TYPE_MIPMAPPED_ARRAY => {
                let handle = given.res.handle;
                let levels = levels_of(handle as operations::types::ConstMipmappedArrayHandle)?;
                let first = levels.first().copied().ok_or(Error::INVALID_RESOURCE_HANDLE)?;
                (described(handle, empty, (0, 0, 0)), array_of(first)?.desc)
            }
            operations::types::RESOURCE_TYPE_LINEAR => {
                let linear = given.res.linear;
                let desc = formats::description(linear.format, linear.numChannels)?;
                (described(linear.devPtr as usize, desc, (linear.sizeInBytes, 0, 0)), desc)
            }
            operations::types::RESOURCE_TYPE_PITCH2D => {
                let rows = given.res.pitch2D;
                let desc = formats::description(rows.format, rows.numChannels)?;
                (described(rows.devPtr as usize, desc, (rows.width, rows.height, rows.pitchInBytes)), desc)
            }
            _ => return Err(Error::INVALID_VALUE),
        })
    }
}

/// The reverse of `resource`.
fn resource_of(known: &ResourceDesc) -> CUDA_RESOURCE_DESC {
    let (format, numChannels) = formats::format_of(&known.desc);
    let mut res = CUDA_RESOURCE { reserved: [0; 32] };
    match known.resType {
        operations::types::RESOURCE_TYPE_LINEAR => {
            let devPtr = known.start as u64;
            res.linear = CUDA_RESOURCE_LINEAR { devPtr, format, numChannels, sizeInBytes: known.width };
        }
        operations::types::RESOURCE_TYPE_PITCH2D => {
            let (width, height, pitchInBytes) = (known.width, known.height, known.pitchInBytes);
            let devPtr = known.start as u64;
            res.pitch2D = CUDA_RESOURCE_PITCH2D { devPtr, format, numChannels, width, height, pitchInBytes };
        }
        _ => res.handle = known.start,
    }
    CUDA_RESOURCE_DESC { resType: known.resType, res, flags: 0 }
}

fn texture(given: &CUDA_TEXTURE_DESC, texels: &ChannelFormatDesc) -> Outcome<TextureDesc> {
    if given.flags & !ALL_FLAGS != 0 {
        return Err(Error::INVALID_VALUE);
    }
    let has = |flag: c_uint| c_int::from(given.flags & flag != 0);
    let as_is = has(READ_AS_INTEGER) != 0 || formats::reads_as_is(texels);
    Ok(TextureDesc {
        addressMode: given.addressMode,
        filterMode: given.filterMode,
        readMode: if as_is { READ_ELEMENTS } else { READ_NORMALIZED },
        sRGB: has(SRGB),
        borderColor: given.borderColor,
        normalizedCoords: has(NORMALIZED_COORDINATES),
        maxAnisotropy: given.maxAnisotropy,
        mipmapFilterMode: given.mipmapFilterMode,
        mipmapLevelBias: given.mipmapLevelBias,
        minMipmapLevelClamp: given.minMipmapLevelClamp,
        maxMipmapLevelClamp: given.maxMipmapLevelClamp,
        disableTrilinearOptimization: has(DISABLE_TRILINEAR_OPTIMIZATION),
        seamlessCubemap: has(SEAMLESS_CUBEMAP),
    })
}

/// The reverse of `texture`, for texels that are read as they are unless they are said to be normalized.
fn texture_of(known: &TextureDesc) -> CUDA_TEXTURE_DESC {
    let flag = |set: c_int, flag: c_uint| if set != 0 { flag } else { 0 };
    CUDA_TEXTURE_DESC {
        addressMode: known.addressMode,
        filterMode: known.filterMode,
        flags: flag(c_int::from(known.readMode == READ_ELEMENTS), READ_AS_INTEGER)
            | flag(known.normalizedCoords, NORMALIZED_COORDINATES)
            | flag(known.sRGB, SRGB)
            | flag(known.disableTrilinearOptimization, DISABLE_TRILINEAR_OPTIMIZATION)
            | flag(known.seamlessCubemap, SEAMLESS_CUBEMAP),
        maxAnisotropy: known.maxAnisotropy,
        mipmapFilterMode: known.mipmapFilterMode,
        mipmapLevelBias: known.mipmapLevelBias,
        minMipmapLevelClamp: known.minMipmapLevelClamp,
        maxMipmapLevelClamp: known.maxMipmapLevelClamp,
        borderColor: known.borderColor,
        reserved: [0; 12],
    }
}

/// The number and the order of the formats are the same in both APIs.
fn view(given: &CUDA_RESOURCE_VIEW_DESC) -> ResourceViewDesc {
    ResourceViewDesc {
        format: given.format,
        width: given.width,
        height: given.height,
        depth: given.depth,
        firstMipmapLevel: given.firstMipmapLevel,
        lastMipmapLevel: given.lastMipmapLevel,
        firstLayer: given.firstLayer,
        lastLayer: given.lastLayer,
    }
}

fn view_of(known: &ResourceViewDesc) -> CUDA_RESOURCE_VIEW_DESC {
    CUDA_RESOURCE_VIEW_DESC {
        format: known.format,
        width: known.width,
        height: known.height,
        depth: known.depth,
        firstMipmapLevel: known.firstMipmapLevel,
        lastMipmapLevel: known.lastMipmapLevel,
        firstLayer: known.firstLayer,
        lastLayer: known.lastLayer,
        reserved: [0; 16],
    }
}

pub unsafe fn cuTexObjectCreate(
    pTexObject: *mut CUtexObject,
    pResDesc: *const CUDA_RESOURCE_DESC,
    pTexDesc: *const CUDA_TEXTURE_DESC,
    pResViewDesc: *const CUDA_RESOURCE_VIEW_DESC,
) -> Outcome {
    // SAFETY: the program says that they are such structures, or null.
    let (given, how, seen) = unsafe { (pResDesc.as_ref(), pTexDesc.as_ref(), pResViewDesc.as_ref()) };
    let (resource, texels) = resource(given.ok_or(Error::INVALID_VALUE)?)?;
    let how = texture(how.ok_or(Error::INVALID_VALUE)?, &texels)?;
    let seen = seen.map(view);
    let seen = seen.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: structures of ours; the caller's place for the object.
    unsafe { texture::create_texture_object(pTexObject, &resource, &how, seen) }
}

pub unsafe fn cuTexObjectGetResourceDesc(pResDesc: *mut CUDA_RESOURCE_DESC, texObject: CUtexObject) -> Outcome {
    // SAFETY: an all-zero value of this C structure is valid, and the place is ours; the program's place is checked.
    unsafe {
        let mut known = std::mem::zeroed();
        texture::get_texture_object_resource_desc(&mut known, texObject)?;
        give(pResDesc, resource_of(&known))
    }
}

pub unsafe fn cuTexObjectGetTextureDesc(pTexDesc: *mut CUDA_TEXTURE_DESC, texObject: CUtexObject) -> Outcome {
    // SAFETY: as above.
    unsafe {
        let mut known = std::mem::zeroed();
        texture::get_texture_object_texture_desc(&mut known, texObject)?;
        give(pTexDesc, texture_of(&known))
    }
}

pub unsafe fn cuTexObjectGetResourceViewDesc(
    pResViewDesc: *mut CUDA_RESOURCE_VIEW_DESC,
    texObject: CUtexObject,
) -> Outcome {
    let mut known = ResourceViewDesc::default();
    // SAFETY: as above.
    unsafe {
        texture::get_texture_object_resource_view_desc(&mut known, texObject)?;
        give(pResViewDesc, view_of(&known))
    }
}

pub unsafe fn cuSurfObjectCreate(pSurfObject: *mut CUsurfObject, pResDesc: *const CUDA_RESOURCE_DESC) -> Outcome {
    // SAFETY: the program says that it is such a structure, or null.
    let (resource, _) = resource(unsafe { pResDesc.as_ref() }.ok_or(Error::INVALID_VALUE)?)?;
    // SAFETY: a structure of ours; the caller's place for the object.
    unsafe { texture::create_surface_object(pSurfObject, &resource) }
}

pub unsafe fn cuSurfObjectGetResourceDesc(pResDesc: *mut CUDA_RESOURCE_DESC, surfObject: CUsurfObject) -> Outcome {
    // SAFETY: as above.
    unsafe {
        let mut known = std::mem::zeroed();
        texture::get_surface_object_resource_desc(&mut known, surfObject)?;
        give(pResDesc, resource_of(&known))
    }
}
