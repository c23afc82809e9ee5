//! What a saved session keeps of its call, and a call that goes on where a saved one stopped.
//!
//! A session is saved between two groups, on the thread of its call: another thread asks for that (`ask`), and the replay pauses there. What the
//! call has counted and what its guest has not confirmed go with the session. Then the session may leave the host: its connection is cut, and its
//! guest comes again, here or elsewhere.
//!
//! Source: protos/tape.md, "Broken connections".

use super::resuming::Kept;
use super::{Call, Gone};
use crate::message;
use bytes::Bytes;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What a call has of its session's messages.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Tapes of the guest.
    pub received: u64,
    /// The number of the first message that the guest has not confirmed.
    pub first: u64,
    pub unconfirmed: Vec<Bytes>,
}

impl Call {
    /// From any thread: the call's own is to pause between two groups, now or soon.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.wake();
    }

    /// Whether it is to pause.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }

    /// It need not pause any more.
    pub fn answered(&self) {
        self.asked.store(false, Ordering::Release);
    }

    /// Whether all that it has received was given to the replay.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        self.kept().is_none_or(Kept::is_drained)
    }

    /// What it has of its session's messages. On its own thread. `None`: its guest cannot come again.
    #[must_use]
    pub fn counted_so_far(&self) -> Option<Counted> {
        let kept = self.kept()?;
        let sent = kept.sent();
        let received = self.line.lock().received;
        Some(Counted { received, first: sent.first, unconfirmed: sent.messages.iter().cloned().collect() })
    }

    /// The call goes on with the messages of a session that was saved, whose guest has received so many. `ticket`: of the
    /// process that has the session's messages.
    ///
    /// # Errors
    /// [`Gone`]: the connection is broken, or the guest is not where it was.
    pub fn go_on_from(&self, grace: Duration, counted: Counted, received: u64, ticket: &[u8]) -> Result<(), Gone> {
        self.keep(grace);
        let kept = self.kept().ok_or(Gone)?;
        self.line.lock().received = counted.received;
        let mut sent = kept.sent();
        sent.first = counted.first;
        counted.unconfirmed.into_iter().for_each(|message| sent.push(message));
        if received < sent.first || !sent.confirm(received) {
            return Err(Gone);
        }
        sent.wire.send(message::resumed(counted.received, ticket), true)?;
        sent.pump(true);
        Ok(())
    }

    /// The session has left the host: nothing is said to the guest, and its connection is cut. The last thing done with the call.
    pub fn leave(&self) {
        let wire = {
            let line = self.line.lock();
            self.ended.store(true, Ordering::Release); // no other wire comes
            line.wire.clone()
        };
        wire.shared.left.store(true, Ordering::Release);
        wire.shared.cancel();
    }

    pub(crate) fn has_left(&self) -> bool {
        self.wire().shared.left.load(Ordering::Acquire)
    }
}
