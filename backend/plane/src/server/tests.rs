//! A server without Python.

use super::*;
use crate::call::{Code, Received};
use crate::codec::Raw;
use hyper_util::rt::TokioIo;
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
    let connector = tower::service_fn(move |_: Uri| {
        let path = path.clone();
        async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
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

#[test]
fn a_host_that_can_start_no_thread_says_so() {
    let (server, path) = start("threadless", |_, _| Err(io::Error::from(io::ErrorKind::WouldBlock)));
    let refused = run(call(path, vec![b"one"])).expect_err("no thread");
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("limit of threads"), "{refused}");
    server.stop(Duration::ZERO);
}
