//! Counts of the program's calls by class, for the report: exact, and no two threads share a cache line or a locked instruction.
//!
//! Each thread counts in a [`Tally`] of its own, which only it writes; the thread's block (`frame`) points to it. When the thread ends its
//! counts join the sum. Calls that find no block (other architectures than x86-64, threads that are ending) are added to the sum itself.
//!
//! Locking: `TALLIES`, at a thread's first call, at its end, and for the report. Nothing else is done under it. The child of a fork, where a
//! thread that is gone may hold it, counts in the sum.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use crate::call::Class;
use crate::{frame, lifecycle};

const CLASSES: usize = 3;

/// One thread's counts.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Tally([AtomicU64; CLASSES]);

static SUM: Tally = Tally([const { AtomicU64::new(0) }; CLASSES]);
static TALLIES: Mutex<Vec<Arc<Tally>>> = Mutex::new(Vec::new());

/// Ends the thread's counting when the thread ends.
struct Owner(Arc<Tally>);

impl Drop for Owner {
    fn drop(&mut self) {
        frame::set_tally(std::ptr::null());
        if lifecycle::is_forked_child() {
            return;
        }
        let mut tallies = TALLIES.lock().unwrap_or_else(PoisonError::into_inner);
        tallies.retain(|tally| !Arc::ptr_eq(tally, &self.0));
        for (sum, own) in SUM.0.iter().zip(&self.0 .0) {
            sum.fetch_add(own.load(Relaxed), Relaxed);
        }
    }
}

thread_local! {
    static OWNER: Owner = {
        let tally = Arc::new(Tally::default());
        TALLIES.lock().unwrap_or_else(PoisonError::into_inner).push(tally.clone());
        Owner(tally)
    };
}

/// One more call.
#[inline]
pub fn count(class: Class) {
    let own = frame::tally();
    if own.is_null() {
        return count_first(class);
    }
    // SAFETY: the pointer is this thread's, and null before its tally goes.
    let place = unsafe { &(*own).0[class as usize] };
    place.store(place.load(Relaxed) + 1, Relaxed);
}

#[cold]
fn count_first(class: Class) {
    SUM.0[class as usize].fetch_add(1, Relaxed);
    if lifecycle::is_forked_child() {
        return;
    }
    let _ = OWNER.try_with(|owner| frame::set_tally(Arc::as_ptr(&owner.0)));
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
        let own = Arc::new(Tally::default());
        TALLIES.lock().unwrap().push(own.clone());
        own.0[Class::Sync as usize].store(5, Relaxed);
        count(Class::Sync); // no block in this test: added to the sum
        assert_eq!(counted(Class::Sync), before + 6);
        drop(Owner(own));
        assert_eq!(counted(Class::Sync), before + 6, "of a thread that has ended");
        count(Class::Sync);
        assert_eq!(counted(Class::Sync), before + 7);
    }
}
