//! Redirection of statically linked CUDA runtimes: a jump at the entry of each embedded public function leads to the
//! function of the same name in Farlane's libcudart.
//!
//! `nvcc` links libcudart into the program. Its functions keep their names in the symbol table of the file: the public
//! ones (`cudaMalloc`, `__cudaRegisterFatBinary`) and its own (`libcudart_static_<hash>`). The program's calls stay
//! where they are, so call sites, manifests and recorded loops are those of a program on the shared runtime.
//!
//! - `symbols`, `plan`: which functions a file has and where each of them leads; all of them, or none. Nothing here is
//!   unsafe.
//! - `file`, `loaded`, `patch`: the file of a loaded object, the object in memory, writing the jumps.
//! - `redirecting`: these together, for one object.
//! - `audit`, `preload`: when. As an auditor (LD_AUDIT) the library sees each object after it is mapped and before its
//!   first constructor. As a preloaded library it sees those that are there at the start of the process, by an indirect
//!   function of its own, which the loader calls while it relocates, so before any constructor.
//!
//! The library is built without a C library and without Rust's standard library (profile `redirect`): an auditor has a
//! namespace of its own, and relocation is too early for either. Under the other profiles it is an ordinary crate,
//! which the tests use. Memory comes from static arrays and mappings. There is no thread and no lock: the loader's own
//! lock is held whenever something here runs.
//!
//! Source: rtld-audit(7); System V ABI, "Dynamic Linking"; docs/explanation/architecture/static-runtimes.md, "Statically linked runtimes".

#![cfg_attr(all(panic = "abort", not(test)), no_std)]
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]

pub mod patch;
pub mod plan;
pub mod symbols;

mod audit;
mod file;
mod loaded;
mod message;
mod redirecting;
mod system;

#[cfg(all(panic = "abort", not(test)))]
mod freestanding;
#[cfg(all(panic = "abort", not(test)))]
mod preload;
