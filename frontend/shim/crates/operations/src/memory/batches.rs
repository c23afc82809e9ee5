//! Copies that a program gives as a list, or one by one with attributes. Each is a copy of its own kind of ends, in the
//! list's order, which CUDA leaves open.
//!
//! What the attributes say of the order in which sources are read is kept in any case: what cudaMemcpyAsync does with
//! the same ends suffices for all of it.
//! Source: CUDA runtime API, cudaMemcpyBatchAsync, cudaMemcpy3DBatchAsync.
#![allow(non_snake_case, clippy::too_many_arguments)] // C's names and signatures

use super::arrays::array_of;
use super::copies::{memcpy_3d_async, memcpy_async};
use crate::stream;
use crate::types::{
    ArrayHandle, BoxExtent, Copy3D, Copy3DEntry, Copy3DOperand, MemcpyAttributes, PitchedPtr, Pos, StreamHandle,
    MEMCPY_DEFAULT, OPERAND_ARRAY, OPERAND_POINTER,
};
use session::call::{Error, Outcome};
use session::function::DefaultStream;
use session::work::order::Kind;
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

/// cudaMemcpySrcAccessOrderStream to cudaMemcpySrcAccessOrderAny.
const ACCESS_ORDERS: std::ops::RangeInclusive<c_int> = 1..=3;
/// cudaMemcpyFlagPreferOverlapWithCompute is the only one, a hint.
const FLAGS: c_uint = 1;
/// What failIdx is where an error is not of one copy.
const OF_NONE: usize = usize::MAX;

/// An error, and the copy that has it.
type Failed = (usize, Error);

fn of_none(error: Error) -> Failed {
    (OF_NONE, error)
}

/// Writes which copy failed, for CUDA 12's functions.
///
/// # Safety
/// `place` is null or a place for a number.
unsafe fn report(outcome: Result<(), Failed>, place: *mut usize) -> Outcome {
    outcome.map_err(|(index, error)| {
        if !place.is_null() {
            // SAFETY: not null; the caller's promise.
            unsafe { place.write(index) };
        }
        error
    })
}

/// Whether a list of `count` operations in the stream is one that CUDA takes: it takes none in the legacy stream.
pub(super) fn check_list(default: DefaultStream, stream: StreamHandle, count: usize) -> Outcome {
    if count == 0 || stream::resolve(default, stream)?.kind == Kind::Legacy {
        return Err(Error::INVALID_VALUE);
    }
    Ok(())
}

/// Whether each of `count` operations has an entry: the entry's operations begin at its index, the first at 0, in
/// rising order.
pub(super) fn covers(firsts: &[usize], count: usize) -> bool {
    let rising = firsts.windows(2).all(|pair| pair[0] < pair[1]);
    rising && firsts.first() == Some(&0) && firsts.iter().all(|first| *first < count)
}

fn known(order: c_int, flags: c_uint) -> bool {
    ACCESS_ORDERS.contains(&order) && flags & !FLAGS == 0
}

/// Whether every copy has attributes.
fn check(attributes: &[MemcpyAttributes], firsts: &[usize], count: usize) -> Outcome {
    if covers(firsts, count) && attributes.iter().all(|attributes| known(attributes.srcAccessOrder, attributes.flags)) {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
    }
}

/// A copy of bytes.
unsafe fn line(
    default: DefaultStream,
    dst: *mut c_void,
    src: *const c_void,
    size: usize,
    stream: StreamHandle,
) -> Outcome {
    if dst.is_null() || src.is_null() || size == 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { memcpy_async(default, dst, src, size, MEMCPY_DEFAULT, stream) }
}

unsafe fn lines(
    default: DefaultStream,
    dsts: *const *mut c_void,
    srcs: *const *const c_void,
    sizes: *const usize,
    count: usize,
    attrs: *mut MemcpyAttributes,
    attrsIdxs: *mut usize,
    numAttrs: usize,
    stream: StreamHandle,
) -> Result<(), Failed> {
    check_list(default, stream, count).map_err(of_none)?;
    let null = dsts.is_null() || srcs.is_null() || sizes.is_null() || attrs.is_null() || attrsIdxs.is_null();
    if null || numAttrs == 0 || numAttrs > count {
        return Err(of_none(Error::INVALID_VALUE));
    }
    // SAFETY: not null; the program says that there are so many.
    unsafe {
        let firsts = std::slice::from_raw_parts(attrsIdxs, numAttrs);
        check(std::slice::from_raw_parts(attrs, numAttrs), firsts, count).map_err(of_none)?;
        (0..count).try_for_each(|index| {
            let (dst, src, size) = (dsts.add(index).read(), srcs.add(index).read(), sizes.add(index).read());
            line(default, dst, src, size, stream).map_err(|error| (index, error))
        })
    }
}

