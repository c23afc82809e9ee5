//! Reads the analyzer's manifests and evaluates their expressions.
//!
//! Owns the format of `protos/manifest.md`, versions 1 to 4, and nothing of what is done with it (crate
//! `farlane_core`: objects, permissions). A manifest is untrusted bytes: [`Manifest::parse`] checks every rule of that
//! page once, with memory bounded by the bytes given, and everything after it works on checked offsets. A manifest that
//! was accepted can still be wrong about the program; that is for its user. No dependency but BLAKE2b for the checksum;
//! no I/O, no unsafe code.

mod bytes;
pub mod code;
mod entries;
mod error;
mod joined;
mod parse;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

pub use code::Machine;
pub use entries::{Argument, Identity, Loop, Site, Text};
pub use error::Broken;
pub use joined::{JoinedCopy, Range};
pub use parse::Manifest;

/// The newest version that this crate reads; it reads all from 1 on.
pub const VERSION: u32 = 4;
/// The longest manifest.
pub use limits::MANIFEST_BYTES as MAX_BYTES;

/// Permissions of a site.
pub const LOCAL_SYNC: u8 = 1;
pub const DEFER_READ: u8 = 2;
pub const COMPLETE_AT_CALL: u8 = 4;

/// Flags of a site.
pub const CONDITIONAL: u8 = 1;
pub const LAUNCH: u8 = 2;
pub const IN_CALLEE: u8 = 4;

/// Flags of a loop.
pub const DESCRIBED: u8 = 1;

/// Flags of a manifest.
pub const MAY_START_THREADS: u32 = 1;
pub const HAS_MANAGED_VARIABLES: u32 = 2;
pub const FUNCTIONS_SKIPPED: u32 = 4;
