//! A session's messages through shared memory: how a guest on the same machine comes to its rings, and what is sent through them.
//!
//! The Welcome of a session names a ticket. The guest connects to the rings' socket, which lies beside the host's own, says the ticket, and
//! is offered rings (crate `rings`). From then on both sides' messages go through these; the gRPC stream stays, and says how the session ends.
//! Nothing is believed: a ticket is good once, for the call that it was made for, and what comes through a ring is read as what comes from a
//! socket.

use crate::server::Inner;
use parking_lot::Mutex;
use rings::{Options, Rings};
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a guest says to come to its rings.
pub const TICKET_BYTES: usize = 16;
/// How long a guest may take to say it.
const PATIENCE: Duration = Duration::from_secs(2);

/// A number that nobody can guess.
pub(crate) fn ticket() -> io::Result<[u8; TICKET_BYTES]> {
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
    let options = Options { limit: inner.options.message_bytes as u64, ..Options::default() };
    let rings = rings::offer(socket, &options, Some(Instant::now() + PATIENCE)).map_err(|error| error.to_string())?;
    call.attach(rings);
    Ok(())
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
