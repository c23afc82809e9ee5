//! Arrays and mipmapped arrays of the driver API.
//!
//! Source: CUDA driver API, "Memory Management".

use std::ffi::c_uint;

use abi::driver::{CUarray, CUmipmappedArray, CUDA_ARRAY3D_DESCRIPTOR, CUDA_ARRAY_DESCRIPTOR};
use operations::memory::{self, allocate_array, array_of, handle_of};
use operations::types::BoxExtent;
use session::call::{Error, Outcome};

use crate::{formats, give};

/// Sparse arrays, arrays that are mapped later, and those for graphics.
const REFUSED_FLAGS: c_uint = 0x10 | 0x20 | 0x40 | 0x80;

pub unsafe fn cuArrayCreate_v2(pHandle: *mut CUarray, pAllocateArray: *const CUDA_ARRAY_DESCRIPTOR) -> Outcome {
    // SAFETY: the program says that it is such a structure, or null.
    let given = unsafe { pAllocateArray.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    let whole = CUDA_ARRAY3D_DESCRIPTOR {
        Width: given.Width,
        Height: given.Height,
        Depth: 0,
        Format: given.Format,
        NumChannels: given.NumChannels,
        Flags: 0,
    };
    // SAFETY: the caller's place for the handle.
    unsafe { cuArray3DCreate_v2(pHandle, &whole) }
}

pub unsafe fn cuArray3DCreate_v2(pHandle: *mut CUarray, pAllocateArray: *const CUDA_ARRAY3D_DESCRIPTOR) -> Outcome {
    // SAFETY: the program says that it is such a structure, or null.
    let given = unsafe { pAllocateArray.as_ref() }.filter(|_| !pHandle.is_null()).ok_or(Error::INVALID_VALUE)?;
    if given.Flags & REFUSED_FLAGS != 0 {
        return Err(Error::NOT_SUPPORTED);
    }
    let extent = BoxExtent { width: given.Width, height: given.Height, depth: given.Depth };
    let number = allocate_array(&formats::description(given.Format, given.NumChannels)?, extent, given.Flags)?;
    // SAFETY: not null, the caller's place for the handle.
    unsafe { give(pHandle, handle_of(number)) }
}

pub unsafe fn cuArray3DGetDescriptor_v2(pArrayDescriptor: *mut CUDA_ARRAY3D_DESCRIPTOR, hArray: CUarray) -> Outcome {
    let found = array_of(hArray)?;
    let (format, channels) = formats::format_of(&found.desc);
    let described = CUDA_ARRAY3D_DESCRIPTOR {
        Width: found.extent.width,
        Height: found.extent.height,
        Depth: found.extent.depth,
        Format: format,
        NumChannels: channels,
        Flags: found.flags,
    };
    // SAFETY: the caller's place for the structure.
    unsafe { give(pArrayDescriptor, described) }
}

pub unsafe fn cuArrayGetDescriptor_v2(pArrayDescriptor: *mut CUDA_ARRAY_DESCRIPTOR, hArray: CUarray) -> Outcome {
    let found = array_of(hArray)?;
    let (format, channels) = formats::format_of(&found.desc);
    let described = CUDA_ARRAY_DESCRIPTOR {
        Width: found.extent.width,
        Height: found.extent.height,
        Format: format,
        NumChannels: channels,
    };
    // SAFETY: the caller's place for the structure.
    unsafe { give(pArrayDescriptor, described) }
}

/// The runtime API takes a null handle, this API does not.
pub unsafe fn cuArrayDestroy(hArray: CUarray) -> Outcome {
    array_of(hArray)?;
    // SAFETY: a live handle.
    unsafe { memory::free_array(hArray) }
}

pub unsafe fn cuMipmappedArrayCreate(
    pHandle: *mut CUmipmappedArray,
    pMipmappedArrayDesc: *const CUDA_ARRAY3D_DESCRIPTOR,
    numMipmapLevels: c_uint,
) -> Outcome {
    // SAFETY: the program says that it is such a structure, or null.
    let given = unsafe { pMipmappedArrayDesc.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if given.Flags & REFUSED_FLAGS != 0 {
        return Err(Error::NOT_SUPPORTED);
    }
    let extent = BoxExtent { width: given.Width, height: given.Height, depth: given.Depth };
    let desc = formats::description(given.Format, given.NumChannels)?;
    // SAFETY: the caller's place for the handle, and a description of ours.
    unsafe { memory::malloc_mipmapped_array(pHandle, &desc, extent, numMipmapLevels, given.Flags) }
}

pub unsafe fn cuMipmappedArrayDestroy(hMipmappedArray: CUmipmappedArray) -> Outcome {
    memory::levels_of(hMipmappedArray)?;
    // SAFETY: a live handle.
    unsafe { memory::free_mipmapped_array(hMipmappedArray) }
}
