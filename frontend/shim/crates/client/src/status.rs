//! How a session's life goes: running -> finishing -> finished (`Session::finish`), or -> dead (the connection was lost), or
//! -> abandoned (the child of a fork).

use std::sync::atomic::{AtomicU8, Ordering};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Running,
    Finishing,
    Finished,
    Dead,
    /// The child of a fork.
    Abandoned,
}

#[derive(Debug)]
pub(crate) struct Status(AtomicU8);

impl Status {
    pub(crate) fn running() -> Self {
        Self(AtomicU8::new(Phase::Running as u8))
    }

    #[inline]
    pub(crate) fn get(&self) -> Phase {
        const PHASES: [Phase; 5] = [Phase::Running, Phase::Finishing, Phase::Finished, Phase::Dead, Phase::Abandoned];
        PHASES[usize::from(self.0.load(Ordering::Acquire)) % PHASES.len()]
    }

    #[inline]
    pub(crate) fn is_running(&self) -> bool {
        self.0.load(Ordering::Acquire) == Phase::Running as u8
    }

    /// True for the one caller that makes this step.
    pub(crate) fn step(&self, from: Phase, to: Phase) -> bool {
        self.0.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    pub(crate) fn force(&self, to: Phase) {
        self.0.store(to as u8, Ordering::Release);
    }
}