pub unsafe fn memcpy_batch_async(
    default: DefaultStream,
    dsts: *const *mut c_void,
    srcs: *const *const c_void,
    sizes: *const usize,
    count: usize,
    attrs: *mut MemcpyAttributes,
    attrsIdxs: *mut usize,
    numAttrs: usize,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { lines(default, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream) }.map_err(|(_, error)| error)
}

pub unsafe fn memcpy_batch_async_before_13(
    default: DefaultStream,
    dsts: *mut *mut c_void,
    srcs: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    attrs: *mut MemcpyAttributes,
    attrsIdxs: *mut usize,
    numAttrs: usize,
    failIdx: *mut usize,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe {
        let srcs = srcs.cast_const().cast();
        report(lines(default, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream), failIdx)
    }
}

pub unsafe fn memcpy_with_attributes_async(
    default: DefaultStream,
    dst: *mut c_void,
    src: *const c_void,
    size: usize,
    attr: *mut MemcpyAttributes,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program says that it is such a structure, or null.
    let attributes = unsafe { attr.as_ref() }.ok_or(Error::INVALID_VALUE)?;
    if !known(attributes.srcAccessOrder, attributes.flags) {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    unsafe { line(default, dst, src, size, stream) }
}

/// One end of a box: an array with a place in it, or memory.
type BoxEnd = (ArrayHandle, Pos, PitchedPtr);

/// An operand, when elements have `texel` bytes. A length of 0 is the box's own.
fn operand(given: &Copy3DOperand, extent: &BoxExtent, texel: usize) -> Outcome<BoxEnd> {
    let nowhere = PitchedPtr { ptr: std::ptr::null_mut(), pitch: 0, xsize: 0, ysize: 0 };
    if given.type_ == OPERAND_ARRAY {
        // SAFETY: the type says which member is valid.
        let array = unsafe { given.op.array };
        return Ok((array.array, array.offset, nowhere));
    }
    // SAFETY: as above.
    let memory = unsafe { given.op.ptr };
    let length = |own: usize, needed: usize| if own == 0 { needed } else { own };
    let (row, layer) = (length(memory.rowLength, extent.width), length(memory.layerHeight, extent.height));
    if memory.ptr.is_null() || row < extent.width || layer < extent.height {
        return Err(Error::INVALID_VALUE);
    }
    let pitch = row.checked_mul(texel).ok_or(Error::INVALID_VALUE)?;
    let pointer = PitchedPtr { ptr: memory.ptr, pitch, xsize: pitch, ysize: layer };
    Ok((std::ptr::null_mut(), Pos::default(), pointer))
}

/// The bytes of an array's element, where the operand is one.
fn texel(given: &Copy3DOperand) -> Outcome<Option<usize>> {
    match given.type_ {
        OPERAND_POINTER => Ok(None),
        OPERAND_ARRAY => {
            // SAFETY: the type says which member is valid.
            let array = array_of(unsafe { given.op.array.array })?;
            usize::try_from(array.texel).map(Some).map_err(|_| Error::INVALID_VALUE)
        }
        _ => Err(Error::INVALID_VALUE),
    }
}

/// A copy of a box as cudaMemcpy3D has it.
///
/// # Errors
/// cudaErrorInvalidValue for what CUDA's documentation excludes.
fn parameters(given: &Copy3DEntry) -> Outcome<Copy3D> {
    let extent = given.extent;
    let empty = extent.width == 0 || extent.height == 0 || extent.depth == 0;
    if empty || !known(given.srcAccessOrder, given.flags) {
        return Err(Error::INVALID_VALUE);
    }
    let texel = texel(&given.dst)?.or(texel(&given.src)?).unwrap_or(1);
    let (dstArray, dstPos, dstPtr) = operand(&given.dst, &extent, texel)?;
    let (srcArray, srcPos, srcPtr) = operand(&given.src, &extent, texel)?;
    let kind = MEMCPY_DEFAULT;
    Ok(Copy3D { srcArray, srcPos, srcPtr, dstArray, dstPos, dstPtr, extent, kind })
}

unsafe fn boxes(
    default: DefaultStream,
    count: usize,
    list: *const Copy3DEntry,
    flags: c_ulonglong,
    stream: StreamHandle,
) -> Result<(), Failed> {
    check_list(default, stream, count).map_err(of_none)?;
    if list.is_null() || flags != 0 {
        return Err(of_none(Error::INVALID_VALUE));
    }
    // SAFETY: not null; the program says that there are so many.
    unsafe { std::slice::from_raw_parts(list, count) }.iter().enumerate().try_for_each(|(index, given)| {
        // SAFETY: a structure of ours; what it points to is the program's promise.
        let copied = parameters(given).and_then(|parameters| unsafe { memcpy_3d_async(default, &parameters, stream) });
        copied.map_err(|error| (index, error))
    })
}

pub unsafe fn memcpy_3d_batch_async(
    default: DefaultStream,
    numOps: usize,
    opList: *mut Copy3DEntry,
    flags: c_ulonglong,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { boxes(default, numOps, opList, flags, stream) }.map_err(|(_, error)| error)
}

pub unsafe fn memcpy_3d_batch_async_before_13(
    default: DefaultStream,
    numOps: usize,
    opList: *mut Copy3DEntry,
    failIdx: *mut usize,
    flags: c_ulonglong,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { report(boxes(default, numOps, opList, flags, stream), failIdx) }
}

pub unsafe fn memcpy_3d_with_attributes_async(
    default: DefaultStream,
    op: *mut Copy3DEntry,
    flags: c_ulonglong,
    stream: StreamHandle,
) -> Outcome {
    // SAFETY: the program says that it is such a structure, or null.
    let given = unsafe { op.as_ref() }.filter(|_| flags == 0).ok_or(Error::INVALID_VALUE)?;
    // SAFETY: a structure of ours; what it points to is the program's promise.
    unsafe { memcpy_3d_async(default, &parameters(given)?, stream) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_has_attributes() {
        let order = |srcAccessOrder| MemcpyAttributes { srcAccessOrder, ..Default::default() };
        assert_eq!(check(&[order(1)], &[0], 1), Ok(()));
        assert_eq!(check(&[order(1), order(3)], &[0, 4], 5), Ok(()));
        for (orders, firsts) in
            [([1, 1], [0, 5]), ([1, 1], [1, 2]), ([1, 1], [0, 0]), ([1, 4], [0, 1]), ([0, 1], [0, 1])]
        {
            assert_eq!(check(&orders.map(order), &firsts, 5), Err(Error::INVALID_VALUE), "{orders:?} {firsts:?}");
        }
    }

    #[test]
    fn boxes_are_those_of_a_copy_with_lengths_of_their_own_or_the_boxs() {
        let memory = |address: usize, rowLength, layerHeight| Copy3DOperand {
            type_: OPERAND_POINTER,
            op: crate::types::OperandUnion {
                ptr: crate::types::OperandPointer {
                    ptr: address as *mut c_void,
                    rowLength,
                    layerHeight,
                    locHint: crate::types::MemLocation::default(),
                },
            },
        };
        let extent = BoxExtent { width: 8, height: 4, depth: 2 };
        let given =
            Copy3DEntry { src: memory(0x1000, 0, 0), dst: memory(0x2000, 16, 5), extent, srcAccessOrder: 1, flags: 0 };
        let made = parameters(&given).unwrap();
        assert_eq!((made.srcPtr.pitch, made.srcPtr.ysize, made.dstPtr.pitch, made.dstPtr.ysize), (8, 4, 16, 5));
        let wrong = [
            Copy3DEntry { src: memory(0x1000, 7, 0), ..given },
            Copy3DEntry { src: memory(0x1000, 0, 3), ..given },
            Copy3DEntry { src: memory(0, 0, 0), ..given },
            Copy3DEntry { extent: BoxExtent { depth: 0, ..extent }, ..given },
            Copy3DEntry { srcAccessOrder: 0, ..given },
            Copy3DEntry { flags: 2, ..given },
            Copy3DEntry { src: Copy3DOperand { type_: 3, ..given.src }, ..given },
        ];
        for given in &wrong {
            assert_eq!(parameters(given).err(), Some(Error::INVALID_VALUE));
        }
    }
}
