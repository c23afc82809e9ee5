//! Bounds that guests, hosts and the analyzer keep alike, from `protos/limits.toml`.
//!
//! Owns nothing but the constants; what keeps one says what breaking it means.

#[rustfmt::skip]
mod generated_limits;

pub use generated_limits::*;
