//! The background thread from its start to its end: connection, handshake, then `reading` until the session is over.
//!
//! What the guest says first is put together by the thread that opens. This one never waits for a lock that a thread of
//! the program holds while waiting for the host: the outbox, which such a thread may hold, is only tried.

use crate::connection::age::AgeTimer;
use crate::connection::bell::Bell;
use crate::connection::channel::{describe, keep_freed_blocks, open_channel, root_cause};
use crate::connection::connect::{self, Way};
use crate::connection::elsewhere;
use crate::connection::leaks::Ignored;
use crate::connection::posting::{posting, Poster};
use crate::connection::process;
use crate::connection::resuming::Resumption;
use crate::connection::security::{self, authorize};
use crate::connection::stream::Stream;
use crate::connection::thread::spawn;
use crate::error::{OpenError, OpenReason};
use crate::generated_farlane_v1::session_service_client::SessionServiceClient;
use crate::generated_farlane_v1::{guest_message, host_message, refusal, Elsewhere, Hello, HostMessage};
use crate::incoming::contexts::Contexts;
use crate::incoming::ledger::Ledger;
use crate::incoming::reading::{Reading, Source, Watched};
use crate::outgoing::carrier::{self, post, Carrier, MAX_REPLY_BYTES};
use crate::outgoing::outbox::{Limits, Outbox};
use crate::report::counters::Counters;
use crate::session::HelloInfo;
use crate::shared::Shared;
use crate::status::Status;
use crate::{log, spans, Config, Endpoint, Mode, Welcome};
use parking_lot::Mutex;
use prost::Message;
use std::ffi::CStr;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicI32};
use std::sync::{mpsc, Arc, OnceLock};
use std::time::Instant;
use std::{fmt, io, mem};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tonic::transport::Channel;
use tonic::{Code, Streaming};

/// Of the connection's threads.
const NAME: &CStr = c"farlane";

/// With it loops are not recorded: it has no templates.
const OLDEST_TAPE: u32 = 1;
/// The first version with templates.
const TEMPLATES: u32 = 2;

/// With where the session is in the end.
type Opened = (Arc<Shared>, Welcome, Endpoint);

/// What the background thread tells the one that opens.
enum Progress {
    /// The host has taken the call: its headers are there. A process for the session may have to start now.
    Answered,
    /// The host is full, and says so again and again.
    Waits,
    Ended(Box<Result<Opened, OpenError>>),
}

/// Starts the background thread and waits until it has opened the session or failed to. On this thread `hello` runs while
/// that one connects, and `meanwhile` while the host answers.
pub(crate) fn open(
    config: &Config,
    hello: impl FnOnce() -> HelloInfo,
    meanwhile: impl FnOnce(),
) -> Result<Opened, OpenError> {
    let _ignored = Ignored::begin();
    let deadline = Instant::now() + config.connect_timeout;
    let (say, said) = oneshot::channel();
    // No buffer: a session that is opened too late is never taken for one that somebody has.
    let (report, reports) = mpsc::sync_channel(0);
    let task = Task { config: config.clone(), deadline, report };
    spawn(NAME, move || task.run(said))
        .map_err(|error| OpenError::new(OpenReason::Local, format!("cannot start the connection's thread: {error}")))?;
    let mut error = timed_out(config);
    // What is received below reports a connection that has failed meanwhile.
    let _ = say.send(hello());
    meanwhile();
    let mut until = Instant::now() + config.connect_timeout;
    loop {
        match reports.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Progress::Answered) => {
                until = Instant::now() + config.admission_timeout;
                error = not_admitted(config);
            }
            Ok(Progress::Waits) => until = Instant::now() + config.admission_timeout,
            Ok(Progress::Ended(result)) => return *result,
            Err(mpsc::RecvTimeoutError::Timeout) => return Err(error),
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let message = "internal error: the connection's thread ended unexpectedly";
                return Err(OpenError::new(OpenReason::Local, message));
            }
        }
    }
}

fn timed_out(config: &Config) -> OpenError {
    let (endpoint, seconds) = (&config.endpoint, config.connect_timeout.as_secs_f64());
    OpenError::new(
        OpenReason::Timeout,
        format!(
            "no answer from {endpoint} within {seconds} s: check that a Farlane host runs there (`farlane doctor`), or raise \
             FARLANE_TIMEOUT"
        ),
    )
}

