//! The tape's record framing: how operations are written and how results are read.
//!
//! Owns: the bytes of one record (header, fields, tail, padding) and the limits on them. Owns neither groups and
//! messages (crate `client`) nor what an operation means (`tape.toml`, from which `generated_operations` comes).
//! Depends on nothing, so that either side of the wire can use it. Source: `protos/tape.md`, version 1.

mod bulk;
#[rustfmt::skip]
#[allow(clippy::pedantic, unused_parens)]
pub mod generated_operations;
#[rustfmt::skip]
mod generated_rows;
mod results;
pub mod rows;
mod writer;

pub use bulk::{WriteHead, BULK_BYTES};
pub use generated_operations as operations;
pub use generated_operations::VERSION;
pub use results::{DataHead, ResultError, ResultRecord, Results};
pub use rows::{Answer, Plans, Record, Row};
pub use writer::{record_length, whole_records, Oversized, Writer};

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 8;
/// Records start at multiples of this and are padded to it.
pub const ALIGNMENT: usize = 8;
/// The longest tail that fits any operation; longer data is cut into several records.
pub const MAX_TAIL_BYTES: usize = 1 << 20;
/// The longest record, header, tail and padding included.
pub const MAX_RECORD_BYTES: usize = MAX_TAIL_BYTES + 4096;
