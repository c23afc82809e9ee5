//! Tensor maps: cuTensorMapEncodeTiled and its like check what the program says of a tensor, and write it down.
//!
//! A map is made where it is asked for, without the host: the address in it is the device's, like any pointer among a
//! kernel's parameters, and kernels' accesses to the tensor are checked by the device. A GPU reads maps of its driver's
//! own form: there the host makes one of what was written down, in one round trip.
//!
//! Source: CUDA driver API, "Tensor Map Object Management"; cuda.h of CUDA 12.0 to 13.5.

use std::ffi::{c_int, c_void, CStr};
use std::slice;

use abi::driver::{
    cuuint32_t, cuuint64_t, CUtensorMap, CUtensorMapAllocClass, CUtensorMapDataType, CUtensorMapFloatOOBfill,
    CUtensorMapInterleave, CUtensorMapL2promotion, CUtensorMapSwizzle, CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED,
    CU_TENSOR_MAP_ALLOC_CLASS_LARGE, CU_TENSOR_MAP_ALLOC_CLASS_SMALL,
};
use session::call::{Error, Outcome};
use session::{process, report, work};
use tape::operations as operation;

use crate::give_if_wanted;

/// Bytes of an element by CUtensorMapDataType; the types behind these have less than a byte.
const SIZES: [u64; 13] = [1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4];
const PACKED_TYPES: CUtensorMapDataType = 16;
const FIRST_FLOAT: u8 = 6;
const MOST_AXES: usize = 5;
const MOST_SIZE: u64 = 1 << 32;
const STRIDE_LIMIT: u64 = 1 << 40;
const MOST_BOUND: u32 = 256;
const MOST_PIXELS: u32 = 1024;
const MOST_ELEMENT_STRIDE: u32 = 8;
const INTERLEAVE_NONE: u8 = 0;
const INTERLEAVE_32B: u8 = 2;
/// Bytes within which a swizzle exchanges, by CUtensorMapSwizzle.
const SPANS: [u64; 7] = [0, 32, 64, 128, 128, 128, 128];
const SWIZZLE_32B: u8 = 1;

/// Where a map lies, if the device has maps and the place is one.
fn place(function: &'static CStr, map: *mut CUtensorMap) -> Outcome<*mut CUtensorMap> {
    if process::device()?.attribute(CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED) != Some(1) {
        report::unsupported(function);
        return Err(Error::NOT_SUPPORTED);
    }
    require(!map.is_null() && map.is_aligned())?;
    Ok(map)
}

fn require(good: bool) -> Outcome {
    if good {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
    }
}

/// # Safety
/// `values` is null or has `count` elements.
unsafe fn listed<'a, T>(values: *const T, count: usize) -> Outcome<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    require(!values.is_null() && values.is_aligned())?;
    // SAFETY: not null, and the caller's promise.
    Ok(unsafe { slice::from_raw_parts(values, count) })
}

/// A number of an enumeration with `count` members.
fn member(value: c_int, count: c_int) -> Outcome<u8> {
    require((0..count).contains(&value))?;
    u8::try_from(value).map_err(|_| Error::INVALID_VALUE)
}

/// Of what the address and the strides are multiples.
fn alignment(interleave: u8) -> u64 {
    if interleave == INTERLEAVE_32B {
        32
    } else {
        16
    }
}

/// What tiled and im2col maps have in common, as the program gives it.
struct Tensor {
    data_type: CUtensorMapDataType,
    rank: cuuint32_t,
    address: *mut c_void,
    sizes: *const cuuint64_t,
    strides: *const cuuint64_t,
    element_strides: *const cuuint32_t,
    interleave: CUtensorMapInterleave,
    swizzle: CUtensorMapSwizzle,
    promotion: CUtensorMapL2promotion,
    fill: CUtensorMapFloatOOBfill,
}

