//! Fat binaries: entries, kernel signatures.
