//! What each thread of the program has for itself and needs at nearly every call: its counts, its pushed configurations, the kernels it found, its current contexts.
//!
//! The thread's block (`frame`) points to it once the thread has made a call: a thread-local of this library is found by a call of the
//! dynamic linker's. Without a block (other architectures than x86-64) it is found in that way. A thread that is ending has none any more.

use std::sync::Arc;

use crate::driver::current::Stack as Contexts;
use crate::frame;
use crate::launch::configuration::Stack;
use crate::registration::Recent;
use crate::tally::{self, Tally};

/// See the module's comment.
pub struct Own {
    pub tally: Arc<Tally>,
    pub configurations: Stack,
    pub kernels: Recent,
    pub contexts: Contexts,
}

impl Drop for Own {
    fn drop(&mut self) {
        frame::set_own(std::ptr::null());
        tally::end(&self.tally);
    }
}

thread_local! {
    static OWN: Own = Own { tally: tally::begin(), configurations: Stack::default(), kernels: Recent::default(), contexts: Contexts::default() };
}

/// Runs `body` with what this thread has; `None` when it is ending.
#[inline(always)]
pub fn own<T>(body: impl FnOnce(&Own) -> T) -> Option<T> {
    let known = frame::own();
    if known.is_null() {
        return find(body);
    }
    // SAFETY: this thread's, and null before it goes.
    Some(body(unsafe { &*known }))
}

#[cold]
fn find<T>(body: impl FnOnce(&Own) -> T) -> Option<T> {
    let run = |own: &Own| {
        frame::set_own(own);
        body(own)
    };
    OWN.try_with(run).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_has_its_own() {
        let place = |own: &Own| std::ptr::from_ref(own) as usize;
        let here = own(place);
        assert!(here.is_some() && own(place) == here);
        assert_ne!(std::thread::spawn(move || own(place)).join().unwrap(), here);
    }
}