impl Tensor {
    /// Checks it, and gives a map without a box.
    ///
    /// # Safety
    /// The pointers are null or point to as many elements as the rank says.
    unsafe fn described(&self, mode: u8, least_rank: usize) -> Outcome<CUtensorMap> {
        let rank = self.rank as usize;
        let (interleave, swizzle) = (member(self.interleave, 3)?, member(self.swizzle, 7)?);
        let (promotion, fill) = (member(self.promotion, 4)?, member(self.fill, 2)?);
        let data_type = member(self.data_type, PACKED_TYPES)?;
        let least = if interleave == INTERLEAVE_NONE { least_rank } else { least_rank.max(3) };
        require((least..=MOST_AXES).contains(&rank))?;
        require(fill == 0 || (FIRST_FLOAT..SIZES.len() as u8).contains(&data_type))?;
        require(interleave != INTERLEAVE_32B || swizzle == SWIZZLE_32B)?;
        let address = self.address as u64;
        let whole = alignment(interleave);
        require(address.is_multiple_of(whole))?;
        // SAFETY: the caller's promise.
        let (sizes, strides, element_strides) = unsafe {
            (listed(self.sizes, rank)?, listed(self.strides, rank - 1)?, listed(self.element_strides, rank)?)
        };
        require(sizes.iter().all(|size| (1..=MOST_SIZE).contains(size)))?;
        require(strides.iter().all(|stride| stride.is_multiple_of(whole) && *stride < STRIDE_LIMIT))?;
        let asked = if interleave == INTERLEAVE_NONE { &element_strides[1..] } else { element_strides };
        require(asked.iter().all(|step| (1..=MOST_ELEMENT_STRIDE).contains(step)))?;
        let mut map = CUtensorMap {
            address,
            magic: CUtensorMap::MAGIC,
            rank: self.rank as u8,
            data_type,
            mode,
            interleave,
            swizzle,
            fill,
            promotion,
            unused: 0,
            sizes: [0; MOST_AXES],
            bounds: [0; MOST_AXES],
            element_strides: [1; MOST_AXES],
            unused_too: 0,
            strides: [0; 4],
            lower: [0; 3],
            upper: [0; 3],
            pixels: 0,
            rest: [0; 26],
        };
        for (axis, size) in sizes.iter().enumerate() {
            map.sizes[axis] = *size as u32;
            map.element_strides[axis] = if axis == 0 { 1 } else { element_strides[axis] as u8 };
        }
        map.strides[..strides.len()].copy_from_slice(strides);
        Ok(map)
    }
}

/// The first number of the box: rows of whole 16 bytes, within the swizzle's span.
fn check_rows(map: &CUtensorMap, elements: u32) -> Outcome {
    require((1..=MOST_BOUND).contains(&elements))?;
    let (bytes, span) = (row_bytes(map, elements), SPANS[map.swizzle as usize]);
    let plain = map.interleave == INTERLEAVE_NONE;
    require(!plain || (bytes.is_multiple_of(16) && (span == 0 || bytes <= span)))
}

fn row_bytes(map: &CUtensorMap, elements: u32) -> u64 {
    match SIZES.get(map.data_type as usize) {
        Some(size) => size * u64::from(elements),
        None => u64::from(elements) / 2, // of packed types, which `write` refuses
    }
}

/// Whether maps are the driver's behind the device.
fn made_by_host() -> Outcome<bool> {
    Ok(process::device()?.description.makes_objects)
}

/// The map as the host's driver has it; with an address, such a map of a tensor that lies there.
fn ask(map: &CUtensorMap, address: Option<u64>) -> Outcome<CUtensorMap> {
    // SAFETY: both are 128 bytes without padding, and every bit pattern is one of either.
    let bytes: [u8; size_of::<CUtensorMap>()] = unsafe { std::mem::transmute(*map) };
    let mut made = bytes;
    work::fetch(&mut made, |w, slot| {
        operation::tensor_map(w, address.unwrap_or(0), slot, u32::from(address.is_some()), &bytes)
    })?;
    // SAFETY: as above.
    Ok(unsafe { std::mem::transmute::<[u8; size_of::<CUtensorMap>()], CUtensorMap>(made) })
}

