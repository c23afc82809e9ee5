//! The tape's record framing.
