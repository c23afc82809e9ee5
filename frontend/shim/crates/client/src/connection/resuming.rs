//! A session that outlives its connection: another one takes the place of one that breaks.
//!
//! The guest says which session it has, shows its secret, and tells how many messages of the host it has received. The host
//! tells how many Tapes it has. Each then sends what the other has not got, so every message is received once. A session
//! that has moved meanwhile is resumed at its new host.
//!
//! Source: protos/tape.md, "Broken connections".

use crate::connection::channel::{describe, open_channel, root_cause, Bytes};
use crate::connection::connect::{self, Address, Socket, Way};
use crate::connection::elsewhere;
use crate::connection::posting::{posting, Posted, Queue};
use crate::connection::process::{self, Admission, TICKET_BYTES};
use crate::connection::security::{self, authorize, Credentials};
use crate::generated_farlane_v1::session_service_client::SessionServiceClient;
use crate::generated_farlane_v1::Resumed as Answer;
use crate::generated_farlane_v1::{guest_message, host_message, refusal, Elsewhere, GuestMessage, HostMessage, Resume};
use crate::log;
use crate::outgoing::carrier::MAX_REPLY_BYTES;
use crate::{Config, Endpoint, OpenError, OpenReason, Welcome};
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
    /// Its endpoint is where the session is now.
    config: Config,
    address: Address,
    credentials: Credentials,
    /// Of the session's own process, where it has one.
    process: Option<Credentials>,
    session: String,
    secret: Vec<u8>,
    /// How long the host keeps the session.
    pub(crate) grace: Duration,
}

/// A connection in the place of a broken one.
pub(crate) struct Resumed {
    pub(crate) replies: Streaming<HostMessage>,
    pub(crate) descriptor: RawFd,
    /// Of a session that has a process of its own, and its socket.
    pub(crate) admission: Option<(Admission, RawFd)>,
}

/// Why there is none.
pub(crate) enum Failed {
    /// Another attempt may do better.
    Yet(String),
    Forever(String),
    /// The session has ended; how.
    Ended(String),
    /// The session is at another host.
    Elsewhere(Elsewhere),
}

impl Resumption {
    /// `None`: the session ends with its connection.
    ///
    /// # Errors
    /// What its process shows is no certificate.
    pub(crate) fn new(
        config: &Config,
        address: Address,
        credentials: Credentials,
        welcome: &Welcome,
        has_process: bool,
    ) -> Result<Option<Self>, OpenError> {
        if matches!(config.endpoint, Endpoint::Unix(_)) || welcome.resume_secret.is_empty() {
            return Ok(None);
        }
        let process = match (has_process, config.endpoint.is_encrypted()) {
            (false, _) => None,
            (true, false) => Some(Credentials::default()),
            (true, true) => {
                Some(Credentials::of_process(welcome).map_err(|why| OpenError::new(OpenReason::Protocol, why))?)
            }
        };
        Ok(Some(Self {
            config: config.clone(),
            address,
            credentials,
            process,
            session: welcome.session.clone(),
            secret: welcome.resume_secret.clone(),
            grace: Duration::from_millis(welcome.grace_milliseconds.into()),
        }))
    }

    /// Messages that the guest has had before the first reply on the way that replies come: the Welcome, or none.
    pub(crate) fn received_first(&self) -> u64 {
        u64::from(self.process.is_none())
    }

    /// Pauses between attempts.
    pub(crate) fn pauses() -> impl Iterator<Item = Duration> {
        std::iter::successors(Some(FIRST_PAUSE), |pause| Some((*pause * 2).min(LONGEST_PAUSE)))
    }

    /// Connects once, in the runtime that the calling thread is in. `received`: messages of the host so far.
    pub(crate) async fn attempt(
        &mut self,
        queue: &Arc<Queue>,
        received: u64,
        deadline: Instant,
        full: Arc<AtomicBool>,
    ) -> Result<Resumed, Failed> {
        let deadline = deadline.min(Instant::now() + self.config.connect_timeout);
        let resuming = async {
            let Some(process) = &self.process else {
                let socket = self.connect(&[], deadline)?;
                let descriptor = socket.as_raw_fd();
                let (replies, answer) =
                    self.open(socket, queue.renew(self.shown(received)), &self.credentials, full).await?;
                return begin(queue, answer, Resumed { replies, descriptor, admission: None });
            };
            let socket = self.connect(&[], deadline)?;
            let beside = socket.as_raw_fd();
            let (poster, posted) = posting();
            poster.put(self.shown(1));
            let (replies, answer) = self.open(socket, posted, &self.credentials, Arc::default()).await?;
            if answer.process_ticket.len() != TICKET_BYTES {
                return Err(Failed::Forever(
                    "protocol error: the host does not lead to the session's process".to_owned(),
                ));
            }
            let admission = Some((Admission::new(poster, replies), beside));
            let socket = self.connect(&process::words(&answer.process_ticket), deadline)?;
            let descriptor = socket.as_raw_fd();
            let (replies, answer) = self.open(socket, queue.renew(self.shown(received)), process, full).await?;
            begin(queue, answer, Resumed { replies, descriptor, admission })
        };
        match tokio::time::timeout_at(deadline.into(), resuming).await {
            Ok(Err(Failed::Elsewhere(answer))) => Err(self.follow(&answer, deadline)),
            Ok(result) => result,
            Err(_) => Err(Failed::Yet("no answer in time".to_owned())),
        }
    }

