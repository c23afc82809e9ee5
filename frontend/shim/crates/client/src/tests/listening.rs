//! Where a fake host listens.

use super::vsock;
use crate::Endpoint;
use std::future::Future;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::Notify;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::server::Router;

pub(super) enum At {
    Tcp,
    Unix(PathBuf),
    Vsock(socket2::Socket),
}

impl At {
    /// Says where it listens, and serves until it is stopped.
    pub(super) async fn serve(self, router: Router, ready: &Sender<Endpoint>, stopped: &Notify) {
        match self {
            At::Tcp => {
                let listener = TcpListener::bind("127.0.0.1:0").await.expect("bind");
                let port = listener.local_addr().expect("address").port();
                ready.send(Endpoint::Tcp { host: "127.0.0.1".to_owned(), port, tls: false }).expect("test waits");
                until(stopped, router.serve_with_incoming(TcpListenerStream::new(listener))).await;
            }
            At::Unix(path) => {
                let listener = UnixListener::bind(&path).expect("bind");
                ready.send(Endpoint::Unix(path.clone())).expect("test waits");
                until(stopped, router.serve_with_incoming(UnixListenerStream::new(listener))).await;
                let _ = std::fs::remove_file(path);
            }
            At::Vsock(listener) => {
                ready.send(vsock::endpoint(&listener)).expect("test waits");
                until(stopped, router.serve_with_incoming(vsock::incoming(listener))).await;
            }
        }
    }
}

async fn until(stopped: &Notify, serving: impl Future<Output = Result<(), tonic::transport::Error>>) {
    tokio::select! {
        served = serving => served.expect("serve"),
        () = stopped.notified() => {}
    }
}
