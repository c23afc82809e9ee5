//! A host that keeps every record it gets and makes up the answers.
//!
//! It runs on a thread of its own and serves one or more sessions; what it does is set by `Behaviour`, what it saw is
//! in `Seen`. It answers like a good host unless told otherwise: bytes of a READ are `pattern` of their offset.

use super::expander::Expander;
use super::listening::At;
use crate::generated_farlane_v1::session_service_server::{SessionService, SessionServiceServer};
use crate::generated_farlane_v1::{
    guest_message, host_message, refusal, Elsewhere, GuestMessage, Hello, HostMessage, Refusal, Reply, Tape, Welcome,
};
use crate::Endpoint;
use parking_lot::Mutex;
use prost::Message;
use std::collections::HashMap;
use std::sync::{mpsc, Arc};
use std::thread;
use std::time::Duration;
use tape::operations::code;
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};
use tokio::sync::{watch, Notify};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

pub(super) const CHUNK: usize = 64 * 1024;

pub(super) fn pattern(offset: u64) -> u8 {
    (offset % 251) as u8
}

#[derive(Clone)]
pub(super) struct Behaviour {
    pub welcome: Welcome,
    pub refusal: Option<Refusal>,
    /// Answers as a gateway.
    pub elsewhere: Option<Elsewhere>,
    /// Never answers the Hello.
    pub silent: bool,
    /// Answers the Hello so much later.
    pub delay: Duration,
    /// The error with which operations of this code are answered.
    pub errors: HashMap<u16, i32>,
    /// (operation, error, sticky): reported with the group that holds the operation.
    pub deferred: Option<(u16, i32, bool)>,
    /// Ends the stream with this status when it gets this operation.
    pub dies_at: Option<u16>,
    /// Takes the place of the results of a group in which something is awaited.
    pub results: Option<Vec<u8>>,
    /// Acknowledges nothing while this is false.
    pub gate: watch::Sender<bool>,
    pub device_nanoseconds: u64,
}

impl Default for Behaviour {
    fn default() -> Self {
        let welcome = Welcome {
            tape_version: tape::VERSION,
            host_version: "fake".to_owned(),
            session: "s-1".to_owned(),
            credit_bytes: 64 << 20,
            message_bytes: 2 << 20,
            ..Welcome::default()
        };
        Self {
            welcome,
            refusal: None,
            elsewhere: None,
            silent: false,
            delay: Duration::ZERO,
            errors: HashMap::new(),
            deferred: None,
            dies_at: None,
            results: None,
            gate: watch::Sender::new(true),
            device_nanoseconds: 5,
        }
    }
}

/// One record, without header and padding rules applied: code, flags, and the bytes behind the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub code: u16,
    pub fields: Vec<u8>,
}

#[derive(Debug, Default)]
pub(super) struct Seen {
    pub hello: Option<Hello>,
    /// What the guest has shown to be let in.
    pub shown: Option<String>,
    pub records: Vec<Record>,
    /// (group, bytes of records, last) of every message.
    pub messages: Vec<(u64, usize, bool)>,
    pub most_unacknowledged: u64,
    pub goodbyes: usize,
    pub ended: usize,
    pub bytes_up: u64,
    pub bytes_down: u64,
}

pub(super) struct FakeHost {
    endpoint: Endpoint,
    pub seen: Arc<Mutex<Seen>>,
    pub gate: watch::Sender<bool>,
    stop: Arc<Notify>,
    thread: Option<thread::JoinHandle<()>>,
}

impl FakeHost {
    pub(super) fn start(behaviour: Behaviour) -> Self {
        Self::start_at(behaviour, At::Tcp)
    }

