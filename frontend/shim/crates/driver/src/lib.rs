//! The face of the CUDA driver API (libcuda.so.1): contexts, result codes, and the functions that only this API has.
//!
//! Owns what the driver API decides by itself; what a function does is an operation (crate `operations`), which both APIs
//! share. A row of protos/cuda/driver that `calls` what a function of the runtime API is, is generated whole; every other row has a function of its
//! name in the file of its family here. The primary context is the runtime API's: streams, events, functions and pointers pass between both.
//!
//! Parts beside the families: `entry` (what every call passes through), `current` (each thread's current context), `contexts` (all
//! contexts), `entries` (what cuGetProcAddress finds).
//!
//! Source: CUDA driver API; cuda.h of CUDA 12.0 to 13.5.

// C's names; what each pointer of the program's has to be, CUDA's documentation says.
#![allow(non_snake_case, non_upper_case_globals, clippy::missing_safety_doc)]

mod archive;
mod array;
mod boxes;
mod context;
pub mod contexts;
mod copies;
mod copy;
pub mod current;
mod device;
mod entries;
mod entry;
mod formats;
#[rustfmt::skip]
mod generated_exports;
mod graph;
pub mod initialization;
mod interop;
mod jit;
mod launch;
mod library;
mod link;
mod memory;
mod module;
mod node_parameters;
mod occupancy;
mod resources;
mod set;
mod stream;
mod tensor;
mod texture;
mod virtual_memory;

use session::call::give;

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
