//! Messages through shared memory, between two processes of one machine that do not trust each other.
//!
//! One side calls [`offer`] on a connected Unix stream socket, the other [`accept`]. Both get [`Rings`]: a
//! [`Sender`], a [`Receiver`] and a [`Handle`] for other threads. A message is a length and that many bytes; it may
//! be larger than the ring. The crate knows nothing of what the bytes mean. Linux only.
//!
//! # The memory
//!
//! The offering side creates one memfd, sets its size and seals it (`F_SEAL_SHRINK`, `F_SEAL_GROW`, `F_SEAL_SEAL`).
//! It sends the descriptor with an agreement of 32 bytes (agreement.rs): magic, version, both capacities. The
//! accepting side checks the agreement, the kind of file, its seals and its size before it maps it. Both close the
//! descriptor: only the mappings remain. Because the file cannot shrink, no access to a mapping raises `SIGBUS`.
//!
//! ```text
//! page 0     control of ring 0 (offering -> accepting side), control of ring 1 (the other way)
//!            behind both, the processor on which each side waited last: a hint, and nothing is wrong where it lies
//! then       bytes of ring 0, bytes of ring 1; each capacity is a power of two
//! control    head | tail | the receiver's bell | the sender's bell        each on cache lines of its own
//! message    length (u64, little endian) | bytes | 0 to 7 bytes of padding, so that lengths never cross the ring's end
//! ```
//!
//! The sender alone writes `head` (how many bytes it ever published), the receiver alone `tail` (how many it ever
//! took). Both only grow; a byte with index `i` lies at `i % capacity`. 2^64 bytes take decades, so they do not wrap.
//!
//! # No trust
//!
//! The other process may write anything anywhere in the memory at any time. Therefore:
//!
//! - Each side keeps its own index privately and only publishes it. What the other writes over it is never read back.
//! - The other side's index is read by one atomic load into a local variable, which is judged and then used. It must
//!   not be below the last value that was seen, and its distance from the own index must not exceed the capacity.
//! - A length is read by one atomic load and compared with the limit that the user of the crate gives. It decides how
//!   many bytes are copied, never where to.
//! - The bytes are copied out before anyone judges them. [`Receiver::piece`] lends a pointer into the ring, for
//!   copies to devices only: who reads through it twice may read two different things.
//! - A rule that is broken is an [`Error::Violation`] that names it, from then on at each call. No call panics.
//! - Each wait ends: by the peer's progress, by the deadline, by the interrupt, or by the peer's death. A peer that
//!   wakes us for nothing makes us look at most once in a millisecond.
//!
//! What remains to a hostile peer: it can send garbage as bytes, be slow, and cost a futex call for each message.
//!
//! # Why this is sound
//!
//! Indices, bells and lengths are atomics. The bytes between the indices are not, and a hostile peer changes them
//! during a copy. Rust's memory model has no race with another process, but the compiler must not turn one read into
//! two or believe that a value stays. So bytes of the ring are touched in one place only, copying.rs: through a call
//! of the C library's `memcpy` by a pointer that is loaded with `read_volatile`. The compiler does not know which
//! function that is, can neither inline nor repeat it, and must assume that it writes the destination. The machine
//! code reads and writes single bytes in some order, possibly twice. Whatever it copies, no branch and no address
//! depends on it. No `&[u8]` or `&mut [u8]` to the ring ever exists.
//!
//! Between honest peers the indices order everything: the bytes are written before `head` is stored (sequentially
//! consistent, so also release) and read after it was loaded (acquire), and the same for `tail` and the reuse of a
//! place. Miri and ThreadSanitizer check that with both sides in one process, over plain memory.
//!
//! # Waiting
//!
//! A side that waits spins for a short time, then sleeps in a futex ([`Waiting`]). Before it sleeps it writes into
//! its bell which index it waits for (`wanted`), sets the bell's flag, and looks once more. The other side stores its
//! index, then reads the flag; only when the flag is set and the index has come far enough it clears the flag and
//! makes the system call. All four accesses are sequentially consistent, so at least one side sees the other's: no
//! wake-up is lost. A side that sleeps in the middle of a large message asks to be woken when half a ring can be
//! moved, not at each piece.
//!
//! A thread that may use one processor only never spins. Elsewhere spinning has a credit: a spin that succeeds earns
//! some, one that fails costs some. Without credit each sixteenth wait tries again.
//!
//! # Death and interruption
//!
//! The socket stays open as long as the rings. A wait looks at it (`poll` without waiting) at least each 50 ms and
//! returns [`Error::PeerGone`] at its end, after everything that had arrived was taken. [`Handle::interrupt`] ends
//! waits of this side from any thread.
//!
//! # Fork
//!
//! The mapping has `MADV_DONTFORK`: a child does not have it. A page with `MADV_WIPEONFORK` tells a child that it is
//! one: each call there returns [`Error::Forked`], and dropping unmaps nothing, because the kernel may have given the
//! addresses to someone else. The child has a copy of the socket's descriptor. Until it closes it
//! ([`Handle::close_in_child`]), the other side does not notice the parent's death.
//!
//! # Checks
//!
//! Beside `cargo test`, with a nightly toolchain that has `miri` and `rust-src`:
//!
//! ```text
//! MIRIFLAGS=-Zmiri-disable-isolation cargo +nightly miri test --package rings --lib
//! RUSTFLAGS=-Zsanitizer=thread cargo +nightly test -Zbuild-std --target x86_64-unknown-linux-gnu \
//!     --package rings --lib -- --skip memory_that_changes_all_the_time
//! ```
//!
//! The test that is skipped races on purpose. `benchmarks/rings.py` measures.

#![cfg(target_os = "linux")]

mod agreement;
mod copying;
mod error;
mod futex;
mod half;
mod layout;
mod memory;
mod peer;
mod processors;
mod receiver;
mod rings;
mod sender;
mod spin;

#[cfg(test)]
mod tests;

pub use error::{Error, Violation};
pub use layout::{LARGEST_CAPACITY, SMALLEST_CAPACITY};
pub use peer::Handle;
pub use receiver::Receiver;
pub use rings::{accept, offer, pair, Options, Rings};
pub use sender::{Piece, Reservation, Sender};
pub use spin::{Counters, Spin, Waiting};
