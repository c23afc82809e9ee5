//! Listening: sockets, threads, limits, stopping.
//!
//! One thread accepts, and looks after the calls whose threads are busy; one thread for each connection. Locking: one lock around the calls.
//! Nothing is called under it.

use crate::call::Call;
use crate::connection;
use crate::listening::{listen, Kind, Listener};
use crate::ring::{self, Ticket};
use crate::security::Security;
use crate::socket::Socket;
use parking_lot::{Condvar, Mutex};
use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use std::{fmt, io};
use tokio::sync::watch;
use tonic::Status;

/// How soon the end of a guest is noticed while its work runs.
pub(crate) const LOOK: Duration = Duration::from_millis(100);

/// Guests that ask for rings at once.
const MOST_ASKING: usize = 32;

/// What calls mean.
pub trait Serve: Send + Sync + 'static {
    /// Serves a call to its end, and finishes it. On a thread that belongs to the call.
    fn serve(&self, call: &Arc<Call>);

    /// The call was cancelled while its thread is busy elsewhere: what runs for it may stop. Once, from the listening thread.
    fn cancelled(&self, call: &Arc<Call>);

    /// The connection belongs to the process that has the call's session (`Options::hands`).
    fn hand(&self, _call: &Arc<Call>, _connection: OwnedFd, _kind: Kind) {}

    /// For the host's log.
    fn warn(&self, text: &str);
}

/// What bounds a server.
#[derive(Debug, Clone)]
pub struct Options {
    /// Calls at once; the next one is turned away.
    pub calls: usize,
    /// Connections at once.
    pub connections: usize,
    /// The largest message.
    pub message_bytes: usize,
    /// A guest that vanished without closing its connection is noticed: how long it may be silent, and how long an answer to a ping may take.
    pub keepalive: Duration,
    pub keepalive_timeout: Duration,
    /// A connection without a call is closed after so long.
    pub silence: Duration,
    /// Guests of this machine may come to the rings' socket.
    pub rings: bool,
    /// Sessions are in other processes: connections that show a ticket are handed on (`Serve::hand`).
    pub hands: bool,
    /// How long a connection beyond the limit gets the refusal.
    pub refusal: Duration,
    /// Of encrypted connections; without it there are none.
    pub security: Option<Arc<Security>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            calls: 72,
            connections: 256,
            message_bytes: 4 << 20,
            keepalive: Duration::from_secs(30),
            keepalive_timeout: Duration::from_secs(20),
            silence: Duration::from_secs(300),
            rings: false,
            hands: false,
            refusal: Duration::from_secs(1),
            security: None,
        }
    }
}

/// How threads are made; tests have one that fails.
pub(crate) type Spawn = fn(name: &str, run: Box<dyn FnOnce() + Send>) -> io::Result<()>;

