//! Making a pair of rings: offered by one side, accepted by the other.

use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Instant;

use crate::agreement;
use crate::error::Error;
use crate::half::Half;
use crate::layout::{Capacities, Ring};
use crate::memory::{self, Memory};
use crate::peer::{Handle, Peer};
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::spin::Waiting;

/// What a side chooses.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// The capacity of the ring from this side to the other: the offering side's choice, a power of two.
    pub outgoing: usize,
    /// The capacity of the ring from the other side to this one: the offering side's choice, a power of two.
    pub incoming: usize,
    /// The largest ring that an accepting side takes.
    pub largest: usize,
    /// The longest message that this side receives.
    pub limit: u64,
    pub waiting: Waiting,
    /// Whether a thread of this side goes to another processor where it waits on the one of the other side's. One side at most.
    pub moves: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            // What stays in a processor's cache while 1 MiB goes through it: benchmarks/rings.py --capacity.
            outgoing: 256 << 10,
            incoming: 256 << 10,
            largest: 64 << 20,
            limit: 256 << 20,
            waiting: Waiting::default(),
            moves: false,
        }
    }
}

/// One side's ends of both rings. Take it apart freely.
pub struct Rings {
    pub sender: Sender,
    pub receiver: Receiver,
    pub handle: Handle,
}

impl Rings {
    /// `first`: the number of the ring that is outgoing here.
    pub(crate) fn new(memory: Memory, capacities: Capacities, first: usize, peer: Peer, options: &Options) -> Self {
        let (memory, peer) = (Arc::new(memory), Arc::new(peer));
        let ring = |number| Ring::new(&memory, capacities, number);
        let (outgoing, incoming) = (first, 1 - first);
        Rings {
            sender: Sender::new(Half::new(ring(outgoing), peer.clone(), options.waiting, options.moves)),
            receiver: Receiver::new(
                Half::new(ring(incoming), peer.clone(), options.waiting, options.moves),
                options.limit,
            ),
            handle: Handle::new(peer, ring(outgoing), ring(incoming)),
        }
    }
}

/// Makes rings and sends their memory over a connected Unix stream socket, which is kept to notice the other side's
/// end.
///
/// The other side may refuse them: then it closes the socket.
pub fn offer(socket: UnixStream, options: &Options, deadline: Option<Instant>) -> Result<Rings, Error> {
    let capacities = Capacities([options.outgoing, options.incoming]).check(usize::MAX)?;
    let file = memory::create(capacities.bytes())?;
    let memory = Memory::map(&file, capacities.bytes())?;
    agreement::send(&socket, capacities, &file, deadline)?;
    Ok(Rings::new(memory, capacities, 0, Peer::new(Some(socket)), options))
}

/// Receives rings that the other side offers, and checks them before it maps them.
pub fn accept(socket: UnixStream, options: &Options, deadline: Option<Instant>) -> Result<Rings, Error> {
    let (capacities, file) = agreement::receive(&socket, options.largest, deadline)?;
    memory::check(&file, capacities.bytes())?;
    let memory = Memory::map(&file, capacities.bytes())?;
    Ok(Rings::new(memory, capacities, 1, Peer::new(Some(socket)), options))
}

/// Both sides in one process, for tests.
pub fn pair(options: &Options) -> Result<(Rings, Rings), Error> {
    let (one, other) =
        UnixStream::pair().map_err(|error| Error::System("socketpair", error.raw_os_error().unwrap_or(0)))?;
    let offered = offer(one, options, None)?;
    let accepted = accept(other, options, None)?;
    Ok((offered, accepted))
}
