//! The parts of a device, as a context has them.
//!
//! Source: CUDA driver API, "Green Contexts".

use abi::driver::{CUcontext, CUdevResource, CUdevResourceType};
use operations::device;
use session::call::Outcome;

use crate::context::named;

pub unsafe fn cuCtxGetDevResource(hCtx: CUcontext, resource: *mut CUdevResource, type_: CUdevResourceType) -> Outcome {
    // SAFETY: the caller's promise.
    unsafe { device::get_resource(named(hCtx)?.device, resource, type_) }
}
