//! The host's data plane: what lies between a guest's bytes and the session that takes them.
//!
//! It owns the sockets and the threads: it accepts connections, speaks gRPC over HTTP/2 on them, bounds how many there are, and gives each call
//! to the thread that serves it. It replays what sessions send. What a call means is the caller's (`Serve`), and so is what the replay leaves
//! to a control plane (`replay::control`): admission, objects and devices are Python's, which this crate does not know (`binding` does).
//!
//! The thread that serves a call drives its connection: it reads the socket when it waits for a message and writes when it sends one. A round
//! trip costs no hand-over from one thread to another. While such a thread is busy elsewhere, the listening thread looks after its connection ten
//! times a second, so that a guest that has gone is noticed and pings are answered.
//!
//! - [`server`]: calls, limits, stopping; [`listening`]: the sockets, and the thread that accepts
//! - `connection`: one socket ([`socket`]), and the runtime that its threads drive in turn; [`codec`]: what gRPC carries
//! - [`call`]: one call: messages in, messages out, its end
//! - [`security`]: TLS of encrypted connections
//! - [`message`]: a guest's message as far as the plane reads it
//! - [`ring`]: messages through shared memory; [`placing`]: large ones, of which a part goes where it belongs
//! - `passage`: connections for sessions in other processes
//! - [`replay`]: groups, records, results, errors
//! - [`fairness`]: the device's time, shared between sessions
//! - [`device`]: copies, sets and launches that need no Python
//!
//! Source: gRPC over HTTP/2; protos/farlane/v1/session.proto.

pub mod call;
pub mod codec;
mod connection;
mod counter;
pub mod device;
pub mod fairness;
pub mod listening;
pub mod message;
mod passage;
pub mod placing;
pub mod replay;
pub mod ring;
pub mod security;
pub mod server;
pub mod socket;

pub use call::{Call, Gone, Received};
pub use security::Security;
pub use server::{Options, Serve, Server};
