//! Launches that are laid out: what is left to do is to bring the parameters, and to call the kernel.

use std::any::Any;
use std::sync::atomic::AtomicU64;

/// A launch that is laid out: everything but its parameters and its number.
pub struct Laid {
    /// The kernel: `int run(launch, worker)`.
    pub run: unsafe extern "C" fn(*mut u8, *mut u8) -> i32,
    pub launch: *mut u8,
    pub worker: *mut u8,
    pub parameters: *mut u8,
    pub size: usize,
    /// Where in the launch these stand.
    pub next_block: usize,
    pub grid_id: usize,
    pub abort: usize,
    /// Its code is to be replaced by better one once it has run for long: how long it runs is said.
    pub provisional: bool,
    /// A launch that takes longer, in nanoseconds, is the last one here: the next ones are worth more threads, or have to run in parts.
    pub limit: u64,
    /// What the addresses are in.
    pub keep: Box<dyn Any + Send + Sync>,
}

// SAFETY: one thread at a time runs it (the gate); all it points to stays as long as `keep`.
unsafe impl Send for Laid {}
// SAFETY: the same.
unsafe impl Sync for Laid {}

/// A launch that is laid out, or (on the null device) one of which nothing is left to do.
pub struct Entry {
    pub(super) laid: Option<Laid>,
    pub(super) epoch: u64,
    pub(super) spent: AtomicU64,
}

impl Entry {
    pub fn laid(&self) -> Option<&Laid> {
        self.laid.as_ref()
    }
}

/// What has become of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    Done,
    /// It was not begun: something has changed since it was laid out.
    Stale,
    /// It did not come to its end.
    Failed,
    /// It has; the kernel has run for so many nanoseconds since this was last said. `long`: it is not to be launched from here again.
    Account {
        nanoseconds: u64,
        long: bool,
    },
}
