//! A session that has a process of its own on the host: the connection that leads there.
//!
//! The host admits the session on the first connection and says there how it ends. Its Welcome names a ticket, and no
//! address: the guest connects to where the first connection has led and says the ticket, before HTTP/2 begins. So a
//! host can lead a guest nowhere else. Rings need none of this: the host hands them on by itself (`outgoing::carrier`).
//!
//! Source: protos/tape.md, "Processes".

use crate::connection::channel::{describe, open_channel, root_cause};
use crate::connection::connect::{self, Address};
use crate::connection::posting::{posting, Poster};
use crate::connection::security::{self, authorize, Credentials};
use crate::generated_farlane_v1::session_service_client::SessionServiceClient;
use crate::generated_farlane_v1::HostMessage;
use crate::outgoing::carrier::MAX_REPLY_BYTES;
use crate::{Endpoint, OpenError, OpenReason, Welcome};
use std::error::Error;
use std::fmt;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::{Code, Streaming};

const PREAMBLE: &[u8; 8] = b"FARLANE\0";
pub(crate) const TICKET_BYTES: usize = 16;
/// How long the host may take to say why a session has ended.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// The way to the session's process.
pub(crate) struct Entered {
    pub(crate) sender: Poster,
    pub(crate) replies: Streaming<HostMessage>,
    pub(crate) descriptor: RawFd,
}

/// The call on which the host has admitted the session. It lasts as long as the session.
pub(crate) struct Admission {
    _stream: Poster,
    replies: Streaming<HostMessage>,
    /// How the session has ended; an error: why the connection is of no use any more.
    words: Option<Result<String, String>>,
}

/// What the guest says on a connection to its session's process, before anything else.
pub(crate) fn words(ticket: &[u8]) -> Vec<u8> {
    [PREAMBLE.as_slice(), ticket].concat()
}

/// # Errors
/// The ticket is none, or the host does not take it.
pub(crate) async fn enter(
    endpoint: &Endpoint,
    address: &Address,
    welcome: &Welcome,
    deadline: Instant,
    full: Arc<AtomicBool>,
) -> Result<Entered, OpenError> {
    let broken = |why: &dyn fmt::Display| {
        let message = format!("the host at {endpoint} has a process for the session, which cannot be reached: {why}");
        OpenError::new(OpenReason::Protocol, message)
    };
    let ticket = &welcome.process_ticket;
    if ticket.len() != TICKET_BYTES {
        return Err(broken(&format_args!("its ticket has {} bytes, not {TICKET_BYTES}", ticket.len())));
    }
    let socket = connect::connect_again(address, &words(ticket), deadline).map_err(|error| broken(&error))?;
    let descriptor = socket.as_raw_fd();
    // The process has neither the host's key nor what the guest has shown to the host.
    let own = if endpoint.is_encrypted() {
        Credentials::of_process(welcome).map_err(|why| broken(&why))?
    } else {
        Credentials::default()
    };
    let stream = security::secure(endpoint, socket, own.tls.as_ref(), full).await?;
    let channel = open_channel(endpoint, stream).await.map_err(|error| broken(&root_cause(&error)))?;
    let (sender, posted) = posting();
    let mut client = SessionServiceClient::new(channel).max_decoding_message_size(MAX_REPLY_BYTES);
    match client.open(authorize(posted, own.token.as_ref())).await {
        Ok(response) => Ok(Entered { sender, replies: response.into_inner(), descriptor }),
        Err(status) => Err(broken(&describe(&status))),
    }
}

impl Admission {
    pub(crate) fn new(stream: Poster, replies: Streaming<HostMessage>) -> Self {
        Self { _stream: stream, replies, words: None }
    }

    /// How the session has ended, where the host says it; else as its process did.
    pub(crate) async fn last_words(mut self, ended: String) -> String {
        match tokio::time::timeout(LAST_WORDS, self.said()).await {
            Ok(Ok(words)) | Ok(Err(words)) => words,
            Err(_) => ended,
        }
    }

    /// How the session has ended, once the host says it.
    ///
    /// # Errors
    /// The connection is broken.
    pub(crate) async fn said(&mut self) -> Result<String, String> {
        if let Some(words) = &self.words {
            return words.clone();
        }
        let words = match self.replies.message().await {
            // Another connection has its place, if that is all that the host says.
            Err(status) if status.source().is_some() || status.code() == Code::Aborted => Err(describe(&status)),
            Err(status) => Ok(describe(&status)),
            Ok(None) => Ok("the host ended the session".to_owned()),
            Ok(Some(_)) => {
                Ok("protocol error: the host sent a message that belongs to the session's process".to_owned())
            }
        };
        self.words = Some(words.clone());
        words
    }

    /// Waits until its connection is broken; why.
    pub(crate) async fn broken(&mut self) -> String {
        match self.said().await {
            Ok(_) => std::future::pending().await,
            Err(why) => why,
        }
    }
}
