//! Contexts: the primary one, created ones, each thread's stack of them, and what is asked about one.
//!
//! Source: CUDA driver API, "Primary Context Management", "Context Management".

use std::ffi::{c_int, c_uint, c_ulonglong};
use std::slice;

use abi::driver::{
    CUcontext, CUctxCreateParams, CUdevice, CUexecAffinityParam, CUexecAffinityType, CUlimit, CU_CTX_FLAGS_MASK,
    CU_CTX_SCHED_MASK, CU_EXEC_AFFINITY_TYPE_SM_COUNT, CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED, CU_LIMIT_SHMEM_SIZE,
};
use operations::stream::held;
use operations::{device, ownership};
use session::call::{Error, Outcome};
use session::contexts::act_for;
use session::{log, process, work};

use crate::contexts::{self, Context};
use crate::entry::{self, INVALID_CONTEXT};
use crate::{current, give, give_if_wanted};

/// The version of the API that a context is of: cuCtxGetApiVersion's answer since CUDA 3.2.
const API_VERSION: c_uint = 3020;
/// The tape's version that has contexts.
const SINCE: u32 = 5;
/// More kinds of affinity than there are.
const MOST_AFFINITIES: c_int = 16;

/// # Errors
/// cudaErrorInvalidValue for flags that no version defines, and for two ways of scheduling at once.
fn check_flags(flags: c_uint) -> Outcome {
    let schedules = (flags & CU_CTX_SCHED_MASK).count_ones();
    if flags & !CU_CTX_FLAGS_MASK != 0 || schedules > 1 {
        return Err(Error::INVALID_VALUE);
    }
    Ok(())
}

/// The context that the handle names; null stands for the current one.
pub(super) fn named(handle: CUcontext) -> Outcome<&'static Context> {
    if handle.is_null() {
        current::require()
    } else {
        contexts::living(handle)
    }
}

pub unsafe fn cuDevicePrimaryCtxRetain(pctx: *mut CUcontext, dev: CUdevice) -> Outcome {
    if pctx.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    process::check_device(dev)?;
    // SAFETY: the caller's place for the handle.
    unsafe { give(pctx, contexts::retain_primary(dev)?.handle()) }
}

pub unsafe fn cuDevicePrimaryCtxRelease(dev: CUdevice) -> Outcome {
    process::check_device(dev)?;
    if contexts::release_primary(dev)? {
        reset(dev)?;
    }
    Ok(())
}

pub unsafe fn cuDevicePrimaryCtxRelease_v2(dev: CUdevice) -> Outcome {
    // SAFETY: no pointer takes part.
    unsafe { cuDevicePrimaryCtxRelease(dev) }
}

pub unsafe fn cuDevicePrimaryCtxReset(dev: CUdevice) -> Outcome {
    process::check_device(dev)?;
    reset(dev)
}

pub unsafe fn cuDevicePrimaryCtxReset_v2(dev: CUdevice) -> Outcome {
    // SAFETY: no pointer takes part.
    unsafe { cuDevicePrimaryCtxReset(dev) }
}

/// Frees what the primary context holds; it is inactive until its next use.
fn reset(dev: CUdevice) -> Outcome {
    device::reset(!contexts::any_created())?;
    contexts::reset_primary(dev)
}

pub unsafe fn cuDevicePrimaryCtxSetFlags(dev: CUdevice, flags: c_uint) -> Outcome {
    process::check_device(dev)?;
    check_flags(flags)?;
    contexts::set_primary_flags(dev, flags)
}

pub unsafe fn cuDevicePrimaryCtxSetFlags_v2(dev: CUdevice, flags: c_uint) -> Outcome {
    // SAFETY: no pointer takes part.
    unsafe { cuDevicePrimaryCtxSetFlags(dev, flags) }
}

pub unsafe fn cuDevicePrimaryCtxGetState(dev: CUdevice, flags: *mut c_uint, active: *mut c_int) -> Outcome {
    process::check_device(dev)?;
    let (known, is_active) = contexts::primary_state(dev)?;
    // SAFETY: the caller's places; NVIDIA's driver requires both.
    unsafe {
        give(flags, known)?;
        give(active, is_active.into())
    }
}

