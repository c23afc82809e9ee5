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
mod cut;
mod digest;
mod elf;
mod error;
mod joined;
pub mod limits;
mod module;
mod payload;
mod ptx;
mod select;
mod wrapper;

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod samples;

pub use container::{container_length, Container, Entry, Kind, CONTAINER_HEADER};
pub use cut::{cut, digests_of_cuts};
pub use digest::digest;
pub use error::Error;
pub use joined::{join, MOST_PARTS};
pub use module::{check_container, length, Kernel, Module, Parameter, Source, Variable};
pub use ptx::NEWEST as NEWEST_PTX;
pub use select::{some_names, Target};
pub use wrapper::{Wrapper, WRAPPER_SIZE};
