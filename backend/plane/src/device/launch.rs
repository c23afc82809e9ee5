//! Launches that Python has laid out: what is left to do is to bring the parameters, and to launch.

use super::cuda::kernel::Kernel;
use super::host::Code;
use super::work::Fault;
use std::sync::atomic::AtomicU64;

/// What a launch that is laid out consists of.
pub enum Launch {
    /// There is nothing to do but to count it (the null device).
    Counted,
    /// A call of compiled code.
    Code(Code),
    /// A launch by a driver.
    Kernel(Kernel),
}

/// A launch that is laid out.
pub struct Entry {
    pub(super) launch: Launch,
    pub(super) epoch: u64,
    pub(super) spent: AtomicU64,
    /// How many nanoseconds the last launch took.
    pub(super) took: AtomicU64,
}

impl Entry {
    pub fn launch(&self) -> &Launch {
        &self.launch
    }
}

/// What has become of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ran {
    Done,
    /// It was not begun: something has changed since it was laid out.
    Stale,
    /// It did not come to its end; Python says why.
    Failed,
    /// The driver has refused it.
    Fault(Fault),
    /// It has; the kernel has run for so many nanoseconds since this was last said. `long`: it is not to be launched from here again.
    Account {
        nanoseconds: u64,
        long: bool,
    },
}
