//! What a process that has a guest's session gives up for good: files (Landlock) and system calls (seccomp).
//!
//! Two steps, because they can be taken at different times. `restrict_files` comes first, while the process has one thread: Landlock
//! restricts the calling thread and those that it starts. `restrict_calls` comes when the guest does, and takes hold of all threads.
//! Until then the process has seen nothing of a guest, and may do more: start threads with priorities, write its cache.
//!
//! Owns the two lists. Which folders there are is the caller's to say. Neither step can be undone, by anyone.
//!
//! Source: Linux, Documentation/userspace-api/landlock.rst and seccomp_filter.rst; seccomp(2), landlock(7).

mod calls;
mod files;

pub use calls::restrict_calls;
pub use files::{restrict_files, Held};

/// Why a step could not be taken.
#[derive(Debug)]
pub struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}