fn spawn(name: &str, run: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

const NO_THREAD: &str = "the host can start no thread for it: its limit of threads or memory is reached";
const TOO_MANY_CALLS: &str = "the host has too many calls open; try again later";
const TOO_MANY_CONNECTIONS: &str = "the host has too many connections open; try again later";

/// What the server's threads share.
pub(crate) struct Inner {
    pub(crate) options: Options,
    serve: Box<dyn Serve>,
    spawn: Spawn,
    /// By number; whether a cancellation was told.
    calls: Mutex<HashMap<u64, (Arc<Call>, bool)>>,
    fewer: Condvar,
    connections: AtomicUsize,
    /// Guests that ask for rings just now.
    asking: AtomicUsize,
    stop: watch::Sender<bool>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Inner {
    /// Counts the call, if there is room for it.
    pub(crate) fn admit(&self, call: &Arc<Call>) -> Result<(), Status> {
        let mut calls = self.calls.lock();
        if calls.len() >= self.options.calls {
            drop(calls);
            self.warn(format_args!("a call of {} is turned away: too many are open", call.peer));
            return Err(Status::resource_exhausted(TOO_MANY_CALLS));
        }
        calls.insert(call.number, (call.clone(), false));
        Ok(())
    }

    pub(crate) fn warn(&self, text: fmt::Arguments<'_>) {
        self.serve.warn(&text.to_string());
    }

    pub(crate) fn ended(&self, call: &Arc<Call>) {
        self.calls.lock().remove(&call.number);
        self.fewer.notify_all();
    }

    pub(crate) fn serve_call(&self, call: &Arc<Call>) {
        let _ended = Finally(|| self.ended(call));
        self.serve.serve(call);
    }

    /// Serves a call on a thread of its own.
    pub(crate) fn spawn_call(self: &Arc<Self>, call: Arc<Call>) -> Result<(), Status> {
        let (inner, own) = (self.clone(), call.clone());
        (self.spawn)("farlane-call", Box::new(move || inner.serve_call(&own))).map_err(|error| {
            self.ended(&call);
            self.warn(format_args!("a call of {} is turned away: {error}", call.peer));
            Status::resource_exhausted(NO_THREAD)
        })
    }

    pub(crate) fn start(&self, name: &str, run: Box<dyn FnOnce() + Send>) -> io::Result<()> {
        (self.spawn)(name, run)
    }

    /// The call with this ticket, which is good once.
    pub(crate) fn take_ticket(&self, shown: &Ticket) -> Option<Arc<Call>> {
        self.calls.lock().values().find(|(call, _)| call.takes_ticket(shown)).map(|(call, _)| call.clone())
    }

    /// As `take_ticket`, for a connection that is no rings'.
    pub(crate) fn take_passage(&self, shown: &Ticket) -> Option<Arc<Call>> {
        self.calls.lock().values().find(|(call, _)| call.takes_passage(shown)).map(|(call, _)| call.clone())
    }

    pub(crate) fn hand(&self, call: &Arc<Call>, connection: OwnedFd, kind: Kind) {
        self.serve.hand(call, connection, kind);
    }

    /// Whether one more guest may ask for rings at the same time.
    pub(crate) fn enter_rings(&self) -> bool {
        self.asking.fetch_add(1, Ordering::AcqRel) < MOST_ASKING || {
            self.leave_rings();
            false
        }
    }

    pub(crate) fn leave_rings(&self) {
        self.asking.fetch_sub(1, Ordering::AcqRel);
    }

    /// When the server has stopped and no call is to be waited for.
    pub(crate) async fn stopped(&self) {
        let _ = self.stop.subscribe().wait_for(|&stop| stop).await;
    }

    /// Looks after calls whose threads are busy: their connections are driven, and a cancellation is told once.
    pub(crate) fn look(&self) {
        let calls: Vec<_> = self.calls.lock().values().map(|(call, _)| call.clone()).collect();
        for call in calls {
            if !call.look() {
                continue;
            }
            let first = match self.calls.lock().get_mut(&call.number) {
                Some((_, told)) => !std::mem::replace(told, true),
                None => false,
            };
            if first {
                self.serve.cancelled(&call);
            }
        }
    }

    pub(crate) fn connect(self: &Arc<Self>, socket: Socket) {
        if self.connections.load(Ordering::Acquire) >= self.options.connections {
            self.warn(format_args!("a connection of {} is turned away: too many are open", socket.peer()));
            let _ = connection::turn_away(self, socket, TOO_MANY_CONNECTIONS);
            return;
        }
        self.connections.fetch_add(1, Ordering::AcqRel);
        let (inner, cell) = (self.clone(), Arc::new(Mutex::new(Some(socket))));
        let taken = cell.clone();
        let run = move || {
            let Some(socket) = taken.lock().take() else {
                return;
            };
            let _ended = Finally(|| {
                inner.connections.fetch_sub(1, Ordering::AcqRel);
                let _calls = inner.calls.lock();
                inner.fewer.notify_all();
            });
            let peer = socket.peer();
            // A peer that goes before it has said anything has looked whether the host is there.
            if let Err(error) = connection::serve(&inner, socket).or_else(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => Ok(()),
                _ => Err(error),
            }) {
                inner.warn(format_args!("the connection of {peer} cannot be served: {error}"));
            }
        };
        if let Err(error) = (self.spawn)("farlane-call", Box::new(run)) {
            self.connections.fetch_sub(1, Ordering::AcqRel);
            self.warn(format_args!("a connection is turned away: {error}"));
            if let Some(socket) = cell.lock().take() {
                let _ = connection::turn_away(self, socket, NO_THREAD);
            }
        }
    }
}

/// Done at the end of its scope, however that comes.
struct Finally<F: Fn()>(F);

impl<F: Fn()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
    accepting: Arc<AtomicBool>,
    wake: io::PipeWriter,
}

