//! The contexts of the process as the tape names them: which one the calling thread works for, and since when each
//! holds what it holds.
//!
//! The primary context is number 0, and the only one until the driver API creates another (`begin`); until then nothing
//! here costs more than a look. Which context is current to a thread is the driver API's; a call that is about a
//! stream, an event or memory of another context works for that one meanwhile (`act_for`).
//!
//! A context's *epoch* is a number that no other context has, and that changes when all that the context holds ends:
//! handles minted in one epoch are unknown in every other.
//!
//! Locking: one read-write lock around the epochs of created contexts, a leaf.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{OnceLock, PoisonError, RwLock};

use crate::call::Outcome;
use crate::process;

/// The primary context's number.
pub const PRIMARY: u32 = 0;
/// Stands for no context, as the owner of what belongs to the device.
pub const NONE: u32 = u32::MAX;

/// Tells which context is current to the calling thread, once there are several.
static CURRENT: OnceLock<fn() -> u32> = OnceLock::new();
static NEXT_EPOCH: AtomicU32 = AtomicU32::new(2);
static RESETS: AtomicU32 = AtomicU32::new(0);
static PRIMARY_EPOCH: AtomicU32 = AtomicU32::new(1);
/// Those of created contexts.
static EPOCHS: RwLock<Option<HashMap<u32, u32>>> = RwLock::new(None);

thread_local! {
    static ACTING: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A context beside the primary one is about to be there; `current` says from now on which one is current to the
/// calling thread.
pub fn begin(current: fn() -> u32) -> Outcome {
    if CURRENT.set(current).is_ok() {
        process::session()?.begin_contexts(acting);
    }
    Ok(())
}

/// Whether there ever was another context than the primary one.
#[inline(always)]
pub fn several() -> bool {
    CURRENT.get().is_some()
}

/// The context that the calling thread works for.
#[inline]
pub fn acting() -> u32 {
    match CURRENT.get() {
        None => PRIMARY,
        Some(current) => ACTING.try_with(Cell::get).ok().flatten().unwrap_or_else(current),
    }
}

/// The calling thread works for a context as long as this lives.
#[derive(Debug)]
pub struct Acting {
    before: Option<u32>,
}

impl Drop for Acting {
    fn drop(&mut self) {
        // A thread that is ending works for none.
        let _ = ACTING.try_with(|acting| acting.set(self.before));
    }
}

/// The calling thread works for that context; `None` when it does so already.
#[inline]
pub fn act_for(context: u32) -> Option<Acting> {
    if !several() || acting() == context {
        return None;
    }
    ACTING.try_with(|acting| Acting { before: acting.replace(Some(context)) }).ok()
}

/// The epoch of the context that the calling thread works for.
#[inline]
pub fn epoch() -> u32 {
    match CURRENT.get() {
        None => PRIMARY_EPOCH.load(Relaxed),
        Some(_) => epoch_of(acting()),
    }
}

/// The epoch of a context; 0, which no handle is of, when it has ended.
pub fn epoch_of(context: u32) -> u32 {
    if context == PRIMARY {
        return PRIMARY_EPOCH.load(Acquire);
    }
    let epochs = EPOCHS.read().unwrap_or_else(PoisonError::into_inner);
    epochs.as_ref().and_then(|epochs| epochs.get(&context).copied()).unwrap_or(0)
}

/// The context begins, or what it held has ended.
pub fn renew(context: u32) {
    let epoch = NEXT_EPOCH.fetch_add(1, Relaxed);
    if context == PRIMARY {
        PRIMARY_EPOCH.store(epoch, Release);
    } else {
        let mut epochs = EPOCHS.write().unwrap_or_else(PoisonError::into_inner);
        epochs.get_or_insert_with(HashMap::new).insert(context, epoch);
    }
}

/// How often the whole device was reset: what belongs to it and not to a context is of the past then.
pub fn resets() -> u32 {
    RESETS.load(Acquire)
}

/// The whole device was reset.
pub fn device_was_reset() {
    RESETS.fetch_add(1, Release);
    renew(PRIMARY);
}

/// A created context has ended.
pub fn end(context: u32) {
    if let Some(epochs) = &mut *EPOCHS.write().unwrap_or_else(PoisonError::into_inner) {
        epochs.remove(&context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs_are_never_used_twice() {
        renew(16);
        let first = epoch_of(16);
        renew(16);
        renew(17);
        let (second, other) = (epoch_of(16), epoch_of(17));
        assert!(first != second && second != other && first != 0);
        end(16);
        assert_eq!(epoch_of(16), 0);
        assert_ne!(epoch_of(PRIMARY), other);
        assert!(!several() && act_for(16).is_none() && acting() == PRIMARY);
    }
}
