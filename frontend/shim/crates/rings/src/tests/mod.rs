//! Both sides in one process, over plain memory: what Miri and ThreadSanitizer can follow. Two processes: the folder
//! tests/.

mod exchange;
mod hostile;
mod waiting;

use std::sync::Arc;

use crate::half::Half;
use crate::layout::{Capacities, Ring};
use crate::memory::Memory;
use crate::peer::{Handle, Peer};
use crate::receiver::Receiver;
use crate::rings::{Options, Rings};
use crate::sender::Sender;

/// Both sides on the same plain memory. The peers are returned to let a side leave.
fn plain_pair(options: &Options) -> (Rings, Rings, [Arc<Peer>; 2]) {
    let capacities = Capacities([options.outgoing, options.incoming]);
    let memory = Arc::new(Memory::plain(capacities.bytes()));
    let peers = [Arc::new(Peer::new(None)), Arc::new(Peer::new(None))];
    let side = |first: usize| {
        let ring = |number| Ring::new(&memory, capacities, number);
        let peer = &peers[first];
        Rings {
            sender: Sender::new(Half::new(ring(first), peer.clone(), options.waiting, options.moves)),
            receiver: Receiver::new(
                Half::new(ring(1 - first), peer.clone(), options.waiting, options.moves),
                options.limit,
            ),
            handle: Handle::new(peer.clone(), ring(first), ring(1 - first)),
        }
    };
    (side(0), side(1), peers)
}

fn small() -> Options {
    Options { outgoing: 4096, incoming: 4096, ..Options::default() }
}

/// Numbers that look random: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// Mostly short, sometimes many times a ring of 4096 bytes.
    fn length(&mut self) -> usize {
        let limit = [1, 9, 64, 700, 4096, 4100, if cfg!(miri) { 9000 } else { 40000 }][self.below(7) as usize];
        self.below(limit) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}
