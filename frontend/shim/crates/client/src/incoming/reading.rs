//! Replies: the thread that waits for one reads it itself.
//!
//! Two sources, one interface: the gRPC stream, whose reader drives the whole connection, and rings in shared memory.
//! One thread reads at a time. A thread of the program that waits takes the reading over when no other has it, in turns
//! of at most `TURN`, in which no handler of the program runs (`signals`): one that ends the process would wait for a
//! reader that it interrupted.
//! Where no thread of the program waits, or nothing comes in one's turn, a thread of ours reads. It keeps away for a moment
//! (`QUIET`) after a thread of the program has read, so that it is not in the way of the next wait.
//!
//! - The stream's thread never waits while it has the stream: it sleeps until the socket, the age timer or the bell says
//!   that there is something to do, does that, and lets go. It also sends what has grown old, what was posted without a
//!   wait, and what HTTP/2 says by itself.
//! - The rings' thread waits inside the ring, where it cannot look at anything else. The gRPC stream beside the rings
//!   has a reading of its own, whose thread sees the session's end and the timer.
//!
//! Locking: the source's lock, then the ledger's and the waiters'; never the outbox's, which is only tried
//! (`conversation`).

use crate::connection::bell::{Bell, NONE};
use crate::connection::conversation::{handle, serve_timer};
use crate::connection::leaks::Ignored;
use crate::connection::posting::Queue;
use crate::connection::signals::{self, Reader};
use crate::connection::stream::Stream;
use crate::connection::thread::Uncancelled;
use crate::generated_farlane_v1::HostMessage;
use crate::incoming::awaited::Answered;
use crate::incoming::direct;
use crate::incoming::waiter::{Answer, Waiter};
use crate::report::spans;
use crate::shared::Shared;
use crate::Failure;
use parking_lot::Mutex;
use prost::bytes::Bytes;
use prost::Message;
use rings::{Error, Handle, Receiver};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fmt, thread};

/// How long a thread of the program reads for itself before it leaves that to ours.
const TURN: Duration = Duration::from_millis(2);
/// How long ours keeps away behind a thread of the program.
pub(super) const QUIET: Duration = Duration::from_millis(1);
/// The gRPC stream says why the session has ended; how long it may take to.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Where replies come from.
pub(crate) enum Source {
    Stream(Box<Stream>),
    Ring(Box<Receiver>),
}

/// What our thread looks at while it has not got the source.
pub(crate) enum Watched {
    Socket {
        /// Another one when the session is resumed.
        socket: AtomicI32,
        /// Whether it took less than it was to send.
        full: Arc<AtomicBool>,
        /// That of a session's admission, or -1 (`connection::process`).
        beside: AtomicI32,
        posted: Arc<Queue>,
    },
    Ring(Handle),
}

/// One source, and who reads it.
pub(crate) struct Reading {
    /// `None`: it has ended.
    source: Mutex<Option<Source>>,
    watched: Watched,
    /// A thread of the program reads, has read, or wanted to, since ours looked.
    taken: AtomicBool,
    /// Threads that rely on ours, and have not got what they wait for.
    relying: Arc<AtomicUsize>,
    pub(super) closed: AtomicBool,
    /// The connection is broken, and another one is tried.
    pub(super) resuming: AtomicBool,
    pub(super) bell: Arc<Bell>,
    /// Waits that ours has ended.
    #[cfg(test)]
    pub(crate) handed_over: AtomicUsize,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl Shared {
    /// Where replies are waited for.
    fn reading(&self) -> &Reading {
        self.rings.as_ref().unwrap_or(&self.stream)
    }

    /// Waits for something that the connection's threads bring about.
    pub(crate) fn rely<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.reading().rely(wait)
    }

    /// What was asked for has this outcome; the host may have answered already.
    #[inline(never)]
    pub(crate) fn outcome(&self, waiter: &Waiter, answered: bool) -> Result<Answer, Failure> {
        self.counters.round_trips.add(u64::from(!answered));
        let outcome = if answered { waiter.wait() } else { self.wait(waiter) };
        outcome.ok_or_else(|| self.over())
    }

    /// Waits for the outcome; `None` when the session ended first.
    pub(crate) fn wait(&self, waiter: &Waiter) -> Option<Answer> {
        self.reading().wait(self, waiter)
    }

    /// Waits for the next of a stream of results.
    pub(crate) fn wait_for_next(&self, waiter: &Waiter) {
        self.reading().wait_for_next(self, waiter);
    }
}

/// Why nothing more comes from a source.
enum End {
    Because(String),
    /// The other source says why.
    Silent,
}

