//! What the plane does by itself on a device whose memory is the host's own and whose work is over when a call returns: the simulated one,
//! and the null device.
//!
//! - [`moment`]: when an event was recorded
//! - [`ranges`]: the allocation map: which bytes a copy may touch
//! - [`direct`]: copies, sets, and launches of kernels that are laid out

pub mod direct;
pub mod moment;
pub mod ranges;
