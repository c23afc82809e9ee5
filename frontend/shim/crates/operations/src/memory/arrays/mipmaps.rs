//! Mipmapped arrays: arrays of halved sizes, known by one handle.
//!
//! Each level is an array of its own (`arrays`), which copies and surfaces take as any other; it ends with the
//! mipmapped array, not by itself.
//! Source: CUDA runtime API, "Memory Management".
#![allow(non_snake_case)] // C's names

use super::{allocate_array, handle_of, release_array};
use crate::types::{ArrayHandle, BoxExtent, ChannelFormatDesc, ConstMipmappedArrayHandle, MipmappedArrayHandle};
use session::call::{Error, Outcome};
use session::work::handle::{decode, encode, Tag};
use std::collections::HashMap;
use std::ffi::c_uint;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// The arrays' numbers, level 0 first. The handle's number is that of level 0.
static MIPMAPPED: LazyLock<Mutex<HashMap<u32, Vec<u32>>>> = LazyLock::new(Mutex::default);

fn mipmapped() -> MutexGuard<'static, HashMap<u32, Vec<u32>>> {
    MIPMAPPED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Mipmapped arrays of which a level is one of these arrays end as such; the levels are left.
pub fn dissolve_mipmapped_arrays(levels: &[u32]) {
    mipmapped().retain(|_, of| !of.iter().any(|level| levels.contains(level)));
}

/// The device was reset: there are none.
pub fn forget_mipmapped_arrays() {
    mipmapped().clear();
}

/// The levels' handles.
pub fn levels_of(array: ConstMipmappedArrayHandle) -> Outcome<Vec<ArrayHandle>> {
    let number = decode(Tag::MipmappedArray, array as usize).ok_or(Error::INVALID_RESOURCE_HANDLE)?;
    let levels = mipmapped().get(&number).cloned().ok_or(Error::INVALID_RESOURCE_HANDLE)?;
    Ok(levels.into_iter().map(handle_of).collect())
}

/// As many as there can be: down to one texel. Layers and faces are not halved.
fn most_levels(extent: BoxExtent, flags: c_uint) -> u32 {
    let depth = if is_volume(flags) { extent.depth } else { 0 };
    usize::BITS - extent.width.max(extent.height).max(depth).max(1).leading_zeros()
}

fn is_volume(flags: c_uint) -> bool {
    flags & (crate::types::ARRAY_LAYERED | crate::types::ARRAY_CUBEMAP) == 0
}

/// A dimension that the array does not have stays 0.
fn halved(extent: BoxExtent, level: u32, flags: c_uint) -> BoxExtent {
    let half = |length: usize| if length == 0 { 0 } else { (length >> level).max(1) };
    let depth = if is_volume(flags) { half(extent.depth) } else { extent.depth };
    BoxExtent { width: half(extent.width), height: half(extent.height), depth }
}

pub unsafe fn malloc_mipmapped_array(
    mipmappedArray: *mut MipmappedArrayHandle,
    desc: *const ChannelFormatDesc,
    extent: BoxExtent,
    numLevels: c_uint,
    flags: c_uint,
) -> Outcome {
    // SAFETY: the program says that they are such places, or null.
    let (place, desc) = unsafe { (mipmappedArray.as_mut(), desc.as_ref()) };
    let (Some(place), Some(desc)) = (place, desc) else { return Err(Error::INVALID_VALUE) };
    let count = numLevels.clamp(1, most_levels(extent, flags));
    let mut levels = Vec::new();
    for level in 0..count {
        match allocate_array(desc, halved(extent, level, flags), flags) {
            Ok(number) => levels.push(number),
            Err(error) => {
                levels.into_iter().try_for_each(release_array)?;
                return Err(error);
            }
        }
    }
    let number = levels[0];
    mipmapped().insert(number, levels);
    *place = encode(Tag::MipmappedArray, number) as MipmappedArrayHandle;
    Ok(())
}

pub unsafe fn get_mipmapped_array_level(
    levelArray: *mut ArrayHandle,
    mipmappedArray: ConstMipmappedArrayHandle,
    level: c_uint,
) -> Outcome {
    let found = levels_of(mipmappedArray)?.get(level as usize).copied().ok_or(Error::INVALID_VALUE)?;
    // SAFETY: the program says that it is such a place, or null.
    *unsafe { levelArray.as_mut() }.ok_or(Error::INVALID_VALUE)? = found;
    Ok(())
}

pub unsafe fn free_mipmapped_array(mipmappedArray: MipmappedArrayHandle) -> Outcome {
    if mipmappedArray.is_null() {
        return Ok(());
    }
    let number = decode(Tag::MipmappedArray, mipmappedArray as usize).ok_or(Error::INVALID_VALUE)?;
    let levels = mipmapped().remove(&number).ok_or(Error::INVALID_VALUE)?;
    levels.into_iter().try_for_each(release_array)
}

/// Whether an array is a level of a mipmapped one, which it ends with.
pub fn is_level(number: u32) -> bool {
    mipmapped().values().any(|levels| levels.contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_halved_down_to_one_texel() {
        let extent = |width, height, depth| BoxExtent { width, height, depth };
        assert_eq!(
            [(1, 0, 0), (8, 0, 0), (5, 17, 0), (4, 4, 64)].map(|(w, h, d)| most_levels(extent(w, h, d), 0)),
            [1, 4, 5, 7]
        );
        assert_eq!(most_levels(extent(4, 4, 64), crate::types::ARRAY_LAYERED), 3);
        let size = |e: BoxExtent| (e.width, e.height, e.depth);
        assert_eq!(size(halved(extent(5, 17, 0), 2, 0)), (1, 4, 0));
        assert_eq!(size(halved(extent(5, 0, 0), 3, 0)), (1, 0, 0));
        assert_eq!(size(halved(extent(8, 8, 6), 2, crate::types::ARRAY_CUBEMAP)), (2, 2, 6));
        assert_eq!(size(halved(extent(8, 8, 6), 2, 0)), (2, 2, 1));
    }
}
