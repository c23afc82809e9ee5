//! A server without Python.

use super::*;
use crate::call::{Code, Received};
use crate::codec::Raw;
use hyper_util::rt::TokioIo;
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixListener;
use tonic::transport::{Channel, Uri};

/// Answers what it is sent.
struct Echo;

impl Serve for Echo {
    fn serve(&self, call: &Arc<Call>) {
        while let Ok(Received::Other(message)) = call.receive(None) {
            if call.send(&[&message], false).is_err() {
                break;
            }
        }
        call.finish(Code::Ok, "");
    }

    fn cancelled(&self, _: &Arc<Call>) {}

    fn warn(&self, _: &str) {}
}

fn start(name: &str, spawn: Spawn) -> (Server, String) {
    let path = std::env::temp_dir().join(format!("farlane-plane-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("bound");
    listener.set_nonblocking(true).expect("set");
    let server = Server::start_with(Options::default(), Box::new(Echo), vec![Listener::Unix(listener)], spawn);
    (server.expect("started"), path.to_string_lossy().into_owned())
}

async fn call(path: String, messages: Vec<&'static [u8]>) -> Result<Vec<bytes::Bytes>, Status> {
    call_by(move || tokio::net::UnixStream::connect(path.clone()), messages).await
}

async fn call_by<F>(
    connect: impl Fn() -> F + Send + 'static,
    messages: Vec<&'static [u8]>,
) -> Result<Vec<bytes::Bytes>, Status>
where
    F: std::future::Future<Output = io::Result<tokio::net::UnixStream>> + Send + 'static,
{
    let connector = tower::service_fn(move |_: Uri| {
        let connecting = connect();
        async move { connecting.await.map(TokioIo::new) }
    });
    let channel = Channel::from_static("http://localhost").connect_with_connector(connector).await;
    let mut client = tonic::client::Grpc::new(channel.map_err(|error| Status::unavailable(error.to_string()))?);
    client.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
    let request = tonic::Request::new(tokio_stream::iter(messages.into_iter().map(bytes::Bytes::from_static)));
    let path = http::uri::PathAndQuery::from_static("/farlane.v1.SessionService/Open");
    let mut answers = client.streaming(request, path, Raw).await?.into_inner();
    let mut all = Vec::new();
    while let Some(answer) = answers.message().await? {
        all.push(answer);
    }
    Ok(all)
}

fn run<T>(future: impl std::future::Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

#[test]
fn messages_come_and_go_in_order() {
    let (server, path) = start("echo", spawn);
    let answers = run(call(path, vec![b"one", b"", b"three"])).expect("answered");
    assert_eq!(answers, ["one", "", "three"]);
    server.stop(Duration::from_secs(5));
    assert_eq!(server.calls(), 0);
}

/// By the loopback of vsock, where this machine has it; FARLANE_NEEDS_VSOCK as for the client's tests (client/src/tests/vsock.rs).
#[test]
fn messages_come_and_go_over_vsock() {
    use socket2::{Domain, SockAddr, Socket, Type};
    const LOOPBACK: u32 = 1;
    let Ok(listener) = Socket::new(Domain::VSOCK, Type::STREAM, None)
        .and_then(|socket| socket.bind(&SockAddr::vsock(LOOPBACK, u32::MAX)).map(|()| socket))
    else {
        assert!(std::env::var_os("FARLANE_NEEDS_VSOCK").is_none(), "this machine has no loopback of vsock");
        println!("not run: this machine has no loopback of vsock");
        return;
    };
    listener.listen(8).expect("listens");
    let address = listener.local_addr().expect("an address");
    // SAFETY: the descriptor is open, listens, and is given away.
    let adopted = unsafe { Listener::adopt(OwnedFd::from(listener).into_raw_fd(), Kind::Vsock) }.expect("adopted");
    let server = Server::start(Options::default(), Box::new(Echo), vec![adopted]).expect("started");
    let connect = move || {
        let socket = Socket::new(Domain::VSOCK, Type::STREAM, None)?;
        socket.connect(&address)?;
        socket.set_nonblocking(true)?;
        tokio::net::UnixStream::from_std(OwnedFd::from(socket).into())
    };
    let answers = run(call_by(move || std::future::ready(connect()), vec![b"one", b"", b"three"])).expect("answered");
    assert_eq!(answers, ["one", "", "three"]);
    server.stop(Duration::from_secs(5));
}

#[test]
fn a_host_that_can_start_no_thread_says_so() {
    let (server, path) = start("threadless", |_, _| Err(io::Error::from(io::ErrorKind::WouldBlock)));
    let refused = run(call(path, vec![b"one"])).expect_err("no thread");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("limit of threads"), "{refused}");
    server.stop(Duration::ZERO);
}
