//! Lines for the user on stderr, each starting with "farlane: ". The level comes from FARLANE_LOG, read once.
//!
//! One write per line, no buffer and no lock of ours, so that a line may be written at any time up to the process's
//! end.

use std::env;
use std::fmt;
use std::io::Write as _;
use std::sync::OnceLock;

/// How much the user wants to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

/// The most detailed level that is shown.
#[must_use]
pub fn level() -> Level {
    static LEVEL: OnceLock<Level> = OnceLock::new();
    *LEVEL.get_or_init(|| match env::var("FARLANE_LOG").as_deref() {
        Ok("error") => Level::Error,
        Ok("info") => Level::Info,
        Ok("debug") => Level::Debug,
        _ => Level::Warn,
    })
}

/// Writes one line if `line_level` is shown.
pub fn line(line_level: Level, message: fmt::Arguments<'_>) {
    if line_level <= level() {
        let text = format!("farlane: {message}\n");
        // No other place can say that stderr is closed.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }
}

pub fn error(message: fmt::Arguments<'_>) {
    line(Level::Error, message);
}

pub fn warn(message: fmt::Arguments<'_>) {
    line(Level::Warn, message);
}

pub fn info(message: fmt::Arguments<'_>) {
    line(Level::Info, message);
}

pub fn debug(message: fmt::Arguments<'_>) {
    line(Level::Debug, message);
}
