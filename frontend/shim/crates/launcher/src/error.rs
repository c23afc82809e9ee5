//! What a user of the command line meets: what is wrong, what to do, and the exit status.

use std::fmt;

/// The program was never started, as env and docker have it.
pub const FAILED: u8 = 125;
pub const NOT_EXECUTABLE: u8 = 126;
pub const NOT_FOUND: u8 = 127;
pub const WRONG_CALL: u8 = 2;

/// Printed without a trace; the launcher ends with `status`.
#[derive(Debug, PartialEq, Eq)]
pub struct UserError {
    message: String,
    advice: String,
    pub status: u8,
}

impl UserError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), advice: String::new(), status: FAILED }
    }

    pub fn wrong_call(message: impl Into<String>) -> Self {
        Self::new(message).status(WRONG_CALL)
    }

    pub fn advice(self, advice: impl Into<String>) -> Self {
        Self { advice: advice.into(), ..self }
    }

    pub fn status(self, status: u8) -> Self {
        Self { status, ..self }
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if self.advice.is_empty() {
            return Ok(());
        }
        write!(f, "\n  {}", self.advice)
    }
}
