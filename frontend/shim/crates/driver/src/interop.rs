//! cuGetExportTable: what lets an embedded NVIDIA runtime (a stripped program's, or that of NVIDIA's own libraries) run
//! on our libcuda.so.1.
//!
//! NVIDIA's runtime fetches seven tables of functions by their UUIDs, beside the public functions. The tables here are
//! our own data, with our own functions in the slots that a runtime or a library calls; every other slot names itself
//! once and returns "not supported". A distributor leaves all of it out by building without Cargo's feature `interop`;
//! the folder `interop` is not read then. Programs whose runtime is redirected, and programs that use the public driver
//! API alone, never come here.
//!
//! Parts: `tables` (which tables there are), `slots` (the functions that a runtime asks with), `storage` (what a
//! runtime keeps in a context), `integrity` (the handshake, which the user switches on), `codes` (the codes of
//! launches). Source: docs/explanation/interoperability.md says what is known and why.

use std::ffi::c_void;

use abi::driver::CUuuid;
use session::call::{Error, Outcome};

use super::give;

#[cfg(feature = "interop")]
mod codes;
#[cfg(feature = "interop")]
mod integrity;
#[cfg(feature = "interop")]
mod slots;
#[cfg(feature = "interop")]
pub mod storage;
#[cfg(feature = "interop")]
mod tables;

/// # Errors
/// CUDA_ERROR_NOT_FOUND for a table that is not there.
pub unsafe fn cuGetExportTable(ppExportTable: *mut *const c_void, pExportTableId: *const CUuuid) -> Outcome {
    if pExportTableId.is_null() {
        return Err(Error::INVALID_VALUE);
    }
    // SAFETY: the program says that it is an identifier: 16 bytes.
    let id = unsafe { pExportTableId.cast::<[u8; 16]>().read() };
    let table = find(&id);
    // SAFETY: the caller's place for the table.
    unsafe { give(ppExportTable, table.unwrap_or(std::ptr::null()))? };
    table.map(drop).ok_or(super::entry::NOT_FOUND)
}

#[cfg(feature = "interop")]
fn find(id: &[u8; 16]) -> Option<*const c_void> {
    codes::fetches_a_table();
    tables::find(id)
}

#[cfg(feature = "interop")]
pub use codes::are_the_runtimes;

#[cfg(not(feature = "interop"))]
pub fn are_the_runtimes(_function: session::function::Function) -> bool {
    false
}

#[cfg(not(feature = "interop"))]
fn find(_id: &[u8; 16]) -> Option<*const c_void> {
    static REPORTED: std::sync::Once = std::sync::Once::new();
    REPORTED.call_once(|| {
        session::log::error(format_args!(
            "this program has NVIDIA's CUDA runtime in it, which asks the driver for tables of functions; this build of Farlane leaves them out \
             (docs/explanation/interoperability.md)"
        ));
    });
    None
}
