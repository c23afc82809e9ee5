//! The connection to the host, and the background thread that owns it.
//!
//! `connect` opens a socket, `transport` carries a session's stream over it, `conversation` is what the thread does
//! while the session is open, `age` wakes it when a tape grows old. `objects` sends files that the host asks for,
//! `admin` asks a host what it is. `thread` makes our threads, `leaks` keeps leak checkers quiet about them.

pub(crate) mod admin;
pub(crate) mod age;
mod connect;
pub(crate) mod conversation;
pub(crate) mod leaks;
pub(crate) mod objects;
pub(crate) mod process;
pub(crate) mod thread;
pub(crate) mod transport;
