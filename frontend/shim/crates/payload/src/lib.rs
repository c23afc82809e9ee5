//! What need not travel: bytes that the host has already, and bytes that compress.
//!
//! Owns the guest's book of what the host keeps (`Cache`) and the choice and making of compressed payloads (`Packer`).
//! Owns no record and no connection: `farlane_core` turns decisions into PAYLOAD_KEEP, PAYLOAD_DROP, WRITE_KEPT and
//! WRITE. The book and the tape must agree, so a decision and its records are made under one lock of the caller's.
//!
//! Source: protos/tape.md, "Payloads"; docs/explanation/systems.md, S1 point 9.

mod cache;
mod codec;

pub use cache::{Cache, Decision, Name, Namer, Sketch, KEPT_BYTES, MAX_NUMBERS};
pub use codec::{Link, Packer};
