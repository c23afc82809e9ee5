//! What the guest must know about a program's GPU code: which kernels an image holds, how their parameters lie in the
//! parameter buffer, and what they need. Nothing is run, compiled or sent here.
//!
//! Owns: fat binary containers and their entries, the choice of the entry that a device can run, decompression, a light
//! scanner for PTX, the `.nv.info` records of machine code, the digest that names an image to the host. Does not own:
//! registration, handles, memory of the process (callers pass slices).
//!
//! Every byte is untrusted: all reads are bounded by the slice, memory by the limits of [`limits`], and malformed input
//! is an [`Error`], never a panic. Names of fields and flags were inferred from what nvcc 13 writes; unknown entries,
//! flags, directives and attributes are passed over.

mod bytes;
mod container;
mod cubin;
mod digest;
mod error;
pub mod limits;
mod module;
mod ptx;
mod select;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod samples;

pub use container::cut::{cut, digests_of_cuts};
pub use container::joined::{join, MOST_PARTS};
pub use container::wrapper::{Wrapper, WRAPPER_SIZE};
pub use container::{container_length, Container, Entry, Kind, CONTAINER_HEADER};
pub use digest::digest;
pub use error::Error;
pub use module::{check_container, length, Kernel, Module, Parameter, Source, Variable};
pub use ptx::NEWEST as NEWEST_PTX;
pub use select::{some_names, Target};
