//! A session that outlives its connection: another one takes the place of one that breaks.
//!
//! The guest says which session it has, shows its secret, and tells how many messages of the host it has received. The host
//! tells how many Tapes it has. Each then sends what the other has not got, so every message is received once.
//!
//! Source: protos/tape.md, "Broken connections".

use crate::connection::channel::{describe, open_channel, root_cause, Bytes};
use crate::connection::connect::{self, Address, Socket};
use crate::connection::posting::Queue;
use crate::connection::security::{self, authorize, Credentials};
use crate::generated_farlane_v1::session_service_client::SessionServiceClient;
use crate::generated_farlane_v1::{guest_message, host_message, refusal, GuestMessage, HostMessage, Resume};
use crate::outgoing::carrier::MAX_REPLY_BYTES;
use crate::{Endpoint, Welcome};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::{Code, Streaming};

/// Between two attempts.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What a session shows to be resumed, and where.
pub(crate) struct Resumption {
    endpoint: Endpoint,
    address: Address,
    credentials: Credentials,
    session: String,
    secret: Vec<u8>,
    /// How long the host keeps the session.
    pub(crate) grace: Duration,
    /// How long one attempt may take.
    patience: Duration,
}

/// A connection in the place of a broken one.
pub(crate) struct Resumed {
    pub(crate) replies: Streaming<HostMessage>,
    pub(crate) descriptor: RawFd,
}

/// Why there is none.
pub(crate) enum Failed {
    /// Another attempt may do better.
    Yet(String),
    Forever(String),
}

impl Resumption {
    /// `None`: the session ends with its connection.
    pub(crate) fn new(
        endpoint: &Endpoint,
        address: Address,
        credentials: Credentials,
        welcome: &Welcome,
        patience: Duration,
    ) -> Option<Self> {
        let (tcp, secret) = (matches!(endpoint, Endpoint::Tcp { .. }), welcome.resume_secret.clone());
        (tcp && !secret.is_empty()).then(|| Self {
            endpoint: endpoint.clone(),
            address,
            credentials,
            session: welcome.session.clone(),
            secret,
            grace: Duration::from_millis(welcome.grace_milliseconds.into()),
            patience,
        })
    }

    /// Pauses between attempts.
    pub(crate) fn pauses() -> impl Iterator<Item = Duration> {
        std::iter::successors(Some(FIRST_PAUSE), |pause| Some((*pause * 2).min(LONGEST_PAUSE)))
    }

    /// Connects once, in the runtime that the calling thread is in. `received`: messages of the host so far.
    pub(crate) async fn attempt(
        &self,
        queue: &Arc<Queue>,
        received: u64,
        deadline: Instant,
        full: Arc<AtomicBool>,
    ) -> Result<Resumed, Failed> {
        let deadline = deadline.min(Instant::now() + self.patience);
        let socket =
            connect::connect_again(&self.address, &[], deadline).map_err(|error| Failed::Yet(error.to_string()))?;
        let descriptor = socket.as_raw_fd();
        let resuming = self.resume(socket, queue, received, full);
        match tokio::time::timeout_at(deadline.into(), resuming).await {
            Ok(result) => result.map(|replies| Resumed { replies, descriptor }),
            Err(_) => Err(Failed::Yet("no answer in time".to_owned())),
        }
    }

    async fn resume(
        &self,
        socket: Socket,
        queue: &Arc<Queue>,
        received: u64,
        full: Arc<AtomicBool>,
    ) -> Result<Streaming<HostMessage>, Failed> {
        let stream: Box<dyn Bytes> = security::secure(&self.endpoint, socket, self.credentials.tls.as_ref(), full)
            .await
            .map_err(|error| Failed::Yet(error.to_string()))?;
        let channel = open_channel(&self.endpoint, stream).await.map_err(|error| Failed::Yet(root_cause(&error)))?;
        let resume = Resume { session: self.session.clone(), secret: self.secret.clone(), received };
        let posted = queue.renew(GuestMessage { kind: Some(guest_message::Kind::Resume(resume)) });
        let mut client = SessionServiceClient::new(channel).max_decoding_message_size(MAX_REPLY_BYTES);
        let response = client.open(authorize(posted, self.credentials.token.as_ref())).await.map_err(|e| failed(&e))?;
        let mut replies = response.into_inner();
        let first = replies.message().await.map_err(|status| failed(&status))?;
        match first.and_then(|message| message.kind) {
            Some(host_message::Kind::Resumed(resumed)) if queue.begin_at(resumed.received) => Ok(replies),
            Some(host_message::Kind::Resumed(_)) => {
                Err(Failed::Forever("protocol error: the host has not what it was sent".to_owned()))
            }
            Some(host_message::Kind::Refusal(refusal)) if refusal.reason() == refusal::Reason::Busy => {
                Err(Failed::Yet(refusal.message))
            }
            Some(host_message::Kind::Refusal(refusal)) => {
                Err(Failed::Forever(format!("the host refuses to resume the session: {}", refusal.message)))
            }
            _ => Err(Failed::Yet("the host ended the connection".to_owned())),
        }
    }
}

/// What the host has said for itself, and will say again, is no reason for another attempt.
fn failed(status: &tonic::Status) -> Failed {
    let own = std::error::Error::source(status).is_none();
    let passing =
        matches!(status.code(), Code::ResourceExhausted | Code::Unavailable | Code::Cancelled | Code::Unknown);
    if own && !passing {
        Failed::Forever(describe(status))
    } else {
        Failed::Yet(describe(status))
    }
}
