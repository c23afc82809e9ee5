//! One gRPC call, as the thread that serves it sees it: messages in, messages out, its end.
//!
//! A call belongs to one thread, which drives the connection's runtime whenever it waits (`connection`). Any thread may cancel it, and ask
//! whether it was. The guest's end is a cancellation, too: its request broke off, or it takes no answer any more.

mod outgoing;

use crate::connection::make_progress;
use crate::message::{self, Tape};
use crate::placing::{self, Placing};
use crate::ring::{self, Ticket};
use bytes::Bytes;
pub(crate) use outgoing::Outgoing;
use outgoing::Shared;
use parking_lot::Mutex;
use rings::{Spin, Waiting};
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
pub use tonic::Code;
use tonic::{Status, Streaming};

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
    shared: Arc<Shared>,
    runtime: Arc<Runtime>,
    /// `None`: the guest came by rings alone.
    incoming: Mutex<Option<Streaming<Bytes>>>,
    outgoing: Mutex<Option<mpsc::Sender<Result<Bytes, Status>>>>,
    /// How long a wait for a message keeps looking at the socket before it sleeps.
    spin: Mutex<Spin>,
    /// Its thread is busy, or reads rings, and does not drive the connection.
    away: AtomicBool,
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
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let call = Self {
            number,
            method,
            peer,
            shown,
            shared: shared.clone(),
            runtime,
            incoming: Mutex::new(Some(incoming)),
            outgoing: Mutex::new(Some(sender)),
            spin: Mutex::new(Spin::new(Waiting::Adaptive)),
            away: AtomicBool::new(true),
            beside,
            ticket: Mutex::new(None),
            passage: Mutex::new(None),
        };
        (Arc::new(call), Outgoing { messages, shared })
    }

    /// A call of a guest that another process has led here with its rings: there is no stream.
    pub(crate) fn by_rings(rings: rings::Rings) -> io::Result<Arc<Self>> {
        let shared = Arc::new(Shared::default());
        shared.closed.store(true, Ordering::Release);
        shared.place.put(rings, false);
        Ok(Arc::new(Self {
            number: NUMBER.fetch_add(1, Ordering::Relaxed),
            method: String::new(),
            peer: "rings:".to_owned(),
            shown: Shown::default(),
            shared,
            runtime: Arc::new(Builder::new_current_thread().enable_time().build()?),
            incoming: Mutex::new(None),
            outgoing: Mutex::new(None),
            spin: Mutex::new(Spin::new(Waiting::Adaptive)),
            away: AtomicBool::new(true),
            beside: false,
            ticket: Mutex::new(None),
            passage: Mutex::new(None),
        }))
    }

    /// Whether the guest has gone, or the host stops.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Acquire)
    }

    /// From any thread: nothing is waited for any more.
    pub fn cancel(&self) {
        self.shared.cancel();
    }

    /// From any thread: the call's own thread finds `Late` where it waits for a message, now or the next time.
    pub fn wake(&self) {
        self.shared.woken.store(true, Ordering::Release);
        self.shared.changed.notify_one();
    }

    /// Whether messages go through shared memory.
    #[must_use]
    pub fn has_rings(&self) -> bool {
        self.shared.place.is_filled()
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
        self.shared.place.put(rings, self.is_cancelled());
        self.shared.changed.notify_one();
    }

    /// The next message, waited for at most for so long.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn receive(&self, timeout: Option<Duration>) -> Result<Received, Gone> {
        let deadline = timeout.map(|timeout| Instant::now() + timeout);
        if !self.has_rings() {
            if let Some(received) = self.receive_by_stream(deadline)? {
                return Ok(received);
            }
        }
        self.receive_by_ring(deadline, None)
    }

    /// The next message through rings. `place` is given the beginning of one that is large, and its length.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn receive_placing(&self, timeout: Option<Duration>, place: Placing<'_>) -> Result<Received, Gone> {
        self.receive_by_ring(timeout.map(|timeout| Instant::now() + timeout), Some(place))
    }

    /// `None`: there are rings.
    fn receive_by_stream(&self, deadline: Option<Instant>) -> Result<Option<Received>, Gone> {
        let mut incoming = self.incoming.lock();
        let incoming = incoming.as_mut().ok_or(Gone)?;
        let received = async {
            let next = async {
                match deadline {
                    Some(deadline) => tokio::time::timeout_at(deadline.into(), incoming.message()).await.ok(),
                    None => Some(incoming.message().await),
                }
            };
            let next = tokio::select! {
                biased;
                () = self.until(|| self.is_cancelled() || self.has_rings() || self.is_woken()) => {
                    return match (self.is_cancelled(), self.has_rings()) {
                        (true, _) => Err(Gone),
                        (false, true) => Ok(None),
                        (false, false) => {
                            self.shared.woken.store(false, Ordering::Release);
                            Ok(Some(Received::Late))
                        }
                    };
                }
                next = next => next,
            };
            match next {
                None => Ok(Some(Received::Late)),
                Some(Ok(None)) => Ok(Some(Received::End)),
                Some(Ok(Some(message))) => Ok(Some(classified(message))),
                Some(Err(status)) if status.code() == Code::OutOfRange => {
                    Ok(Some(Received::Refused(Status::resource_exhausted(status.message()))))
                }
                Some(Err(status))
                    if status.code() == Code::Internal && std::error::Error::source(&status).is_none() =>
                {
                    Ok(Some(Received::Refused(status))) // gRPC's framing is broken
                }
                Some(Err(_)) => {
                    self.shared.cancel();
                    Err(Gone)
                }
            }
        };
        self.drive(self.spin.lock().wait(received, tokio::task::yield_now))
    }

    fn receive_by_ring(&self, deadline: Option<Instant>, place: Option<Placing<'_>>) -> Result<Received, Gone> {
        let receiver = self.shared.place.receiver().ok_or(Gone)?;
        let mut message = Vec::new();
        let received = placing::received(&mut receiver.lock(), &mut message, deadline, place);
        match received {
            Ok(false) => Ok(classified(message.into())),
            Ok(true) => Ok(Received::Placed(message.into())),
            Err(rings::Error::TimedOut) => Ok(Received::Late),
            Err(error @ rings::Error::Violation(_)) => Ok(Received::Refused(Status::internal(error.to_string()))),
            Err(_) => {
                self.shared.cancel();
                Err(Gone)
            }
        }
    }

    /// Sends a message, given in parts, once the one before is on its way, so that a slow guest holds up its own session. `flush`: now; else
    /// with what the thread does next.
    ///
    /// # Errors
    /// [`Gone`].
    pub fn send(&self, parts: &[&[u8]], flush: bool) -> Result<(), Gone> {
        if self.is_cancelled() {
            return Err(Gone);
        }
        if let Some(sender) = self.shared.place.sender() {
            let sent = sender.lock().send(parts, None);
            return sent.map_err(|_| {
                self.shared.cancel();
                Gone
            });
        }
        let sender = self.outgoing.lock().clone().ok_or(Gone)?;
        let mut item = Ok(parts.concat().into());
        if !flush {
            match sender.try_send(item) {
                Ok(()) => return Ok(()),
                Err(mpsc::error::TrySendError::Closed(_)) => return Err(Gone),
                Err(mpsc::error::TrySendError::Full(rest)) => item = rest,
            }
        }
        // Inside of the runtime: waking its tasks costs no system call there.
        self.drive(async {
            tokio::select! {
                biased;
                sent = sender.send(item) => sent.map_err(|_| Gone)?,
                () = self.until(|| self.is_cancelled()) => return Err(Gone),
            }
            if flush {
                make_progress().await;
            }
            Ok(())
        })
    }

    /// Ends the call, whatever has become of it. The last thing done with it.
    pub fn finish(&self, code: Code, details: &str) {
        let (last, patience) = match (self.is_cancelled(), code) {
            (true, _) => (Some(Status::unavailable("the host stops")), FAREWELL_OF_CANCELLED),
            (false, Code::Ok) => (None, FAREWELL),
            (false, code) => (Some(Status::new(code, details)), FAREWELL),
        };
        let sender = self.outgoing.lock().take();
        self.drive(async {
            let taken = async {
                if let (Some(sender), Some(status)) = (sender, last) {
                    let _ = sender.send(Err(status)).await;
                }
                self.until(|| self.shared.closed.load(Ordering::Acquire)).await;
            };
            let _ = tokio::time::timeout(patience, taken).await;
            make_progress().await;
        });
    }

    /// From any thread: drives the connection a little if the call's own thread is busy elsewhere. Whether the call is cancelled.
    pub(crate) fn look(&self) -> bool {
        if self.away.load(Ordering::Acquire) {
            self.runtime.block_on(make_progress());
        }
        self.is_cancelled()
    }

    fn is_woken(&self) -> bool {
        self.shared.woken.load(Ordering::Acquire)
    }

    /// Waits until that holds; the connection's tasks and other threads bring it about.
    async fn until(&self, condition: impl Fn() -> bool) {
        while !condition() {
            self.shared.changed.notified().await;
        }
    }

    fn drive<T>(&self, future: impl Future<Output = T>) -> T {
        self.away.store(false, Ordering::Release);
        let result = self.runtime.block_on(future);
        self.away.store(true, Ordering::Release);
        result
    }
}

fn classified(message: Bytes) -> Received {
    message::tape(&message).map_or(Received::Other(message), Received::Tape)
}
