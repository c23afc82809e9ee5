//! Manifests in use: what a call's site permits, what is owed for it, and the ends of loops.
//!
//! A *permission* lets the shim answer a call before the host has: a synchronization at once (LOCAL_SYNC), a copy to
//! the host later (DEFER_READ, COMPLETE_AT_CALL, JOIN_NEXT_WAIT). Each thread keeps what it owes: copies whose data has not arrived,
//! synchronizations that did not happen. The next answer of the host to this thread completes its copies, whatever it
//! was asked; where the contract demands it and no answer is due, by a fence: before a call from outside the loop,
//! before a deferred copy's memory is read by the shim, when a call fails, when the thread ends. A query or a clock
//! read (`clock`) first makes a synchronization happen that it would belie.
//!
//! What a site predicts is `prediction`'s.
//!
//! After the first CUDA call that has failed no permission holds any more.
//!
//! Order within a call: [`arrive`] (site, expressions, copies completed before), the function itself, [`leave`] (copies
//! completed after, sending).
//! Locking: the ranges of outstanding copies have one mutex, a leaf. Everything else is the thread's own.
//!
//! Source: protos/manifest.md, "Permissions".

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::sync::{Mutex, PoisonError};

use client::Section;
use manifest::LOCAL_SYNC;

use crate::above::device_may_write_host_memory;
use crate::frame::{self, Part};
use crate::function::Operation;
use crate::manifests;
use crate::thread_state::with_state;
use crate::{lazy_readback, output, process, work};

pub mod deciding;
mod joining;
pub mod loop_prediction;
mod prediction;
mod ranges;
mod stepping;
mod thread;

use loop_prediction::Iteration;
use ranges::Ranges;
pub(crate) use thread::Thread;

/// A call has failed.
static FAILED: AtomicBool = AtomicBool::new(false);
/// Some thread owes a synchronization.
static UNSYNCHRONIZED: AtomicBool = AtomicBool::new(false);
/// Threads that owe copies, and where these will be written.
static OWING: AtomicUsize = AtomicUsize::new(0);
static RANGES: Mutex<Ranges> = Mutex::new(Ranges::new());

static LOCAL_SYNCS: AtomicU64 = AtomicU64::new(0);
static DEFERRED_READS: AtomicU64 = AtomicU64::new(0);
static JOINED: AtomicU64 = AtomicU64::new(0);
static COMPLETED: AtomicU64 = AtomicU64::new(0);

/// Runs `body` with what this thread has; `None` when it is ending.
#[inline(always)]
fn of_thread<T>(body: impl FnOnce(&Thread) -> T) -> Option<T> {
    with_state(|state| body(&state.permissions))
}

/// Whether calls are looked at: lazy readbacks owe synchronizations, too.
#[inline]
fn active() -> bool {
    manifests::active() || lazy_readback::active()
}

/// A call of the program begins; `frame::begin` was called.
#[inline]
pub fn arrive(operation: Operation) {
    if active() {
        stepping::arrive();
        let _ = of_thread(|thread| thread.arrive(operation));
    }
}

/// The call is done.
#[inline]
pub fn leave(operation: Operation) {
    if active() {
        let _ = of_thread(|thread| {
            thread.leave(Part::of(operation));
            // Last: sending reads the clock, under a lock. The call that opened the session has not arrived.
            thread.inside.set(thread.inside.get().saturating_sub(1));
        });
        stepping::leave();
    }
}

/// A call has failed: no permission from now on, and the program may look where it would not have looked.
#[cold]
pub fn failed() {
    stepping::end(); // the program may look now
    if let Some(session) = process::opened_session() {
        session.call_failed();
    }
    // The copies of all threads are before the fence.
    if active() && !FAILED.swap(true, Release) && OWING.load(Acquire) > 0 {
        work::fence();
    }
}

/// Whether the synchronization under way may be answered at once.
pub fn local_sync() -> bool {
    let permitted = manifests::active()
        && of_thread(|thread| thread.has(LOCAL_SYNC)).unwrap_or(false)
        && !manifests::any_managed()
        && !device_may_write_host_memory()
        && !work::reads_pending()
        && !output::expected()
        && runs_in_order();
    if permitted {
        LOCAL_SYNCS.fetch_add(1, Relaxed);
        owe_synchronization();
    }
    permitted
}

/// Whether later work sees what earlier calls have issued, in whatever streams. A GPU's streams overlap, unless all are
/// default streams.
fn runs_in_order() -> bool {
    process::device().is_ok_and(|device| device.description.backend != "cupy")
        || work::tracking().is_ok_and(|tracking| tracking.order.count() == 0)
}

/// A stream is created: synchronizations that were answered at once hold for its work, too.
pub fn before_another_stream() {
    if UNSYNCHRONIZED.load(Relaxed) && process::device().is_ok_and(|device| device.description.backend == "cupy") {
        within(work::finish_work);
    }
}

/// The call under way waits for work as far as the program can tell, and has not waited.
pub fn owe_synchronization() {
    let _ = of_thread(|thread| thread.unsynchronized.set(true));
    UNSYNCHRONIZED.store(true, Release);
}