fn not_admitted(config: &Config) -> OpenError {
    let (endpoint, seconds) = (&config.endpoint, config.admission_timeout.as_secs_f64());
    let message = format!("the host at {endpoint} has answered, but opened no session within {seconds} s: see its log");
    OpenError::new(OpenReason::Timeout, message)
}

/// What a host says to the Hello, where it does not refuse the guest.
enum Answer {
    Here(Poster, Streaming<HostMessage>, Box<Welcome>),
    Elsewhere(Elsewhere),
}

struct Task {
    config: Config,
    deadline: Instant,
    report: mpsc::SyncSender<Progress>,
}

impl Task {
    fn run(self, said: oneshot::Receiver<HelloInfo>) {
        let report = self.report.clone();
        match panic::catch_unwind(AssertUnwindSafe(|| self.serve(said))) {
            Ok(Ok(())) => {}
            // No thread listens any more when opening timed out.
            Ok(Err(error)) => drop(report.send(Progress::Ended(Box::new(Err(error))))),
            Err(_) => log::error(format_args!("internal error: the connection's thread panicked")),
        }
    }

    fn serve(mut self, said: oneshot::Receiver<HelloInfo>) -> Result<(), OpenError> {
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|e| local(&e))?;
        let counters = Counters::default();
        let mut way = connect::begin(&self.config.endpoint, self.deadline, security::credentials(&self.config)?)?;
        let first = runtime.block_on(async {
            let channel = self.channel(&mut way).await?;
            match said.await {
                Ok(info) => {
                    self.shake_hands(channel, &way, &info, &counters, true).await.map(|found| Some((found, info)))
                }
                Err(_) => Ok(None), // who opened has panicked
            }
        });
        let Some((mut found, info)) = first? else { return Ok(()) };
        if let Answer::Elsewhere(answer) = found {
            counters.round_trips.add(1);
            way = self.follow(&answer)?;
            found = runtime.block_on(async {
                let channel = self.channel(&mut way).await?;
                self.shake_hands(channel, &way, &info, &counters, false).await
            })?;
        }
        let Answer::Here(mut sender, mut replies, welcome) = found else {
            return Err(self.broken(&"it leads the guest to a further host, where a gateway leads to a session"));
        };
        let Way { address, credentials, mut descriptor, mut full, .. } = way;
        let mut beside = -1;
        let rings = carrier::join(&self.config, &address, &welcome)?;
        if rings.is_none() {
            keep_freed_blocks();
        }
        let mut admission = None;
        if rings.is_none() && !welcome.process_ticket.is_empty() {
            (full, beside) = (Arc::new(AtomicBool::new(false)), descriptor);
            let entering = process::enter(&self.config.endpoint, &address, &welcome, self.deadline, full.clone());
            let entered = runtime.block_on(entering)?;
            descriptor = entered.descriptor;
            let (own, answers) =
                (mem::replace(&mut sender, entered.sender), mem::replace(&mut replies, entered.replies));
            admission = Some(process::Admission::new(own, answers));
        }
        let posted = sender.queue().clone();
        let resumption = match rings {
            None => Resumption::new(&self.config, address, credentials, &welcome, admission.is_some())?,
            Some(_) => None,
        };
        if resumption.is_some() {
            posted.keep();
        }
        let stream = Source::Stream(Box::new(Stream::new(replies, posted.clone(), admission, resumption, runtime)));
        let bell = Arc::new(Bell::new().map_err(|e| local(&e))?);
        let stream = Reading::new(
            stream,
            Watched::Socket { socket: AtomicI32::new(descriptor), full, beside: AtomicI32::new(beside), posted },
            bell.clone(),
        );
        let timer = AgeTimer::new().map_err(|e| local(&e))?;
        let (carrier, ring) = match rings {
            None => (Carrier::Stream(sender, bell), None),
            Some(rings::Rings { sender: own, receiver, handle }) => {
                let bell = Arc::new(Bell::new().map_err(|e| local(&e))?);
                let reading = Reading::new(Source::Ring(Box::new(receiver)), Watched::Ring(handle), bell);
                (Carrier::Rings { sender: own, _stream: sender }, Some(reading))
            }
        };
        let shared = Arc::new(self.share(&welcome, counters, timer, stream, carrier, ring));
        if shared.rings.is_some() {
            let own = shared.clone();
            spawn(NAME, move || own.rings.iter().for_each(|rings| rings.run(&own))).map_err(|e| local(&e))?;
        }
        let opened = (shared.clone(), *welcome, self.config.endpoint.clone());
        if self.report.send(Progress::Ended(Box::new(Ok(opened)))).is_ok() {
            shared.stream.run(&shared); // else opening timed out meanwhile
        }
        Ok(())
    }

    fn share(
        &self,
        welcome: &Welcome,
        counters: Counters,
        timer: AgeTimer,
        stream: Reading,
        carrier: Carrier,
        rings: Option<Reading>,
    ) -> Shared {
        let limits = Limits {
            group_bytes: self.config.group_bytes.clamp(1, usize::try_from(welcome.credit_bytes).unwrap_or(usize::MAX)),
            message_bytes: welcome.message_bytes as usize,
            age: self.config.age,
            record_loops: self.config.mode == Mode::Loops && welcome.tape_version >= TEMPLATES,
        };
        Shared {
            endpoint: self.config.endpoint.to_string(),
            status: Status::running(),
            outbox: Mutex::new(Outbox::new(limits, carrier)),
            ledger: Ledger::new(welcome.credit_bytes),
            contexts: Contexts::default(),
            output: crate::incoming::output::Held::default(),
            counters,
            timer,
            origin: OnceLock::new(),
            overdue: AtomicBool::new(false),
            stream,
            rings,
            led: AtomicBool::new(false),
            led_ended: parking_lot::Condvar::new(),
        }
    }

    fn broken(&self, why: &dyn fmt::Display) -> OpenError {
        let endpoint = &self.config.endpoint;
        let message = format!("{endpoint} does not answer as a Farlane host ({why}): check FARLANE_HOST");
        OpenError::new(OpenReason::Protocol, message)
    }

    /// The way to where a gateway leads.
    fn follow(&mut self, answer: &Elsewhere) -> Result<Way, OpenError> {
        let gateway = self.config.endpoint.clone();
        let (endpoint, credentials) = elsewhere::follow(&gateway, answer).map_err(|why| {
            let message = format!("the gateway at {gateway} leads nowhere that a session could be opened: {why}");
            OpenError::new(OpenReason::Protocol, message)
        })?;
        log::debug(format_args!("the gateway at {gateway} leads to {endpoint}"));
        self.config.endpoint = endpoint;
        self.deadline = Instant::now() + self.config.connect_timeout;
        connect::begin(&self.config.endpoint, self.deadline, credentials)
            .map_err(|error| elsewhere::led(&gateway, error))
    }

    async fn channel(&self, way: &mut Way) -> Result<Channel, OpenError> {
        let Some(socket) = way.socket.take() else { return Err(self.broken(&"the connection is used already")) };
        let securing = security::secure(&self.config.endpoint, socket, way.credentials.tls.as_ref(), way.full.clone());
        let secured = tokio::time::timeout_at(self.deadline.into(), securing).await;
        let stream = secured.unwrap_or_else(|_| Err(timed_out(&self.config)))?;
        open_channel(&self.config.endpoint, stream).await.map_err(|error| self.broken(&root_cause(&error)))
    }

    async fn shake_hands(
        &self,
        channel: Channel,
        way: &Way,
        info: &HelloInfo,
        counters: &Counters,
        follows: bool,
    ) -> Result<Answer, OpenError> {
        let endpoint = &self.config.endpoint;
        let broken = |why: &dyn fmt::Display| self.broken(why);
        let (sender, posted) = posting();
        let hello = Hello { follows, ..hello(info, self.config.mode) };
        post(&sender, guest_message::Kind::Hello(hello), counters);
        let mut client = SessionServiceClient::new(channel).max_decoding_message_size(MAX_REPLY_BYTES);
        let mut replies = match client.open(authorize(posted, way.credentials.token.as_ref())).await {
            Ok(response) => response.into_inner(),
            Err(status) if status.code() == Code::Unimplemented => {
                return Err(broken(&"it speaks gRPC, but has no session service"));
            }
            Err(status) => return Err(broken(&describe(&status))),
        };
        // A host sends its headers at once; the Welcome comes when the session is open.
        if self.report.send(Progress::Answered).is_err() {
            return Err(timed_out(&self.config));
        }
        let mut told = None;
        let answer = loop {
            let answer = match replies.message().await {
                Ok(Some(message)) => message,
                Ok(None) => return Err(broken(&"it ended the session at once")),
                Err(status) => return Err(OpenError::ended(endpoint, &describe(&status))),
            };
            counters.bytes_down.add(answer.encoded_len() as u64);
            let Some(host_message::Kind::Waiting(waiting)) = answer.kind else { break answer };
            if told.replace(waiting) != Some(waiting) {
                log::warn(format_args!("waiting for the host: place {} of {}", waiting.place, waiting.of));
            }
            if self.report.send(Progress::Waits).is_err() {
                return Err(timed_out(&self.config));
            }
        };
        match answer.kind {
            Some(host_message::Kind::Welcome(welcome)) => {
                check(endpoint, &welcome)?;
                check_checks(endpoint, &info.checks, &welcome)?;
                Ok(Answer::Here(sender, replies, Box::new(welcome)))
            }
            Some(host_message::Kind::Elsewhere(answer)) => Ok(Answer::Elsewhere(answer)),
            Some(host_message::Kind::Refusal(refusal)) => {
                let reason = match refusal.reason() {
                    refusal::Reason::Version => OpenReason::Version,
                    _ => OpenReason::Refused,
                };
                Err(OpenError::new(reason, format!("the host at {endpoint} refused the session: {}", refusal.message)))
            }
            Some(host_message::Kind::Reply(_) | host_message::Kind::Resumed(_) | host_message::Kind::Waiting(_))
            | None => Err(broken(&"its first message is no welcome")),
        }
    }
}

