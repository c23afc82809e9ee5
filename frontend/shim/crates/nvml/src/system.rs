//! Versions, and the words for results.

use crate::answer::{enter, give, give_text, Code};
use crate::state::devices;
use std::ffi::{c_char, c_int, c_uint};

/// As cuDriverGetVersion has it (`operations::device::DRIVER_VERSION`).
const CUDA_VERSION: c_int = 13050;
/// NVIDIA's driver of that CUDA, by the version of nvidia-ml-py that belongs to it. `farlane smi` says the same
/// (frontend/smi.py).
const DRIVER_VERSION: &str = "615.71";
const NVML_VERSION: &str = "13.615.71";

#[no_mangle]
pub unsafe extern "C" fn nvmlSystemGetDriverVersion(version: *mut c_char, length: c_uint) -> Code {
    // SAFETY: the caller's buffer.
    enter(|| devices().and_then(|_| unsafe { give_text(version, length, DRIVER_VERSION) }))
}

#[no_mangle]
pub unsafe extern "C" fn nvmlSystemGetNVMLVersion(version: *mut c_char, length: c_uint) -> Code {
    // SAFETY: the caller's buffer.
    enter(|| devices().and_then(|_| unsafe { give_text(version, length, NVML_VERSION) }))
}

#[no_mangle]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion(version: *mut c_int) -> Code {
    // SAFETY: the caller's place.
    enter(|| unsafe { give(version, CUDA_VERSION) })
}

#[no_mangle]
pub unsafe extern "C" fn nvmlSystemGetCudaDriverVersion_v2(version: *mut c_int) -> Code {
    // SAFETY: the caller's place.
    enter(|| unsafe { give(version, CUDA_VERSION) })
}

#[no_mangle]
pub extern "C" fn nvmlErrorString(result: Code) -> *const c_char {
    let text = match result {
        0 => c"Success",
        1 => c"Uninitialized",
        2 => c"Invalid Argument",
        3 => c"Not Supported",
        4 => c"Insufficient Permissions",
        5 => c"Already Initialized",
        6 => c"Not Found",
        7 => c"Insufficient Size",
        8 => c"Insufficient External Power",
        9 => c"Driver Not Loaded",
        10 => c"Timeout",
        11 => c"Interrupt Request Issue",
        12 => c"NVML Shared Library Not Found",
        13 => c"Function Not Found",
        14 => c"Corrupted infoROM",
        15 => c"GPU is lost",
        16 => c"GPU requires reset",
        17 => c"The operating system has blocked the request",
        18 => c"Driver/library version mismatch",
        19 => c"In use by another client",
        20 => c"Insufficient Memory",
        21 => c"No data",
        23 => c"Insufficient Resources",
        25 => c"Argument version mismatch",
        26 => c"Deprecated",
        27 => c"Not ready",
        28 => c"No GPUs found",
        29 => c"Invalid state",
        _ => c"Unknown Error",
    };
    text.as_ptr()
}
