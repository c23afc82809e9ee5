//! Calls that outlive their connection: what is kept of them, and how another connection takes the place of a broken one.
//!
//! Both sides count the messages that they have received: the host Tapes, the guest all that it is sent. The host keeps what it has sent
//! until the guest says that it has it. When the guest comes again, each tells its count, and the other sends what is behind that anew. A
//! message that comes by a wire is counted only while that wire is the call's, so none is taken twice, and none is lost.
//!
//! Locking: what was sent, then the line. The thread that holds the former may wait for the wire; the thread that replaces it cancels it first.
//! Source: protos/tape.md, "Broken connections".

use super::wire::Wire;
use super::{Call, Gone, Received};
use crate::message;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::Status;

/// Of messages that the guest has not said it has: more wait until it has said so.
const KEPT_BYTES: usize = 16 << 20;
/// How long a connection that another one has replaced may take to end, where it is not broken.
const LEAVING: Duration = Duration::from_millis(100);
/// From so many on it is looked at what the guest has confirmed, without waiting.
const MANY_BYTES: usize = 4 << 20;
/// What a kept message costs beside its bytes.
const OVERHEAD: usize = 256;
/// Of messages that came while others waited: no guest may send so many before it is answered.
const ASIDE_BYTES: usize = 64 << 20;

/// Where a call's messages go and come from.
pub(super) struct Line {
    pub(super) wire: Arc<Wire>,
    /// Tapes.
    pub(super) received: u64,
}

impl Line {
    pub(super) fn new(wire: Arc<Wire>) -> Self {
        Self { wire, received: 0 }
    }
}

/// What is kept of a call for the guest that comes again.
pub(super) struct Kept {
    grace: Duration,
    /// The guest has not come again within it.
    given_up: AtomicBool,
    sent: Mutex<Sent>,
    /// What came while a message waited.
    aside: Mutex<VecDeque<Received>>,
    aside_bytes: AtomicUsize,
    /// The line, or whether the call goes on.
    pub(super) changed: Condvar,
}

/// Messages that the guest has not said it has.
pub(super) struct Sent {
    pub(super) messages: VecDeque<Bytes>,
    bytes: usize,
    /// The number of the first one.
    pub(super) first: u64,
    /// The first one that this wire has not been given.
    next: usize,
    pub(super) wire: Arc<Wire>,
}

impl Sent {
    pub(super) fn push(&mut self, message: Bytes) {
        self.bytes += message.len() + OVERHEAD;
        self.messages.push_back(message);
    }

    /// Gives the wire what it has not been given. One that breaks has another's place taken.
    pub(super) fn pump(&mut self, flush: bool) {
        while let Some(message) = self.messages.get(self.next) {
            if self.wire.send(message.clone(), flush).is_err() {
                return;
            }
            self.next += 1;
        }
    }

    /// The guest has so many. False: it cannot.
    pub(super) fn confirm(&mut self, received: u64) -> bool {
        if received > self.first + self.messages.len() as u64 {
            return false;
        }
        while self.first < received {
            let Some(message) = self.messages.pop_front() else { break };
            self.bytes -= message.len() + OVERHEAD;
            self.first += 1;
            self.next = self.next.saturating_sub(1);
        }
        true
    }
}

impl Call {
    /// From now on the call outlives its connection, for so long. Once, before anything is sent.
    pub fn keep(&self, grace: Duration) {
        let sent = Sent { messages: VecDeque::new(), bytes: 0, first: 0, next: 0, wire: self.wire() };
        let kept = Kept {
            grace,
            given_up: AtomicBool::new(false),
            sent: Mutex::new(sent),
            aside: Mutex::default(),
            aside_bytes: AtomicUsize::new(0),
            changed: Condvar::new(),
        };
        let _ = self.kept.set(kept);
    }

    /// What is kept. Not where messages go through shared memory: its end is the guest's.
    pub(super) fn kept(&self) -> Option<&Kept> {
        self.kept.get().filter(|_| !self.has_rings())
    }

    /// The call goes on with the connection of `by`, whose guest has received so many messages. Then `by` is only waited for
    /// (`wait_end`). `ticket`: of the process that has the session's messages.
    ///
    /// # Errors
    /// [`Gone`]: the call has ended, or the guest has come once more meanwhile.
    pub fn resume(&self, by: &Self, received: u64, ticket: &[u8]) -> Result<(), Gone> {
        let kept = self.kept().ok_or(Gone)?;
        let wire = by.wire();
        let (before, taken) = {
            let mut line = self.line.lock();
            if self.is_ended() {
                return Err(Gone);
            }
            (std::mem::replace(&mut line.wire, wire.clone()), line.received)
        };
        before.shared.cancel();
        kept.changed.notify_all();
        let mut sent = kept.sent.lock();
        if !Arc::ptr_eq(&self.wire(), &wire) {
            return Err(Gone);
        }
        if received < sent.first || !sent.confirm(received) {
            drop(sent);
            self.cancel(); // the guest is not what it was
            return Err(Gone);
        }
        sent.wire = wire;
        sent.next = 0;
        if sent.wire.send(message::resumed(taken, ticket), true).is_ok() {
            sent.pump(true);
        }
        drop(sent);
        by.lent.store(true, Ordering::Release);
        before.finish(Some(Status::aborted("the session goes on with another connection")), LEAVING);
        Ok(())
    }

