//! Bare exchanges between two processes, the measure of what benchmarks/latency.py prints: no session, no records. One line of JSON, microseconds.
//!
//! Usage: exchange ring|asleep|unix|tcp UP DOWN ROUNDS
//!
//! The parent sends UP bytes, the child answers with DOWN bytes when it has them all. `ring`: rings in shared memory that wait as a session's do;
//! `asleep`: the same without spinning. `unix`, `tcp`: one gRPC stream by tonic, each side with a runtime of its own thread.

use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use plane::codec::Raw;
use plane::socket::Socket;
use rings::{Options, Rings, Waiting};
use std::convert::Infallible;
use std::error::Error;
use std::future::{ready, Ready};
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tonic::server::{Grpc, StreamingService};
use tonic::transport::{Channel, Uri};
use tonic::{Request, Response, Status, Streaming};

type Failure = Box<dyn Error>;

/// Answers each message of a call with the same bytes.
#[derive(Clone)]
struct Echo(Bytes);

impl StreamingService<Bytes> for Echo {
    type Response = Bytes;
    type ResponseStream = Box<dyn tokio_stream::Stream<Item = Result<Bytes, Status>> + Send + Unpin>;
    type Future = Ready<Result<Response<Self::ResponseStream>, Status>>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        let answer = self.0.clone();
        let answers = request.into_inner().map(move |message| message.map(|_| answer.clone()));
        ready(Ok(Response::new(Box::new(answers))))
    }
}

/// The ends of a connection.
fn connected(tcp: bool) -> Result<(Socket, Socket), Failure> {
    if !tcp {
        let (one, other) = UnixStream::pair()?;
        return Ok((Socket::Unix(one), Socket::Unix(other)));
    }
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let one = TcpStream::connect(listener.local_addr()?)?;
    Ok((Socket::Tcp(one), Socket::Tcp(listener.accept()?.0)))
}

fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}

fn answer_calls(socket: Socket, down: usize) -> Result<(), Failure> {
    let echo = Echo(vec![2; down].into());
    runtime()?.block_on(async {
        let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
            let echo = echo.clone();
            async move { Ok::<_, Infallible>(Grpc::new(Raw).streaming(echo, request).await) }
        });
        Ok(http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(socket.adopt()?), service).await?)
    })
}

fn call(socket: Socket, up: usize, rounds: usize) -> Result<Vec<u128>, Failure> {
    let message = Bytes::from(vec![1; up]);
    runtime()?.block_on(async {
        let mut socket = Some(socket);
        let connector = tower::service_fn(move |_: Uri| {
            ready(socket.take().ok_or(ErrorKind::AlreadyExists.into()).and_then(Socket::adopt).map(TokioIo::new))
        });
        let channel = Channel::from_static("http://localhost").connect_with_connector(connector).await?;
        let mut client = tonic::client::Grpc::new(channel);
        client.ready().await?;
        let (sender, messages) = mpsc::unbounded_channel::<Bytes>();
        let request = Request::new(tokio_stream::wrappers::UnboundedReceiverStream::new(messages));
        let method = http::uri::PathAndQuery::from_static("/exchange/Exchange");
        let mut answers = client.streaming(request, method, Raw).await?.into_inner();
        let mut times = Vec::with_capacity(rounds);
        for _ in 0..rounds {
            let started = Instant::now();
            sender.send(message.clone())?;
            answers.message().await?.ok_or("the other side has ended")?;
            times.push(started.elapsed().as_nanos());
        }
        Ok(times)
    })
}

fn answer_messages(rings: Rings, down: usize) -> Result<(), Failure> {
    let (Rings { mut sender, mut receiver, .. }, mut message) = (rings, Vec::new());
    let answer = vec![2; down];
    while receiver.receive(&mut message, None).is_ok() {
        sender.send(&[&answer], None)?;
    }
    Ok(())
}

fn ask(rings: Rings, up: usize, rounds: usize) -> Result<Vec<u128>, Failure> {
    let Rings { mut sender, mut receiver, .. } = rings;
    let (message, mut answer) = (vec![1; up], Vec::new());
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let started = Instant::now();
        sender.send(&[&message], None)?;
        receiver.receive(&mut answer, None)?;
        times.push(started.elapsed().as_nanos());
    }
    Ok(times)
}

/// Runs `work` in a process of its own.
fn apart(work: impl FnOnce() -> Result<(), Failure>) -> Result<libc::pid_t, Failure> {
    // SAFETY: there is one thread.
    match unsafe { libc::fork() } {
        0 => {
            let _ = work(); // the parent's end of the connection tells
            std::process::exit(0)
        }
        child if child > 0 => Ok(child),
        _ => Err(std::io::Error::last_os_error().into()),
    }
}

fn measure(kind: &str, up: usize, down: usize, rounds: usize) -> Result<(Vec<u128>, libc::pid_t), Failure> {
    if matches!(kind, "unix" | "tcp") {
        let (own, other) = connected(kind == "tcp")?;
        let mut own = Some(own);
        let child = apart(|| {
            drop(own.take());
            answer_calls(other, down)
        })?;
        return Ok((call(own.take().ok_or("no socket")?, up, rounds)?, child));
    }
    let waiting = if kind == "asleep" { Waiting::Sleep } else { Waiting::Adaptive };
    let (options, (own, other)) = (Options { waiting, ..Options::default() }, UnixStream::pair()?);
    let mut own = Some(own);
    let child = apart(|| {
        drop(own.take());
        answer_messages(rings::offer(other, &Options { moves: true, ..options }, None)?, down)
    })?;
    Ok((ask(rings::accept(own.take().ok_or("no socket")?, &options, None)?, up, rounds)?, child))
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, up, down, rounds] = &arguments[..] else {
        return Err("usage: exchange ring|asleep|unix|tcp UP DOWN ROUNDS".into());
    };
    let (mut times, child) = measure(kind, up.parse()?, down.parse()?, rounds.parse()?)?;
    // SAFETY: our child, whose connection has ended.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    times.sort_unstable();
    println!("{{\"exchange\": {:.4}}}", times[times.len() / 2] as f64 / 1000.0);
    Ok(())
}
