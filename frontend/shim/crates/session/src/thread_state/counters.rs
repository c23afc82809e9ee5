//! Counts of the program's calls by class, for the report: exact, and no two threads share a cache line or a locked
//! instruction.
//!
//! Each thread counts in [`Counters`] of its own, which only it writes. When the thread ends its counts join the sum.
//! The calls of a thread that is ending are added to the sum itself.
//!
//! Locking: `ALL`, at a thread's first call, at its end, and for the report. Nothing else is done under it. The child
//! of a fork, where a thread that is gone may hold it, writes no report and does not take it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use super::with_state;
use crate::function::Class;
use crate::lifecycle;

const CLASSES: usize = 3;

/// One thread's counts.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Counters([AtomicU64; CLASSES]);

static SUM: Counters = Counters([const { AtomicU64::new(0) }; CLASSES]);
static ALL: Mutex<Vec<Arc<Counters>>> = Mutex::new(Vec::new());

/// For a thread that begins to count.
pub fn begin() -> Arc<Counters> {
    let counters = Arc::new(Counters::default());
    if !lifecycle::is_forked_child() {
        ALL.lock().unwrap_or_else(PoisonError::into_inner).push(counters.clone());
    }
    counters
}

/// Whether no other thread that lives has made a call.
pub fn is_alone() -> bool {
    ALL.lock().unwrap_or_else(PoisonError::into_inner).len() <= 1
}

/// The thread ends.
pub fn end(own: &Arc<Counters>) {
    if lifecycle::is_forked_child() {
        return;
    }
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|counters| !Arc::ptr_eq(counters, own));
    for (sum, own) in SUM.0.iter().zip(&own.0) {
        sum.fetch_add(own.load(Relaxed), Relaxed);
    }
}

/// One more call.
#[inline]
pub fn count(class: Class) {
    let counted = with_state(|state| {
        let place = &state.counters.0[class as usize];
        place.store(place.load(Relaxed) + 1, Relaxed);
    });
    if counted.is_none() {
        SUM.0[class as usize].fetch_add(1, Relaxed);
    }
}

/// The calls of all threads so far.
pub fn counted(class: Class) -> u64 {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    let own: u64 = all.iter().map(|counters| counters.0[class as usize].load(Relaxed)).sum();
    SUM.0[class as usize].load(Relaxed) + own
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_threads_that_have_ended_and_of_those_that_have_not() {
        let before = counted(Class::Sync);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                (0..5).for_each(|_| count(Class::Sync));
                assert_eq!(counted(Class::Sync), before + 5, "of a thread that goes on");
            });
            thread.join().unwrap();
        });
        count(Class::Sync);
        let own = begin();
        own.0[Class::Sync as usize].store(7, Relaxed);
        assert_eq!(counted(Class::Sync), before + 13);
        end(&own);
        assert_eq!(counted(Class::Sync), before + 13, "once, when it has ended");
    }
}
