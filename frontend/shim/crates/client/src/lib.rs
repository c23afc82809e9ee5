//! Transport and session engine: how recorded work reaches the host and results come back.
//!
//! Owns the connection, groups and credit, awaited results, the counts and the report. Does not know what an operation
//! means, nor CUDA beyond the numbers of a few errors. Nothing happens before [`Session::open`]: the library that holds
//! this crate is loaded into arbitrary processes.
//!
//! Rooms: `outgoing` (the tape, until it is sent), `incoming` (results, until they are delivered), `connection` (the
//! connection and its thread). `shared` has what the program's threads and that thread share, `status` how a session's life
//! goes; `session` is the crate's face. `config`: where the host is and how to talk to it; `report`: what is counted and said.
//!
//! Source: `protos/tape.md` (carriage, results, errors), `protos/farlane/v1/session.proto`.

mod config;
mod connection;
mod endpoint;
mod error;
#[allow(clippy::all, clippy::pedantic, dead_code, missing_docs)]
#[rustfmt::skip]
pub mod generated_farlane_v1;
mod incoming;
mod leading;
mod outgoing;
pub mod report;
mod session;
mod shared;
mod status;

#[cfg(test)]
mod tests;

pub use config::{Access, Config, ConfigError, Decided, Mode, Token, Transport};
pub use connection::admin::describe_host;
pub use connection::signals::{expect_handler, is_inside};
pub use connection::thread::spawn;
pub use endpoint::Endpoint;
pub use error::{Failure, OpenError, OpenReason};
pub use generated_farlane_v1::Object;
pub use generated_farlane_v1::{DescribeReply, DeviceDescription, OpenSession, Welcome};
pub use incoming::destination::Destination;
pub use incoming::output::Output;
pub use incoming::waiter::Answer;
pub use outgoing::append::Append;
pub use outgoing::lead::{Lead, LeadHole};
pub use recorder::{Origin, PredictedLaunch};
pub use report::counters::{Counter, Counters};
pub use report::{log, spans, CallSummary, Section};
pub use session::{HelloInfo, Session};
