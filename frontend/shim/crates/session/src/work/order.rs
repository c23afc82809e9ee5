//! Which streams have work that the guest has not yet seen completed.
//!
//! Owns the streams of the session and, for each, positions of the tape; owns neither the tape nor CUDA's handles. With
//! it a synchronization that has nothing to wait for is answered without a round trip, and never one that has.
//!
//! Positions are ticks of one clock. Work is marked while its record is appended, under the tape's lock (`mark`); a
//! synchronization reads the clock first and is appended afterwards. So every mark at or below the position of an
//! answered synchronization belongs to a record that precedes it on the tape, whatever the threads do: errors are to
//! the side of a round trip too many.
//!
//! What completes what (CUDA runtime API, "Stream synchronization behavior"): an action in the legacy stream waits for
//! all earlier work of the blocking streams, and their later work waits for it; non-blocking streams take no part.
//! Where the documentation leaves open whether synchronizing the legacy stream waits for the blocking streams (or the
//! reverse, without work in between), the guest asks the host once and draws no conclusion about the other stream.
//!
//! Locking: `streams` is read-locked briefly, never while anything waits; the marks are atomics. The clock and the
//! marks of work are written under the tape's lock only, so that no locked instruction is needed for them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{
    AtomicU32, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tape::Writer;

use crate::contexts::{self, Acting};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Legacy,
    /// Synchronizes with the legacy stream: the per-thread default stream, and created ones unless non-blocking.
    Blocking,
    NonBlocking,
}

/// The tape's numbers of the default streams.
const LEGACY: u32 = 1;
const PER_THREAD: u32 = 2;

/// One stream and its marks.
#[derive(Debug)]
pub struct Stream {
    /// The tape's number of the stream.
    pub number: u32,
    pub kind: Kind,
    pub flags: u32,
    pub priority: i32,
    /// The context that it was made in; `None` for the default streams, which every context has.
    pub context: Option<u32>,
    /// Attributes that the program has set, as the bytes of their values.
    pub attributes: Mutex<BTreeMap<i32, [u8; 64]>>,
    /// The capture that its calls go to; 0: none (`graph::capture`).
    pub capture: AtomicU32,
    /// The latest work.
    last: AtomicU64,
    /// The latest work of the legacy stream that the latest work of this (blocking) stream waits for.
    behind_legacy: AtomicU64,
    /// Synchronizing this stream at this position, or before, has been answered.
    complete: AtomicU64,
}

impl Stream {
    /// A stream of the context that the calling thread works for.
    pub fn new(number: u32, kind: Kind, flags: u32, priority: i32) -> Self {
        let (attributes, capture, last, behind_legacy, complete) = Default::default();
        let context = (number != LEGACY && number != PER_THREAD).then(contexts::acting);
        Self { number, kind, flags, priority, context, attributes, capture, last, behind_legacy, complete }
    }
}

impl Stream {
    /// The calling thread works for the stream's context as long as this lives.
    #[inline]
    pub fn act(&self) -> Option<Acting> {
        self.context.and_then(contexts::act_for)
    }
}

/// What holds when work is appended.
#[derive(Debug, Clone, Copy)]
pub struct Start {
    /// The clock.
    position: u64,
    /// What will be known complete of the legacy stream once this work is: its latest work before.
    legacy: u64,
}

/// Work of a stream, as it was marked.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    start: Start,
    at: u64,
}

/// A point of one stream that can be completed: a copy that was waited for, an event's record.
#[derive(Debug, Clone)]
pub struct Point {
    pub stream: Arc<Stream>,
    start: Start,
    /// The mark of the point's own work.
    at: u64,
}

impl Point {
    pub fn new(stream: &Arc<Stream>, Mark { start, at }: Mark) -> Self {
        Self { stream: stream.clone(), start, at }
    }

    /// Tells points of one stream apart.
    pub fn at(&self) -> u64 {
        self.at
    }
}

/// See the module's comment.
#[derive(Debug)]
pub struct Order {
    clock: AtomicU64,
    pub legacy: Arc<Stream>,
    pub per_thread: Arc<Stream>,
    created: RwLock<HashMap<u32, Arc<Stream>>>,
    /// All work of every stream up to here is complete.
    all_complete: AtomicU64,
    /// All work of the legacy stream and of the blocking streams up to here is complete.
    legacy_complete: AtomicU64,
    /// Latest work of destroyed streams, blocking and not.
    orphans: AtomicU64,
    nonblocking_orphans: AtomicU64,
}

fn raise(mark: &AtomicU64, to: u64) {
    mark.fetch_max(to, AcqRel);
}

impl Default for Order {
    fn default() -> Self {
        Self {
            clock: AtomicU64::new(0),
            legacy: Arc::new(Stream::new(LEGACY, Kind::Legacy, 0, 0)),
            per_thread: Arc::new(Stream::new(PER_THREAD, Kind::Blocking, 0, 0)),
            created: RwLock::default(),
            all_complete: AtomicU64::new(0),
            legacy_complete: AtomicU64::new(0),
            orphans: AtomicU64::new(0),
            nonblocking_orphans: AtomicU64::new(0),
        }
    }
}

impl Order {
    pub fn add(&self, stream: Stream) {
        let mut created = self.created.write().unwrap_or_else(PoisonError::into_inner);
        created.insert(stream.number, Arc::new(stream));
    }

