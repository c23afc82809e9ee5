//! How long the tests that damage what others send look, for all crates. Used by tests alone.

/// How many inputs a test tries: `usual`, or FARLANE_FUZZ_INPUTS, for a longer look.
pub fn inputs(usual: u64) -> u64 {
    std::env::var("FARLANE_FUZZ_INPUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}
