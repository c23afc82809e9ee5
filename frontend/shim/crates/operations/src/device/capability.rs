//! The compute capability that a caller gets.
//!
//! NVIDIA's libraries of CUDA 13 have machine code for every device they know, up to 12.1, and PTX for those they do
//! not know: cuBLAS and cuRAND choose by the capability that they ask for. So where their own code asks, and the device
//! takes PTX alone, the answer is one that no GPU has. The program, and all other
//! code that it loads, gets the device's own capability. With `FARLANE_STEERING=off` the libraries get it, too.

use session::process::Device;
use session::{callers, frame};
use std::ffi::c_int;

/// How their names begin.
const LIBRARIES: [&str; 7] =
    ["libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse", "libnpp", "libnvjpeg"];
/// One generation behind those that the libraries have machine code for.
const UNKNOWN: (u32, u32) = (13, 0);

/// Major and minor number for the code that makes the call.
pub fn capability(device: &Device) -> (c_int, c_int) {
    let asks = || callers::is_of(frame::site(), &LIBRARIES);
    let unknown = device.takes_ptx_alone() && device.compute < UNKNOWN && callers::may_be_steered() && asks();
    let (major, minor) = if unknown { UNKNOWN } else { device.compute };
    (major.cast_signed(), minor.cast_signed())
}
