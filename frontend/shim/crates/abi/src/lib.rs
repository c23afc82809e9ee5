//! The C types of the CUDA runtime's ABI: what crosses the boundary between a program and the shim, byte for byte.
//!
//! Owns layouts, codes and constants; no logic. Names are C's, so that a reader can look them up in NVIDIA's headers.
//! C enumerations are `c_int` aliases: a program may pass any number, which a Rust enum must not hold.
//! Source: the headers of CUDA 12.9 and 13.5 (driver_types.h, vector_types.h, cuda_runtime_api.h); the test `layout`
//! compares every size and offset with a C compiler's over the headers of all supported versions.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

#[macro_use]
mod layout;
mod copies;
mod device_properties;
pub mod driver;
mod functions;
mod graphs;
#[rustfmt::skip]
#[path = "generated_attributes.rs"]
mod attributes;
#[rustfmt::skip]
#[path = "generated_errors.rs"]
mod errors;
#[rustfmt::skip]
mod generated_driver_errors;
#[rustfmt::skip]
mod generated_layouts;
mod handles;
mod textures;
mod values;

pub use attributes::*;
pub use copies::*;
pub use device_properties::*;
pub use errors::*;
pub use functions::*;
pub use generated_layouts::LAYOUTS;
pub use graphs::*;
pub use handles::*;
pub use layout::Layout;
pub use textures::*;
pub use values::*;

use std::ffi::c_int;

/// A result of the CUDA runtime, success included.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CudaError(pub c_int);

impl CudaError {
    /// No error.
    pub const SUCCESS: Self = Self(0);
    /// cudaErrorNotSupported.
    pub const NOT_READY: Self = Self(600);
    pub const NOT_SUPPORTED: Self = Self(801);
}

pub type cudaError_t = CudaError;
