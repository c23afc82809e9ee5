//! The shim's core library: everything behind the exported symbols, and all state of the process.
//!
//! The thin libcudart replacements jump into `generated_exports`; each function's behaviour is in the file of its
//! family, named as in the API table (protos/cuda). The driver API's face is `driver`, over the same families. Beside the families: `call` (what every call passes through),
//! `tally` (counts of calls), `runtime` (the session, devices, handles), `lifecycle` (fork and exit), `work` (the only way onto the tape),
//! `allocator` (device addresses).
//!
//! Nothing happens in a process that makes no CUDA call: no thread, no connection, no file, no output.
//! Names of exported functions and of their parameters are NVIDIA's.

#![allow(non_snake_case, non_upper_case_globals)]

mod allocator;
mod call;
#[cfg(not(test))]
mod clock;
mod device;
mod driver;
mod error;
mod event;
mod frame;
#[rustfmt::skip]
mod generated_driver;
#[rustfmt::skip]
mod generated_exports;
mod graph;
mod guards;
mod hostmem;
mod launch;
mod lifecycle;
mod log;
mod managed;
mod manifests;
mod memory;
mod module;
mod objects;
mod occupancy;
mod output;
mod own;
mod permission;
#[cfg(not(test))]
mod real;
mod redirected;
mod registration;
mod runtime;
mod stream;
mod tally;
mod texture;
mod threads;
mod trace;
mod work;
