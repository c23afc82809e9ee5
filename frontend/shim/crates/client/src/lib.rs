//! Transport and session engine: how recorded work reaches the host and results come back.
//!
//! Owns the connection, groups and credit, awaited results, the counts and the report. Does not know what an operation
//! means, nor CUDA beyond the numbers of a few errors. Nothing happens before [`Session::open`]: the library that holds
//! this crate is loaded into arbitrary processes.
//! Source: `protos/tape.md` (carriage, results, errors), `protos/farlane/v1/session.proto`.

mod config;
mod counters;
mod error;
#[allow(clippy::all, clippy::pedantic, dead_code, missing_docs)]
#[rustfmt::skip]
pub mod generated_farlane_v1;
mod session;

pub use config::{Config, ConfigError, Endpoint, Mode};
pub use counters::{Counter, Counters};
pub use error::{Failure, OpenError, OpenReason};
pub use generated_farlane_v1::{DeviceDescription, Welcome};
pub use session::{Answer, CallSummary, Destination, HelloInfo, Session};
