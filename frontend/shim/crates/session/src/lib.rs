//! The process's session: what stands between the operations of both CUDA APIs and the tape.
//!
//! Knows neither API: nothing here depends on what a function of CUDA does, but for the tables' names. Nothing happens
//! in a process that makes no CUDA call: no thread, no connection, no file, no output.
//!
//! Rooms, and what each answers:
//!
//! - `process`: the session and when it is opened, fork and exit, and the process around it (its memory map, its
//!   threads, functions of other libraries);
//! - `call`: what a call of the program is: its function, its place in the program, whose code makes it, what it
//!   returns;
//! - `thread_state`: what each thread of the program keeps, and its counters of calls;
//! - `work`: the only way onto the tape, and the order of what is on it; `contexts`: for which context a thread works;
//! - `manifests`: which manifests are in use, for which objects; `permission`: what they allow and predict;
//! - `lazy_readback`: copies to the host that wait until their destination is touched;
//! - `report`: the report, the trace and the output of kernels;
//! - `above`: what this crate asks of the layer above it.
//!
//! The layers above use a module by its name, wherever its room is.

pub mod above;
pub mod call;
pub mod contexts;
#[rustfmt::skip]
mod generated_errors;
#[rustfmt::skip]
mod generated_functions;
pub mod lazy_readback;
pub mod log;
pub mod manifests;
pub mod permission;
pub mod process;
pub mod report;
pub mod thread_state;
pub mod work;

pub use client::expect_handler;

pub use call::{callers, frame, function};
pub use manifests::objects;
pub use process::{lifecycle, mappings, real};
pub use report::{output, trace};
pub use thread_state::counters;
