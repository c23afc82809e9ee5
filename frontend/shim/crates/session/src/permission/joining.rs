//! Joined copies: whether a copy to the host may wait until the next call that waits (manifest.md, JOIN_NEXT_WAIT).
//!
//! What is proven of the program's own code stands in the manifest. Here is what shows only when it runs: where the
//! destination is, and who else could look at it.

use super::output;
use crate::above::device_may_write_host_memory;
use crate::frame;
use crate::manifests::{self, Joining};
use crate::thread_state::counters;

/// Whether the copy under way, to `[start, start + length)`, may join.
pub(super) fn may_join(joining: &Joining, start: usize, length: usize) -> bool {
    let reached = manifests::any_managed() || device_may_write_host_memory();
    let noticed = joining.copy.shared && !counters::is_alone();
    !(reached || noticed || output::expected()) && misses(joining, start as u64, length as u64)
}

/// Whether what the program reads before the next call that waits is elsewhere than the destination.
fn misses(joining: &Joining, start: u64, length: u64) -> bool {
    let Some(end) = start.checked_add(length) else { return false };
    let mut ranges = joining.copy.ranges.iter().peekable();
    if ranges.peek().is_none() {
        return true;
    }
    let Some(registers) = frame::registers() else { return false };
    ranges.all(|range| {
        let base = if range.frame { registers.rsp() } else { joining.object.bias as u64 };
        let first = base.wrapping_add(range.start);
        first.checked_add(range.size.into()).is_some_and(|behind| behind <= start || end <= first)
    })
}
