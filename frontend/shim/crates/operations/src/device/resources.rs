//! The parts of a device that a program may ask for: all multiprocessors as one part. Nothing splits them.
//!
//! Source: CUDA driver API, "Green Contexts".

use crate::types::{DevResource, DevResourceType, DEV_ATTR_MULTI_PROCESSOR_COUNT, DEV_RESOURCE_TYPE_SM};
use session::call::{give, Error, Outcome};
use session::process::{device_of, Device};

use std::ffi::{c_int, c_uint};

use super::attribute;

/// How many multiprocessors a part has at least, and a multiple of which number: NVIDIA's guideline for each
/// architecture.
fn granularity(device: &Device) -> (c_uint, c_uint) {
    match device.compute.0 {
        ..=6 => (1, 1),
        7 => (2, 2),
        8 => (4, 2),
        9.. => (8, 8),
    }
}

pub unsafe fn get_resource(device: c_int, resource: *mut DevResource, type_: DevResourceType) -> Outcome {
    if resource.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let device = device_of(device)?;
    if type_ != DEV_RESOURCE_TYPE_SM {
        // Queues of work are not described: no device here has any.
        return Err(Error::INVALID_RESOURCE_TYPE);
    }
    let all = attribute(device, DEV_ATTR_MULTI_PROCESSOR_COUNT).unwrap_or(1).cast_unsigned();
    let (least, multiple) = granularity(device);
    let described = DevResource {
        type_,
        padding: [0; 92],
        smCount: all,
        minSmPartitionSize: least.min(all),
        smCoscheduledAlignment: multiple.min(all),
        flags: 0,
        localityDomainId: 0,
        rest: [0; 20],
        nextResource: std::ptr::null_mut(),
    };
    // SAFETY: not null, the caller's place for the structure.
    unsafe { give(resource, described) }
}