impl Server {
    /// Begins to accept.
    ///
    /// # Errors
    /// The system gives no thread or no pipe.
    pub fn start(options: Options, serve: Box<dyn Serve>, listeners: Vec<Listener>) -> io::Result<Self> {
        Self::start_with(options, serve, listeners, spawn)
    }

    pub(crate) fn start_with(
        options: Options,
        serve: Box<dyn Serve>,
        listeners: Vec<Listener>,
        spawn: Spawn,
    ) -> io::Result<Self> {
        let inner = Arc::new(Inner {
            options,
            serve,
            spawn,
            calls: Mutex::default(),
            fewer: Condvar::new(),
            connections: AtomicUsize::new(0),
            asking: AtomicUsize::new(0),
            stop: watch::Sender::new(false),
        });
        let accepting = Arc::new(AtomicBool::new(true));
        let (woken, wake) = io::pipe()?;
        let thread = thread::Builder::new().name("farlane-server".to_owned()).spawn({
            let (inner, accepting) = (inner.clone(), accepting.clone());
            move || listen(&inner, &accepting, &listeners, &woken)
        })?;
        Ok(Self { inner, thread: Mutex::new(Some(thread)), accepting, wake })
    }

    /// Calls that are open.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.inner.calls.lock().len()
    }

    /// Serves a connection that another process has accepted and handed on; its guest has shown a ticket there.
    pub fn adopt(&self, connection: OwnedFd, kind: Kind) {
        match kind {
            Kind::Tcp => self.inner.connect(Socket::Tcp(connection.into())),
            Kind::Tls => self.inner.connect(Socket::Tls(connection.into())),
            Kind::Unix => self.inner.connect(Socket::Unix(connection.into())),
            Kind::Vsock => self.inner.connect(Socket::Vsock(connection.into())),
            Kind::VsockTls => self.inner.connect(Socket::VsockTls(connection.into())),
            Kind::Rings => ring::take_over(&self.inner, connection.into()),
        }
    }

    /// Takes no new connections, gives the open calls `grace`, then cancels them, which interrupts their work, and waits until they are gone.
    /// Idempotent.
    pub fn stop(&self, grace: Duration) {
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        self.accepting.store(false, Ordering::Release);
        let _ = io::Write::write_all(&mut &self.wake, &[0]);
        let _ = thread.join();
        self.inner.stop.send_replace(true);
        let deadline = Instant::now() + grace;
        while self.wait(deadline.min(Instant::now() + LOOK)) && Instant::now() < deadline {
            for (call, _) in self.inner.calls.lock().values().filter(|(call, _)| call.is_waiting()) {
                call.cancel(); // its guest comes to no host any more
            }
            self.inner.look(); // no other thread does any more
        }
        loop {
            for (call, _) in self.inner.calls.lock().values() {
                call.cancel();
            }
            if !self.wait(Instant::now() + LOOK) {
                return;
            }
            self.inner.look();
        }
    }

    /// Whether there are connections or calls left at that time.
    fn wait(&self, until: Instant) -> bool {
        let mut calls = self.inner.calls.lock();
        loop {
            if calls.is_empty() && self.inner.connections.load(Ordering::Acquire) == 0 {
                return false;
            }
            if self.inner.fewer.wait_until(&mut calls, until).timed_out() {
                return true;
            }
        }
    }
}

#[cfg(test)]
mod tests;