    pub(super) fn start_unix(behaviour: Behaviour) -> Self {
        static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("farlane-fake-{}-{number}.sock", std::process::id()));
        Self::start_at(behaviour, At::Unix(path))
    }

    /// `listener`: of vsock's loopback (`vsock::loopback`).
    pub(super) fn start_vsock(behaviour: Behaviour, listener: socket2::Socket) -> Self {
        Self::start_at(behaviour, At::Vsock(listener))
    }

    fn start_at(behaviour: Behaviour, at: At) -> Self {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let gate = behaviour.gate.clone();
        let stop = Arc::new(Notify::new());
        let (ready, endpoint) = mpsc::channel();
        let service = Service { behaviour: Arc::new(behaviour), seen: seen.clone() };
        let stopped = stop.clone();
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
            runtime.block_on(async move {
                let service = SessionServiceServer::new(service).max_decoding_message_size(usize::MAX);
                let router = Server::builder()
                    .initial_stream_window_size(8 << 20)
                    .initial_connection_window_size(16 << 20)
                    .add_service(service);
                at.serve(router, &ready, &stopped).await;
            });
            // Dropping the runtime closes every connection, as the death of a host would.
        });
        let endpoint = endpoint.recv().expect("host starts");
        Self { endpoint, seen, gate, stop, thread: Some(thread) }
    }

    pub(super) fn endpoint(&self) -> Endpoint {
        self.endpoint.clone()
    }

    pub(super) fn codes(&self) -> Vec<u16> {
        self.seen.lock().records.iter().map(|record| record.code).collect()
    }

    /// Ends like a host that is killed.
    pub(super) fn kill(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            thread.join().expect("host thread");
        }
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        self.stop.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Service {
    behaviour: Arc<Behaviour>,
    seen: Arc<Mutex<Seen>>,
}

type Answers = UnboundedSender<Result<HostMessage, Status>>;

#[tonic::async_trait]
impl SessionService for Service {
    type OpenStream = UnboundedReceiverStream<Result<HostMessage, Status>>;

    async fn open(&self, request: Request<Streaming<GuestMessage>>) -> Result<Response<Self::OpenStream>, Status> {
        let (answers, stream) = unbounded_channel();
        let shown = request.metadata().get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
        self.seen.lock().shown = shown;
        let (behaviour, seen) = (self.behaviour.clone(), self.seen.clone());
        tokio::spawn(async move {
            if let Err(status) = serve(&behaviour, &seen, request.into_inner(), &answers).await {
                let _ = answers.send(Err(status));
            }
            seen.lock().ended += 1;
        });
        Ok(Response::new(UnboundedReceiverStream::new(stream)))
    }
}

fn send(answers: &Answers, seen: &Mutex<Seen>, kind: host_message::Kind) {
    let message = HostMessage { kind: Some(kind) };
    seen.lock().bytes_down += message.encoded_len() as u64;
    let _ = answers.send(Ok(message));
}

/// Messages are taken in as they come, groups are answered by a task of its own, so that credit can be watched.
async fn serve(
    behaviour: &Arc<Behaviour>,
    seen: &Arc<Mutex<Seen>>,
    mut guest: Streaming<GuestMessage>,
    answers: &Answers,
) -> Result<(), Status> {
    let (groups, mut work) = unbounded_channel::<(u64, Vec<u8>)>();
    let unacknowledged = Arc::new(std::sync::atomic::AtomicU64::new(0));
    let worker = tokio::spawn({
        let (behaviour, seen, answers) = (behaviour.clone(), seen.clone(), answers.clone());
        let unacknowledged = unacknowledged.clone();
        async move {
            let mut expander = Expander::default();
            while let Some((group, records)) = work.recv().await {
                let mut gate = behaviour.gate.subscribe();
                if gate.wait_for(|open| *open).await.is_err() {
                    break;
                }
                unacknowledged.fetch_sub(records.len() as u64, std::sync::atomic::Ordering::Relaxed);
                // What a loop stands for is replayed record by record.
                expander.tape(&records);
                let records = std::mem::take(&mut expander.records);
                if let Err(status) = replay(&behaviour, &seen, &answers, group, &records) {
                    let _ = answers.send(Err(status));
                    break;
                }
            }
        }
    });
    let mut pending = Vec::new();
    while let Some(message) = guest.message().await? {
        seen.lock().bytes_up += message.encoded_len() as u64;
        match message.kind.expect("a kind") {
            guest_message::Kind::Hello(hello) => {
                seen.lock().hello = Some(hello);
                if behaviour.silent {
                    continue;
                }
                tokio::time::sleep(behaviour.delay).await;
                match (&behaviour.refusal, &behaviour.elsewhere) {
                    (Some(refusal), _) => {
                        send(answers, seen, host_message::Kind::Refusal(refusal.clone()));
                        break;
                    }
                    (None, Some(elsewhere)) => {
                        send(answers, seen, host_message::Kind::Elsewhere(elsewhere.clone()));
                        break;
                    }
                    (None, None) => send(answers, seen, host_message::Kind::Welcome(behaviour.welcome.clone())),
                }
            }
            guest_message::Kind::Tape(Tape { group, records, last }) => {
                let now = unacknowledged.fetch_add(records.len() as u64, std::sync::atomic::Ordering::Relaxed);
                let mut seen = seen.lock();
                seen.most_unacknowledged = seen.most_unacknowledged.max(now + records.len() as u64);
                seen.messages.push((group, records.len(), last));
                pending.extend_from_slice(&records);
                if last {
                    let _ = groups.send((group, std::mem::take(&mut pending)));
                }
            }
            guest_message::Kind::Goodbye(_) => seen.lock().goodbyes += 1,
            guest_message::Kind::Received(_) | guest_message::Kind::Resume(_) => {}
            guest_message::Kind::ObjectPart(_) => {}
        }
    }
    drop(groups);
    let _ = worker.await;
    Ok(())
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"))
}

fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

pub(super) fn status(slot: u32, error: i32) -> Vec<u8> {
    [16_u32, 1, slot, error.cast_unsigned()].iter().flat_map(|w| w.to_le_bytes()).collect()
}

pub(super) fn value(slot: u32, error: i32, value: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = [24_u32, 2, slot, error.cast_unsigned()].iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.extend_from_slice(&value.to_le_bytes());
    bytes
}

pub(super) fn data(slot: u32, error: i32, offset: u64, data: &[u8]) -> Vec<u8> {
    let length = (32 + data.len()).next_multiple_of(8);
    let header = [length as u32, 3, slot, error.cast_unsigned()];
    let mut bytes: Vec<u8> = header.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.extend_from_slice(&offset.to_le_bytes());
    bytes.extend_from_slice(&(data.len() as u64).to_le_bytes());
    bytes.extend_from_slice(data);
    bytes.resize(length, 0);
    bytes
}

fn replay(
    behaviour: &Behaviour,
    seen: &Mutex<Seen>,
    answers: &Answers,
    group: u64,
    mut records: &[u8],
) -> Result<(), Status> {
    let reply = |results: Vec<u8>| Reply { group, results: results.into(), ..Reply::default() };
    let mut results = Vec::new();
    let mut last = Reply { group, last: true, device_nanoseconds: behaviour.device_nanoseconds, ..Reply::default() };
    while !records.is_empty() {
        let (record, rest) = records.split_at(word(records, 0) as usize);
        records = rest;
        let (operation, fields) = ((word(record, 4) & 0xffff) as u16, &record[8..]);
        seen.lock().records.push(Record { code: operation, fields: fields.to_vec() });
        if behaviour.dies_at == Some(operation) {
            return Err(Status::internal("the host was told to die"));
        }
        if let Some((at, error, sticky)) = behaviour.deferred.filter(|deferred| deferred.0 == operation) {
            last.error = error;
            last.sticky = sticky;
            last.error_message = format!("operation {at:#06x} failed with {error}");
        }
        let error = behaviour.errors.get(&operation).copied().unwrap_or(0);
        match operation {
            code::FENCE | code::DEVICE_SYNCHRONIZE | code::DEVICE_RESET => {
                results.extend(status(word(fields, 0), error));
            }
            code::STREAM_SYNCHRONIZE => results.extend(status(word(fields, 4), error)),
            code::VARIABLE_ADDRESS => results.extend(value(word(fields, 4), error, 0xabcd)),
            code::READ => {
                let slot = word(fields, 36);
                let total = long(fields, 16) * long(fields, 24);
                if error != 0 {
                    results.extend(data(slot, error, 0, &[]));
                    continue;
                }
                let mut offset = 0;
                while offset < total {
                    let size = (total - offset).min(CHUNK as u64);
                    let bytes: Vec<u8> = (offset..offset + size).map(pattern).collect();
                    results.extend(data(slot, 0, offset, &bytes));
                    offset += size;
                    if behaviour.results.is_none() && results.len() > 4 * CHUNK {
                        send(answers, seen, host_message::Kind::Reply(reply(std::mem::take(&mut results))));
                    }
                }
            }
            _ => {}
        }
    }
    if let (false, Some(made_up)) = (results.is_empty(), &behaviour.results) {
        results.clone_from(made_up);
    }
    last.results = results.into();
    send(answers, seen, host_message::Kind::Reply(last));
    Ok(())
}

pub(super) fn refusal(reason: refusal::Reason, message: &str) -> Refusal {
    Refusal { reason: reason.into(), message: message.to_owned() }
}