/// Creates a context and makes it the calling thread's current one.
unsafe fn create(pctx: *mut CUcontext, flags: c_uint, dev: CUdevice) -> Outcome {
    if pctx.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    check_flags(flags)?;
    process::check_device(dev)?;
    if process::session()?.welcome().tape_version < SINCE {
        log::error(format_args!(
            "the host is too old for contexts beside the primary one: cuCtxCreate returns CUDA_ERROR_NOT_SUPPORTED"
        ));
        return Err(Error::NOT_SUPPORTED);
    }
    let context = contexts::create(dev, flags)?;
    current::push(context)?;
    // SAFETY: not null, the caller's place for the handle.
    unsafe { give(pctx, context.handle()) }
}

/// An affinity asks for some of the multiprocessors; the device gives all of them.
unsafe fn check_affinities(list: *const CUexecAffinityParam, count: c_int) -> Outcome {
    if count == 0 {
        return Ok(());
    }
    if list.is_null() || !(0..=MOST_AFFINITIES).contains(&count) {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program says that there are as many.
    let given = unsafe { slice::from_raw_parts(list, count as usize) };
    if given.iter().any(|affinity| affinity.type_ != CU_EXEC_AFFINITY_TYPE_SM_COUNT) {
        return Err(Error::INVALID_VALUE);
    }
    // CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY: it takes an MPS server.
    Err(Error(224))
}

pub unsafe fn cuCtxCreate_v2(pctx: *mut CUcontext, flags: c_uint, dev: CUdevice) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { create(pctx, flags, dev) }
}

pub unsafe fn cuCtxCreate_v3(
    pctx: *mut CUcontext,
    paramsArray: *mut CUexecAffinityParam,
    numParams: c_int,
    flags: c_uint,
    dev: CUdevice,
) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe {
        check_affinities(paramsArray, numParams)?;
        create(pctx, flags, dev)
    }
}

pub unsafe fn cuCtxCreate_v4(
    pctx: *mut CUcontext,
    ctxCreateParams: *mut CUctxCreateParams,
    flags: c_uint,
    dev: CUdevice,
) -> Outcome {
    // SAFETY: the caller's promise: null or such a structure.
    unsafe {
        if let Some(parameters) = ctxCreateParams.as_ref() {
            if !parameters.cigParams.is_null() {
                return Err(Error::NOT_SUPPORTED); // contexts for graphics
            }
            check_affinities(parameters.execAffinityParams, parameters.numExecAffinityParams)?;
        }
        create(pctx, flags, dev)
    }
}

/// The limits of contexts that share the device with a graphics API, which none does here, are 0: cuBLAS asks for them
/// and works only with an answer. The runtime API does not have them, and no call sets them.
pub unsafe fn cuCtxGetLimit(pvalue: *mut usize, limit: CUlimit) -> Outcome {
    // SAFETY: the caller's place for the limit.
    unsafe {
        if (CU_LIMIT_SHMEM_SIZE..=CU_LIMIT_CIG_SHMEM_FALLBACK_ENABLED).contains(&limit) {
            return give(pvalue, 0);
        }
        device::get_limit(pvalue, limit)
    }
}

pub unsafe fn cuCtxDestroy_v2(ctx: CUcontext) -> Outcome {
    let context = contexts::find(ctx).filter(|context| !context.primary).ok_or(INVALID_CONTEXT)?;
    if !contexts::end(context) {
        return Err(INVALID_CONTEXT);
    }
    if current::get().is_some_and(|top| std::ptr::eq(top, context)) {
        current::pop()?;
    }
    ownership::end(context.tape())
}

pub unsafe fn cuCtxAttach(pctx: *mut CUcontext, flags: c_uint) -> Outcome {
    if flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's place for the handle.
    unsafe { give(pctx, current::require()?.handle()) }
}

