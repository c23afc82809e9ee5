//! Copies that a program gives as a list. Each is a copy of its own kind of ends, in the list's order, which CUDA leaves open.
//!
//! What the attributes say of the order in which sources are read is kept in any case: what cudaMemcpyAsync does with the same ends suffices for all of it.
//! Source: CUDA runtime API, cudaMemcpyBatchAsync.
#![allow(non_snake_case, clippy::too_many_arguments)] // C's names and signatures

use super::copies::memcpy_async;
use crate::stream;
use crate::types::{MemcpyAttributes, StreamHandle};
use session::call::{Error, Outcome};
use session::function::DefaultStream;
use session::work::order::Kind;
use std::ffi::c_void;

/// cudaMemcpySrcAccessOrderStream to cudaMemcpySrcAccessOrderAny.
const ACCESS_ORDERS: std::ops::RangeInclusive<i32> = 1..=3;

/// Whether every copy has attributes: each entry's copies begin at its index, the first at 0, in rising order.
fn check(attributes: &[MemcpyAttributes], firsts: &[usize], count: usize) -> Outcome {
    let rising = firsts.windows(2).all(|pair| pair[0] < pair[1]);
    let inside = firsts.first() == Some(&0) && firsts.iter().all(|first| *first < count);
    let known = attributes.iter().all(|attributes| ACCESS_ORDERS.contains(&attributes.srcAccessOrder));
    if rising && inside && known {
        Ok(())
    } else {
        Err(Error::INVALID_VALUE)
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
    let null = dsts.is_null() || srcs.is_null() || sizes.is_null() || attrs.is_null() || attrsIdxs.is_null();
    if null || count == 0 || numAttrs == 0 || numAttrs > count {
        return Err(Error::INVALID_VALUE);
    }
    // CUDA takes no batches in the legacy stream.
    if stream::resolve(default, stream)?.kind == Kind::Legacy {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: not null; the program says that there are so many.
    unsafe {
        let firsts = std::slice::from_raw_parts(attrsIdxs, numAttrs);
        check(std::slice::from_raw_parts(attrs, numAttrs), firsts, count)?;
        for index in 0..count {
            let (dst, src, size) = (dsts.add(index).read(), srcs.add(index).read(), sizes.add(index).read());
            if dst.is_null() || src.is_null() || size == 0 {
                return Err(Error::INVALID_VALUE);
            }
            memcpy_async(default, dst, src, size, crate::types::MEMCPY_DEFAULT, stream)?;
        }
    }
    Ok(())
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
    let copied = unsafe {
        let srcs = srcs.cast_const().cast();
        memcpy_batch_async(default, dsts, srcs, sizes, count, attrs, attrsIdxs, numAttrs, stream)
    };
    if copied.is_err() && !failIdx.is_null() {
        // SAFETY: not null; the program's promise. All ones: the error is not told of one copy.
        unsafe { failIdx.write(usize::MAX) };
    }
    copied
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
}