    pub fn find(&self, number: u32) -> Option<Arc<Stream>> {
        self.created.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Forgets a created stream; its work may still run.
    pub fn remove(&self, number: u32) -> Option<Arc<Stream>> {
        let stream = self.created.write().unwrap_or_else(PoisonError::into_inner).remove(&number)?;
        if self.own_pending(&stream) {
            let orphans = if stream.kind == Kind::NonBlocking { &self.nonblocking_orphans } else { &self.orphans };
            raise(orphans, stream.last.load(Acquire));
        }
        Some(stream)
    }

    /// How many streams were created and not destroyed.
    pub fn count(&self) -> usize {
        self.created.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The created streams of a context.
    pub fn of_context(&self, context: u32) -> Vec<u32> {
        let created = self.created.read().unwrap_or_else(PoisonError::into_inner);
        created.values().filter(|stream| stream.context == Some(context)).map(|stream| stream.number).collect()
    }

    /// DEVICE_RESET was answered: no stream but the default ones, no work.
    pub fn reset(&self, position: u64) {
        self.created.write().unwrap_or_else(PoisonError::into_inner).clear();
        self.device_synchronized(position);
    }

    /// The position of a synchronization about to be appended.
    pub fn position(&self) -> u64 {
        self.clock.load(Acquire)
    }

    /// What holds before a copy that will be waited for is appended.
    pub fn begin(&self) -> Start {
        Start { legacy: self.legacy.last.load(Acquire), position: self.position() }
    }

    /// Work of the stream is on this tape, or will be before its lock is released.
    #[inline]
    pub fn mark(&self, _tape: &mut Writer, stream: &Stream) -> Mark {
        let position = self.clock.load(Relaxed);
        let start = Start { legacy: self.legacy.last.load(Relaxed), position };
        let at = position + 1;
        self.clock.store(at, Release);
        stream.last.store(at, Release);
        if stream.kind == Kind::Blocking {
            stream.behind_legacy.store(start.legacy, Release);
        }
        Mark { start, at }
    }

    /// Work of the stream did not get to the tape, because the session is over: its waiter is to hear that.
    #[cold]
    pub fn lose(&self, stream: &Stream) {
        raise(&stream.last, u64::MAX);
    }

    fn completed(&self, stream: &Stream) -> u64 {
        let own = stream.complete.load(Acquire).max(self.all_complete.load(Acquire));
        match stream.kind {
            Kind::NonBlocking => own,
            Kind::Legacy | Kind::Blocking => own.max(self.legacy_complete.load(Acquire)),
        }
    }

    fn own_pending(&self, stream: &Stream) -> bool {
        stream.last.load(Acquire) > self.completed(stream)
    }

    fn any_created(&self, mut test: impl FnMut(&Stream) -> bool) -> bool {
        self.created.read().unwrap_or_else(PoisonError::into_inner).values().any(|stream| test(stream))
    }

    /// Whether synchronizing the stream may have to wait.
    pub fn pending(&self, stream: &Stream) -> bool {
        if self.own_pending(stream) {
            return true;
        }
        let completed = self.completed(stream);
        match stream.kind {
            Kind::NonBlocking => false,
            Kind::Blocking => self.legacy.last.load(Acquire) > completed,
            Kind::Legacy => {
                let waits_for = |other: &Stream| {
                    other.kind == Kind::Blocking && other.last.load(Acquire) > self.completed(other).max(completed)
                };
                self.orphans.load(Acquire) > completed || waits_for(&self.per_thread) || self.any_created(waits_for)
            }
        }
    }

    /// Whether synchronizing the device has to wait.
    pub fn any_pending(&self) -> bool {
        self.own_pending(&self.legacy)
            || self.own_pending(&self.per_thread)
            || self.orphans.load(Acquire) > self.completed(&self.per_thread)
            || self.nonblocking_orphans.load(Acquire) > self.all_complete.load(Acquire)
            || self.any_created(|stream| self.own_pending(stream))
    }

    /// Whether the point's work may not be done.
    pub fn point_pending(&self, point: &Point) -> bool {
        point.at > self.completed(&point.stream)
    }

    /// Synchronizing the device was answered.
    pub fn device_synchronized(&self, position: u64) {
        raise(&self.all_complete, position);
    }

    /// What `stream_synchronized` needs, taken before the synchronization is appended.
    pub fn begin_synchronize(&self, stream: &Stream) -> Start {
        let legacy = match stream.kind {
            Kind::Legacy => self.legacy.last.load(Acquire),
            Kind::Blocking => stream.behind_legacy.load(Acquire),
            Kind::NonBlocking => 0,
        };
        Start { legacy, position: self.position() }
    }

    /// Synchronizing the stream was answered, or all of its work is done for another reason.
    pub fn stream_synchronized(&self, stream: &Stream, start: Start) {
        raise(&stream.complete, start.position);
        if stream.kind != Kind::NonBlocking {
            raise(&self.legacy_complete, start.legacy);
        }
    }

    /// The work begun with `start` (a copy that was waited for) is done.
    pub fn work_done(&self, stream: &Stream, start: Start) {
        // An action in the legacy stream is done only after everything before it in the blocking streams.
        let legacy = if stream.kind == Kind::Legacy { start.position } else { start.legacy };
        self.stream_synchronized(stream, Start { legacy, ..start });
    }

    /// The work of the point is done, and what precedes it in its stream.
    pub fn point_done(&self, point: &Point) {
        self.stream_synchronized(&point.stream, point.start);
    }
}

#[cfg(test)]
mod tests;