    /// The session has moved: the next attempt goes there. One that has a process has one there, which shows the same.
    fn follow(&mut self, answer: &Elsewhere, deadline: Instant) -> Failed {
        match self.moved(answer, deadline) {
            Ok((config, way)) => {
                log::debug(format_args!("the session has moved from {} to {}", self.config.endpoint, config.endpoint));
                (self.config, self.address, self.credentials) = (config, way.address, way.credentials);
                Failed::Yet("the session has moved".to_owned())
            }
            Err(failed) => failed,
        }
    }

    fn moved(&self, answer: &Elsewhere, deadline: Instant) -> Result<(Config, Way), Failed> {
        let from = &self.config.endpoint;
        let wrong =
            |why: String| Failed::Forever(format!("protocol error: {from} says that the session has moved, and {why}"));
        let (endpoint, named) = elsewhere::moved(from, answer).map_err(wrong)?;
        let config = Config { endpoint, ..self.config.clone() };
        let credentials = match named {
            Some(credentials) => credentials,
            None => security::credentials(&config).map_err(|error| Failed::Forever(error.to_string()))?,
        };
        let way = connect::begin(&config.endpoint, deadline, credentials);
        way.map(|way| (config, way)).map_err(|error| Failed::Yet(error.to_string()))
    }

    fn shown(&self, received: u64) -> GuestMessage {
        let resume = Resume { session: self.session.clone(), secret: self.secret.clone(), received };
        GuestMessage { kind: Some(guest_message::Kind::Resume(resume)) }
    }

    fn connect(&self, words: &[u8], deadline: Instant) -> Result<Socket, Failed> {
        connect::connect_again(&self.address, words, deadline).map_err(|error| Failed::Yet(error.to_string()))
    }

    async fn open(
        &self,
        socket: Socket,
        posted: Posted,
        credentials: &Credentials,
        full: Arc<AtomicBool>,
    ) -> Result<(Streaming<HostMessage>, Answer), Failed> {
        let stream: Box<dyn Bytes> = security::secure(&self.config.endpoint, socket, credentials.tls.as_ref(), full)
            .await
            .map_err(|error| Failed::Yet(error.to_string()))?;
        let channel =
            open_channel(&self.config.endpoint, stream).await.map_err(|error| Failed::Yet(root_cause(&error)))?;
        let mut client = SessionServiceClient::new(channel).max_decoding_message_size(MAX_REPLY_BYTES);
        let response = client.open(authorize(posted, credentials.token.as_ref())).await.map_err(|e| failed(&e))?;
        let mut replies = response.into_inner();
        let first = replies.message().await.map_err(|status| failed(&status))?;
        match first.and_then(|message| message.kind) {
            Some(host_message::Kind::Resumed(answer)) => Ok((replies, answer)),
            Some(host_message::Kind::Elsewhere(answer)) => Err(Failed::Elsewhere(answer)),
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

/// What the host has not got is sent again.
fn begin(queue: &Queue, answer: Answer, resumed: Resumed) -> Result<Resumed, Failed> {
    if queue.begin_at(answer.received) {
        Ok(resumed)
    } else {
        Err(Failed::Forever("protocol error: the host has not what it was sent".to_owned()))
    }
}

/// What the host has said for itself, and will say again, is no reason for another attempt.
fn failed(status: &tonic::Status) -> Failed {
    let own = std::error::Error::source(status).is_none();
    let passing = matches!(
        status.code(),
        Code::ResourceExhausted | Code::Unavailable | Code::Aborted | Code::Cancelled | Code::Unknown
    );
    if own && !passing {
        Failed::Forever(describe(status))
    } else {
        Failed::Yet(describe(status))
    }
}
