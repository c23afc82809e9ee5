//! What belongs to a context, and its end: streams, events, modules, texture objects, arrays, device memory, managed,
//! pinned and registered memory.
//!
//! Each kind's own module knows the context that a thing was made in. Here they end in the order in which one needs the
//! other; the records go onto the tape as those of the context that ends, whose sticky error does not stop them
//! (tape.md, "Contexts"). Memory of pools, memory of graphs, physical memory and reservations are the device's; graphs,
//! libraries and registered images belong to no context.
//!
//! Source: CUDA driver API, cuCtxDestroy, cuDevicePrimaryCtxReset.

use std::collections::BTreeSet;
use std::ffi::c_void;

use session::call::{error_of, Outcome};
use session::work::handle::{encode, Tag};
use session::work::tracking;
use session::{contexts, process};

use crate::module::{loading, table, Kind};
use crate::types::StreamHandle;
use crate::{device, event, hostmem, managed, memory, stream, texture};

/// Ends everything that was made in a context, and its sticky error. Others go on.
///
/// # Errors
/// Why the session cannot be told; what is known of it here has ended all the same.
pub fn end(context: u32) -> Outcome {
    let _acting = contexts::act_for(context);
    stream::held::forget(Some(context));
    texture::end_of(context);
    let starts: BTreeSet<u64> = memory::addresses()?.lock().owned_by(context).into_iter().collect();
    let arrays = memory::arrays_at(&starts);
    memory::dissolve_mipmapped_arrays(&arrays);
    // From here on a failure is that of a session that is over, or (mode none) the error that ruined the context: each
    // thing has ended.
    for array in arrays {
        let _ = memory::release_array(array);
    }
    for start in managed::regions_in(&starts) {
        let _ = managed::free(start, |_| true);
    }
    // As with a reset of the device, pinned memory of the primary context that kernels do not reach stays the
    // program's.
    for start in hostmem::of_context(context, context == contexts::PRIMARY) {
        // SAFETY: what the context's end means for the program's pointers.
        let _ = unsafe { memory::free_host(start as *mut c_void) };
    }
    for start in hostmem::registered_in(context) {
        let _ = hostmem::unregister(start);
    }
    for number in tracking()?.order.of_context(context) {
        // SAFETY: no pointer is followed.
        let _ = unsafe { stream::destroy(encode(Tag::Stream, number) as StreamHandle) };
    }
    for event in event::of_context(context) {
        // SAFETY: no pointer is followed.
        let _ = unsafe { event::destroy(event) };
    }
    end_modules(context);
    for module in table::with(|table| table.modules()) {
        if module.context.is_none() {
            module.close_here();
        }
    }
    if context == contexts::PRIMARY {
        managed::forget_variables();
    }
    let left = memory::addresses()?.lock().owned_by(context);
    for start in left {
        let _ = memory::free(start as *mut c_void);
    }
    device::forget_settings(context);
    process::session()?.renew_context(context).map_err(error_of)?;
    if context == contexts::PRIMARY {
        contexts::renew(context);
    } else {
        contexts::end(context);
    }
    Ok(())
}

/// Unloads the modules of a context (cuModuleLoad and its relatives): their handles, and those of their functions, are
/// invalid from now on.
pub fn end_modules(context: u32) {
    for module in table::with(|table| table.modules()) {
        if module.context == Some(context) {
            let _ = loading::unload(Kind::Module, module.handle());
        }
    }
}
