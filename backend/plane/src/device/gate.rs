//! The lock around the use of device memory: the code that gives the memory back holds it first.

use crate::fairness::slot::Place;
use parking_lot::lock_api::RawMutex as _;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Held while device memory is used. Where sessions share the device's time, an operation has a place there besides.
pub struct Gate {
    lock: parking_lot::RawMutex,
    place: OnceLock<Arc<Place>>,
}

impl Default for Gate {
    fn default() -> Self {
        Self { lock: parking_lot::RawMutex::INIT, place: OnceLock::new() }
    }
}

impl Gate {
    /// From now on operations wait for their place. Once, before the first one.
    pub fn share(&self, place: Arc<Place>) {
        let _ = self.place.set(place);
    }

    pub fn place(&self) -> Option<&Arc<Place>> {
        self.place.get()
    }

    pub fn try_lock(&self) -> bool {
        self.lock.try_lock()
    }

    pub fn lock(&self) {
        self.lock.lock();
    }

    /// Whether it came to that in time.
    pub fn lock_for(&self, timeout: Duration) -> bool {
        use parking_lot::lock_api::RawMutexTimed as _;
        self.lock.try_lock_for(timeout)
    }

    /// # Safety
    /// The caller has locked it.
    pub unsafe fn unlock(&self) {
        // SAFETY: the caller's promise.
        unsafe { self.lock.unlock() };
    }

    /// For bookkeeping, which needs no place.
    pub fn hold(&self) -> Held<'_> {
        self.lock();
        Held(self)
    }

    /// For an operation of the device.
    pub fn work(&self) -> Working<'_> {
        if let Some(place) = self.place.get() {
            place.enter();
        }
        self.lock();
        Working(self)
    }

    /// At a boundary inside of an operation: whether there is a place to be left, and had again.
    pub fn step_aside(&self) -> bool {
        self.place.get().map(|place| place.step_aside()).is_some()
    }

    /// Those that wait for a place go on without one.
    pub fn interrupt(&self) {
        if let Some(place) = self.place.get() {
            place.interrupt();
        }
    }

    /// So many nanoseconds of an operation are over.
    pub fn charge(&self, nanoseconds: u64) {
        if let Some(place) = self.place.get() {
            place.charge(nanoseconds);
        }
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

/// A gate that is locked for an operation.
pub struct Working<'a>(&'a Gate);

impl Drop for Working<'_> {
    fn drop(&mut self) {
        // SAFETY: `work` has locked it.
        unsafe { self.0.unlock() };
        if let Some(place) = self.0.place.get() {
            place.leave();
        }
    }
}
