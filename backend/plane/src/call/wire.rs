//! One connection's part of a call: the streams of its messages, and the runtime that moves them.
//!
//! A call whose guest comes again (`resuming`) goes on with the wire of another connection.

use super::outgoing::Shared;
use super::{classified, Gone, Received};
use crate::connection::make_progress;
use crate::placing::{self, Placing};
use bytes::Bytes;
use parking_lot::Mutex;
use rings::{Spin, Waiting};
use std::future::Future;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tonic::{Code, Status, Streaming};

/// What comes, and where to put what is sent.
type Streams = (Streaming<Bytes>, mpsc::Sender<Result<Bytes, Status>>);

pub(super) struct Wire {
    pub(super) shared: Arc<Shared>,
    runtime: Arc<Runtime>,
    /// `None`: the guest came by rings alone.
    incoming: Mutex<Option<Streaming<Bytes>>>,
    outgoing: Mutex<Option<mpsc::Sender<Result<Bytes, Status>>>>,
    /// How long a wait for a message keeps looking at the socket before it sleeps.
    spin: Mutex<Spin>,
    /// Its thread is busy, or reads rings, and does not drive the connection.
    away: AtomicBool,
}

impl Wire {
    pub(super) fn new(shared: Arc<Shared>, runtime: Arc<Runtime>, streams: Option<Streams>) -> Arc<Self> {
        let (incoming, outgoing) = streams.unzip();
        Arc::new(Self {
            shared,
            runtime,
            incoming: Mutex::new(incoming),
            outgoing: Mutex::new(outgoing),
            spin: Mutex::new(Spin::new(Waiting::Adaptive)),
            away: AtomicBool::new(true),
        })
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.shared.cancelled.load(Ordering::Acquire)
    }

    pub(super) fn has_rings(&self) -> bool {
        self.shared.place.is_filled()
    }

    /// The next message by the stream; `None`: there are rings.
    pub(super) fn receive(&self, deadline: Option<Instant>, woken: &AtomicBool) -> Result<Option<Received>, Gone> {
        let mut incoming = self.incoming.lock();
        let incoming = incoming.as_mut().ok_or(Gone)?;
        let received = async {
            let next = async {
                match deadline {
                    Some(deadline) => tokio::time::timeout_at(deadline.into(), incoming.message()).await.ok(),
                    None => Some(incoming.message().await),
                }
            };
            let is_woken = || woken.load(Ordering::Acquire);
            let next = tokio::select! {
                biased;
                () = self.until(|| self.is_cancelled() || self.has_rings() || is_woken()) => {
                    return match (self.is_cancelled(), self.has_rings()) {
                        (true, _) => Err(Gone),
                        (false, true) => Ok(None),
                        (false, false) => {
                            woken.store(false, Ordering::Release);
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

    pub(super) fn receive_by_ring(
        &self,
        deadline: Option<Instant>,
        place: Option<Placing<'_>>,
    ) -> Result<Received, Gone> {
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

    /// `None`: there are no rings.
    pub(super) fn send_by_ring(&self, parts: &[&[u8]]) -> Option<Result<(), Gone>> {
        let sender = self.shared.place.sender()?;
        let sent = sender.lock().send(parts, None);
        Some(sent.map_err(|_| {
            self.shared.cancel();
            Gone
        }))
    }

    /// Sends a message by the stream once the one before is on its way. `flush`: now; else with what the thread does next.
    pub(super) fn send(&self, message: Bytes, flush: bool) -> Result<(), Gone> {
        let sender = self.outgoing.lock().clone().ok_or(Gone)?;
        let mut item = Ok(message);
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

    /// Nothing is sent behind `last`, which may take so long to leave.
    pub(super) fn finish(&self, last: Option<Status>, patience: Duration) {
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

    /// Drives the connection a little if the wire's own thread is busy elsewhere.
    pub(super) fn look(&self) {
        if self.away.load(Ordering::Acquire) {
            self.runtime.block_on(make_progress());
        }
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
