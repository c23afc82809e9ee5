//! The face of the CUDA driver API (libcuda.so.1): contexts, result codes, and the functions that only this API has.
//!
//! Owns what the driver API decides by itself; what a function does is the families' (`memory`, `stream`, `launch`, ...), which both APIs
//! share. A row of protos/cuda/driver that `calls` a function of the runtime API is generated whole; every other row has a function of its name in
//! the file of its family here. The primary context is the runtime API's: streams, events, functions and pointers pass between both.
//!
//! Parts beside the families: `entry` (what every call passes through), `current` (each thread's current context), `contexts` (all
//! contexts), `entries` (what cuGetProcAddress finds).
//!
//! Source: CUDA driver API; cuda.h of CUDA 12.0 to 13.5.

pub mod array;
pub mod boxes;
pub mod context;
pub mod contexts;
pub mod copies;
pub mod copy;
pub mod current;
pub mod device;
pub mod entries;
pub mod entry;
pub mod formats;
pub mod graph;
pub mod initialization;
pub mod interop;
pub mod jit;
pub mod launch;
pub mod library;
pub mod link;
pub mod memory;
pub mod module;
pub mod occupancy;
pub mod set;
pub mod stream;
pub mod texture;
pub mod virtual_memory;

use crate::call::give;

/// The same where the program may leave the place out.
///
/// # Safety
/// `place` is null or such a place.
pub(crate) unsafe fn give_if_wanted<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not null, and the program says that it is such a place.
        unsafe { place.write(value) };
    }
}
