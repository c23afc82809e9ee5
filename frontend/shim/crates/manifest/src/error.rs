//! Why a manifest cannot be used.

use std::fmt;

/// The rule of `protos/manifest.md` that is broken, and where (an offset or an index, as the rule says).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    pub rule: &'static str,
    pub at: usize,
}

impl Broken {
    pub(crate) fn at(rule: &'static str, at: usize) -> Self {
        Self { rule, at }
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (at {})", self.rule, self.at)
    }
}

impl std::error::Error for Broken {}
