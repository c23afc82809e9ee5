//! Counts of the program's calls by class, for the report: exact, and no two threads share a cache line or a locked instruction.
//!
//! Each thread counts in a [`Tally`] of its own (`own`), which only it writes. When the thread ends its counts join the sum. The calls of a
//! thread that is ending are added to the sum itself.
//!
//! Locking: `TALLIES`, at a thread's first call, at its end, and for the report. Nothing else is done under it. The child of a fork, where a
//! thread that is gone may hold it, writes no report and does not take it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::function::Class;
use crate::lifecycle;
use crate::own::own;

const CLASSES: usize = 3;

/// One thread's counts.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Tally([AtomicU64; CLASSES]);

static SUM: Tally = Tally([const { AtomicU64::new(0) }; CLASSES]);
static TALLIES: Mutex<Vec<Arc<Tally>>> = Mutex::new(Vec::new());

/// For a thread that begins to count.
pub fn begin() -> Arc<Tally> {
    let tally = Arc::new(Tally::default());
    if !lifecycle::is_forked_child() {
        TALLIES.lock().unwrap_or_else(PoisonError::into_inner).push(tally.clone());
    }
    tally
}

/// The thread ends.
pub fn end(own: &Arc<Tally>) {
    if lifecycle::is_forked_child() {
        return;
    }
    let mut tallies = TALLIES.lock().unwrap_or_else(PoisonError::into_inner);
    tallies.retain(|tally| !Arc::ptr_eq(tally, own));
    for (sum, own) in SUM.0.iter().zip(&own.0) {
        sum.fetch_add(own.load(Relaxed), Relaxed);
    }
}

/// One more call.
#[inline]
pub fn count(class: Class) {
    let counted = own(|own| {
        let place = &own.tally.0[class as usize];
        place.store(place.load(Relaxed) + 1, Relaxed);
    });
    if counted.is_none() {
        SUM.0[class as usize].fetch_add(1, Relaxed);
    }
}

/// The calls of all threads so far.
pub fn counted(class: Class) -> u64 {
    let tallies = TALLIES.lock().unwrap_or_else(PoisonError::into_inner);
    let own: u64 = tallies.iter().map(|tally| tally.0[class as usize].load(Relaxed)).sum();
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
