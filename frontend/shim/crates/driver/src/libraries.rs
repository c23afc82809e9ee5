//! What NVIDIA's libraries are told of a device that takes PTX alone.
//!
//! The libraries of CUDA 13 have machine code for every device they know, up to 12.1, and PTX for those they do not know: cuBLAS and cuRAND
//! choose by the capability that they ask for. So where their own code asks, and the device takes no machine code, the answer is one that no GPU
//! has. The program, and whatever else it loads, is told what the device is. `FARLANE_STEERING=off` tells the libraries, too.

use operations::types::{DeviceAttr, DEV_ATTR_COMPUTE_CAPABILITY_MAJOR, DEV_ATTR_COMPUTE_CAPABILITY_MINOR};
use session::process::Device;
use session::{callers, frame};
use std::ffi::{c_int, c_void};

/// One generation behind those that the libraries have machine code for.
const UNKNOWN: (u32, u32) = (13, 0);

/// The capability for the code that makes the call, if it is not the device's.
pub fn capability(device: &Device) -> Option<(u32, u32)> {
    let told = device.takes_ptx_alone()
        && device.compute < UNKNOWN
        && callers::may_be_steered()
        && callers::is_nvidias(frame::site() as *const c_void);
    told.then_some(UNKNOWN)
}

/// An attribute for the code that makes the call, if it is not the device's.
pub fn attribute(device: &Device, which: DeviceAttr) -> Option<c_int> {
    let part = match which {
        DEV_ATTR_COMPUTE_CAPABILITY_MAJOR => |(major, _)| major,
        DEV_ATTR_COMPUTE_CAPABILITY_MINOR => |(_, minor)| minor,
        _ => return None,
    };
    capability(device).map(part).map(u32::cast_signed)
}
