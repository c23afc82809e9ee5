//! The face of the CUDA runtime API (libcudart.so.12, libcudart.so.13, runtimes linked into programs): its last error,
//! registration, pushed launch configurations, and what else only this API has.
//!
//! A row of protos/cuda is generated whole: it calls the operation of the same family. The functions that `device`,
//! `error`, `launch`, `properties`, `registration` and `stream` define are written by hand, because they decide
//! something. The primary context is current where the runtime API is used: contexts are `driver`'s.
//!
//! Names of exported functions and of their parameters are NVIDIA's.

// What each pointer of the program's has to be, CUDA's documentation says.
#![allow(non_snake_case, non_upper_case_globals, clippy::missing_safety_doc)]

mod configuration;
mod device;
mod entry;
mod error;
#[rustfmt::skip]
mod generated_exports;
mod launch;
mod properties;
mod registration;
mod stream;