/// Gives the program its map, if kernels can use it.
fn write(function: &'static CStr, place: *mut CUtensorMap, map: CUtensorMap) -> Outcome {
    if made_by_host()? {
        let made = ask(&map, None)?;
        // SAFETY: `place` has checked it, and the program says that it is a map's.
        unsafe { place.write(made) };
        return Ok(());
    }
    if map.interleave != INTERLEAVE_NONE || map.data_type as usize >= SIZES.len() {
        report::unsupported(function);
        return Err(Error::NOT_SUPPORTED);
    }
    // SAFETY: `place` has checked it, and the program says that it is a map's.
    unsafe { place.write(map) };
    Ok(())
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn cuTensorMapEncodeTiled(
    tensorMap: *mut CUtensorMap,
    data_type: CUtensorMapDataType,
    rank: cuuint32_t,
    address: *mut c_void,
    sizes: *const cuuint64_t,
    strides: *const cuuint64_t,
    boxDim: *const cuuint32_t,
    element_strides: *const cuuint32_t,
    interleave: CUtensorMapInterleave,
    swizzle: CUtensorMapSwizzle,
    promotion: CUtensorMapL2promotion,
    fill: CUtensorMapFloatOOBfill,
) -> Outcome {
    const NAME: &CStr = c"cuTensorMapEncodeTiled";
    let place = place(NAME, tensorMap)?;
    let tensor =
        Tensor { data_type, rank, address, sizes, strides, element_strides, interleave, swizzle, promotion, fill };
    // SAFETY: the program says that each array has the rank's number of elements; the rank is checked first.
    let (mut map, bounds) = unsafe { (tensor.described(CUtensorMap::TILED, 1)?, listed(boxDim, rank as usize)?) };
    require(bounds.iter().all(|bound| (1..=MOST_BOUND).contains(bound)))?;
    check_rows(&map, bounds[0])?;
    for (axis, bound) in bounds.iter().enumerate() {
        map.bounds[axis] = *bound as u16;
    }
    write(NAME, place, map)
}

#[allow(clippy::too_many_arguments)]
pub unsafe fn cuTensorMapEncodeIm2col(
    tensorMap: *mut CUtensorMap,
    data_type: CUtensorMapDataType,
    rank: cuuint32_t,
    address: *mut c_void,
    sizes: *const cuuint64_t,
    strides: *const cuuint64_t,
    pixelBoxLowerCorner: *const c_int,
    pixelBoxUpperCorner: *const c_int,
    channelsPerPixel: cuuint32_t,
    pixelsPerColumn: cuuint32_t,
    element_strides: *const cuuint32_t,
    interleave: CUtensorMapInterleave,
    swizzle: CUtensorMapSwizzle,
    promotion: CUtensorMapL2promotion,
    fill: CUtensorMapFloatOOBfill,
) -> Outcome {
    const NAME: &CStr = c"cuTensorMapEncodeIm2col";
    let place = place(NAME, tensorMap)?;
    let tensor =
        Tensor { data_type, rank, address, sizes, strides, element_strides, interleave, swizzle, promotion, fill };
    // SAFETY: as above; a corner has a number for each axis but the channels and the images.
    let (mut map, lower, upper) = unsafe {
        let map = tensor.described(CUtensorMap::IM2COL, 3)?;
        let axes = rank as usize - 2;
        (map, listed(pixelBoxLowerCorner, axes)?, listed(pixelBoxUpperCorner, axes)?)
    };
    check_rows(&map, channelsPerPixel)?;
    require((1..=MOST_PIXELS).contains(&pixelsPerColumn))?;
    let bits = [15, 7, 4][lower.len() - 1];
    let range = -(1 << bits)..1 << bits;
    for (axis, (first, last)) in lower.iter().zip(upper).enumerate() {
        require(range.contains(first) && range.contains(last))?;
        // The box ends `last` behind the tensor's own end.
        let size = i64::try_from(unsized_size(map.sizes[axis + 1])).map_err(|_| Error::INVALID_VALUE)?;
        require(size + i64::from(*last) > i64::from(*first))?;
        map.lower[axis] = *first as i16;
        map.upper[axis] = *last as i16;
    }
    map.bounds[0] = channelsPerPixel as u16;
    map.pixels = pixelsPerColumn as u16;
    write(NAME, place, map)
}

/// A size as the map has it: 0 is 2^32.
fn unsized_size(size: u32) -> u64 {
    u64::from(size.wrapping_sub(1)) + 1
}

pub unsafe fn cuTensorMapReplaceAddress(tensorMap: *mut CUtensorMap, globalAddress: *mut c_void) -> Outcome {
    let place = place(c"cuTensorMapReplaceAddress", tensorMap)?;
    // SAFETY: the program says that it is a map; every bit pattern is one.
    let map = unsafe { &mut *place };
    if made_by_host()? {
        *map = ask(map, Some(globalAddress as u64))?;
        return Ok(());
    }
    require(map.magic == CUtensorMap::MAGIC)?;
    require((globalAddress as u64).is_multiple_of(alignment(map.interleave)))?;
    map.address = globalAddress as u64;
    Ok(())
}

/// There is no choice of a class here: every map has the small one.
pub unsafe fn cuTensorMapSetAllocationClass(
    tensorMap: *mut CUtensorMap,
    allocClass: CUtensorMapAllocClass,
    outAllocClass: *mut CUtensorMapAllocClass,
) -> Outcome {
    // SAFETY: the program says that it is such a place, or null.
    unsafe { give_if_wanted(outAllocClass, CU_TENSOR_MAP_ALLOC_CLASS_SMALL) };
    let place = place(c"cuTensorMapSetAllocationClass", tensorMap)?;
    // SAFETY: as above.
    require(made_by_host()? || unsafe { (*place).magic } == CUtensorMap::MAGIC)?;
    require((0..=CU_TENSOR_MAP_ALLOC_CLASS_LARGE).contains(&allocClass))
}
