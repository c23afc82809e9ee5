//! Stream attributes: kept and answered in the guest. All of them but the priority are hints about performance.
#![allow(non_snake_case, non_upper_case_globals)] // C's names

use super::{give, resolve};
use crate::call::{CudaResult, DefaultStream};
use crate::work::order::Stream;
use abi::{
    cudaLaunchAttributeAccessPolicyWindow, cudaLaunchAttributeID, cudaLaunchAttributeMemSyncDomain,
    cudaLaunchAttributeMemSyncDomainMap, cudaLaunchAttributePriority, cudaLaunchAttributeSynchronizationPolicy,
    cudaLaunchAttributeValue, cudaStream_t, CudaError,
};
use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

type Bytes = [u8; 64];

/// cudaSyncPolicyAuto.
const SYNC_POLICY_AUTO: i32 = 1;

fn kept(stream: &Stream) -> MutexGuard<'_, BTreeMap<i32, Bytes>> {
    stream.attributes.lock().unwrap_or_else(PoisonError::into_inner)
}

fn padded(bytes: &[u8]) -> Bytes {
    let mut all = [0; 64];
    all[..bytes.len()].copy_from_slice(bytes);
    all
}

/// The value of an attribute that was not set; `None` for what streams do not have.
fn initial(stream: &Stream, attribute: cudaLaunchAttributeID) -> Option<Bytes> {
    match attribute {
        cudaLaunchAttributeAccessPolicyWindow | cudaLaunchAttributeMemSyncDomain => Some([0; 64]),
        cudaLaunchAttributeSynchronizationPolicy => Some(padded(&SYNC_POLICY_AUTO.to_ne_bytes())),
        cudaLaunchAttributePriority => Some(padded(&stream.priority.to_ne_bytes())),
        // The default domain is 0, the remote one 1.
        cudaLaunchAttributeMemSyncDomainMap => Some(padded(&[0, 1])),
        _ => None,
    }
}

pub unsafe fn cudaStreamGetAttribute(
    default: DefaultStream,
    hStream: cudaStream_t,
    attr: cudaLaunchAttributeID,
    value_out: *mut cudaLaunchAttributeValue,
) -> CudaResult {
    let stream = resolve(default, hStream)?;
    let set = kept(&stream).get(&attr).copied();
    let pad = set.or_else(|| initial(&stream, attr)).ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: the program says that it is such a place.
    unsafe { give(value_out, cudaLaunchAttributeValue { pad }) }
}

pub unsafe fn cudaStreamSetAttribute(
    default: DefaultStream,
    hStream: cudaStream_t,
    attr: cudaLaunchAttributeID,
    value: *const cudaLaunchAttributeValue,
) -> CudaResult {
    let stream = resolve(default, hStream)?;
    // A stream's priority is fixed when it is created.
    if value.is_null() || attr == cudaLaunchAttributePriority || initial(&stream, attr).is_none() {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: not null, and the program says that it is such a value; every member is plain bytes.
    kept(&stream).insert(attr, unsafe { (*value).pad });
    Ok(())
}

pub unsafe fn cudaStreamCopyAttributes(default: DefaultStream, dst: cudaStream_t, src: cudaStream_t) -> CudaResult {
    let (dst, src) = (resolve(default, dst)?, resolve(default, src)?);
    let copied = kept(&src).clone();
    *kept(&dst) = copied;
    Ok(())
}
