//! The process's session: what stands between the operations of both CUDA APIs and the tape.
//!
//! Owns the session and when it is opened (`process`), the only way onto the tape and the order of what is on it (`work`), what a call of the program
//! is known by (`frame`: its place in the program; `function`: its row in the API tables), what its manifest allows (`manifests`, `permission`, `guards`),
//! what each thread has for itself (`own`), what is counted (`tally`, `report`) and traced (`trace`), fork and exit (`lifecycle`), and the error
//! that every operation returns (`call`). Knows neither API: nothing here depends on what a function of CUDA does, but for the tables' names.
//! What it has to ask of the layer above it asks through `above`.
//!
//! Nothing happens in a process that makes no CUDA call: no thread, no connection, no file, no output.

pub mod above;
pub mod call;
pub mod callers;
pub mod contexts;
pub mod frame;
pub mod function;
#[rustfmt::skip]
mod generated_errors;
#[rustfmt::skip]
mod generated_functions;
pub mod guards;
pub mod lifecycle;
pub mod log;
pub mod manifests;
pub mod mappings;
pub mod objects;
pub mod output;
pub mod own;
pub mod permission;
pub mod process;
pub mod real;
pub mod redirected;
pub mod report;
pub mod tally;
pub mod threads;
pub mod trace;
pub mod work;