    /// Waits until the connection carries no more of the call that it was lent to.
    pub fn wait_end(&self) {
        self.wire().shared.wait_end();
    }

    /// The grace, where the call has ended because its guest did not come again.
    #[must_use]
    pub fn given_up(&self) -> Option<Duration> {
        self.kept().filter(|kept| kept.given_up.load(Ordering::Acquire)).map(|kept| kept.grace)
    }

    /// How long its connection has been broken is looked at: a guest that does not come again has gone.
    pub(super) fn give_up_in_time(&self) {
        let since = self.wire().shared.since.get().copied();
        if let (Some(kept), Some(since)) = (self.kept(), since) {
            if since.elapsed() >= kept.grace && !self.is_ended() {
                kept.given_up.store(true, Ordering::Release);
                self.cancel();
            }
        }
    }

    /// Whether the connection is broken, and another may come.
    pub(crate) fn is_waiting(&self) -> bool {
        self.kept().is_some() && self.wire().is_cancelled() && !self.is_ended()
    }

    /// What has become of a message that came by the wire. `None`: nothing is to be done with it.
    pub(super) fn counted(&self, kept: &Kept, wire: &Arc<Wire>, received: Received) -> Option<Received> {
        if let Received::Other(bytes) = &received {
            if let Some(count) = message::received(bytes) {
                let whole = kept.sent.lock().confirm(count);
                let more = || Received::Refused(Status::internal("the guest has more messages than it was sent"));
                return Some(if whole { Received::Late } else { more() }); // a sender may have waited for that
            }
        }
        let mut line = self.line.lock();
        if !Arc::ptr_eq(&line.wire, wire) {
            return None; // it comes again
        }
        let tape = match &received {
            Received::Tape(_) => true,
            Received::Other(bytes) => message::is_tape(bytes),
            _ => false,
        };
        line.received += u64::from(tape);
        Some(received)
    }

    /// Waits until another wire has the broken one's place. False: not in time.
    pub(super) fn wait_for_guest(
        &self,
        kept: &Kept,
        broken: &Arc<Wire>,
        deadline: Option<Instant>,
    ) -> Result<bool, Gone> {
        let mut line = self.line.lock();
        loop {
            if self.is_ended() {
                return Err(Gone);
            }
            if !Arc::ptr_eq(&line.wire, broken) {
                return Ok(true);
            }
            if self.woken.swap(false, Ordering::AcqRel) {
                return Ok(false);
            }
            match deadline {
                None => kept.changed.wait(&mut line),
                Some(deadline) if kept.changed.wait_until(&mut line, deadline).timed_out() => return Ok(false),
                Some(_) => {}
            }
        }
    }

    /// Sends a message, and keeps it. Where too much is kept it waits for the guest, and sets aside what comes meanwhile.
    pub(super) fn send_kept(&self, kept: &Kept, message: Bytes, flush: bool) -> Result<(), Gone> {
        let bytes = {
            let mut sent = kept.sent.lock();
            sent.push(message);
            sent.pump(flush);
            sent.bytes
        };
        if bytes > MANY_BYTES {
            self.set_aside(kept, Some(Instant::now()))?; // memory that is confirmed is used again while it is at hand
        }
        while kept.sent.lock().bytes > KEPT_BYTES && self.set_aside(kept, None)? {}
        Ok(())
    }

    /// Takes one message, if it comes in time. False: there is no more that could confirm anything.
    fn set_aside(&self, kept: &Kept, deadline: Option<Instant>) -> Result<bool, Gone> {
        let received = self.next_by_stream(deadline)?;
        if matches!(received, Received::Late) {
            return Ok(true);
        }
        let ends = matches!(received, Received::End | Received::Refused(_));
        Ok(!kept.put_aside(received) && !ends)
    }
}

impl Kept {
    pub(super) fn sent(&self) -> MutexGuard<'_, Sent> {
        self.sent.lock()
    }

    /// Nothing is set aside.
    pub(super) fn is_drained(&self) -> bool {
        self.aside.lock().is_empty()
    }

    pub(super) fn take_aside(&self) -> Option<Received> {
        let received = self.aside.lock().pop_front()?;
        self.aside_bytes.fetch_sub(size(&received), Ordering::AcqRel);
        Some(received)
    }

    /// True: the guest has sent more than it may.
    fn put_aside(&self, received: Received) -> bool {
        let bytes = size(&received);
        let mut aside = self.aside.lock();
        let much = self.aside_bytes.fetch_add(bytes, Ordering::AcqRel) + bytes > ASIDE_BYTES;
        aside.push_back(received);
        if much {
            aside.push_front(Received::Refused(Status::internal("more messages than may be sent before an answer")));
        }
        much
    }
}

fn size(received: &Received) -> usize {
    match received {
        Received::Tape(tape) => tape.records.len() + OVERHEAD,
        Received::Other(bytes) => bytes.len() + OVERHEAD,
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
