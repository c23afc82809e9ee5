//! Slices: what a loop's host code decides from bytes that it has read, evaluated where the bytes are.
//!
//! A slice is a small program that the analyzer has taken from an executable and proven (docs/explanation/loops/slices.md, "Slices"). It comes from a guest, so
//! nothing is believed of its bytes: [`Slice::read`] takes well-formed ones alone, of which each names its own registers and its own memory only,
//! and ends each iteration. [`Evaluation`] computes one, from call to call.
//!
//! - [`form`]: what a slice is; `read`: from bytes; `check`: the rules
//! - [`Filling`]: what calls put into records
//! - [`invariant`]: what is the same in all iterations
//! - `prepare`: a slice's blocks as they are evaluated
//! - `arithmetic`: exact results of x86-64's operations; [`evaluate`]: the calls of a loop, one after the other
//!
//! The specification is the analyzer's (analyzer/slices: form.py, encode.py, check.py, arithmetic.py, evaluate.py), with which the tests compare
//! this crate. Source: protos/manifest.md, "Slices".

mod arithmetic;
mod check;
pub mod evaluate;
mod filling;
pub mod form;
pub mod invariant;
mod lowered;
mod read;
mod simplified;
#[cfg(test)]
mod tests;

pub use evaluate::{Evaluation, Event, Prepared, Stuck};
pub use filling::Filling;
pub use form::Slice;

/// The rule of the form that bytes break.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(pub String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not a slice: {}", self.0)
    }
}

impl std::error::Error for Malformed {}
