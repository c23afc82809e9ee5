//! Copies that a program gives as a list, or one by one with attributes. Each is a copy of its own kind of ends, in the list's order, which CUDA
//! leaves open.
//!
//! What the attributes say of the order in which sources are read is kept in any case: what cudaMemcpyAsync does with the same ends suffices for all of it.
//! Source: CUDA runtime API, cudaMemcpyBatchAsync, cudaMemcpy3DBatchAsync.
#![allow(non_snake_case, clippy::too_many_arguments)] // C's names and signatures

use super::arrays::array_of;
use super::copies::{cudaMemcpy3DAsync, cudaMemcpyAsync};
use crate::call::{CudaResult, DefaultStream};
use crate::stream;
use crate::work::order::Kind;
use abi::{
    cudaArray_t, cudaExtent, cudaMemcpy3DBatchOp, cudaMemcpy3DOperand, cudaMemcpy3DParms, cudaMemcpyAttributes,
    cudaMemcpyOperandTypeArray, cudaMemcpyOperandTypePointer, cudaPitchedPtr, cudaPos, cudaStream_t, CudaError,
};
use std::ffi::{c_int, c_uint, c_ulonglong, c_void};

/// cudaMemcpySrcAccessOrderStream to cudaMemcpySrcAccessOrderAny.
const ACCESS_ORDERS: std::ops::RangeInclusive<c_int> = 1..=3;
/// cudaMemcpyFlagPreferOverlapWithCompute is the only one, a hint.
const FLAGS: c_uint = 1;
/// What failIdx is where an error is not of one copy.
const OF_NONE: usize = usize::MAX;

/// An error, and the copy that has it.
type Failed = (usize, CudaError);

fn of_none(error: CudaError) -> Failed {
    (OF_NONE, error)
}

/// Writes which copy failed, for CUDA 12's functions.
///
/// # Safety
/// `place` is null or a place for a number.
unsafe fn report(outcome: Result<(), Failed>, place: *mut usize) -> CudaResult {
    outcome.map_err(|(index, error)| {
        if !place.is_null() {
            // SAFETY: not null; the caller's promise.
            unsafe { place.write(index) };
        }
        error
    })
}

/// Whether a list of `count` operations in the stream is one that CUDA takes: it takes none in the legacy stream.
pub(super) fn check_list(default: DefaultStream, stream: cudaStream_t, count: usize) -> CudaResult {
    if count == 0 || stream::resolve(default, stream)?.kind == Kind::Legacy {
        return Err(CudaError::INVALID_VALUE);
    }
    Ok(())
}

/// Whether each of `count` operations has an entry: the entry's operations begin at its index, the first at 0, in rising order.
pub(super) fn covers(firsts: &[usize], count: usize) -> bool {
    let rising = firsts.windows(2).all(|pair| pair[0] < pair[1]);
    rising && firsts.first() == Some(&0) && firsts.iter().all(|first| *first < count)
}

fn known(order: c_int, flags: c_uint) -> bool {
    ACCESS_ORDERS.contains(&order) && flags & !FLAGS == 0
}

/// Whether every copy has attributes.
fn check(attributes: &[cudaMemcpyAttributes], firsts: &[usize], count: usize) -> CudaResult {
    if covers(firsts, count) && attributes.iter().all(|attributes| known(attributes.srcAccessOrder, attributes.flags)) {
        Ok(())
    } else {
        Err(CudaError::INVALID_VALUE)
    }
}

