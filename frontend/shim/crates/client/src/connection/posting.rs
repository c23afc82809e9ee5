//! Messages on their way to a gRPC stream.
//!
//! A thread that posts a message does not run the connection's tasks. Waking these from outside of their runtime costs two
//! system calls, so a thread that will drive the connection next leaves that out: it wakes them itself (`Queue::wake`)
//! once it has the runtime.
//! Locking: the queue's lock is a leaf.

use crate::generated_farlane_v1::GuestMessage;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio_stream::Stream;

#[derive(Default)]
struct State {
    messages: VecDeque<GuestMessage>,
    waker: Option<Waker>,
    /// Nothing follows, or nothing is taken any more.
    closed: bool,
}

/// What was posted and has not been taken.
#[derive(Default)]
pub(crate) struct Queue(Mutex<State>);

impl Queue {
    /// Has the connection look at what was posted.
    pub(crate) fn wake(&self) {
        let waker = self.0.lock().waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn close(&self) {
        self.0.lock().closed = true;
        self.wake();
    }
}

/// The end where messages are posted. Dropped, it ends the stream.
pub(crate) struct Poster(Arc<Queue>);

impl Poster {
    /// Whether the message may still be sent; once [`Queue::wake`] is called.
    pub(crate) fn put(&self, message: GuestMessage) -> bool {
        let mut state = self.0 .0.lock();
        if !state.closed {
            state.messages.push_back(message);
        }
        !state.closed
    }

    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.0
    }
}

impl Drop for Poster {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The stream of what is posted.
pub(crate) struct Posted(Arc<Queue>);

impl Stream for Posted {
    type Item = GuestMessage;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<GuestMessage>> {
        let mut state = self.0 .0.lock();
        match state.messages.pop_front() {
            Some(message) => Poll::Ready(Some(message)),
            None if state.closed => Poll::Ready(None),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Posted {
    fn drop(&mut self) {
        self.0 .0.lock().closed = true;
    }
}

pub(crate) fn posting() -> (Poster, Posted) {
    let queue = Arc::new(Queue::default());
    (Poster(queue.clone()), Posted(queue))
}
