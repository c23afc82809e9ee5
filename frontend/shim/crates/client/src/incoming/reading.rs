//! Replies that come through shared memory: the thread that waits for one reads them itself.
//!
//! One thread reads at a time. A thread of the program that waits takes the reading over when nobody has it, for at most `TURN`, with signals held
//! back: a handler that ends the process would wait for a reader that it interrupted. Where nobody waits, or someone waits for longer, a thread of
//! ours reads. It keeps away for a moment (`QUIET`) after a thread of the program has read, so that it is not in the way of the next wait.
//!
//! Locking: the receiver's lock, then the ledger's and the waiters'; never the outbox's, which is only tried (`conversation`).

use crate::connection::conversation::handle;
use crate::connection::leaks::Ignored;
use crate::connection::thread::HeldSignals;
use crate::generated_farlane_v1::HostMessage;
use crate::incoming::waiter::{Answer, Waiter};
use crate::shared::Shared;
use parking_lot::{Condvar, Mutex};
use prost::bytes::Bytes;
use prost::Message;
use rings::{Error, Handle, Receiver};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a thread of the program reads for itself before it leaves that to ours.
const TURN: Duration = Duration::from_millis(2);
/// How long ours keeps away behind a thread of the program.
const QUIET: Duration = Duration::from_millis(1);
/// How long ours lets go for a thread that it has answered, which may read for itself the next time.
const PAUSE: Duration = Duration::from_micros(50);
/// The gRPC stream says why the session has ended; how long it may take to.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The receiving end of a session's rings.
pub(crate) struct Reading {
    receiver: Mutex<Receiver>,
    handle: Handle,
    /// A thread of the program has read, or wanted to, since ours looked.
    taken: AtomicBool,
    /// Threads that rely on ours.
    relying: AtomicUsize,
    closed: AtomicBool,
    quiet: Mutex<()>,
    wake: Condvar,
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("closed", &self.closed).finish_non_exhaustive()
    }
}

impl Shared {
    /// Waits for something that the connection's threads bring about.
    pub(crate) fn rely<T>(&self, wait: impl FnOnce() -> T) -> T {
        match &self.reading {
            Some(reading) => reading.rely(wait),
            None => wait(),
        }
    }

    /// Waits for the outcome; `None` when the session ended first.
    pub(crate) fn wait(&self, waiter: &Waiter) -> Option<Answer> {
        match &self.reading {
            Some(reading) => reading.wait(self, waiter),
            None => waiter.wait(),
        }
    }
}

/// What came of an attempt to read a message.
enum Step {
    Read,
    /// Nothing came in time.
    Late,
    /// Nothing more comes.
    End,
}

impl Reading {
    pub(crate) fn new(receiver: Receiver, handle: Handle) -> Self {
        Self {
            receiver: Mutex::new(receiver),
            handle,
            taken: AtomicBool::new(false),
            relying: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            quiet: Mutex::new(()),
            wake: Condvar::new(),
        }
    }

    /// Nothing more is read, and nothing is waited for in a full ring.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.handle.interrupt();
        self.nudge();
    }

    /// In the child of a fork. Async-signal-safe.
    pub(crate) fn abandon(&self) {
        self.handle.close_in_child();
    }

    /// Waits for the outcome; `None` when the session ended first.
    pub(crate) fn wait(&self, shared: &Shared, waiter: &Waiter) -> Option<Answer> {
        if let Some(mut receiver) = self.receiver.try_lock() {
            let _signals = HeldSignals::begin();
            let _ignored = Ignored::begin();
            let until = Instant::now() + TURN;
            while !waiter.is_over() && matches!(self.step(shared, &mut receiver, Some(until)), Step::Read) {}
            self.taken.store(true, Ordering::SeqCst);
            drop(receiver);
            if waiter.is_over() {
                if self.relying.load(Ordering::SeqCst) > 0 {
                    self.nudge();
                }
                return waiter.wait();
            }
        } else {
            self.taken.store(true, Ordering::SeqCst);
        }
        self.rely(|| waiter.wait())
    }

    /// Waits for something that our thread brings about.
    pub(crate) fn rely<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.relying.fetch_add(1, Ordering::SeqCst);
        self.nudge();
        let result = wait();
        self.relying.fetch_sub(1, Ordering::SeqCst);
        result
    }

    fn nudge(&self) {
        let _quiet = self.quiet.lock();
        self.wake.notify_all();
    }

    fn keep_away(&self, time: Duration) {
        self.wake.wait_for(&mut self.quiet.lock(), time);
    }

    /// Our thread.
    pub(crate) fn run(&self, shared: &Shared) {
        while !self.closed.load(Ordering::SeqCst) {
            if self.taken.swap(false, Ordering::SeqCst) && self.relying.load(Ordering::SeqCst) == 0 {
                self.keep_away(QUIET);
                continue;
            }
            let mut receiver = self.receiver.lock();
            loop {
                match self.step(shared, &mut receiver, None) {
                    Step::Read if self.taken.load(Ordering::SeqCst) => break,
                    Step::Read => {}
                    Step::Late | Step::End => {
                        drop(receiver);
                        if !shared.ledger.wait_closed(LAST_WORDS) && !self.closed.load(Ordering::SeqCst) {
                            shared.fail("the host has given up the shared memory");
                        }
                        return;
                    }
                }
            }
            drop(receiver);
            if self.relying.load(Ordering::SeqCst) > 0 {
                self.keep_away(PAUSE);
            }
        }
    }

    /// Reads one message, if it begins in time, and does what it says.
    fn step(&self, shared: &Shared, receiver: &mut Receiver, until: Option<Instant>) -> Step {
        let message = match message(receiver, until) {
            Ok(message) => message,
            Err(Error::TimedOut) => return Step::Late,
            Err(error @ Error::Violation(_)) => {
                shared.fail(&format!("protocol error: {error}"));
                return Step::End;
            }
            Err(_) => return Step::End,
        };
        match HostMessage::decode(Bytes::from(message)) {
            Ok(message) => match handle(shared, message) {
                Ok(()) => Step::Read,
                Err(why) => {
                    shared.fail(&why);
                    Step::End
                }
            },
            Err(error) => {
                shared.fail(&format!("protocol error: {error}"));
                Step::End
            }
        }
    }
}

/// The next message, if it begins in time.
fn message(receiver: &mut Receiver, until: Option<Instant>) -> Result<Vec<u8>, Error> {
    receiver.next(until)?;
    let mut message = Vec::new();
    receiver.rest(&mut message, None)?;
    Ok(message)
}