impl Reading {
    pub(crate) fn new(source: Source, watched: Watched, bell: Arc<Bell>) -> Self {
        Self {
            source: Mutex::new(Some(source)),
            watched,
            taken: AtomicBool::new(false),
            relying: Arc::default(),
            closed: AtomicBool::new(false),
            resuming: AtomicBool::new(false),
            bell,
            #[cfg(test)]
            handed_over: AtomicUsize::new(0),
        }
    }

    /// Nothing more is read, and nothing is waited for in a full ring.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        if let Watched::Ring(handle) = &self.watched {
            handle.interrupt();
        }
        self.bell.ring();
    }

    /// In the child of a fork. Async-signal-safe.
    pub(crate) fn abandon(&self) {
        signals::forget_reader();
        match &self.watched {
            Watched::Socket { socket, beside, .. } => {
                for socket in
                    [socket, beside].map(|each| each.load(Ordering::Acquire)).into_iter().filter(|&socket| socket >= 0)
                {
                    // SAFETY: a plain system call on a descriptor that this process inherited; the threads that use it
                    // exist in the parent only, and nothing here uses it after this. Closing the child's copy does not
                    // end the connection.
                    unsafe { libc::close(socket) };
                }
            }
            Watched::Ring(handle) => handle.close_in_child(),
        }
    }

    /// Waits for the outcome; `None` when the session ended first.
    pub(crate) fn wait(&self, shared: &Shared, waiter: &Waiter) -> Option<Answer> {
        let span = spans::begin();
        self.bring_about(shared, waiter, Waiter::is_over);
        let answer = waiter.wait();
        if let Some(began) = span {
            spans::wait(began);
        }
        answer
    }

    /// Waits for the next of a stream of results.
    pub(crate) fn wait_for_next(&self, shared: &Shared, waiter: &Waiter) {
        let span = spans::begin();
        self.bring_about(shared, waiter, Waiter::has_come);
        waiter.wait_for_next();
        if let Some(began) = span {
            spans::wait(began);
        }
    }

    /// Reads until that is so, in turns, or has our thread do it.
    fn bring_about(&self, shared: &Shared, waiter: &Waiter, done: fn(&Waiter) -> bool) {
        let _whole = Uncancelled::begin();
        self.taken.store(true, Ordering::SeqCst);
        while !done(waiter) && self.turn(shared, waiter, done) {}
        self.taken.store(true, Ordering::SeqCst);
        if done(waiter) {
            // What else is under way may have arrived already, in HTTP/2's buffers: the socket does not tell.
            let hidden = || matches!(self.watched, Watched::Socket { .. }) && shared.ledger.in_flight().0 > 0;
            if self.relying.load(Ordering::SeqCst) > 0 || hidden() {
                self.bell.ring();
            }
            return;
        }
        #[cfg(test)]
        self.handed_over.fetch_add(1, Ordering::SeqCst);
        if waiter.rely(&self.relying) {
            self.bell.ring();
        }
    }

    /// Reads until the outcome is there, for so long that signals can be held back. True: messages still come.
    fn turn(&self, shared: &Shared, waiter: &Waiter, done: fn(&Waiter) -> bool) -> bool {
        let reader = Reader::begin(matches!(self.watched, Watched::Ring(_)));
        let Some(mut source) = self.source.try_lock().filter(|_| Stream::can_drive()) else {
            if let Watched::Socket { posted, .. } = &self.watched {
                posted.wake();
            }
            return false;
        };
        if !reader.may_read() {
            return true;
        }
        let _ignored = Ignored::begin();
        let _guard = FailOnPanic::begin(shared);
        let until = Instant::now() + TURN;
        while matches!(step(shared, &mut source, Some(until)), Step::Read(_)) {
            if done(waiter) || Instant::now() >= until {
                return true;
            }
        }
        false
    }

    /// Waits for something that our thread brings about.
    pub(crate) fn rely<T>(&self, wait: impl FnOnce() -> T) -> T {
        let _whole = Uncancelled::begin();
        self.relying.fetch_add(1, Ordering::SeqCst);
        self.bell.ring();
        let result = wait();
        self.relying.fetch_sub(1, Ordering::SeqCst);
        result
    }

    /// Our thread, until the session is over.
    pub(crate) fn run(&self, shared: &Shared) {
        let _guard = FailOnPanic::begin(shared);
        match &self.watched {
            Watched::Socket { socket, full, beside, .. } => self.attend_stream(shared, [socket, beside], full),
            Watched::Ring(_) => self.attend_ring(shared),
        }
        *self.source.lock() = None;
    }

    /// Whether a thread of the program has read just now, and none relies on ours.
    fn is_quiet(&self) -> bool {
        self.taken.swap(false, Ordering::SeqCst) && self.relying.load(Ordering::SeqCst) == 0
    }

    fn attend_stream(&self, shared: &Shared, sockets: [&AtomicI32; 2], full: &Arc<AtomicBool>) {
        let timer = (shared.timer.as_raw_fd(), libc::POLLIN);
        let (mut pending, mut posted) = (true, false);
        while !self.closed.load(Ordering::SeqCst) {
            if pending && (posted || !self.is_quiet()) {
                pending = !self.drain(shared, sockets, full);
            }
            let called = if pending {
                self.bell.wait([timer, NONE, NONE], Some(QUIET))
            } else {
                let room = if full.load(Ordering::Acquire) { libc::POLLOUT } else { 0 };
                let [socket, beside] = sockets.map(|each| each.load(Ordering::Acquire));
                self.bell.wait([timer, (socket, libc::POLLIN | room), (beside, libc::POLLIN)], None)
            };
            posted = serve_timer(shared);
            pending |= called || posted;
        }
    }

    /// Does what can be done at once. False: another thread drives.
    fn drain(&self, shared: &Shared, sockets: [&AtomicI32; 2], full: &Arc<AtomicBool>) -> bool {
        let Some(mut source) = self.source.try_lock() else { return false };
        while let Some(Source::Stream(stream)) = source.as_mut() {
            let read = matches!(act(shared, stream.poll().map_err(End::Because), true), Step::Read(_));
            if !read && !self.resume(shared, stream, sockets, full) {
                break;
            }
        }
        true
    }

    /// Whether the connection is broken, and another one is tried.
    pub(crate) fn is_resuming(&self) -> bool {
        self.resuming.load(Ordering::SeqCst)
    }

    /// The host has answered the group: it need not be sent again.
    pub(crate) fn acknowledge(&self, group: u64) {
        if let Watched::Socket { posted, .. } = &self.watched {
            posted.acknowledge(group);
        }
    }

    fn attend_ring(&self, shared: &Shared) {
        while !self.closed.load(Ordering::SeqCst) {
            if self.is_quiet() {
                self.bell.wait([NONE; 3], Some(QUIET));
                continue;
            }
            let mut source = self.source.lock();
            let read = loop {
                match step(shared, &mut source, None) {
                    Step::Read(answered) if self.taken.load(Ordering::SeqCst) => break Some(answered),
                    Step::Read(_) => {}
                    Step::Late | Step::End => break None,
                }
            };
            drop(source); // before a thread is woken that will read for itself
            if read.is_none() {
                if !shared.ledger.wait_closed(LAST_WORDS) && !self.closed.load(Ordering::SeqCst) {
                    shared.fail("the host has given up the shared memory");
                }
                return;
            }
        }
    }
}

