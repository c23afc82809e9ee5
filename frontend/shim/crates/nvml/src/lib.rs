//! NVIDIA's management library (`libnvidia-ml.so.1`) for guests: what the host tells about its devices and its
//! sessions.
//!
//! Owns NVML's functions, its reference count and what was last measured. Each question that has no fixed answer is one
//! request to the host (AdminService.Describe), on a connection of its own, when the host has done what the process
//! recorded: no CUDA, no session of its own, no thread, and nothing that a fork could break. Functions for what only
//! hardware has (temperatures, power, fans, clocks, ECC) return NVML_ERROR_NOT_SUPPORTED. The library has no other
//! functions of NVML's: programs that look for one by name do not find it.
//! Source: nvml.h of CUDA 12.9, nvidia-ml-py 13.615.

#![allow(clippy::missing_safety_doc)] // what NVML asks of its callers

mod absent;
mod answer;
mod device;
mod launcher;
mod state;
mod system;
mod usage;

pub use absent::*;
pub use answer::Code;
pub use device::*;
pub use launcher::farlane_takes_ptx_alone;
pub use state::{nvmlInit, nvmlInitWithFlags, nvmlInit_v2, nvmlShutdown};
pub use system::*;
pub use usage::*;
