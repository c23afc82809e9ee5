//! The linker: inputs are collected and checked one by one, the host links them when they are used.
//!
//! What cuLinkComplete gives is the PTX itself, or a joined image (protos/tape.md, "Images"), which every load accepts.
//! It lies in memory of ours until the linker is destroyed.
//!
//! Source: CUDA driver API, cuLinkCreate and its relatives.

// The parameters are NVIDIA's to choose.
#![allow(clippy::too_many_arguments)]

use std::collections::HashMap;
use std::ffi::{c_char, c_uint, c_void, CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use abi::driver::{
    CUjitInputType, CUjit_option, CUlinkState, CU_JIT_INPUT_CUBIN, CU_JIT_INPUT_FATBINARY, CU_JIT_INPUT_LIBRARY,
    CU_JIT_INPUT_NVVM, CU_JIT_INPUT_OBJECT, CU_JIT_INPUT_PTX,
};
use operations::module::{loading, Refused};
use session::call::{Error, Outcome};
use session::log;

use super::archive;
use super::jit::Logs;
use crate::give;

/// A link in progress.
struct Link {
    logs: Logs,
    parts: Vec<Vec<u8>>,
    result: Option<Vec<u8>>,
}

/// By handle: the number of the link, counted from a value that is no address.
static LINKS: Mutex<Option<HashMap<usize, Link>>> = Mutex::new(None);
static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(FIRST);
const FIRST: usize = 0x00F5_114C << 32;

fn lock() -> MutexGuard<'static, Option<HashMap<usize, Link>>> {
    LINKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `body` with the link that the handle names.
fn with<T>(state: CUlinkState, body: impl FnOnce(&mut Link) -> Outcome<T>) -> Outcome<T> {
    let mut links = lock();
    let link = links.as_mut().and_then(|links| links.get_mut(&(state as usize)));
    body(link.ok_or(Error::INVALID_RESOURCE_HANDLE)?)
}

pub unsafe fn cuLinkCreate_v2(
    numOptions: c_uint,
    options: *mut CUjit_option,
    optionValues: *mut *mut c_void,
    stateOut: *mut CUlinkState,
) -> Outcome {
    if stateOut.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    let logs = unsafe { Logs::read(numOptions, options, optionValues) }?;
    let handle = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    lock().get_or_insert_with(HashMap::new).insert(handle, Link { logs, parts: Vec::new(), result: None });
    // SAFETY: not null, the caller's place for the handle.
    unsafe { give(stateOut, handle as CUlinkState) }
}

/// Whether an input may be one of those that the kind names.
fn check(kind: CUjitInputType, bytes: &[u8]) -> Result<(), Refused> {
    let refused = |error, text: &str| Err(Refused { error, message: text.to_owned() });
    match kind {
        CU_JIT_INPUT_PTX | CU_JIT_INPUT_FATBINARY | CU_JIT_INPUT_CUBIN => loading::check_unit(bytes),
        CU_JIT_INPUT_LIBRARY if archive::is_device_runtime(bytes) => Ok(()),
        CU_JIT_INPUT_LIBRARY | CU_JIT_INPUT_OBJECT
            if bytes.starts_with(b"!<arch>") || bytes.starts_with(b"\x7fELF") =>
        {
            let text = "host objects and archives of them are not supported as inputs of the linker: add their PTX or fat binary";
            log::error(format_args!("cuLinkAddData: {text}"));
            refused(Error::NOT_SUPPORTED, text)
        }
        CU_JIT_INPUT_LIBRARY | CU_JIT_INPUT_OBJECT => loading::check_unit(bytes),
        CU_JIT_INPUT_NVVM => refused(Error::NOT_SUPPORTED, "intermediate code is not supported: add PTX"),
        _ => Err(Error::INVALID_VALUE.into()),
    }
}

/// # Errors
/// What the input is refused with; the program's log says more.
fn add(state: CUlinkState, kind: CUjitInputType, bytes: &[u8], own: Logs) -> Outcome {
    with(state, |link| {
        if link.result.is_some() || link.parts.len() >= image::MOST_PARTS {
            return Err(Error::INVALID_VALUE);
        }
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        let bytes = if kind == CU_JIT_INPUT_PTX { &bytes[..end] } else { bytes };
        let outcome = check(kind, bytes);
        own.tell(outcome.clone()).ok();
        link.logs.tell(outcome)?;
        if archive::is_device_runtime(bytes) {
            return Ok(()); // the device provides its functions
        }
        link.parts.push(bytes.to_vec());
        Ok(())
    })
}

pub unsafe fn cuLinkAddData_v2(
    state: CUlinkState,
    type_: CUjitInputType,
    data: *mut c_void,
    size: usize,
    _name: *const c_char,
    numOptions: c_uint,
    options: *mut CUjit_option,
    optionValues: *mut *mut c_void,
) -> Outcome {
    if data.is_null() || size == 0 {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    let own = unsafe { Logs::read(numOptions, options, optionValues) }?;
    let readable = operations::module::mapped::around(data as u64).map_or(0, |memory| memory.readable);
    if readable < size {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: mapped and readable just now; the program leaves it alone meanwhile.
    add(state, type_, unsafe { std::slice::from_raw_parts(data.cast::<u8>(), size) }, own)
}

pub unsafe fn cuLinkAddFile_v2(
    state: CUlinkState,
    type_: CUjitInputType,
    path: *const c_char,
    numOptions: c_uint,
    options: *mut CUjit_option,
    optionValues: *mut *mut c_void,
) -> Outcome {
    if path.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program's promise.
    let (own, path) = unsafe { (Logs::read(numOptions, options, optionValues)?, CStr::from_ptr(path)) };
    let bytes = std::fs::read(OsStr::from_bytes(path.to_bytes())).map_err(|_| Error::FILE_NOT_FOUND)?;
    add(state, type_, &bytes, own)
}

pub unsafe fn cuLinkComplete(state: CUlinkState, cubinOut: *mut *mut c_void, sizeOut: *mut usize) -> Outcome {
    if cubinOut.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    with(state, |link| {
        if link.result.is_none() {
            let joined = match &link.parts[..] {
                [] => return Err(Error::INVALID_VALUE),
                // A text ends with a NUL, so that a load that is not told its size finds the end.
                [only] if image::length(only).is_err() => [&only[..], b"\0"].concat(),
                [only] => only.clone(),
                parts => image::join(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>()),
            };
            link.logs.tell_code(loading::check_linked(&joined), |linked| linked.contents().ok())?;
            link.result = Some(joined);
        }
        let result = link.result.as_mut().ok_or(Error::UNKNOWN)?;
        // SAFETY: the caller's places; the size is optional.
        unsafe {
            crate::give_if_wanted(sizeOut, result.len());
            give(cubinOut, result.as_mut_ptr().cast())
        }
    })
}

pub unsafe fn cuLinkDestroy(state: CUlinkState) -> Outcome {
    let removed = lock().as_mut().and_then(|links| links.remove(&(state as usize)));
    removed.map(drop).ok_or(Error::INVALID_RESOURCE_HANDLE)
}
