//! Access between devices. A session's devices do not see each other's memory; copies between them go through the API.

use std::ffi::{c_int, c_uint};

use crate::types::{DeviceP2PAttr, DEV_PEER_ATTR_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED, DEV_PEER_ATTR_PERFORMANCE_RANK};
use session::call::{Error, Outcome};
use session::process;

use super::{device_of, give, no_capabilities};

/// Two different devices that are there.
fn pair(one: c_int, other: c_int) -> Outcome {
    device_of(one)?;
    device_of(other)?;
    if one == other {
        return Err(Error::INVALID_DEVICE);
    }
    Ok(())
}

pub unsafe fn can_access_peer(canAccessPeer: *mut c_int, device: c_int, peerDevice: c_int) -> Outcome {
    device_of(device)?;
    device_of(peerDevice)?;
    // SAFETY: the caller's place for the answer.
    unsafe { give(canAccessPeer, 0) }
}

pub unsafe fn enable_peer_access(peerDevice: c_int, flags: c_uint) -> Outcome {
    if flags != 0 {
        return Err(Error::INVALID_VALUE);
    }
    pair(process::current_device(), peerDevice)?;
    Err(Error::PEER_ACCESS_UNSUPPORTED)
}

pub unsafe fn disable_peer_access(peerDevice: c_int) -> Outcome {
    pair(process::current_device(), peerDevice)?;
    Err(Error::PEER_ACCESS_NOT_ENABLED)
}

pub unsafe fn get_peer_attribute(
    value: *mut c_int,
    attr: DeviceP2PAttr,
    srcDevice: c_int,
    dstDevice: c_int,
) -> Outcome {
    if !(DEV_PEER_ATTR_PERFORMANCE_RANK..=DEV_PEER_ATTR_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED).contains(&attr) {
        return Err(Error::INVALID_VALUE);
    }
    pair(srcDevice, dstDevice)?;
    // SAFETY: the caller's place for the answer.
    unsafe { give(value, 0) }
}

pub unsafe fn get_peer_atomic_capabilities(
    capabilities: *mut c_uint,
    operations: *const crate::types::AtomicOperation,
    count: c_uint,
    srcDevice: c_int,
    dstDevice: c_int,
) -> Outcome {
    pair(srcDevice, dstDevice)?;
    // SAFETY: the program says that the array has `count` elements.
    unsafe { no_capabilities(capabilities, operations, count) }
}
