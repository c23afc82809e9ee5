//! What goes to the host: the tape as it is written, cut into groups and sent.
//!
//! Everything here happens under the outbox's lock. `append` writes whole records, `outbox` cuts groups and hands them
//! to the connection, `loops` says when recorded loops are sent, `reads` keeps copies that no thread waits for,
//! `buffers` the tape's memory.

pub(crate) mod append;
mod buffers;
mod loops;
pub(crate) mod outbox;
mod reads;