fn local(error: &io::Error) -> OpenError {
    OpenError::new(OpenReason::Local, format!("cannot set up the connection: {error}"))
}

fn hello(info: &HelloInfo, mode: Mode) -> Hello {
    Hello {
        tape_version_min: OLDEST_TAPE,
        tape_version_max: tape::VERSION,
        client_version: env!("CARGO_PKG_VERSION").to_owned(),
        objects: info.objects.clone(),
        program: info.program.clone(),
        pid: info.pid,
        mode: mode.as_str().to_owned(),
        checks: info.checks.clone(),
        priority: info.priority,
        module_digests: info.module_digests.iter().map(|digest| digest.to_vec()).collect(),
        comes_again: true,
        resumes: true,
        waits: true,
        follows: false,
        timeline: spans::wanted(),
    }
}

/// What a session cannot do without.
fn check(endpoint: &Endpoint, welcome: &Welcome) -> Result<(), OpenError> {
    if !(OLDEST_TAPE..=tape::VERSION).contains(&welcome.tape_version) {
        let message = format!(
            "the host at {endpoint} (version {}) wants tape version {}, this shim writes versions {OLDEST_TAPE} to {}: install the same version \
             of Farlane on both sides",
            welcome.host_version,
            welcome.tape_version,
            tape::VERSION
        );
        return Err(OpenError::new(OpenReason::Version, message));
    }
    let longest = tape::MAX_RECORD_BYTES as u64;
    if u64::from(welcome.message_bytes) < longest || welcome.credit_bytes < longest {
        let message = format!(
            "the host at {endpoint} takes messages of {} bytes and grants {} bytes of credit: both must hold the longest \
             record ({longest} bytes)",
            welcome.message_bytes, welcome.credit_bytes
        );
        return Err(OpenError::new(OpenReason::Protocol, message));
    }
    Ok(())
}

/// A host of an older version would check nothing, without a word.
fn check_checks(endpoint: &Endpoint, wanted: &[String], welcome: &Welcome) -> Result<(), OpenError> {
    match wanted.iter().find(|name| !welcome.checks.contains(name)) {
        None => Ok(()),
        Some(name) => {
            let message = format!(
                "the host at {endpoint} (version {}) does not check kernels for \"{name}\"",
                welcome.host_version
            );
            Err(OpenError::new(OpenReason::Version, message))
        }
    }
}
