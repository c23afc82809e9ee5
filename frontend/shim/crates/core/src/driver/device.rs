//! Devices as the driver API tells of them, from the handshake.
//!
//! Source: CUDA driver API, "Device Management".

use std::ffi::{c_char, c_int, c_uint};

use abi::driver::{
    CUarray_format, CUdevice, CUdevice_attribute, CUdevprop, CUexecAffinityType, CUuuid, CU_EXEC_AFFINITY_TYPE_SM_COUNT,
};
use abi::{cudaDeviceAttr, CudaError};

use super::{formats, give};
use crate::call::CudaResult;
use crate::device::attribute;
use crate::runtime;

pub unsafe fn cuDeviceGet(device: *mut CUdevice, ordinal: c_int) -> CudaResult {
    runtime::check_device(ordinal)?;
    // SAFETY: the caller's place for the device.
    unsafe { give(device, ordinal) }
}

/// As much of the name as there is room for, with its NUL.
pub unsafe fn cuDeviceGetName(name: *mut c_char, len: c_int, dev: CUdevice) -> CudaResult {
    let description = &runtime::device_of(dev)?.description;
    let room = usize::try_from(len).ok().filter(|room| *room > 0 && !name.is_null()).ok_or(CudaError::INVALID_VALUE)?;
    let text = description.name.as_bytes();
    let length = text.len().min(room - 1);
    // SAFETY: the program says that there are `len` bytes; `length` and a NUL are no more.
    unsafe {
        text.as_ptr().copy_to_nonoverlapping(name.cast(), length);
        name.add(length).write(0);
    }
    Ok(())
}

/// The last attribute of cuda.h of CUDA 13.5. An embedded runtime asks for all of its time, and fails when one is no attribute.
const LAST_ATTRIBUTE: CUdevice_attribute = 161;

/// An attribute that only the driver API has, and the host did not tell, reads 0: not supported.
pub unsafe fn cuDeviceGetAttribute(pi: *mut c_int, attrib: CUdevice_attribute, dev: CUdevice) -> CudaResult {
    let told = attribute(runtime::device_of(dev)?, attrib);
    let value = told.or((1..=LAST_ATTRIBUTE).contains(&attrib).then_some(0)).ok_or(CudaError::INVALID_VALUE)?;
    // SAFETY: the caller's place for the value.
    unsafe { give(pi, value) }
}

pub unsafe fn cuDeviceGetUuid(uuid: *mut CUuuid, dev: CUdevice) -> CudaResult {
    if uuid.is_null() {
        return Err(CudaError::INVALID_VALUE);
    }
    let known = &runtime::device_of(dev)?.description.uuid;
    let mut bytes = [0_u8; 16];
    let length = known.len().min(bytes.len());
    bytes[..length].copy_from_slice(&known[..length]);
    // SAFETY: not null, and the program says that there are 16 bytes.
    unsafe { uuid.cast::<[u8; 16]>().write(bytes) };
    Ok(())
}

pub unsafe fn cuDeviceGetUuid_v2(uuid: *mut CUuuid, dev: CUdevice) -> CudaResult {
    // SAFETY: the caller's promise.
    unsafe { cuDeviceGetUuid(uuid, dev) }
}

pub unsafe fn cuDeviceTotalMem_v2(bytes: *mut usize, dev: CUdevice) -> CudaResult {
    let total = runtime::device_of(dev)?.description.total_memory;
    // SAFETY: the caller's place for the size.
    unsafe { give(bytes, usize::try_from(total).unwrap_or(usize::MAX)) }
}

pub unsafe fn cuDeviceComputeCapability(major: *mut c_int, minor: *mut c_int, dev: CUdevice) -> CudaResult {
    let (known_major, known_minor) = runtime::device_of(dev)?.compute;
    // SAFETY: the caller's places for the numbers.
    unsafe {
        give(major, known_major.cast_signed())?;
        give(minor, known_minor.cast_signed())
    }
}

pub unsafe fn cuDeviceGetExecAffinitySupport(pi: *mut c_int, type_: CUexecAffinityType, dev: CUdevice) -> CudaResult {
    runtime::check_device(dev)?;
    if type_ != CU_EXEC_AFFINITY_TYPE_SM_COUNT {
        return Err(CudaError::INVALID_VALUE);
    }
    // SAFETY: the caller's place for the answer.
    unsafe { give(pi, 0) }
}

pub unsafe fn cuDeviceGetProperties(prop: *mut CUdevprop, dev: CUdevice) -> CudaResult {
    let device = runtime::device_of(dev)?;
    let value = |which: cudaDeviceAttr| attribute(device, which).unwrap_or(0);
    let three = |first: cudaDeviceAttr| [value(first), value(first + 1), value(first + 2)];
    let properties = CUdevprop {
        maxThreadsPerBlock: value(abi::cudaDevAttrMaxThreadsPerBlock),
        maxThreadsDim: three(abi::cudaDevAttrMaxBlockDimX),
        maxGridSize: three(abi::cudaDevAttrMaxGridDimX),
        sharedMemPerBlock: value(abi::cudaDevAttrMaxSharedMemoryPerBlock),
        totalConstantMemory: value(abi::cudaDevAttrTotalConstantMemory),
        SIMDWidth: value(abi::cudaDevAttrWarpSize),
        memPitch: value(abi::cudaDevAttrMaxPitch),
        regsPerBlock: value(abi::cudaDevAttrMaxRegistersPerBlock),
        clockRate: value(abi::cudaDevAttrClockRate),
        textureAlign: value(abi::cudaDevAttrTextureAlignment),
    };
    // SAFETY: the caller's place for the structure.
    unsafe { give(prop, properties) }
}

pub unsafe fn cuDeviceGetTexture1DLinearMaxWidth(
    maxWidthInElements: *mut usize,
    format: CUarray_format,
    numChannels: c_uint,
    dev: CUdevice,
) -> CudaResult {
    let description = formats::description(format, numChannels)?;
    // SAFETY: the caller's place for the width.
    unsafe { crate::texture::cudaDeviceGetTexture1DLinearMaxWidth(maxWidthInElements, &description, dev) }
}
