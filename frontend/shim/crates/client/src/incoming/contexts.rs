//! Contexts of a session: which one a record is of, and the errors of each that no result has delivered.
//!
//! A group has records of one context (tape.md, "Contexts"), so an error that comes with a reply is that of the group's
//! context. Context 0 is the primary one; as long as the program has made no other, nothing here costs more than a
//! look.
//!
//! Locking: context 0's errors are atomics; one read-write lock around the others', a leaf.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::OnceLock;

use parking_lot::RwLock;

/// The errors of one context. 0: none.
#[derive(Debug, Default)]
struct Pair {
    deferred: AtomicI32,
    sticky: AtomicI32,
}

impl Pair {
    fn defer(&self, code: i32) {
        let _ = self.deferred.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }

    fn stick(&self, code: i32) {
        let _ = self.sticky.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }

    fn take_deferred(&self) -> i32 {
        match self.deferred.load(Ordering::Acquire) {
            0 => 0,
            _ => self.deferred.swap(0, Ordering::AcqRel),
        }
    }

    fn clear(&self) {
        self.sticky.store(0, Ordering::Release);
        self.deferred.store(0, Ordering::Release);
    }
}

/// See the module's comment.
#[derive(Debug, Default)]
pub(crate) struct Contexts {
    /// Tells which context the calling thread works for, once there are several.
    acting: OnceLock<fn() -> u32>,
    primary: Pair,
    others: RwLock<HashMap<u32, Pair>>,
}

impl Contexts {
    /// From now on there are several contexts. Once.
    pub(crate) fn begin(&self, acting: fn() -> u32) {
        let _ = self.acting.set(acting);
    }

    /// The context that the calling thread works for; `None` where there is one only.
    #[inline(always)]
    pub(crate) fn acting(&self) -> Option<u32> {
        self.acting.get().map(|acting| acting())
    }

    fn with<T>(&self, context: u32, body: impl FnOnce(&Pair) -> T) -> T {
        if context == 0 {
            return body(&self.primary);
        }
        if let Some(pair) = self.others.read().get(&context) {
            return body(pair);
        }
        body(self.others.write().entry(context).or_default())
    }

    /// The first one wins.
    pub(crate) fn defer(&self, context: u32, code: i32) {
        self.with(context, |pair| pair.defer(code));
    }

    /// The first one wins.
    pub(crate) fn stick(&self, context: u32, code: i32) {
        self.with(context, |pair| pair.stick(code));
    }

    /// Of the context that the calling thread works for.
    #[inline]
    pub(crate) fn sticky(&self) -> i32 {
        match self.acting() {
            None | Some(0) => self.primary.sticky.load(Ordering::Acquire),
            Some(other) => self.others.read().get(&other).map_or(0, |pair| pair.sticky.load(Ordering::Acquire)),
        }
    }

    /// The same.
    #[inline]
    pub(crate) fn take_deferred(&self) -> i32 {
        match self.acting() {
            None | Some(0) => self.primary.take_deferred(),
            Some(other) => self.others.read().get(&other).map_or(0, Pair::take_deferred),
        }
    }

    /// A context begins anew, or has ended.
    pub(crate) fn forget(&self, context: u32) {
        if context == 0 {
            self.primary.clear();
        } else {
            self.others.write().remove(&context);
        }
    }

    /// The device was reset.
    pub(crate) fn clear(&self) {
        self.primary.clear();
        self.others.write().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    thread_local! {
        static ACTING: Cell<u32> = const { Cell::new(0) };
    }

    #[test]
    fn errors_are_those_of_the_threads_context() {
        let contexts = Contexts::default();
        contexts.defer(0, 1);
        contexts.begin(|| ACTING.get());
        contexts.stick(16, 700);
        contexts.stick(16, 719);
        contexts.defer(17, 2);
        assert_eq!((contexts.sticky(), contexts.take_deferred(), contexts.take_deferred()), (0, 1, 0));
        ACTING.set(16);
        assert_eq!((contexts.sticky(), contexts.take_deferred()), (700, 0));
        ACTING.set(17);
        assert_eq!((contexts.sticky(), contexts.take_deferred()), (0, 2));
        contexts.forget(16);
        ACTING.set(16);
        assert_eq!(contexts.sticky(), 0);
    }
}
