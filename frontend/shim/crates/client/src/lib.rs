//! Transport and session engine.

#[rustfmt::skip]
#[allow(clippy::all, dead_code, missing_docs)]
pub mod generated_farlane_v1;
