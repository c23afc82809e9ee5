//! Streams as only the driver API has them: callbacks with its result codes, contexts of streams, memory operations.
//!
//! Source: CUDA driver API, "Stream Management", "Stream Memory Operations".

use std::ffi::{c_uint, c_void};

use abi::driver::{
    CUcontext, CUdeviceptr, CUgreenCtx, CUresult, CUstream, CUstreamBatchMemOpParams, CUstreamCallback,
    CU_STREAM_MEM_OP_BARRIER, CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, CU_STREAM_MEM_OP_WAIT_VALUE_32,
    CU_STREAM_MEM_OP_WAIT_VALUE_64, CU_STREAM_MEM_OP_WRITE_VALUE_32, CU_STREAM_MEM_OP_WRITE_VALUE_64,
    CU_STREAM_WAIT_VALUE_FLUSH, CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER,
};
use operations::stream::memory_operations::{submit, Compare, Operation, Word};
use operations::stream::{self, begin_capture, resolve};
use session::call::{Error, Outcome};
use session::function::DefaultStream;

use super::entry::{result_of, INVALID_CONTEXT};
use super::{contexts, current, give, give_if_wanted};

pub unsafe fn cuStreamAddCallback(
    default: DefaultStream,
    hStream: CUstream,
    callback: CUstreamCallback,
    userData: *mut c_void,
    flags: c_uint,
) -> Outcome {
    let Some(callback) = callback.filter(|_| flags == 0) else {
        return Err(Error::INVALID_VALUE);
    };
    stream::then(default, hStream, move |waited| {
        let status = waited.map_or_else(result_of, |()| CUresult::SUCCESS);
        // SAFETY: the program says that it is such a function.
        unsafe { callback(hStream, status, userData) };
    })
}

pub unsafe fn cuStreamBeginCapture(default: DefaultStream, hStream: CUstream) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { begin_capture(default, hStream, operations::types::STREAM_CAPTURE_MODE_GLOBAL) }
}

pub unsafe fn cuStreamGetCtx(default: DefaultStream, hStream: CUstream, pctx: *mut CUcontext) -> Outcome {
    let context = match resolve(default, hStream)?.context {
        Some(number) => contexts::of_tape(number).ok_or(INVALID_CONTEXT)?,
        None => current::require()?,
    };
    // SAFETY: the caller's place for the handle.
    unsafe { give(pctx, context.handle()) }
}

pub unsafe fn cuStreamGetCtx_v2(
    default: DefaultStream,
    hStream: CUstream,
    pCtx: *mut CUcontext,
    pGreenCtx: *mut CUgreenCtx,
) -> Outcome {
    // SAFETY: the caller's places for the handles.
    unsafe {
        cuStreamGetCtx(default, hStream, pCtx)?;
        give_if_wanted(pGreenCtx, std::ptr::null_mut());
    }
    Ok(())
}

/// No stream is of a green context.
pub unsafe fn cuStreamGetGreenCtx(hStream: CUstream, phCtx: *mut CUgreenCtx) -> Outcome {
    resolve(DefaultStream::Legacy, hStream)?;
    // SAFETY: the caller's place for the handle.
    unsafe { give(phCtx, std::ptr::null_mut()) }
}

/// A wait for a word of `size` bytes. That remote writes are flushed first is no question here.
fn wait(address: CUdeviceptr, size: usize, value: u64, flags: c_uint) -> Outcome<Operation> {
    let compare = match flags & !CU_STREAM_WAIT_VALUE_FLUSH {
        0 => Compare::GreaterOrEqual,
        1 => Compare::Equal,
        2 => Compare::And,
        3 => Compare::Nor,
        _ => return Err(Error::INVALID_VALUE),
    };
    Ok(Operation::Wait(Word { address, size }, value, compare))
}

fn write(address: CUdeviceptr, size: usize, value: u64, flags: c_uint) -> Outcome<Operation> {
    if flags & !CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER != 0 {
        return Err(Error::INVALID_VALUE);
    }
    Ok(Operation::Write(Word { address, size }, value))
}

