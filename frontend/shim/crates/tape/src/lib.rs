//! The tape's record framing: how operations are written and how results are read.
//!
//! Owns: the bytes of one record (header, fields, tail, padding) and the limits on them. Owns neither groups and
//! messages (crate `client`) nor what an operation means (`tape.toml`, from which `generated_operations` comes).
//! Depends on nothing but the crate `limits`, so that either side of the wire can use it. Source: `protos/tape.md`, version 1.

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
/// The longest record, header, tail and padding included.
pub use limits::RECORD_BYTES as MAX_RECORD_BYTES;
/// The longest tail that fits any operation; longer data is cut into several records.
pub use limits::TAIL_BYTES as MAX_TAIL_BYTES;
/// Bytes of a template's body.
pub const MAX_BODY_BYTES: usize = 64 << 10;
/// Holes of a template.
pub const MAX_HOLES: usize = 4096;
/// Loops within loops of a template; a body without a loop is one.
pub const MAX_LEVELS: u8 = 8;
/// Bytes of the columns that a REPEAT may go on with.
pub const MAX_CONTINUED_BYTES: usize = 4096;