/// A copy of bytes.
unsafe fn line(
    default: DefaultStream,
    dst: *mut c_void,
    src: *const c_void,
    size: usize,
    stream: cudaStream_t,
) -> CudaResult {
    if dst.is_null() || src.is_null() || size == 0 {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the caller's promise.
    unsafe { cudaMemcpyAsync(default, dst, src, size, abi::cudaMemcpyDefault, stream) }
}

unsafe fn lines(
    default: DefaultStream,
    dsts: *const *mut c_void,
    srcs: *const *const c_void,
    sizes: *const usize,
    count: usize,
    attrs: *mut cudaMemcpyAttributes,
    attrsIdxs: *mut usize,
    numAttrs: usize,
    stream: cudaStream_t,
) -> Result<(), Failed> {
    check_list(default, stream, count).map_err(of_none)?;
    let null = dsts.is_null() || srcs.is_null() || sizes.is_null() || attrs.is_null() || attrsIdxs.is_null();
    if null || numAttrs == 0 || numAttrs > count {
        return Err(of_none(CudaError::INVALID_VALUE));
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

pub unsafe fn cudaMemcpyBatchAsync_v13(
    default: DefaultStream,
    dsts: *const *mut c_void,
    srcs: *const *const c_void,
    sizes: *const usize,
    count: usize,
    attrs: *mut cudaMemcpyAttributes,
    attrsIdxs: *mut usize,
    numAttrs: usize,
    stream: cudaStream_t,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe { lines(default, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream) }.map_err(|(_, error)| error)
}

pub unsafe fn cudaMemcpyBatchAsync_v12(
    default: DefaultStream,
    dsts: *mut *mut c_void,
    srcs: *mut *mut c_void,
    sizes: *mut usize,
    count: usize,
    attrs: *mut cudaMemcpyAttributes,
    attrsIdxs: *mut usize,
    numAttrs: usize,
    failIdx: *mut usize,
    stream: cudaStream_t,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe {
        let srcs = srcs.cast_const().cast();
        report(lines(default, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream), failIdx)
    }
}

pub unsafe fn cudaMemcpyWithAttributesAsync(
    default: DefaultStream,
    dst: *mut c_void,
    src: *const c_void,
    size: usize,
    attr: *mut cudaMemcpyAttributes,
    stream: cudaStream_t,
) -> CudaResult {
    // SAFETY: the program says that it is such a structure, or null.
    let attributes = unsafe { attr.as_ref() }.ok_or(CudaError::INVALID_VALUE)?;
    if !known(attributes.srcAccessOrder, attributes.flags) {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    unsafe { line(default, dst, src, size, stream) }
}

/// One end of a box: an array with a place in it, or memory.
type BoxEnd = (cudaArray_t, cudaPos, cudaPitchedPtr);

/// An operand, when elements have `texel` bytes. A length of 0 is the box's own.
fn operand(given: &cudaMemcpy3DOperand, extent: &cudaExtent, texel: usize) -> CudaResult<BoxEnd> {
    let nowhere = cudaPitchedPtr { ptr: std::ptr::null_mut(), pitch: 0, xsize: 0, ysize: 0 };
    if given.type_ == cudaMemcpyOperandTypeArray {
        // SAFETY: the type says which member is valid.
        let array = unsafe { given.op.array };
        return Ok((array.array, array.offset, nowhere));
    }
    // SAFETY: as above.
    let memory = unsafe { given.op.ptr };
    let length = |own: usize, needed: usize| if own == 0 { needed } else { own };
    let (row, layer) = (length(memory.rowLength, extent.width), length(memory.layerHeight, extent.height));
    if memory.ptr.is_null() || row < extent.width || layer < extent.height {
        return Err(CudaError::INVALID_VALUE);
    }
    let pitch = row.checked_mul(texel).ok_or(CudaError::INVALID_VALUE)?;
    let pointer = cudaPitchedPtr { ptr: memory.ptr, pitch, xsize: pitch, ysize: layer };
    Ok((std::ptr::null_mut(), cudaPos::default(), pointer))
}

/// The bytes of an array's element, where the operand is one.
fn texel(given: &cudaMemcpy3DOperand) -> CudaResult<Option<usize>> {
    match given.type_ {
        cudaMemcpyOperandTypePointer => Ok(None),
        cudaMemcpyOperandTypeArray => {
            // SAFETY: the type says which member is valid.
            let array = array_of(unsafe { given.op.array.array })?;
            usize::try_from(array.texel).map(Some).map_err(|_| CudaError::INVALID_VALUE)
        }
        _ => Err(CudaError::INVALID_VALUE),
    }
}

/// A copy of a box as cudaMemcpy3D has it.
///
/// # Errors
/// cudaErrorInvalidValue for what CUDA's documentation excludes.
fn parameters(given: &cudaMemcpy3DBatchOp) -> CudaResult<cudaMemcpy3DParms> {
    let extent = given.extent;
    let empty = extent.width == 0 || extent.height == 0 || extent.depth == 0;
    if empty || !known(given.srcAccessOrder, given.flags) {
        return Err(CudaError::INVALID_VALUE);
    }
    let texel = texel(&given.dst)?.or(texel(&given.src)?).unwrap_or(1);
    let (dstArray, dstPos, dstPtr) = operand(&given.dst, &extent, texel)?;
    let (srcArray, srcPos, srcPtr) = operand(&given.src, &extent, texel)?;
    let kind = abi::cudaMemcpyDefault;
    Ok(cudaMemcpy3DParms { srcArray, srcPos, srcPtr, dstArray, dstPos, dstPtr, extent, kind })
}

unsafe fn boxes(
    default: DefaultStream,
    count: usize,
    list: *const cudaMemcpy3DBatchOp,
    flags: c_ulonglong,
    stream: cudaStream_t,
) -> Result<(), Failed> {
    check_list(default, stream, count).map_err(of_none)?;
    if list.is_null() || flags != 0 {
        return Err(of_none(CudaError::INVALID_VALUE));
    }
    // SAFETY: not null; the program says that there are so many.
    unsafe { std::slice::from_raw_parts(list, count) }.iter().enumerate().try_for_each(|(index, given)| {
        // SAFETY: a structure of ours; what it points to is the program's promise.
        let copied =
            parameters(given).and_then(|parameters| unsafe { cudaMemcpy3DAsync(default, &parameters, stream) });
        copied.map_err(|error| (index, error))
    })
}

pub unsafe fn cudaMemcpy3DBatchAsync_v13(
    default: DefaultStream,
    numOps: usize,
    opList: *mut cudaMemcpy3DBatchOp,
    flags: c_ulonglong,
    stream: cudaStream_t,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe { boxes(default, numOps, opList, flags, stream) }.map_err(|(_, error)| error)
}

pub unsafe fn cudaMemcpy3DBatchAsync_v12(
    default: DefaultStream,
    numOps: usize,
    opList: *mut cudaMemcpy3DBatchOp,
    failIdx: *mut usize,
    flags: c_ulonglong,
    stream: cudaStream_t,
) -> CudaResult {
    // SAFETY: the program's promise.
    unsafe { report(boxes(default, numOps, opList, flags, stream), failIdx) }
}

pub unsafe fn cudaMemcpy3DWithAttributesAsync(
    default: DefaultStream,
    op: *mut cudaMemcpy3DBatchOp,
    flags: c_ulonglong,
    stream: cudaStream_t,
) -> CudaResult {
    // SAFETY: the program says that it is such a structure, or null.
    let given = unsafe { op.as_ref() }.filter(|_| flags == 0).ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: a structure of ours; what it points to is the program's promise.
    unsafe { cudaMemcpy3DAsync(default, &parameters(given)?, stream) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_has_attributes() {
        let order = |srcAccessOrder| cudaMemcpyAttributes { srcAccessOrder, ..Default::default() };
        assert_eq!(check(&[order(1)], &[0], 1), Ok(()));
        assert_eq!(check(&[order(1), order(3)], &[0, 4], 5), Ok(()));
        for (orders, firsts) in
            [([1, 1], [0, 5]), ([1, 1], [1, 2]), ([1, 1], [0, 0]), ([1, 4], [0, 1]), ([0, 1], [0, 1])]
        {
            assert_eq!(check(&orders.map(order), &firsts, 5), Err(CudaError::INVALID_VALUE), "{orders:?} {firsts:?}");
        }
    }

    #[test]
    fn boxes_are_those_of_cudaMemcpy3D_with_lengths_of_their_own_or_the_boxs() {
        let memory = |address: usize, rowLength, layerHeight| cudaMemcpy3DOperand {
            type_: cudaMemcpyOperandTypePointer,
            op: abi::OperandUnion {
                ptr: abi::OperandPointer {
                    ptr: address as *mut c_void,
                    rowLength,
                    layerHeight,
                    locHint: abi::cudaMemLocation::default(),
                },
            },
        };
        let extent = cudaExtent { width: 8, height: 4, depth: 2 };
        let given = cudaMemcpy3DBatchOp {
            src: memory(0x1000, 0, 0),
            dst: memory(0x2000, 16, 5),
            extent,
            srcAccessOrder: 1,
            flags: 0,
        };
        let made = parameters(&given).unwrap();
        assert_eq!((made.srcPtr.pitch, made.srcPtr.ysize, made.dstPtr.pitch, made.dstPtr.ysize), (8, 4, 16, 5));
        let wrong = [
            cudaMemcpy3DBatchOp { src: memory(0x1000, 7, 0), ..given },
            cudaMemcpy3DBatchOp { src: memory(0x1000, 0, 3), ..given },
            cudaMemcpy3DBatchOp { src: memory(0, 0, 0), ..given },
            cudaMemcpy3DBatchOp { extent: cudaExtent { depth: 0, ..extent }, ..given },
            cudaMemcpy3DBatchOp { srcAccessOrder: 0, ..given },
            cudaMemcpy3DBatchOp { flags: 2, ..given },
            cudaMemcpy3DBatchOp { src: cudaMemcpy3DOperand { type_: 3, ..given.src }, ..given },
        ];
        for given in &wrong {
            assert_eq!(parameters(given).err(), Some(CudaError::INVALID_VALUE));
        }
    }
}