/// What cuCtxAttach gave is given back; contexts end by cuCtxDestroy alone.
pub unsafe fn cuCtxDetach(ctx: CUcontext) -> Outcome {
    contexts::living(ctx).map(drop)
}

pub unsafe fn cuCtxPushCurrent_v2(ctx: CUcontext) -> Outcome {
    current::push(contexts::living(ctx)?)
}

pub unsafe fn cuCtxPopCurrent_v2(pctx: *mut CUcontext) -> Outcome {
    let popped = current::pop()?;
    // SAFETY: the caller's place for the handle, or null.
    unsafe { give_if_wanted(pctx, popped.handle()) };
    Ok(())
}

pub unsafe fn cuCtxSetCurrent(ctx: CUcontext) -> Outcome {
    current::set(if ctx.is_null() { None } else { Some(contexts::living(ctx)?) });
    Ok(())
}

pub unsafe fn cuCtxGetCurrent(pctx: *mut CUcontext) -> Outcome {
    // SAFETY: the caller's place for the handle.
    unsafe { give(pctx, current::get().map_or(std::ptr::null_mut(), Context::handle)) }
}

pub unsafe fn cuCtxGetDevice(device: *mut CUdevice) -> Outcome {
    // SAFETY: the caller's place for the number.
    unsafe { give(device, current::require()?.device) }
}

pub unsafe fn cuCtxGetDevice_v2(device: *mut CUdevice, ctx: CUcontext) -> Outcome {
    // SAFETY: the caller's place for the number.
    unsafe { give(device, named(ctx)?.device) }
}

pub unsafe fn cuCtxGetApiVersion(ctx: CUcontext, version: *mut c_uint) -> Outcome {
    named(ctx)?;
    // SAFETY: the caller's place for the version.
    unsafe { give(version, API_VERSION) }
}

pub unsafe fn cuCtxGetId(ctx: CUcontext, ctxId: *mut c_ulonglong) -> Outcome {
    // cuda.h names CUDA_ERROR_CONTEXT_IS_DESTROYED for this function alone.
    let context = named(ctx).map_err(|error| contexts::find(ctx).map_or(error, |_| entry::CONTEXT_IS_DESTROYED))?;
    // SAFETY: the caller's place for the number.
    unsafe { give(ctxId, context.id()) }
}

pub unsafe fn cuCtxGetFlags(flags: *mut c_uint) -> Outcome {
    // SAFETY: the caller's place for the flags.
    unsafe { give(flags, current::require()?.flags()) }
}

pub unsafe fn cuCtxSetFlags(flags: c_uint) -> Outcome {
    check_flags(flags)?;
    current::require()?.set_flags(flags)
}

pub unsafe fn cuCtxGetExecAffinity(pExecAffinity: *mut CUexecAffinityParam, type_: CUexecAffinityType) -> Outcome {
    if type_ != CU_EXEC_AFFINITY_TYPE_SM_COUNT {
        return Err(Error(224));
    }
    let all = device::attribute(process::device()?, operations::types::DEV_ATTR_MULTI_PROCESSOR_COUNT).unwrap_or(1);
    // SAFETY: the caller's place for the structure.
    unsafe { give(pExecAffinity, CUexecAffinityParam { type_, param: all.cast_unsigned() }) }
}

pub unsafe fn cuCtxSynchronize_v2(ctx: CUcontext) -> Outcome {
    let _acting = act_for(named(ctx)?.tape());
    held::complete_all()?;
    work::synchronize_device()
}

/// There is one device, so no context is another one's peer.
fn check_peer(peer: CUcontext) -> Outcome {
    contexts::living(peer).map(drop)
}

pub unsafe fn cuCtxEnablePeerAccess(peerContext: CUcontext, Flags: c_uint) -> Outcome {
    if Flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    check_peer(peerContext)?;
    Err(Error::PEER_ACCESS_UNSUPPORTED)
}

pub unsafe fn cuCtxDisablePeerAccess(peerContext: CUcontext) -> Outcome {
    check_peer(peerContext)?;
    Err(Error::PEER_ACCESS_NOT_ENABLED)
}
