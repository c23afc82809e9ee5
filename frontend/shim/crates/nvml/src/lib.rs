//! NVIDIA's management library (`libnvidia-ml.so.1`) for guests: what the host tells about its devices and its sessions.
//!
//! Owns NVML's functions, its reference count and what was last measured. Each question that has no fixed answer is one request to the host
//! (AdminService.Describe), on a connection of its own: no CUDA, no session, no thread, and nothing that a fork could break.
//! What only hardware has (temperatures, power, fans, clocks, ECC) is NVML_ERROR_NOT_SUPPORTED. A function that is not here is found by nobody.
//! Source: nvml.h of CUDA 12.9, nvidia-ml-py 13.615.

#![allow(clippy::missing_safety_doc)] // what NVML asks of its callers

mod absent;
mod answer;
mod device;
mod state;
mod system;
mod usage;

pub use absent::*;
pub use answer::Code;
pub use device::*;
pub use state::{nvmlInit, nvmlInitWithFlags, nvmlInit_v2, nvmlShutdown};
pub use system::*;
pub use usage::*;
