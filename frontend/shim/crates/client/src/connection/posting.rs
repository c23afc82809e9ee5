//! Messages on their way to a gRPC stream.
//!
//! A thread that posts a message does not run the connection's tasks. Waking these from outside of their runtime costs two
//! system calls, so a thread that will drive the connection next leaves that out: it wakes them itself (`Queue::wake`)
//! once it has the runtime.
//!
//! Where the session outlives its connection (`connection::resuming`), Tapes are kept until the host has acknowledged
//! their group. Another stream takes the place of a broken one, and begins with the first Tape that the host has not got.
//! Locking: the queue's lock is a leaf.

use crate::generated_farlane_v1::guest_message::Kind;
use crate::generated_farlane_v1::{Goodbye, GuestMessage};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tokio_stream::Stream;

#[derive(Default)]
struct State {
    /// Those of groups that are not acknowledged, where they are kept; else those that were not taken.
    tapes: VecDeque<GuestMessage>,
    /// The number of the first one.
    first: u64,
    /// So many of them the stream has taken.
    taken: usize,
    /// They follow the Tapes.
    others: VecDeque<GuestMessage>,
    keeps: bool,
    /// The session ends well: each stream says so.
    farewell: bool,
    /// Which stream takes messages; those before it are broken.
    stream: u64,
    /// It waits until it is known where it begins.
    waits: bool,
    waker: Option<Waker>,
    /// Nothing follows, or nothing is taken any more.
    closed: bool,
}

impl State {
    fn next(&mut self) -> Option<GuestMessage> {
        if self.keeps {
            let next = self.tapes.get(self.taken).cloned();
            self.taken += usize::from(next.is_some());
            return next.or_else(|| self.others.pop_front());
        }
        let next = self.tapes.pop_front();
        self.first += u64::from(next.is_some());
        next.or_else(|| self.others.pop_front())
    }
}

/// What was posted and has not been taken, or is kept.
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

    /// From now on Tapes are kept, and a stream that breaks is no end. Before there are any.
    pub(crate) fn keep(&self) {
        self.0.lock().keeps = true;
    }

    /// Whether the message may still be sent; once [`Queue::wake`] is called.
    pub(crate) fn put(&self, message: GuestMessage) -> bool {
        let mut state = self.0.lock();
        if !state.closed {
            match &message.kind {
                Some(Kind::Tape(_)) => state.tapes.push_back(message),
                kind => {
                    state.farewell |= matches!(kind, Some(Kind::Goodbye(_)));
                    state.others.push_back(message);
                }
            }
        }
        !state.closed
    }

    /// The host has all of the group, and of those before it.
    pub(crate) fn acknowledge(&self, group: u64) {
        let mut state = self.0.lock();
        while state.keeps && state.taken > 0 {
            match state.tapes.front() {
                Some(GuestMessage { kind: Some(Kind::Tape(tape)) }) if tape.group <= group => {}
                _ => break,
            }
            state.tapes.pop_front();
            state.first += 1;
            state.taken -= 1;
        }
    }

    /// Another stream in the place of the last one. It begins with this message, and goes on once it is known where
    /// (`begin_at`).
    pub(crate) fn renew(self: &Arc<Self>, greeting: GuestMessage) -> Posted {
        let mut state = self.0.lock();
        state.stream += 1;
        state.waits = true;
        state.others.clear(); // they speak of a stream that is broken
        if state.farewell {
            state.others.push_back(GuestMessage { kind: Some(Kind::Goodbye(Goodbye {})) });
        }
        Posted { queue: self.clone(), stream: state.stream, greeting: Some(greeting) }
    }

    /// The host has so many Tapes. False: there were not as many, or it has had more.
    pub(crate) fn begin_at(&self, received: u64) -> bool {
        let mut state = self.0.lock();
        let taken = received.checked_sub(state.first).and_then(|taken| usize::try_from(taken).ok());
        let Some(taken) = taken.filter(|&taken| taken <= state.tapes.len()) else { return false };
        state.taken = taken;
        state.waits = false;
        drop(state);
        self.wake();
        true
    }

    fn close(&self) {
        self.0.lock().closed = true;
        self.wake();
    }
}