/// A thread that panics while it has the connection leaves no other waiting for it for ever.
struct FailOnPanic<'a> {
    shared: &'a Shared,
    /// The panic is another one.
    before: bool,
}

impl<'a> FailOnPanic<'a> {
    fn begin(shared: &'a Shared) -> Self {
        Self { shared, before: thread::panicking() }
    }
}

impl Drop for FailOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() && !self.before {
            self.shared.fail("internal error");
        }
    }
}

/// What came of an attempt to read a message.
enum Step {
    /// Those who wait for what was read are woken when this is dropped.
    Read(Option<Answered>),
    /// Nothing came in time.
    Late,
    /// Nothing more comes.
    End,
}

/// Reads one message, if it begins in time, and does what it says.
fn step(shared: &Shared, source: &mut Option<Source>, until: Option<Instant>) -> Step {
    let next = match source {
        Some(Source::Stream(stream)) => stream.next(until).map_err(End::Because),
        Some(Source::Ring(receiver)) => next_of_ring(shared, receiver, until),
        None => Err(End::Silent),
    };
    act(shared, next, false)
}

/// Does what a message says. `may_send`: the calling thread may send what has waited for that.
fn act(shared: &Shared, next: Result<Option<HostMessage>, End>, may_send: bool) -> Step {
    let why = match next {
        Ok(None) => return Step::Late,
        Err(End::Silent) => return Step::End,
        Err(End::Because(why)) => why,
        Ok(Some(message)) => match handle(shared, message, may_send) {
            Ok(answered) => return Step::Read(answered),
            Err(why) => why,
        },
    };
    shared.fail(&why);
    Step::End
}

/// The next message, if it begins in time.
fn next_of_ring(shared: &Shared, receiver: &mut Receiver, until: Option<Instant>) -> Result<Option<HostMessage>, End> {
    let broken = |error: &dyn fmt::Display| End::Because(format!("protocol error: {error}"));
    match direct::receive(shared, receiver, until) {
        Ok(message) => HostMessage::decode(Bytes::from(message)).map(Some).map_err(|error| broken(&error)),
        Err(Error::TimedOut) => Ok(None),
        Err(error @ Error::Violation(_)) => Err(broken(&error)),
        Err(_) => Err(End::Silent),
    }
}