fn operation(given: &CUstreamBatchMemOpParams) -> Outcome<Operation> {
    let CUstreamBatchMemOpParams { operation, flags, address, value, value_flags, .. } = *given;
    // The value of 32 bits shares its place with the one of 64.
    let low = value & u64::from(u32::MAX);
    match operation {
        CU_STREAM_MEM_OP_WAIT_VALUE_32 => wait(address, 4, low, value_flags),
        CU_STREAM_MEM_OP_WAIT_VALUE_64 => wait(address, 8, value, value_flags),
        CU_STREAM_MEM_OP_WRITE_VALUE_32 => write(address, 4, low, value_flags),
        CU_STREAM_MEM_OP_WRITE_VALUE_64 => write(address, 8, value, value_flags),
        CU_STREAM_MEM_OP_BARRIER if flags <= 1 => Ok(Operation::Barrier),
        CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES if flags == 0 => Ok(Operation::Flush),
        _ => Err(Error::INVALID_VALUE),
    }
}

/// The same in CUDA's structure, without what has no effect here: flushes, and what a write may pass.
pub(super) fn described(operation: &Operation) -> CUstreamBatchMemOpParams {
    let of = |operation, word: Word, value, value_flags| CUstreamBatchMemOpParams {
        operation,
        address: word.address,
        value,
        value_flags,
        ..Default::default()
    };
    let alone = |operation| CUstreamBatchMemOpParams { operation, ..Default::default() };
    match *operation {
        Operation::Wait(word, value, compare) => {
            let flags = match compare {
                Compare::GreaterOrEqual => 0,
                Compare::Equal => 1,
                Compare::And => 2,
                Compare::Nor => 3,
            };
            let small = word.size == 4;
            of(if small { CU_STREAM_MEM_OP_WAIT_VALUE_32 } else { CU_STREAM_MEM_OP_WAIT_VALUE_64 }, word, value, flags)
        }
        Operation::Write(word, value) => {
            let small = word.size == 4;
            of(if small { CU_STREAM_MEM_OP_WRITE_VALUE_32 } else { CU_STREAM_MEM_OP_WRITE_VALUE_64 }, word, value, 0)
        }
        Operation::Barrier => alone(CU_STREAM_MEM_OP_BARRIER),
        Operation::Flush => alone(CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES),
    }
}

/// CUDA takes at most so many at once.
const MOST_OPERATIONS: c_uint = 256;

/// The operations that a program lists.
///
/// # Safety
/// `list` is null or has `count` of them.
pub(super) unsafe fn operations(
    list: *const CUstreamBatchMemOpParams,
    count: c_uint,
    flags: c_uint,
) -> Outcome<Vec<Operation>> {
    if flags != 0 || count > MOST_OPERATIONS || (count != 0 && list.is_null()) {
        return Err(Error::INVALID_VALUE);
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    // SAFETY: the caller's promise; not null.
    unsafe { std::slice::from_raw_parts(list, count as usize) }.iter().map(operation).collect()
}

pub unsafe fn cuStreamBatchMemOp(
    default: DefaultStream,
    stream: CUstream,
    count: c_uint,
    paramArray: *mut CUstreamBatchMemOpParams,
    flags: c_uint,
) -> Outcome {
    // SAFETY: the program's promise.
    let operations = unsafe { operations(paramArray, count, flags) }?;
    submit(&resolve(default, stream)?, operations)
}

pub unsafe fn cuStreamBatchMemOp_v2(
    default: DefaultStream,
    stream: CUstream,
    count: c_uint,
    paramArray: *mut CUstreamBatchMemOpParams,
    flags: c_uint,
) -> Outcome {
    // SAFETY: the program's promise.
    unsafe { cuStreamBatchMemOp(default, stream, count, paramArray, flags) }
}

macro_rules! value_functions {
    ($($name:ident: $value:ident $make:ident $size:literal,)*) => {$(
        pub unsafe fn $name(
            default: DefaultStream,
            stream: CUstream,
            addr: CUdeviceptr,
            value: $value,
            flags: c_uint,
        ) -> Outcome {
            let stream = resolve(default, stream)?;
            submit(&stream, vec![$make(addr, $size, value.into(), flags)?])
        }
    )*};
}

value_functions! {
    cuStreamWaitValue32: u32 wait 4,
    cuStreamWaitValue32_v2: u32 wait 4,
    cuStreamWaitValue64: u64 wait 8,
    cuStreamWaitValue64_v2: u64 wait 8,
    cuStreamWriteValue32: u32 write 4,
    cuStreamWriteValue32_v2: u32 write 4,
    cuStreamWriteValue64: u64 write 8,
    cuStreamWriteValue64_v2: u64 write 8,
}
