//! What goes to the host: the tape as it is written, cut into groups and sent.
//!
//! Everything here happens under the outbox's lock. `append` writes whole records, `outbox` cuts groups and hands them
//! to the connection, `lead` is a loop that the host leads and `following` the program in it, `loops` says when recorded
//! loops are sent, `reads` keeps copies that no thread waits for, `buffers` the tape's memory; `carrier` is the way to
//! the host.

pub(crate) mod append;
mod buffers;
pub(crate) mod carrier;
pub(crate) mod following;
pub(crate) mod lead;
mod loops;
pub(crate) mod outbox;
mod reads;
