//! A session's gRPC stream, and the runtime that moves its bytes: whoever has it drives the connection.
//!
//! The runtime has no thread. Messages that were posted leave, and replies arrive, while a thread is in one of the calls
//! below. `incoming/reading.rs` decides which thread that is.

use crate::connection::channel::describe;
use crate::connection::posting::Queue;
use crate::connection::process::Admission;
use crate::generated_farlane_v1::HostMessage;
use rings::{Spin, Waiting};
use std::sync::Arc;
use std::time::Instant;
use tokio::runtime::{Handle, Runtime};
use tonic::{Status, Streaming};

pub(crate) struct Stream {
    replies: Streaming<HostMessage>,
    posted: Arc<Queue>,
    /// Of a session that has a process of its own: says how it has ended.
    admission: Option<Admission>,
    runtime: Runtime,
    /// How long a wait keeps looking at the socket before it sleeps: waking a processor takes longer than a short answer.
    spin: Spin,
}

/// How often the connection's tasks are run where nothing is waited for: a message goes from the session to HTTP/2, and
/// from there to the socket; the other way round after the sockets were looked at.
const ROUNDS: usize = 3;

impl Stream {
    pub(crate) fn new(
        replies: Streaming<HostMessage>,
        posted: Arc<Queue>,
        admission: Option<Admission>,
        runtime: Runtime,
    ) -> Self {
        Self { replies, posted, admission, runtime, spin: Spin::new(Waiting::Adaptive) }
    }

    /// Whether the calling thread can drive: one that is ending has lost what the runtime keeps for it.
    pub(crate) fn can_drive() -> bool {
        !Handle::try_current().is_err_and(|error| error.is_thread_local_destroyed())
    }

    /// The next message; `None` when none came in time.
    ///
    /// # Errors
    /// Why nothing more comes.
    pub(crate) fn next(&mut self, until: Option<Instant>) -> Result<Option<HostMessage>, String> {
        let Self { replies, posted, runtime, spin, .. } = self;
        let found = runtime.block_on(async {
            posted.wake();
            let next = async {
                match until {
                    None => judge(replies.message().await),
                    Some(until) => match tokio::time::timeout_at(until.into(), replies.message()).await {
                        Ok(message) => judge(message),
                        Err(_) => Ok(None),
                    },
                }
            };
            spin.wait(next, tokio::task::yield_now).await
        });
        found.map_err(|why| self.last_words(why))
    }

    /// As `next`, without waiting. What was posted leaves, as far as the socket takes it.
    ///
    /// # Errors
    /// As `next`.
    pub(crate) fn poll(&mut self) -> Result<Option<HostMessage>, String> {
        let Self { replies, posted, runtime, .. } = self;
        let found = runtime.block_on(async {
            posted.wake();
            let progress = async {
                for _ in 0..ROUNDS {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                message = replies.message() => judge(message),
                () = progress => Ok(None),
            }
        });
        found.map_err(|why| self.last_words(why))
    }

    fn last_words(&mut self, why: String) -> String {
        match self.admission.take() {
            Some(admission) => self.runtime.block_on(admission.last_words(why)),
            None => why,
        }
    }
}

fn judge(message: Result<Option<HostMessage>, Status>) -> Result<Option<HostMessage>, String> {
    match message {
        Ok(Some(message)) => Ok(Some(message)),
        Ok(None) => Err("the host ended the session".to_owned()),
        Err(status) => Err(describe(&status)),
    }
}
