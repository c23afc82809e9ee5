//! A session's messages through shared memory: how a guest on the same machine comes to its rings, and what is sent through them.
//!
//! The Welcome of a session names a ticket. The guest connects to the rings' socket, which lies beside the host's own, says the ticket, and
//! is offered rings (crate `rings`). From then on both sides' messages go through these; the gRPC stream stays, and says how the session ends.
//! Nothing is believed: a ticket is good once, for the call that it was made for, and what comes through a ring is read as what comes from a
//! socket.

use crate::call::Call;
use crate::listening::Kind;
use crate::server::Inner;
use parking_lot::Mutex;
use rings::{Options, Rings};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a guest says to come to its rings.
pub const TICKET_BYTES: usize = 16;
/// A random number, good once.
pub type Ticket = [u8; TICKET_BYTES];
/// How long a guest may take to say it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

pub(crate) fn ticket() -> io::Result<Ticket> {
    let mut bytes = [0; TICKET_BYTES];
    // SAFETY: so many bytes are ours. Up to 256 bytes come whole, or not at all.
    let got = unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
    if got == TICKET_BYTES.cast_signed() {
        Ok(bytes)
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Serves one connection of the rings' socket: it shows its ticket and gets the rings of the ticket's call.
pub(crate) fn serve(inner: &Arc<Inner>, mut socket: UnixStream) -> Result<(), String> {
    let mut shown = [0; TICKET_BYTES];
    socket.set_nonblocking(false).and_then(|()| socket.set_read_timeout(Some(PATIENCE))).map_err(|e| e.to_string())?;
    socket.read_exact(&mut shown).map_err(|error| format!("no ticket came: {error}"))?;
    let call = inner.take_ticket(&shown).ok_or("a ticket that no session has")?;
    if inner.options.hands {
        inner.hand(&call, socket.into(), Kind::Rings);
    } else {
        call.attach(offer(inner, socket)?);
    }
    Ok(())
}

fn offer(inner: &Inner, socket: UnixStream) -> Result<Rings, String> {
    let options = Options { limit: inner.options.message_bytes as u64, moves: true, ..Options::default() };
    rings::offer(socket, &options, Some(Instant::now() + PATIENCE)).map_err(|error| error.to_string())
}

/// Serves a guest that has shown its ticket in another process, which has handed its connection on.
pub(crate) fn take_over(inner: &Arc<Inner>, socket: UnixStream) {
    let own = inner.clone();
    let run = move || {
        let call = offer(&own, socket).and_then(|rings| Call::by_rings(rings).map_err(|error| error.to_string()));
        match call {
            Ok(call) => {
                if own.admit(&call).is_ok() {
                    own.serve_call(&call);
                }
            }
            Err(why) => own.warn(format_args!("a guest gets no rings: {why}")),
        }
    };
    if let Err(error) = inner.start("farlane-call", Box::new(run)) {
        inner.warn(format_args!("a guest gets no rings: {error}"));
    }
}

/// A call's rings, once it has some.
#[derive(Default)]
pub(crate) struct Place(Mutex<Option<Ends>>);

struct Ends {
    sender: Arc<Mutex<rings::Sender>>,
    receiver: Arc<Mutex<rings::Receiver>>,
    handle: rings::Handle,
}

impl Place {
    pub(crate) fn put(&self, rings: Rings, cancelled: bool) {
        if cancelled {
            rings.handle.interrupt();
        }
        let Rings { sender, receiver, handle } = rings;
        *self.0.lock() =
            Some(Ends { sender: Arc::new(Mutex::new(sender)), receiver: Arc::new(Mutex::new(receiver)), handle });
    }

    pub(crate) fn is_filled(&self) -> bool {
        self.0.lock().is_some()
    }

    pub(crate) fn sender(&self) -> Option<Arc<Mutex<rings::Sender>>> {
        self.0.lock().as_ref().map(|ends| ends.sender.clone())
    }

    pub(crate) fn receiver(&self) -> Option<Arc<Mutex<rings::Receiver>>> {
        self.0.lock().as_ref().map(|ends| ends.receiver.clone())
    }

    pub(crate) fn interrupt(&self) {
        if let Some(ends) = &*self.0.lock() {
            ends.handle.interrupt();
        }
    }
}

/// The socket of the rings, on a thread for each guest that comes.
pub(crate) fn admit(inner: &Arc<Inner>, socket: UnixStream) {
    let own = inner.clone();
    let run = move || {
        if let Err(why) = serve(&own, socket) {
            own.warn(format_args!("a guest gets no rings: {why}"));
        }
        own.leave_rings();
    };
    if !inner.enter_rings() {
        inner.warn(format_args!("a guest gets no rings: too many ask at once"));
    } else if let Err(error) = inner.start("farlane-rings", Box::new(run)) {
        inner.leave_rings();
        inner.warn(format_args!("a guest gets no rings: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::call::{Code, Received};
    use crate::codec::Raw;
    use crate::listening::Listener;
    use crate::server::{self, Serve, Server};
    use bytes::Bytes;
    use hyper_util::rt::TokioIo;
    use std::io::Write;
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;
    use std::sync::mpsc;
    use tonic::transport::{Channel, Uri};

    /// Sends its ticket first, then what it is sent; tells how it ended.
    struct Echo(mpsc::SyncSender<String>);

    impl Serve for Echo {
        fn serve(&self, call: &Arc<crate::Call>) {
            let ticket = call.ticket().expect("a ticket");
            call.send(&[&ticket], true).expect("sent");
            let end = loop {
                match call.receive(None) {
                    Ok(Received::Other(message)) => {
                        if call.send(&[&message], false).is_err() {
                            break "gone".to_owned();
                        }
                    }
                    Ok(Received::Refused(status)) => break status.message().to_owned(),
                    Ok(other) => break format!("{other:?}"),
                    Err(crate::Gone) => break "gone".to_owned(),
                }
            };
            self.0.send(end).expect("somebody listens");
            call.finish(Code::Ok, "");
        }

        fn cancelled(&self, _: &Arc<crate::Call>) {}

        fn warn(&self, _: &str) {}
    }

    struct Served {
        server: Server,
        path: PathBuf,
        ends: mpsc::Receiver<String>,
    }

    fn served(name: &str) -> Served {
        let path = std::env::temp_dir().join(format!("farlane-rings-{}-{name}", std::process::id()));
        let beside = path.with_extension("rings");
        let bind = |path: &PathBuf| {
            let _ = std::fs::remove_file(path);
            let listener = UnixListener::bind(path).expect("bound");
            listener.set_nonblocking(true).expect("set");
            listener
        };
        let listeners = vec![Listener::Unix(bind(&path)), Listener::Rings(bind(&beside))];
        let (told, ends) = mpsc::sync_channel(4);
        let options = server::Options { rings: true, message_bytes: 1 << 20, ..server::Options::default() };
        let server = Server::start(options, Box::new(Echo(told)), listeners).expect("started");
        Served { server, path, ends }
    }

    /// A call that stays open on a thread of its own; its ticket.
    fn call(served: &Served) -> (Bytes, mpsc::Sender<()>) {
        let path = served.path.clone();
        let (ticket, tickets) = mpsc::channel();
        let (hang_up, hung_up) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async move {
                let connector = tower::service_fn(move |_: Uri| {
                    let path = path.clone();
                    async move { tokio::net::UnixStream::connect(path).await.map(TokioIo::new) }
                });
                let channel = Channel::from_static("http://localhost").connect_with_connector(connector).await;
                let mut client = tonic::client::Grpc::new(channel.expect("connected"));
                client.ready().await.expect("ready");
                let request = tonic::Request::new(tokio_stream::pending());
                let method = http::uri::PathAndQuery::from_static("/farlane.v1.SessionService/Open");
                let mut answers = client.streaming(request, method, Raw).await.expect("a call").into_inner();
                let first = answers.message().await.expect("a message").expect("a ticket");
                ticket.send(first).expect("somebody waits");
                while hung_up.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        });
        (tickets.recv_timeout(Duration::from_secs(20)).expect("a ticket"), hang_up)
    }

    fn come(served: &Served, ticket: &[u8]) -> Result<Rings, rings::Error> {
        let mut socket = UnixStream::connect(served.path.with_extension("rings")).expect("connected");
        socket.write_all(ticket).expect("said");
        rings::accept(socket, &Options::default(), Some(Instant::now() + Duration::from_secs(5)))
    }

    fn ended(served: &Served) -> String {
        served.ends.recv_timeout(Duration::from_secs(20)).expect("the call ends")
    }

    #[test]
    fn messages_go_through_the_rings_once_the_guest_has_come() {
        let served = served("echo");
        let (ticket, call) = call(&served);
        let mut rings = come(&served, &ticket).expect("rings");
        let mut answer = Vec::new();
        for size in [0, 1, 100_000, 1 << 20] {
            let message = vec![9; size];
            rings.sender.send(&[&message], None).expect("sent");
            rings.receiver.receive(&mut answer, None).expect("answered");
            assert!(answer == message, "{size} bytes");
        }
        assert!(come(&served, &ticket).is_err(), "a ticket is good once");
        drop(rings);
        assert_eq!(ended(&served), "gone");
        drop(call);
        served.server.stop(Duration::ZERO);
    }

    #[test]
    fn a_message_that_has_begun_in_time_is_waited_for() {
        let (ours, mut guest) = rings::pair(&Options::default()).expect("rings");
        let call = crate::Call::by_rings(ours).expect("a call");
        let late = call.receive(Some(Duration::from_millis(1)));
        assert!(matches!(late, Ok(Received::Late)), "{late:?}");
        guest.sender.begin(8, None).expect("begun");
        guest.sender.write(&[1; 4], None).expect("written");
        let writer = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            guest.sender.write(&[2; 4], None).expect("written");
            guest
        });
        match call.receive(Some(Duration::from_millis(20))) {
            Ok(Received::Other(message)) => assert_eq!(message, [1, 1, 1, 1, 2, 2, 2, 2].as_slice()),
            other => panic!("{other:?}"),
        }
        drop(writer.join());
    }

    #[test]
    fn who_shows_no_ticket_gets_no_rings() {
        let served = served("strangers");
        let (_ticket, call) = call(&served);
        assert!(come(&served, &[0; TICKET_BYTES]).is_err());
        assert!(come(&served, &[7; 3 * TICKET_BYTES]).is_err());
        assert_eq!(served.server.calls(), 1, "the call that the ticket is of goes on");
        drop(call);
        assert_eq!(ended(&served), "gone");
        served.server.stop(Duration::ZERO);
    }

    #[test]
    fn a_message_that_is_too_large_ends_the_call_with_the_rule() {
        let served = served("large");
        let (ticket, _call) = call(&served);
        let mut rings = come(&served, &ticket).expect("rings");
        rings.sender.send(&[&vec![1; (1 << 20) - 64]], None).expect("sent");
        rings.receiver.receive(&mut Vec::new(), None).expect("answered");
        rings.sender.begin((1 << 20) + 1, None).expect("begun");
        let _ = rings.sender.write(&[1], None);
        let end = ended(&served);
        assert!(end.contains("at most 1048576 are allowed"), "{end}");
        served.server.stop(Duration::ZERO);
    }

    #[test]
    fn the_ends_of_the_stream_and_of_the_server_end_the_wait_at_a_ring() {
        let served = served("ends");
        let (ticket, call_) = call(&served);
        let _rings = come(&served, &ticket).expect("rings");
        drop(call_);
        assert_eq!(ended(&served), "gone");
        let (ticket, _call) = call(&served);
        let _other = come(&served, &ticket).expect("rings");
        served.server.stop(Duration::ZERO);
        assert_eq!(ended(&served), "gone");
    }
}
