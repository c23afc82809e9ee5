//! One guest's connection: HTTP/2 on a socket, and the runtime that the threads of its calls drive in turn.
//!
//! The connection's first call is served by the connection's own thread, further ones that come meanwhile by threads of their own. A
//! thread that waits drives the sockets for all of them.

use crate::call::{Call, Outgoing, Shown};
use crate::codec::Raw;
use crate::passage;
use crate::security;
use crate::server::Inner;
use crate::socket::Socket;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{ready, Future, Ready};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::{unbounded_channel, UnboundedSender};
use tonic::body::Body;
use tonic::server::{Grpc, StreamingService};
use tonic::{Request, Response, Status, Streaming};

/// A stream's window holds a whole message, so that the next one arrives while this one is replayed.
const STREAM_WINDOW_BYTES: u32 = 4 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 8 << 20;
const FRAME_BYTES: u32 = 1 << 20;
/// How long a guest may take for TLS.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// How long an encrypted connection may be without a call: its peer has shown nothing yet, or nothing that counts.
const STRANGER: Duration = Duration::from_secs(10);
/// The longest header that is kept of what a guest shows to be let in.
const AUTHORIZATION_BYTES: usize = 512;
/// Calls on one connection at once.
const STREAMS: u32 = 100;

/// Serves a connection until it ends, or the server stops and no call is left; or hands it on.
pub(crate) fn serve(inner: &Arc<Inner>, socket: Socket) -> io::Result<()> {
    match if inner.options.hands { passage::pass(inner, socket)? } else { Some(socket) } {
        Some(socket) => run(inner, socket, None),
        None => Ok(()),
    }
}

/// Lets the connection's tasks do what they can do now: a message goes from the call to HTTP/2 and from there to the socket.
pub(crate) async fn make_progress() {
    for _ in 0..2 {
        tokio::task::yield_now().await;
    }
}

/// Says `why` to whatever is called, for at most a second.
pub(crate) fn turn_away(inner: &Arc<Inner>, socket: Socket, why: &'static str) -> io::Result<()> {
    run(inner, socket, Some(why))
}

fn run(inner: &Arc<Inner>, socket: Socket, refusing: Option<&'static str>) -> io::Result<()> {
    let peer = socket.peer();
    let encrypted = socket.is_encrypted();
    let beside = inner.options.rings && socket.is_of_this_machine();
    let runtime = Arc::new(Builder::new_current_thread().enable_all().build()?);
    let limit = if refusing.is_some() { inner.options.refusal } else { HANDSHAKE };
    let (stream, certificate) = security::open(inner, &runtime, socket, limit)?;
    let (calls, mut waiting) = unbounded_channel();
    let idle = Arc::new(AtomicBool::new(true));
    let service = Service(Guest {
        inner: inner.clone(),
        runtime: Arc::downgrade(&runtime),
        peer,
        calls,
        idle: idle.clone(),
        refusing,
        beside,
        certificate,
    });
    let connection = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(FRAME_BYTES)
        .max_concurrent_streams(STREAMS)
        .keep_alive_interval(inner.options.keepalive)
        .keep_alive_timeout(inner.options.keepalive_timeout)
        .serve_connection(TokioIo::new(stream), service);
    let mut ended = runtime.spawn(connection);
    let limit = match refusing {
        Some(_) => inner.options.refusal,
        None if encrypted => STRANGER,
        None => inner.options.silence,
    };
    loop {
        let call = runtime.block_on(async {
            tokio::select! {
                biased;
                call = waiting.recv() => call,
                _ = &mut ended => None,
                () = inner.stopped() => None,
                () = tokio::time::sleep(limit) => None, // no call comes
            }
        });
        let Some(call) = call else { return Ok(()) };
        inner.serve_call(&call);
        if call.has_left() {
            return Ok(()); // the runtime ends, and the socket with it: the guest comes again
        }
        drop(call);
        idle.store(true, Ordering::Release);
    }
}

/// Who is at the other end, and how its calls come to their threads.
#[derive(Clone)]
struct Guest {
    inner: Arc<Inner>,
    runtime: Weak<Runtime>,
    peer: String,
    /// To the connection's thread.
    calls: UnboundedSender<Arc<Call>>,
    /// The connection's thread waits for a call.
    idle: Arc<AtomicBool>,
    refusing: Option<&'static str>,
    /// The guest can come to the rings' socket.
    beside: bool,
    /// Its own, where it has shown one.
    certificate: Option<Bytes>,
}

/// What HTTP/2's requests come to.
struct Service(Guest);

impl hyper::service::Service<http::Request<Incoming>> for Service {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: http::Request<Incoming>) -> Self::Future {
        let method = request.uri().path().to_owned();
        let shown = Shown { authorization: authorization(request.headers()), certificate: self.0.certificate.clone() };
        let begin = Begin { guest: self.0.clone(), method, shown };
        let bytes = self.0.inner.options.message_bytes;
        Box::pin(async move { Ok(Grpc::new(Raw).max_decoding_message_size(bytes).streaming(begin, request).await) })
    }
}

/// The header's value, where it is one that a token can be in.
fn authorization(headers: &http::HeaderMap) -> Option<String> {
    let value = headers.get(http::header::AUTHORIZATION)?;
    let short = value.len() <= AUTHORIZATION_BYTES;
    value.to_str().ok().filter(|_| short).map(str::to_owned)
}

/// The beginning of one call.
struct Begin {
    guest: Guest,
    method: String,
    shown: Shown,
}

impl StreamingService<Bytes> for Begin {
    type Response = Bytes;
    type ResponseStream = Outgoing;
    type Future = Ready<Result<Response<Outgoing>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        ready(self.begin(request.into_inner()).map(Response::new))
    }
}

impl Begin {
    fn begin(&mut self, incoming: Streaming<Bytes>) -> Result<Outgoing, Status> {
        let Guest { inner, runtime, peer, calls, idle, refusing, beside, certificate: _ } = &self.guest;
        if let Some(why) = refusing {
            return Err(Status::resource_exhausted(*why));
        }
        let runtime = runtime.upgrade().ok_or_else(|| Status::unavailable("the host stops"))?;
        let (method, shown) = (std::mem::take(&mut self.method), std::mem::take(&mut self.shown));
        let (call, outgoing) = Call::new(method, peer.clone(), runtime, incoming, *beside, shown);
        inner.admit(&call)?;
        if idle.swap(false, Ordering::AcqRel) {
            let sent = calls.send(call.clone());
            if sent.is_err() {
                inner.ended(&call);
                return Err(Status::unavailable("the host stops"));
            }
        } else {
            inner.spawn_call(call)?;
        }
        Ok(outgoing)
    }
}
