//! The shim's core library.

mod allocator;
mod call;
mod device;
mod error;
mod event;
#[rustfmt::skip]
mod generated_exports;
mod hostmem;
mod launch;
mod lifecycle;
mod log;
mod memory;
mod module;
mod occupancy;
mod registration;
mod runtime;
mod stream;
mod texture;
mod work;
