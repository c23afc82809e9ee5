//! What the plane does by itself on a device, without Python.
//!
//! The replay calls [`Direct`](direct::Direct). That decides what is plain, and has the work done through a small interface:
//! [`Work`](work::Work) for copies, sets, reads, events and synchronizations, [`Entry`](launch::Entry) for launches. There are two
//! implementations:
//!
//! - [`host`]: memory of this process. Work is over when a call returns (the simulated and the null device).
//! - [`cuda`]: a CUDA driver. Work is issued to its streams (the GPU device).
//!
//! The rest of this folder:
//!
//! - [`direct`]: what is plain, and what is Python's
//! - [`work`]: the interface
//! - [`launch`]: launches that are laid out
//! - `counters`: what was done here
//! - [`objects`]: streams and events
//! - [`ranges`]: the allocation map: which bytes a copy may touch
//! - [`gate`]: the lock around the use of device memory

mod counters;
pub mod cuda;
pub mod direct;
pub mod gate;
pub mod host;
pub mod launch;
pub mod objects;
pub mod ranges;
pub mod work;

#[cfg(test)]
mod tests;
