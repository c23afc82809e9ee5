//! One gRPC call, as the thread that serves it sees it: messages in, messages out, its end.
//!
//! A call belongs to one thread, which drives the connection's runtime whenever it waits (`connection`). Any thread may cancel it, and ask
//! whether it was. The guest's end is a cancellation, too: its request broke off, or it takes no answer any more.

mod outgoing;
mod resuming;
pub mod saving;
mod wire;

use crate::message::{self, Tape};
use crate::placing::Placing;
use crate::ring::{self, Ticket};
use bytes::Bytes;
pub(crate) use outgoing::Outgoing;
use outgoing::Shared;
use parking_lot::Mutex;
use resuming::{Kept, Line};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
pub use tonic::Code;
use tonic::{Status, Streaming};
use wire::Wire;

/// How long a call's last words may take to leave.
const FAREWELL: Duration = Duration::from_secs(20);
const FAREWELL_OF_CANCELLED: Duration = Duration::from_secs(1);

static NUMBER: AtomicU64 = AtomicU64::new(1);

/// The call was cancelled, or its connection broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone;

/// What `receive` found.
#[derive(Debug)]
pub enum Received {
    Tape(Tape),
    /// Another message, as it came.
    Other(Bytes),
    /// The guest sends no more.
    End,
    /// Nothing came in time.
    Late,
    /// The rest of a message of which a part has gone to its place.
    Placed(Bytes),
    /// What came is no message that the host takes: too large, mostly. The connection is still there, and wants to know why.
    Refused(Status),
}

/// What a guest shows to be let in.
#[derive(Default)]
pub struct Shown {
    /// The header of that name.
    pub authorization: Option<String>,
    /// Its own certificate (DER), which has been verified.
    pub certificate: Option<Bytes>,
}

/// One call of a guest.
pub struct Call {
    /// No other call of the process has it.
    pub number: u64,
    pub method: String,
    pub peer: String,
    pub shown: Shown,
    line: Mutex<Line>,
    /// Nothing is waited for any more.
    ended: AtomicBool,
    /// What the call ends with, where another thread has ended it.
    verdict: OnceLock<Status>,
    /// Another thread has something to say to the call's own.
    woken: AtomicBool,
    /// Where the call outlives its connection.
    kept: OnceLock<Kept>,
    /// Another thread has work for the call's own, between two groups (`saving`).
    asked: AtomicBool,
    /// Its connection carries another call's messages.
    lent: AtomicBool,
    /// The guest is on this machine, and can come to the rings' socket.
    beside: bool,
    ticket: Mutex<Option<Ticket>>,
    passage: Mutex<Option<Ticket>>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Call").field("method", &self.method).field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Call {
    /// A call, and the stream of its answers.
    pub(crate) fn new(
        method: String,
        peer: String,
        runtime: Arc<Runtime>,
        incoming: Streaming<Bytes>,
        beside: bool,
        shown: Shown,
    ) -> (Arc<Self>, Outgoing) {
        let shared = Arc::new(Shared::default());
        let (sender, messages) = mpsc::channel(1);
        let wire = Wire::new(shared.clone(), runtime, Some((incoming, sender)));
        (Arc::new(Self::with(method, peer, shown, wire, beside)), Outgoing { messages, shared })
    }

