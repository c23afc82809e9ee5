//! What CUDA's functions do, each capability once: memory, copies, modules, kernels, launches, streams, events, graphs
//! and capture, textures, managed and pinned memory. Both APIs are faces over these operations (crates `runtime` and
//! `driver`), which check what only their API requires and give the result the code of their API.
//!
//! One module a family, named as in the API tables (protos/cuda). Beside the families: `entry` (what every call passes
//! through), `allocator` (device addresses).

// Parameters have the names of CUDA's documentation, which says what each pointer of the program's has to be.
#![allow(non_snake_case, clippy::missing_safety_doc)]

mod above;
mod allocator;
mod deciding;
pub mod device;
pub mod entry;
pub mod event;
pub mod graph;
pub mod hostmem;
pub mod launch;
pub mod managed;
pub mod memory;
pub mod module;
pub mod occupancy;
pub mod ownership;
mod page;
pub mod stream;
pub mod testing;
pub mod texture;
pub mod types;
