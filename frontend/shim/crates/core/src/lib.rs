//! The shim's core library: what the symbols of the thin libraries jump to, and the functions of the C library that it
//! defines as well.
//!
//! Owns no state and no function of CUDA's. The crates that it is made of stand above each other: `runtime` (the CUDA
//! runtime's face) and `driver` (the driver API's) over `operations` (what both do) over `session` (the process's
//! session, the tape's order, what the program's calls are known by). Cargo forbids arrows that run back up; `runtime`
//! may use `driver`, as CUDA's does.
//!
//! Nothing happens in a process that makes no CUDA call: no thread, no connection, no file, no output.

mod clock;
mod cublas;
mod device_files;
mod io;
mod nvrtc;
mod signals;
mod steering;

// Their exported functions are this library's.
pub use {driver, runtime};