/// Does something for the session outside of a call: the clock that it reads is not the program's.
pub fn within(body: impl FnOnce()) {
    let step = |by: i32| {
        let _ = of_thread(|thread| thread.inside.set(thread.inside.get().saturating_add_signed(by)));
    };
    step(1);
    body();
    step(-1);
}

/// Whether a call has failed.
pub fn any_failure() -> bool {
    FAILED.load(Acquire)
}

/// Whether the call under way comes from a loop that a manifest describes.
pub fn in_known_loop() -> bool {
    manifests::active() && of_thread(|thread| thread.site.get().is_some()).unwrap_or(false)
}

/// For the recorder, once a call: the loop of which a record is the first of an iteration, 0 for none.
#[inline]
pub fn take_hint() -> u32 {
    if manifests::active() {
        of_thread(|thread| thread.hint.take()).unwrap_or(0)
    } else {
        0
    }
}

/// The iteration of which the launch under way, from `site`, is the first call; once, and only where a manifest
/// predicts all of it.
#[inline]
pub fn take_predicted() -> Option<Box<Iteration>> {
    if loop_prediction::waits() {
        predicted()
    } else {
        None
    }
}

#[cold]
fn predicted() -> Option<Box<Iteration>> {
    loop_prediction::taken();
    let (_, site) = frame::thread_and_site();
    let iteration = of_thread(|thread| thread.predicted.take()).flatten()?;
    // Another call may have come in between.
    (iteration.launches.first()?.site == site).then_some(iteration)
}

/// What becomes of the copy to the host under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Copy {
    /// As without a manifest.
    Plain,
    /// Later, by `work::record_read`.
    Later,
    /// Now, with everything before it: the last one of its loop.
    Now,
}

/// What may become of a copy to the host, to `[start, start + length)`.
pub fn copy_to_host(start: usize, length: usize) -> Copy {
    if !manifests::active() || output::expected() {
        return Copy::Plain;
    }
    of_thread(|thread| thread.copy_to_host(start, length)).unwrap_or(Copy::Plain)
}

/// The copy under way is none to the host: it need not wait for joined copies.
#[inline]
pub fn not_to_host() {
    if OWING.load(Relaxed) > 0 {
        let _ = of_thread(|thread| thread.completes_joined.set(false));
    }
}

/// A copy to `[start, start + length)` was recorded for later.
pub fn deferred(start: usize, length: usize) {
    let _ = of_thread(Thread::defer);
    // Counted first: the ranges are cleared only while no thread is counted.
    RANGES.lock().unwrap_or_else(PoisonError::into_inner).add(start, start.saturating_add(length));
}

/// Whether a copy that was deferred may still write to any of `[start, start + length)`.
#[inline]
pub fn touches(start: usize, length: usize) -> bool {
    OWING.load(Acquire) > 0
        && RANGES.lock().unwrap_or_else(PoisonError::into_inner).touch(start, start.saturating_add(length))
}

/// The same of any of several ranges, each a start and a length. They are not looked at where nothing waits.
#[inline]
pub fn touches_any(places: impl Iterator<Item = (usize, usize)>) -> bool {
    OWING.load(Acquire) > 0 && any_touched(places)
}

#[inline(never)]
fn any_touched(mut places: impl Iterator<Item = (usize, usize)>) -> bool {
    let ranges = RANGES.lock().unwrap_or_else(PoisonError::into_inner);
    places.any(|(start, length)| ranges.touch(start, start.saturating_add(length)))
}

/// The host has answered what this thread asked last: everything that the thread recorded before has arrived.
#[inline]
pub fn answered() {
    if OWING.load(Relaxed) > 0 {
        let _ = of_thread(Thread::arrived);
    }
}

/// Whether some thread owes a synchronization, or a copy.
#[cfg(not(test))] // for `clock`, which is not in the tests
#[inline]
pub fn synchronization_owed() -> bool {
    UNSYNCHRONIZED.load(Relaxed) || OWING.load(Relaxed) > 0
}

/// The program reads a clock: work that a synchronization of this thread should have waited for is waited for now, and
/// so are its joined copies.
#[cfg(not(test))]
pub fn before_clock() {
    // A thread that has made no call owes nothing.
    let _ = crate::thread_state::with_known_state(|state| {
        let thread = &state.permissions;
        if active() && thread.inside.get() == 0 {
            thread.complete_joined();
        }
        if active() && thread.inside.get() == 0 && thread.unsynchronized.replace(false) {
            UNSYNCHRONIZED.store(false, Relaxed); // everybody's work is waited for
            thread.inside.set(1);
            work::finish_work();
            thread.inside.set(0);
        }
    });
}

/// For the report.
pub fn section() -> Option<Section> {
    if !manifests::active() {
        return None;
    }
    let (predicted, mispredicted) = prediction::counts();
    let mut counts = manifests::counts().to_vec();
    counts.extend([
        ("local_syncs", LOCAL_SYNCS.load(Relaxed)),
        ("deferred_reads", DEFERRED_READS.load(Relaxed)),
        ("joined_copies", JOINED.load(Relaxed)),
        ("completed", COMPLETED.load(Relaxed)),
        ("predicted", predicted),
        ("mispredicted", mispredicted),
    ]);
    Some(Section { name: "manifest", counts })
}
