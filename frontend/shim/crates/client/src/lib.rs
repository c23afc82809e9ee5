//! Transport and session engine: how recorded work reaches the host and results come back.
//!
//! Owns the connection, groups and credit, awaited results, the counts and the report. Does not know what an operation
//! means, nor CUDA beyond the numbers of a few errors. Nothing happens before [`Session::open`]: the library that holds
//! this crate is loaded into arbitrary processes.
//! Source: `protos/tape.md` (carriage, results, errors), `protos/farlane/v1/session.proto`.

mod admin;
mod age;
mod append;
mod carrier;
mod config;
mod connect;
mod contexts;
mod conversation;
mod counters;
mod error;
#[allow(clippy::all, clippy::pedantic, dead_code, missing_docs)]
#[rustfmt::skip]
pub mod generated_farlane_v1;
mod leaks;
mod ledger;
pub mod log;
mod loops;
mod objects;
mod outbox;
mod output;
mod reading;
mod reads;
pub mod report;
mod session;
mod shared;
mod spares;
mod transport;
mod waiter;

#[cfg(test)]
mod tests;

pub use admin::describe_host;
pub use append::Append;
pub use config::{Config, ConfigError, Endpoint, Mode, Transport};
pub use counters::{Counter, Counters};
pub use error::{Failure, OpenError, OpenReason};
pub use fold::{Foreseen, Origin};
pub use generated_farlane_v1::Object;
pub use generated_farlane_v1::{DescribeReply, DeviceDescription, OpenSession, Welcome};
pub use output::Output;
pub use report::{CallSummary, Section};
pub use session::{HelloInfo, Session};
pub use waiter::{Answer, Destination};
