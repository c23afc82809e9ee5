//! The core's lines on stderr. One implementation for the whole shim: crate `client` owns the level and the format.

pub use client::log::{debug, error, info, level, warn, Level};
