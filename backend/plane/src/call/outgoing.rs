//! What the connection's tasks know of a call: what it sends, and how they tell its thread that the guest has gone.

use crate::ring;
use bytes::Bytes;
use parking_lot::{Condvar, Mutex};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;
use tokio::sync::{mpsc, Notify};
use tokio_stream::Stream;
use tonic::Status;

/// What the connection's tasks and the call's thread share.
#[derive(Default)]
pub(crate) struct Shared {
    /// The guest has gone, or the host stops.
    pub(super) cancelled: AtomicBool,
    /// Since when.
    pub(super) since: OnceLock<Instant>,
    /// The response has ended, well or not: what is sent goes nowhere.
    pub(super) closed: AtomicBool,
    pub(super) changed: Notify,
    /// The call's session has left the host: the connection is cut.
    pub(super) left: AtomicBool,
    /// Shared memory, where messages go through it.
    pub(super) place: ring::Place,
    /// The connection carries no more of the call.
    over: Mutex<bool>,
    ends: Condvar,
}

impl Shared {
    pub(crate) fn cancel(&self) {
        self.since.get_or_init(Instant::now);
        self.cancelled.store(true, Ordering::Release);
        self.changed.notify_one();
        self.place.interrupt();
        self.end();
    }

    fn end(&self) {
        *self.over.lock() = true;
        self.ends.notify_all();
    }

    /// Waits until the connection carries no more of the call, without driving it.
    pub(super) fn wait_end(&self) {
        let mut over = self.over.lock();
        while !*over {
            self.ends.wait(&mut over);
        }
    }
}

/// What the guest is sent. Its end is the response's.
pub(crate) struct Outgoing {
    pub(super) messages: mpsc::Receiver<Result<Bytes, Status>>,
    pub(super) shared: Arc<Shared>,
}

impl Stream for Outgoing {
    type Item = Result<Bytes, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.messages.poll_recv(context)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
        if !self.messages.is_closed() {
            self.shared.cancel(); // the call's thread has not ended it
        }
        self.shared.end();
        self.shared.changed.notify_one();
    }
}
