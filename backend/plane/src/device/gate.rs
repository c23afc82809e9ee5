//! The lock around the use of device memory: whoever gives the memory back holds it first.

use parking_lot::lock_api::RawMutex as _;
use std::time::Duration;

/// Held while device memory is used.
pub struct Gate(parking_lot::RawMutex);

impl Default for Gate {
    fn default() -> Self {
        Self(parking_lot::RawMutex::INIT)
    }
}

impl Gate {
    pub fn try_lock(&self) -> bool {
        self.0.try_lock()
    }

    pub fn lock(&self) {
        self.0.lock();
    }

    /// Whether it came to that in time.
    pub fn lock_for(&self, timeout: Duration) -> bool {
        use parking_lot::lock_api::RawMutexTimed as _;
        self.0.try_lock_for(timeout)
    }

    /// # Safety
    /// The caller has locked it.
    pub unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.0.unlock() };
    }

    pub fn hold(&self) -> Held<'_> {
        self.lock();
        Held(self)
    }
}

/// A gate that is locked.
pub struct Held<'a>(&'a Gate);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // SAFETY: `hold` has locked it.
        unsafe { self.0.unlock() };
    }
}
