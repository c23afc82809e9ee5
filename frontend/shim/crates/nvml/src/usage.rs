//! What the host measures: memory, utilization, and the sessions, which are NVML's processes.
//!
//! A host that gives each session a process of its own does not know memory and utilization. With several devices it
//! does not know which of them a session uses.

use crate::answer::{
    enter, give, give_text, Code, INSUFFICIENT_SIZE, INVALID_ARGUMENT, NOT_FOUND, NOT_SUPPORTED, VERSION_MISMATCH,
};
use crate::state::{ask, device, devices, utilization, Handle};
use std::ffi::{c_char, c_uint, c_ulonglong};

/// nvmlMemory_t.
#[repr(C)]
pub struct Memory {
    total: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// nvmlMemory_v2_t.
#[repr(C)]
pub struct MemoryV2 {
    version: c_uint,
    total: c_ulonglong,
    reserved: c_ulonglong,
    free: c_ulonglong,
    used: c_ulonglong,
}

/// nvmlUtilization_t, in percent.
#[repr(C)]
pub struct Utilization {
    gpu: c_uint,
    memory: c_uint,
}

/// nvmlProcessInfo_t of versions 2 and 3.
#[repr(C)]
pub struct ProcessInfo {
    pid: c_uint,
    memory: c_ulonglong,
    gpu_instance: c_uint,
    compute_instance: c_uint,
}

const MEMORY_V2: c_uint = size_of::<MemoryV2>() as c_uint | 2 << 24;
const NOT_AVAILABLE: c_ulonglong = c_ulonglong::MAX;
const NO_INSTANCE: c_uint = c_uint::MAX;

/// Total, free and used bytes.
fn memory(handle: Handle) -> Result<(u64, u64, u64), Code> {
    let total = device(handle)?.1.total_memory;
    let used = ask()?.memory_used.ok_or(NOT_SUPPORTED)?.min(total);
    Ok((total, total - used, used))
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo(handle: Handle, place: *mut Memory) -> Code {
    enter(|| {
        let (total, free, used) = memory(handle)?;
        // SAFETY: the caller's place.
        unsafe { give(place, Memory { total, free, used }) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetMemoryInfo_v2(handle: Handle, place: *mut MemoryV2) -> Code {
    enter(|| {
        if place.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        // SAFETY: not null, and the caller's place; the version comes first.
        if unsafe { place.cast::<c_uint>().read() } != MEMORY_V2 {
            return Err(VERSION_MISMATCH);
        }
        let (total, free, used) = memory(handle)?;
        // SAFETY: as above.
        unsafe { give(place, MemoryV2 { version: MEMORY_V2, total, reserved: 0, free, used }) }
    })
}

/// The time in which kernels and copies ran. The host does not measure for how much of it memory was accessed: 0.
#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetUtilizationRates(handle: Handle, place: *mut Utilization) -> Code {
    enter(|| {
        device(handle)?;
        let gpu = utilization()?.ok_or(NOT_SUPPORTED)?;
        // SAFETY: the caller's place.
        unsafe { give(place, Utilization { gpu, memory: 0 }) }
    })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    handle: Handle,
    count: *mut c_uint,
    infos: *mut ProcessInfo,
) -> Code {
    enter(|| {
        device(handle)?;
        if count.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        if devices()?.len() > 1 {
            return Err(NOT_SUPPORTED);
        }
        let open = ask()?.open;
        // SAFETY: not null, and the caller's place.
        let room = unsafe { count.read() };
        // SAFETY: as above.
        unsafe { give(count, c_uint::try_from(open.len()).unwrap_or(c_uint::MAX))? };
        if open.is_empty() {
            return Ok(());
        }
        if open.len() > room as usize {
            return Err(INSUFFICIENT_SIZE);
        }
        if infos.is_null() {
            return Err(INVALID_ARGUMENT);
        }
        for (at, session) in open.iter().enumerate() {
            let memory = session.memory_used.unwrap_or(NOT_AVAILABLE);
            let info =
                ProcessInfo { pid: session.pid, memory, gpu_instance: NO_INSTANCE, compute_instance: NO_INSTANCE };
            // SAFETY: the caller says that there is room for `room` of them, which is enough.
            unsafe { give(infos.add(at), info)? };
        }
        Ok(())
    })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlDeviceGetComputeRunningProcesses_v2(
    handle: Handle,
    count: *mut c_uint,
    infos: *mut ProcessInfo,
) -> Code {
    // SAFETY: the same function, the struct is the same.
    unsafe { nvmlDeviceGetComputeRunningProcesses_v3(handle, count, infos) }
}

/// Defines a function that finds no process.
macro_rules! none {
    ($($name:ident)*) => {
        $(
            #[no_mangle]
            pub unsafe extern "C" fn $name(handle: Handle, count: *mut c_uint, _infos: *mut ProcessInfo) -> Code {
                // SAFETY: the caller's place.
                enter(|| device(handle).and_then(|_| unsafe { give(count, 0) }))
            }
        )*
    };
}

none! {
    nvmlDeviceGetGraphicsRunningProcesses_v2
    nvmlDeviceGetGraphicsRunningProcesses_v3
    nvmlDeviceGetMPSComputeRunningProcesses_v2
    nvmlDeviceGetMPSComputeRunningProcesses_v3
}

/// What a session's guest said that it runs.
#[no_mangle]
pub unsafe extern "C" fn nvmlSystemGetProcessName(pid: c_uint, name: *mut c_char, length: c_uint) -> Code {
    enter(|| {
        let open = ask()?.open;
        let session = open.iter().find(|session| session.pid == pid).ok_or(NOT_FOUND)?;
        // SAFETY: the caller's buffer.
        unsafe { give_text(name, length, &session.program) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_as_long_as_in_the_header() {
        assert_eq!((size_of::<Memory>(), size_of::<ProcessInfo>()), (24, 24));
        assert_eq!(MEMORY_V2, 0x0200_0028);
    }
}
