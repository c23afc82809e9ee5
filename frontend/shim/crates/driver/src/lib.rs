//! The face of the CUDA driver API (libcuda.so.1): contexts, result codes, and the functions that only this API has.
//!
//! Owns what the driver API decides by itself; what a function does is an operation (crate `operations`), which both
//! APIs share. The generator writes a row of protos/cuda/driver that `calls` what a function of the runtime API is.
//! Every other row has a function of its name in its family's file here; families that belong together share a room.
//! The primary context is the runtime API's: streams, events, functions and pointers pass between both.
//!
//! Parts beside the families: `entry` (what every call passes through), `contexts` (all contexts, and each thread's
//! current one), `entries` (what cuGetProcAddress finds).
//!
//! Source: CUDA driver API; cuda.h of CUDA 12.0 to 13.5.

// C's names; what each pointer of the program's has to be, CUDA's documentation says.
#![allow(non_snake_case, non_upper_case_globals, clippy::missing_safety_doc)]

pub mod contexts;
mod device;
mod entries;
mod entry;
#[rustfmt::skip]
mod generated_exports;
mod graph;
pub mod initialization;
mod interop;
mod launch;
mod memory;
mod module;
mod stream;
mod texture;

// The generated exports call a function by its family, wherever that has its room.
pub use contexts::current;
use contexts::{context, resources};
use launch::occupancy;
use memory::{array, copies, copy, formats, set, tensor, virtual_memory};
use module::{library, link};
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
