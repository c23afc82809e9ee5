//! CUDA arrays: device memory in rows, known by a handle.
//!
//! An array is an allocation with a pitch; what it holds, and how large it is, is the guest's knowledge alone. Copies
//! to and from arrays are copies of rows. Arrays of one, two and three dimensions, layered ones and cube maps, whose
//! faces are layers; no sparse ones.
//!
//! Rooms: `copies` (the API's copies of bytes and rows of arrays), `mipmaps` (mipmapped arrays).
//!
//! Source: CUDA runtime API, "Memory Management".

mod copies;
mod mipmaps;

pub use copies::*;
pub use mipmaps::*;

use super::copy::{End, Place};
use super::shape::{Extent, Layout};
use super::{allocate, free};
use crate::testing;
use crate::types::{ArrayHandle, BoxExtent, ChannelFormatDesc, ConstArrayHandle, Pos};
use session::call::{Error, Outcome};
use session::work::handle::{decode, encode, Tag};
use std::collections::{BTreeSet, HashMap};
use std::ffi::{c_uint, c_void};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Rows begin at multiples of this.
const PITCH: u64 = 512;
const FLAGS: c_uint = crate::types::ARRAY_LAYERED
    | crate::types::ARRAY_SURFACE_LOAD_STORE
    | crate::types::ARRAY_CUBEMAP
    | crate::types::ARRAY_TEXTURE_GATHER;
/// Of a cube; a layered cube map has a multiple of them.
const FACES: usize = 6;

/// One array.
#[derive(Debug, Clone, Copy)]
pub struct Array {
    pub address: u64,
    pub desc: ChannelFormatDesc,
    /// As it was asked for: dimensions that it does not have are 0.
    pub extent: BoxExtent,
    pub flags: c_uint,
    pub texel: u64,
    pub pitch: u64,
}

#[derive(Debug, Default)]
struct Arrays {
    next: u32,
    live: HashMap<u32, Array>,
}

static ARRAYS: LazyLock<Mutex<Arrays>> = LazyLock::new(Mutex::default);

fn arrays() -> MutexGuard<'static, Arrays> {
    ARRAYS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bits of a channel and channels of a format: 8, 16 or 32 bits, 1, 2 or 4 of the same.
pub fn channels(desc: &ChannelFormatDesc) -> Outcome<(u32, u32)> {
    let bits = desc.x;
    let same = |count: usize| {
        let all = [desc.x, desc.y, desc.z, desc.w];
        all[..count].iter().all(|b| *b == bits) && all[count..].iter().all(|b| *b == 0)
    };
    let count = [1, 2, 4].into_iter().find(|count| same(*count)).ok_or(Error::INVALID_CHANNEL_DESCRIPTOR)?;
    let float = desc.f == crate::types::CHANNEL_FORMAT_KIND_FLOAT;
    if !matches!((bits, float), (8, false) | (16 | 32, _)) || !(0..=2).contains(&desc.f) {
        return Err(Error::INVALID_CHANNEL_DESCRIPTOR);
    }
    Ok((bits as u32, count as u32))
}

/// The array that the program means.
pub fn array_of(handle: ConstArrayHandle) -> Outcome<Array> {
    let number = decode(Tag::Array, handle as usize).ok_or(Error::INVALID_RESOURCE_HANDLE)?;
    arrays().live.get(&number).copied().ok_or(Error::INVALID_RESOURCE_HANDLE)
}

impl Array {
    /// Rows and slices that are really there.
    pub fn rows(&self) -> (u64, u64) {
        ((self.extent.height as u64).max(1), (self.extent.depth as u64).max(1))
    }

    pub fn slice(&self) -> u64 {
        self.pitch * self.rows().0
    }

    /// A box in it; the first place and the width are bytes.
    fn end(&self, x: u64, y: u64, z: u64, extent: &Extent) -> Outcome<End> {
        let fits = |start: u64, length: u64, limit: u64| start.checked_add(length).is_some_and(|end| end <= limit);
        let (rows, slices) = self.rows();
        if !fits(x, extent.width, self.extent.width as u64 * self.texel)
            || !fits(y, extent.height, rows)
            || !fits(z, extent.depth, slices)
        {
            return Err(Error::INVALID_VALUE);
        }
        let start = self.address + z * self.slice() + y * self.pitch + x;
        End::at(start as *const c_void, Place::Device, Layout { pitch: self.pitch, slice: self.slice() }, extent)
    }

    /// An end of cudaMemcpy3D; places are in texels there.
    pub fn end_at(&self, pos: Pos, extent: &Extent) -> Outcome<End> {
        let x = (pos.x as u64).checked_mul(self.texel).ok_or(Error::INVALID_VALUE)?;
        self.end(x, pos.y as u64, pos.z as u64, extent)
    }
}

unsafe fn make(place: *mut ArrayHandle, desc: *const ChannelFormatDesc, extent: BoxExtent, flags: c_uint) -> Outcome {
    // SAFETY: the program says that they are such places, or null.
    let (place, desc) = unsafe { (place.as_mut(), desc.as_ref()) };
    let (Some(place), Some(desc)) = (place, desc) else { return Err(Error::INVALID_VALUE) };
    *place = handle_of(allocate_array(desc, extent, flags)?);
    Ok(())
}

/// What the program holds of an array.
pub fn handle_of(number: u32) -> ArrayHandle {
    encode(Tag::Array, number) as ArrayHandle
}

