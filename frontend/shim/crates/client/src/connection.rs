//! The connection to the host, and the background thread that looks after it.
//!
//! `connect` opens a socket, `channel` speaks gRPC over it, `transport` opens a session. `stream` moves the session's
//! bytes for the thread that reads (`incoming/reading.rs`), `posting` holds what it is to send. `conversation` is what is done with a reply, and with a tape
//! that grows old; `age` and `bell` wake the background thread. `objects` sends files that the host asks for, `admin`
//! asks a host what it is, `process` leads to a session that has a process of its own, `resuming` to one whose connection
//! has broken, `elsewhere` to the host that a gateway names. `security` is TLS and what the guest shows to be let in. `thread` makes our threads, `leaks` keeps leak checkers quiet about them.
//! `signals`: those of the program while its threads read.

pub(crate) mod admin;
pub(crate) mod age;
pub(crate) mod bell;
mod channel;
pub(crate) mod connect;
pub(crate) mod conversation;
mod elsewhere;
pub(crate) mod leaks;
pub(crate) mod objects;
pub(crate) mod posting;
pub(crate) mod process;
pub(crate) mod resuming;
mod security;
pub mod signals;
pub(crate) mod stream;
pub mod thread;
pub(crate) mod transport;
