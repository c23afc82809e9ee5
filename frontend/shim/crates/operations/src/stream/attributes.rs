//! Stream attributes: kept and answered in the guest. All of them but the priority are hints about performance.
#![allow(non_snake_case, non_upper_case_globals)] // C's names

use super::{give, resolve};
use crate::types::{
    LaunchAttributeID, LaunchAttributeValue, StreamHandle, LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW,
    LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN, LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, LAUNCH_ATTRIBUTE_PRIORITY,
    LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY,
};
use session::call::{Error, Outcome};
use session::function::DefaultStream;
use session::work::order::Stream;
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
fn initial(stream: &Stream, attribute: LaunchAttributeID) -> Option<Bytes> {
    match attribute {
        LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW | LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN => Some([0; 64]),
        LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY => Some(padded(&SYNC_POLICY_AUTO.to_ne_bytes())),
        LAUNCH_ATTRIBUTE_PRIORITY => Some(padded(&stream.priority.to_ne_bytes())),
        // The default domain is 0, the remote one 1.
        LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP => Some(padded(&[0, 1])),
        _ => None,
    }
}

pub unsafe fn get_attribute(
    default: DefaultStream,
    hStream: StreamHandle,
    attr: LaunchAttributeID,
    value_out: *mut LaunchAttributeValue,
) -> Outcome {
    let stream = resolve(default, hStream)?;
    let set = kept(&stream).get(&attr).copied();
    let pad = set.or_else(|| initial(&stream, attr)).ok_or(Error::INVALID_VALUE)?;
    // SAFETY: the program says that it is such a place.
    unsafe { give(value_out, LaunchAttributeValue { pad }) }
}

pub unsafe fn set_attribute(
    default: DefaultStream,
    hStream: StreamHandle,
    attr: LaunchAttributeID,
    value: *const LaunchAttributeValue,
) -> Outcome {
    let stream = resolve(default, hStream)?;
    // A stream's priority is fixed when it is created.
    if value.is_null() || attr == LAUNCH_ATTRIBUTE_PRIORITY || initial(&stream, attr).is_none() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: not null, and the program says that it is such a value; every member is plain bytes.
    kept(&stream).insert(attr, unsafe { (*value).pad });
    Ok(())
}

pub unsafe fn copy_attributes(default: DefaultStream, dst: StreamHandle, src: StreamHandle) -> Outcome {
    let (dst, src) = (resolve(default, dst)?, resolve(default, src)?);
    let copied = kept(&src).clone();
    *kept(&dst) = copied;
    Ok(())
}
