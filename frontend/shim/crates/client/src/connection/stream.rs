//! A session's gRPC stream, and the runtime that moves its bytes: its holder drives the connection.
//!
//! The runtime has no thread. Messages that were posted leave, and replies arrive, while a thread is in one of the calls
//! below. `incoming/reading.rs` decides which thread that is.
//!
//! A stream that can be resumed and breaks yields nothing more until `resume` has put another one in its place.

use crate::connection::channel::describe;
use crate::connection::posting::Queue;
use crate::connection::process::Admission;
use crate::connection::resuming::{Failed, Resumption};
use crate::generated_farlane_v1::{guest_message, host_message, GuestMessage, HostMessage, Received};
use rings::{Spin, Waiting};
use std::os::fd::RawFd;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, Instant};
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
    resumption: Option<Resumption>,
    /// Why nothing comes before it is resumed.
    broken: Option<String>,
    /// Messages of the host on the way that replies come.
    received: u64,
    /// Of those that the host has not been told of.
    unconfirmed: usize,
}

/// How often the connection's tasks are run where nothing is waited for: a message goes from the session to HTTP/2, and
/// from there to the socket; the other way round after the sockets were looked at.
const ROUNDS: usize = 3;
/// The host keeps what it has sent. The guest confirms what it has received before that is so much.
const UNCONFIRMED_BYTES: usize = 2 << 20;
/// How long the host may take to say that the session has ended, where its process's connection has.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// What a message costs it beside its bytes.
const OVERHEAD: usize = 256;

/// Why nothing more comes.
enum End {
    /// The host has ended the session.
    Told(String),
    /// The connection is lost.
    Broken(String),
}

impl Stream {
    pub(crate) fn new(
        replies: Streaming<HostMessage>,
        posted: Arc<Queue>,
        admission: Option<Admission>,
        resumption: Option<Resumption>,
        runtime: Runtime,
    ) -> Self {
        let spin = Spin::new(Waiting::Adaptive);
        let received = resumption.as_ref().map_or(0, Resumption::received_first);
        Self { replies, posted, admission, runtime, spin, resumption, broken: None, received, unconfirmed: 0 }
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
        if self.broken.is_some() {
            return Ok(None);
        }
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
        self.take(found)
    }

    /// As `next`, without waiting. What was posted leaves, as far as the socket takes it.
    ///
    /// # Errors
    /// As `next`.
    pub(crate) fn poll(&mut self) -> Result<Option<HostMessage>, String> {
        if self.broken.is_some() {
            return Ok(None);
        }
        let Self { replies, posted, admission, resumption, runtime, .. } = self;
        let found = runtime.block_on(async {
            posted.wake();
            let apart = async {
                match admission.as_mut().filter(|_| resumption.is_some()) {
                    Some(admission) => admission.broken().await,
                    None => std::future::pending().await,
                }
            };
            let progress = async {
                for _ in 0..ROUNDS {
                    tokio::task::yield_now().await;
                }
            };
            tokio::select! {
                biased;
                message = replies.message() => judge(message),
                why = apart => Err(End::Broken(why)),
                () = progress => Ok(None),
            }
        });
        self.take(found)
    }

    /// Why it has broken, where it can be resumed, and for how long.
    pub(crate) fn broken(&self) -> Option<(&str, Duration)> {
        self.broken.as_deref().zip(self.resumption.as_ref().map(|resumption| resumption.grace))
    }

    /// Tries once to put another stream in the place of the broken one; its socket, and the admission's or -1.
    pub(crate) fn resume(&mut self, deadline: Instant, full: Arc<AtomicBool>) -> Result<[RawFd; 2], Failed> {
        let Self { posted, admission, runtime, resumption: Some(resumption), received, .. } = self else {
            return Err(Failed::Forever("it cannot be resumed".to_owned()));
        };
        let resumed = runtime.block_on(async {
            // Where its process has ended, the host says so, and there is nothing to resume.
            if let Some(admission) = admission {
                if let Ok(Ok(words)) = tokio::time::timeout(LAST_WORDS, admission.said()).await {
                    return Err(Failed::Ended(words));
                }
            }
            resumption.attempt(posted, *received, deadline, full).await
        })?;
        self.replies = resumed.replies;
        self.broken = None;
        self.unconfirmed = 0;
        let (admission, beside) = resumed.admission.unzip();
        self.admission = admission;
        Ok([resumed.descriptor, beside.unwrap_or(-1)])
    }

    fn take(&mut self, found: Result<Option<HostMessage>, End>) -> Result<Option<HostMessage>, String> {
        match found {
            Ok(Some(message)) => {
                self.count(&message);
                Ok(Some(message))
            }
            Ok(None) => Ok(None),
            Err(End::Broken(why)) if self.resumption.is_some() => {
                self.broken = Some(why);
                Ok(None)
            }
            Err(End::Broken(why) | End::Told(why)) => Err(match self.admission.take() {
                Some(admission) => self.runtime.block_on(admission.last_words(why)),
                None => why,
            }),
        }
    }

    /// The message is received; now and then the guest confirms this to the host.
    fn count(&mut self, message: &HostMessage) {
        self.received += 1;
        if self.resumption.is_none() {
            return;
        }
        if let Some(host_message::Kind::Reply(reply)) = &message.kind {
            self.unconfirmed += reply.results.len() + reply.printed.len() + reply.complaints.len() + OVERHEAD;
        }
        if self.unconfirmed > UNCONFIRMED_BYTES {
            self.unconfirmed = 0;
            let received = Received { messages: self.received };
            self.posted.put(GuestMessage { kind: Some(guest_message::Kind::Received(received)) });
            let _inside = self.runtime.enter();
            self.posted.wake();
        }
    }
}

fn judge(message: Result<Option<HostMessage>, Status>) -> Result<Option<HostMessage>, End> {
    match message {
        Ok(Some(message)) => Ok(Some(message)),
        Ok(None) => Err(End::Told("the host ended the session".to_owned())),
        // What the connection suffered from; else it is the host's own word.
        Err(status) if std::error::Error::source(&status).is_some() => Err(End::Broken(describe(&status))),
        Err(status) => Err(End::Told(describe(&status))),
    }
}
