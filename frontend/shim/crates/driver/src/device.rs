//! Devices as the driver API tells of them, from the handshake.
//!
//! Source: CUDA driver API, "Device Management".

use std::ffi::{c_char, c_int, c_uint};

use abi::driver::{
    CUarray_format, CUdevice, CUdevice_attribute, CUdevprop, CUexecAffinityType, CUuuid, CU_EXEC_AFFINITY_TYPE_SM_COUNT,
};
use operations::device::{attribute, capability};
use operations::types::DeviceAttr;
use session::call::{Error, Outcome};
use session::process;

use super::{formats, give};

pub unsafe fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> Outcome {
    process::check_device(ordinal)?;
    // SAFETY: the caller's place for the device.
    unsafe { give(device, ordinal) }
}

/// As much of the name as there is room for, with its NUL.
pub unsafe fn cuDeviceGetName(name: *mut c_char, len: c_int, dev: CUdevice) -> Outcome {
    let description = &process::device_of(dev)?.description;
    let room = usize::try_from(len).ok().filter(|room| *room > 0 && !name.is_null()).ok_or(Error::INVALID_VALUE)?;
    let text = description.name.as_bytes();
    let length = text.len().min(room - 1);
    // SAFETY: the program says that there are `len` bytes; `length` and a NUL are no more.
    unsafe {
        text.as_ptr().copy_to_nonoverlapping(name.cast(), length);
        name.add(length).write(0);
    }
    Ok(())
}

/// The last attribute of cuda.h of CUDA 13.5. An embedded runtime asks for all of its time, and fails when one is no
/// attribute.
const LAST_ATTRIBUTE: CUdevice_attribute = 161;

/// An attribute that only the driver API has, and the host did not tell, reads 0: not supported.
pub unsafe fn cuDeviceGetAttribute(pi: *mut c_int, attrib: CUdevice_attribute, dev: CUdevice) -> Outcome {
    let reported = attribute(process::device_of(dev)?, attrib);
    let value = reported.or((1..=LAST_ATTRIBUTE).contains(&attrib).then_some(0)).ok_or(Error::INVALID_VALUE)?;
    // SAFETY: the caller's place for the value.
    unsafe { give(pi, value) }
}

pub unsafe fn cuDeviceGetUuid(uuid: *mut CUuuid, dev: CUdevice) -> Outcome {
    if uuid.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    let known = &process::device_of(dev)?.description.uuid;
    let mut bytes = [0_u8; 16];
    let length = known.len().min(bytes.len());
    bytes[..length].copy_from_slice(&known[..length]);
    // SAFETY: not null, and the program says that there are 16 bytes.
    unsafe { uuid.cast::<[u8; 16]>().write(bytes) };
    Ok(())
}

pub unsafe fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, dev: CUdevice) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { cuDeviceGetUuid(uuid, dev) }
}

pub unsafe fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice) -> Outcome {
    let total = process::device_of(dev)?.description.total_memory;
    // SAFETY: the caller's place for the size.
    unsafe { give(bytes, usize::try_from(total).unwrap_or(usize::MAX)) }
}

pub unsafe fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, dev: CUdevice) -> Outcome {
    let (known_major, known_minor) = capability(process::device_of(dev)?);
    // SAFETY: the caller's places for the numbers.
    unsafe {
        give(major, known_major)?;
        give(minor, known_minor)
    }
}

pub unsafe fn cuDeviceGetExecAffinitySupport(pi: *mut c_int, type_: CUexecAffinityType, dev: CUdevice) -> Outcome {
    process::check_device(dev)?;
    if type_ != CU_EXEC_AFFINITY_TYPE_SM_COUNT {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the caller's place for the answer.
    unsafe { give(pi, 0) }
}

pub unsafe fn cuDeviceGetProperties(prop: *mut CUdevprop, dev: CUdevice) -> Outcome {
    let device = process::device_of(dev)?;
    let value = |which: DeviceAttr| attribute(device, which).unwrap_or(0);
    let three = |first: DeviceAttr| [value(first), value(first + 1), value(first + 2)];
    let properties = CUdevprop {
        maxThreadsPerBlock: value(operations::types::DEV_ATTR_MAX_THREADS_PER_BLOCK),
        maxThreadsDim: three(operations::types::DEV_ATTR_MAX_BLOCK_DIM_X),
        maxGridSize: three(operations::types::DEV_ATTR_MAX_GRID_DIM_X),
        sharedMemPerBlock: value(operations::types::DEV_ATTR_MAX_SHARED_MEMORY_PER_BLOCK),
        totalConstantMemory: value(operations::types::DEV_ATTR_TOTAL_CONSTANT_MEMORY),
        SIMDWidth: value(operations::types::DEV_ATTR_WARP_SIZE),
        memPitch: value(operations::types::DEV_ATTR_MAX_PITCH),
        regsPerBlock: value(operations::types::DEV_ATTR_MAX_REGISTERS_PER_BLOCK),
        clockRate: value(operations::types::DEV_ATTR_CLOCK_RATE),
        textureAlign: value(operations::types::DEV_ATTR_TEXTURE_ALIGNMENT),
    };
    // SAFETY: the caller's place for the structure.
    unsafe { give(prop, properties) }
}

pub unsafe fn cuDeviceGetTexture1DLinearMaxWidth(
    maxWidthInElements: *mut usize,
    format: CUarray_format,
    numChannels: c_uint,
    dev: CUdevice,
) -> Outcome {
    let description = formats::description(format, numChannels)?;
    // SAFETY: the caller's place for the width.
    unsafe { operations::texture::device_get_texture_1d_linear_max_width(maxWidthInElements, &description, dev) }
}