    /// A call of a guest that another process has led here with its rings: there is no stream.
    pub(crate) fn by_rings(rings: rings::Rings) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared::default());
        shared.closed.store(true, Ordering::Release);
        shared.place.put(rings, false);
        let wire = Wire::new(shared, Arc::new(Builder::new_current_thread().enable_time().build()?), None);
        Ok(Arc::new(Self::with(String::new(), "rings:".to_owned(), Shown::default(), wire, false)))
    }

    fn with(method: String, peer: String, shown: Shown, wire: Arc<Wire>, beside: bool) -> Self {
        Self {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            method,
            peer,
            shown,
            line: Mutex::new(Line::new(wire)),
            ended: AtomicBool::new(false),
            verdict: OnceLock::new(),
            woken: AtomicBool::new(false),
            kept: OnceLock::new(),
            asked: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            beside,
            ticket: Mutex::new(None),
            passage: Mutex::new(None),
        }
    }

    fn wire(&self) -> Arc<Wire> {
        self.line.lock().wire.clone()
    }

    fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Whether the guest has gone, or the host stops. A guest that may come again has not gone.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_ended() || (self.wire().is_cancelled() && self.kept().is_none())
    }

    /// From any thread: nothing is waited for any more.
    pub fn cancel(&self) {
        self.ended.store(true, Ordering::Release);
        self.wire().shared.cancel();
        self.tell();
    }

    /// From any thread: as `cancel`, and the guest is given this status, whatever the call's own thread finishes with.
    pub fn end(&self, code: Code, details: &str) {
        let _ = self.verdict.set(Status::new(code, details));
        self.cancel();
    }

    /// What another thread has ended the call with.
    #[must_use]
    pub fn verdict(&self) -> Option<&str> {
        self.verdict.get().map(Status::message)
    }

    /// From any thread: the call's own thread finds `Late` where it waits for a message, now or the next time.
    pub fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.wire().shared.changed.notify_one();
        self.tell();
    }

    /// The call's thread may wait for a guest that comes again: it looks at what has changed.
    fn tell(&self) {
        if let Some(kept) = self.kept.get() {
            let _line = self.line.lock();
            kept.changed.notify_all();
        }
    }

    /// Whether messages go through shared memory.
    #[must_use]
    pub fn has_rings(&self) -> bool {
        self.wire().has_rings()
    }

    /// What the guest is to say at the rings' socket, once; `None` where it cannot come there.
    #[must_use]
    pub fn ticket(&self) -> Option<Ticket> {
        let ticket = if self.beside { ring::ticket().ok() } else { None };
        *self.ticket.lock() = ticket;
        ticket
    }

    /// Whether this is the call's ticket; it is no longer.
    pub(crate) fn takes_ticket(&self, shown: &Ticket) -> bool {
        self.ticket.lock().take_if(|ticket| ticket == shown).is_some()
    }

    /// What the guest is to say, once, at the beginning of another connection that is then handed on (`passage`).
    #[must_use]
    pub fn passage(&self) -> Option<Ticket> {
        let ticket = ring::ticket().ok();
        *self.passage.lock() = ticket;
        ticket
    }

    /// As `takes_ticket`.
    pub(crate) fn takes_passage(&self, shown: &Ticket) -> bool {
        self.passage.lock().take_if(|ticket| ticket == shown).is_some()
    }

    /// Messages go through these rings from now on.
    pub(crate) fn attach(&self, rings: rings::Rings) {
        let wire = self.wire();
        wire.shared.place.put(rings, self.is_cancelled());
        wire.shared.changed.notify_one();
    }

    /// The next message, waited for at most for so long.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn receive(&self, timeout: Option<Duration>) -> Result<Received, Gone> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        match self.kept.get().and_then(Kept::take_aside) {
            Some(received) => Ok(received),
            None => self.next_by_stream(deadline),
        }
    }

    /// The next message through rings. `place` is given the beginning of one that is large, and its length.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn receive_placing(&self, timeout: Option<Duration>, place: Placing<'_>) -> Result<Received, Gone> {
        self.wire().receive_by_ring(timeout.map(|timeout| Instant::now() + timeout), Some(place))
    }

    /// The next message by the stream, or by rings that the guest has come to meanwhile.
    fn next_by_stream(&self, deadline: Option<Instant>) -> Result<Received, Gone> {
        loop {
            let wire = self.wire();
            let received = if wire.has_rings() { Ok(None) } else { wire.receive(deadline, &self.woken) };
            match (received, self.kept()) {
                (Ok(None), _) => return wire.receive_by_ring(deadline, None),
                (Ok(Some(received)), None) => return Ok(received),
                (Ok(Some(received)), Some(kept)) => {
                    if let Some(received) = self.counted(kept, &wire, received) {
                        return Ok(received);
                    }
                }
                (Err(Gone), None) => return Err(Gone),
                (Err(Gone), Some(kept)) => {
                    if !self.wait_for_guest(kept, &wire, deadline)? {
                        return Ok(Received::Late);
                    }
                }
            }
        }
    }

    /// Sends a message, given in parts, once the one before is on its way, so that a slow guest holds up its own session. `flush`: now; else
    /// with what the thread does next.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn send(&self, parts: &[&[u8]], flush: bool) -> Result<(), Gone> {
        let wire = self.wire();
        if self.is_ended() || (wire.is_cancelled() && self.kept().is_none()) {
            return Err(Gone);
        }
        if let Some(sent) = wire.send_by_ring(parts) {
            return sent;
        }
        let message = parts.concat().into();
        match self.kept() {
            None => wire.send(message, flush),
            Some(kept) => self.send_kept(kept, message, flush),
        }
    }

    /// Ends the call, whatever has become of it. The last thing done with it.
    pub fn finish(&self, code: Code, details: &str) {
        if self.lent.load(Ordering::Acquire) || self.has_left() {
            return;
        }
        let (last, patience) = match (self.is_cancelled(), code) {
            (true, _) if self.verdict.get().is_some() => (self.verdict.get().cloned(), FAREWELL_OF_CANCELLED),
            (true, _) => (Some(Status::unavailable("the host stops")), FAREWELL_OF_CANCELLED),
            (false, Code::Ok) => (None, FAREWELL),
            (false, code) => (Some(Status::new(code, details)), FAREWELL),
        };
        let wire = {
            let line = self.line.lock();
            self.ended.store(true, Ordering::Release); // no other wire comes
            line.wire.clone()
        };
        wire.finish(last, patience);
    }

    /// From any thread: drives the connection a little if the call's own thread is busy elsewhere. Whether the call is cancelled.
    pub(crate) fn look(&self) -> bool {
        self.wire().look();
        self.give_up_in_time();
        self.is_cancelled()
    }
}

fn classified(message: Bytes) -> Received {
    message::tape(&message).map_or(Received::Other(message), Received::Tape)
}