/// Makes an array, and returns its number.
pub fn allocate_array(desc: &ChannelFormatDesc, extent: BoxExtent, flags: c_uint) -> Outcome<u32> {
    if flags & !FLAGS != 0 {
        return Err(Error::NOT_SUPPORTED); // sparse and deferred ones
    }
    let layered = flags & crate::types::ARRAY_LAYERED != 0;
    if extent.width == 0 || extent.depth != 0 && extent.height == 0 && !layered {
        return Err(Error::INVALID_VALUE);
    }
    if flags & crate::types::ARRAY_CUBEMAP != 0 && !is_cube(extent, layered) {
        return Err(Error::INVALID_VALUE);
    }
    let (bits, count) = channels(desc)?;
    let texel = u64::from(bits / 8 * count);
    let pitch = (extent.width as u64).checked_mul(texel).and_then(|bytes| bytes.checked_next_multiple_of(PITCH));
    let size = pitch
        .and_then(|pitch| pitch.checked_mul(extent.height.max(1) as u64))
        .and_then(|slice| slice.checked_mul(extent.depth.max(1) as u64));
    let (Some(pitch), Some(size)) = (pitch, size) else { return Err(Error::MEMORY_ALLOCATION) };
    let address = allocate(size as usize)? as u64;
    let mut arrays = arrays();
    arrays.next = arrays.next.max(15) + 1;
    let number = arrays.next;
    arrays.live.insert(number, Array { address, desc: *desc, extent, flags, texel, pitch });
    Ok(number)
}

/// Ends an array.
pub fn release_array(number: u32) -> Outcome {
    testing::ends()?;
    let found = arrays().live.remove(&number).ok_or(Error::INVALID_VALUE)?;
    free(found.address as *mut c_void)
}

fn is_cube(extent: BoxExtent, layered: bool) -> bool {
    let faces = extent.depth == FACES || layered && extent.depth != 0 && extent.depth.is_multiple_of(FACES);
    extent.width == extent.height && faces
}

/// The arrays whose memory starts at one of these addresses.
pub fn arrays_at(starts: &BTreeSet<u64>) -> Vec<u32> {
    arrays().live.iter().filter(|(_, array)| starts.contains(&array.address)).map(|(number, _)| *number).collect()
}

/// How many there are.
pub fn count_arrays() -> usize {
    arrays().live.len()
}

/// The device was reset: there are none.
pub fn forget_arrays() {
    arrays().live.clear();
}

pub unsafe fn malloc_array(
    array: *mut ArrayHandle,
    desc: *const ChannelFormatDesc,
    width: usize,
    height: usize,
    flags: c_uint,
) -> Outcome {
    if flags & crate::types::ARRAY_LAYERED != 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise, here and below.
    unsafe { make(array, desc, BoxExtent { width, height, depth: 0 }, flags) }
}

pub unsafe fn malloc_3d_array(
    array: *mut ArrayHandle,
    desc: *const ChannelFormatDesc,
    extent: BoxExtent,
    flags: c_uint,
) -> Outcome {
    // SAFETY: as above.
    unsafe { make(array, desc, extent, flags) }
}

pub unsafe fn free_array(array: ArrayHandle) -> Outcome {
    if array.is_null() {
        return Ok(());
    }
    let number = decode(Tag::Array, array as usize).ok_or(Error::INVALID_VALUE)?;
    if mipmaps::is_level(number) {
        return Err(Error::INVALID_VALUE);
    }
    release_array(number)
}

pub unsafe fn array_get_info(
    desc: *mut ChannelFormatDesc,
    extent: *mut BoxExtent,
    flags: *mut c_uint,
    array: ArrayHandle,
) -> Outcome {
    let found = array_of(array)?;
    // SAFETY: as above; null where the program wants no answer.
    unsafe {
        if let Some(desc) = desc.as_mut() {
            *desc = found.desc;
        }
        if let Some(extent) = extent.as_mut() {
            *extent = found.extent;
        }
        if let Some(flags) = flags.as_mut() {
            *flags = found.flags;
        }
    }
    Ok(())
}

pub unsafe fn get_channel_desc(desc: *mut ChannelFormatDesc, array: ConstArrayHandle) -> Outcome {
    let found = array_of(array)?;
    // SAFETY: as above.
    *unsafe { desc.as_mut() }.ok_or(Error::INVALID_VALUE)? = found.desc;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_maps_have_six_square_faces_for_each_cube() {
        let extent = |width, height, depth| BoxExtent { width, height, depth };
        assert!(is_cube(extent(8, 8, 6), false) && is_cube(extent(8, 8, 18), true));
        for (wrong, layered) in
            [(extent(8, 4, 6), false), (extent(8, 8, 12), false), (extent(8, 8, 7), true), (extent(8, 8, 0), true)]
        {
            assert!(!is_cube(wrong, layered), "{wrong:?}");
        }
    }

    #[test]
    fn formats_have_one_two_or_four_equal_channels() {
        let desc = |x, y, z, w, f| ChannelFormatDesc { x, y, z, w, f };
        assert_eq!(channels(&desc(8, 8, 8, 8, 1)), Ok((8, 4)));
        assert_eq!(channels(&desc(16, 16, 0, 0, 2)), Ok((16, 2)));
        assert_eq!(channels(&desc(32, 0, 0, 0, 0)), Ok((32, 1)));
        for wrong in
            [desc(8, 8, 8, 0, 1), desc(8, 16, 0, 0, 0), desc(8, 0, 0, 0, 2), desc(64, 0, 0, 0, 0), desc(32, 0, 0, 0, 3)]
        {
            assert_eq!(channels(&wrong), Err(Error::INVALID_CHANNEL_DESCRIPTOR), "{wrong:?}");
        }
    }
}
