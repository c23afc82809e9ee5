//! What the plane does by itself on a device whose memory is the host's own and whose work is over when a call returns: the simulated one,
//! and the null device.
//!
//! - [`moment`]: when an event was recorded
//! - [`ranges`]: the allocation map: which bytes a copy may touch
//! - [`gate`]: the lock around the use of device memory
//! - [`laid`]: launches that are laid out
//! - [`direct`]: copies, sets, and those launches

pub mod direct;
pub mod gate;
pub mod laid;
pub mod moment;
pub mod ranges;
