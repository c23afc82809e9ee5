//! The three kinds of error that a session can give: a CUDA result, a dead transport, and a session that never opened.

use crate::Endpoint;
use std::fmt;

/// Why a call on an open session did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The host answered with this `cudaError_t`. `sticky`: the session's context is lost with it.
    Cuda { code: i32, sticky: bool },
    /// There is no connection to the host (any more), or this process is a fork of the one that had it.
    Dead,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda { code, sticky: false } => write!(f, "CUDA error {code}"),
            Self::Cuda { code, sticky: true } => write!(f, "CUDA error {code} (the context is lost)"),
            Self::Dead => f.write_str("no connection to the host"),
        }
    }
}

impl std::error::Error for Failure {}

/// Why a session could not be opened: one or two sentences for the user, saying what is wrong and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenError {
    pub reason: OpenReason,
    pub message: String,
}

/// The kinds of [`OpenError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenReason {
    /// Nothing listens at the address, or it cannot be reached.
    Unreachable,
    /// No answer within the time allowed.
    Timeout,
    /// The host declined; the message is the host's.
    Refused,
    /// Host and guest speak no common version.
    Version,
    /// The host took the call, and ended before it opened a session.
    Ended,
    /// What answered is not a Farlane host, or broke the protocol.
    Protocol,
    /// This process could not make what a session needs (a thread, a socket).
    Local,
}

impl OpenError {
    pub(crate) fn new(reason: OpenReason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }

    /// The host has taken the call, and has ended before it opened a session.
    pub(crate) fn ended(endpoint: &Endpoint, why: &str) -> Self {
        let message = format!("{endpoint} has ended the connection before the session was open ({why}): try again");
        Self::new(OpenReason::Ended, message)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for OpenError {}