/// The end where messages are posted. Dropped, it ends the stream.
pub(crate) struct Poster(Arc<Queue>);

impl Poster {
    /// As [`Queue::put`].
    pub(crate) fn put(&self, message: GuestMessage) -> bool {
        self.0.put(message)
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
pub(crate) struct Posted {
    queue: Arc<Queue>,
    stream: u64,
    greeting: Option<GuestMessage>,
}

impl Stream for Posted {
    type Item = GuestMessage;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<GuestMessage>> {
        if let Some(greeting) = self.greeting.take() {
            return Poll::Ready(Some(greeting));
        }
        let mut state = self.queue.0.lock();
        if state.stream != self.stream {
            return Poll::Ready(None);
        }
        let next = if state.waits { None } else { state.next() };
        match next {
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
        let mut state = self.queue.0.lock();
        if state.stream == self.stream && !state.keeps {
            state.closed = true;
        }
    }
}

pub(crate) fn posting() -> (Poster, Posted) {
    let queue = Arc::new(Queue::default());
    (Poster(queue.clone()), Posted { queue, stream: 0, greeting: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated_farlane_v1::{ObjectPart, Tape};
    use std::task::Waker;

    fn tape(group: u64, last: bool) -> GuestMessage {
        GuestMessage { kind: Some(Kind::Tape(Tape { group, last, ..Tape::default() })) }
    }

    fn other(kind: Kind) -> GuestMessage {
        GuestMessage { kind: Some(kind) }
    }

    fn taken(posted: &mut Posted) -> Poll<Option<GuestMessage>> {
        Pin::new(posted).poll_next(&mut Context::from_waker(Waker::noop()))
    }

    fn some(message: GuestMessage) -> Poll<Option<GuestMessage>> {
        Poll::Ready(Some(message))
    }

    #[test]
    fn a_stream_in_the_place_of_a_broken_one_begins_where_the_host_is() {
        let (poster, mut broken) = posting();
        poster.queue().keep();
        for message in [tape(1, true), tape(2, false), tape(2, true), tape(3, true)] {
            assert!(poster.put(message));
        }
        assert_eq!(taken(&mut broken), some(tape(1, true)));
        assert_eq!(taken(&mut broken), some(tape(2, false)));
        assert_eq!(taken(&mut broken), some(tape(2, true)));
        poster.queue().acknowledge(1);
        poster.put(other(Kind::ObjectPart(ObjectPart::default())));
        let mut stream = poster.queue().renew(other(Kind::Resume(Default::default())));
        assert_eq!(taken(&mut broken), Poll::Ready(None), "it takes nothing any more");
        drop(broken);
        assert_eq!(taken(&mut stream), some(other(Kind::Resume(Default::default()))));
        assert_eq!(taken(&mut stream), Poll::Pending);
        assert!(!poster.queue().begin_at(0), "the first is gone");
        assert!(!poster.queue().begin_at(5), "there is none");
        assert!(poster.queue().begin_at(2));
        assert_eq!(taken(&mut stream), some(tape(2, true)));
        assert_eq!(taken(&mut stream), some(tape(3, true)));
        assert_eq!(taken(&mut stream), Poll::Pending, "parts of objects are left out");
        poster.queue().acknowledge(3);
        assert!(poster.put(tape(4, true)));
        assert_eq!(taken(&mut stream), some(tape(4, true)));
        assert!(poster.put(other(Kind::Goodbye(Goodbye {}))));
        drop(poster);
        assert_eq!(taken(&mut stream), some(other(Kind::Goodbye(Goodbye {}))));
        assert_eq!(taken(&mut stream), Poll::Ready(None));
    }

    #[test]
    fn nothing_is_kept_where_the_connection_is_the_sessions_end() {
        let (poster, mut posted) = posting();
        assert!(poster.put(tape(1, true)));
        assert_eq!(taken(&mut posted), some(tape(1, true)));
        assert!(poster.queue().0.lock().tapes.is_empty());
        drop(posted);
        assert!(!poster.put(tape(2, true)));
    }
}
