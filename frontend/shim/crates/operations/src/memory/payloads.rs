//! Copies to the device: what is sent of them.
//!
//! Owns the step from a piece of memory to its record: WRITE with the bytes as they are or compressed, or, when the
//! host has the bytes already, WRITE_KEPT, which names them. The bytes are captured before they are named or
//! compressed, so that what was named is what is kept, even when another thread of the program writes to the memory
//! meanwhile.
//!
//! Locking: the book (`payload::Cache`) is locked from the decision until its records are on the tape, because the
//! tape's order is the host's. Names and compression are made before, outside the lock, in buffers of the thread.
//! Source: protos/tape.md, "Payloads"; docs/explanation/systems.md, S1 point 9.

use client::{Section, Session};
use payload::{Cache, Decision, Link, Namer, Packer, Sketch, KEPT_BYTES};
use session::call::Outcome;
use session::work::order::Stream;
use session::{process, work};
use std::cell::RefCell;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tape::generated_operations as operation;
use tape::{WriteHead, Writer, BULK_BYTES};

/// Where a piece goes: rows of `width` bytes, `pitch` apart.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub address: u64,
    pub pitch: u64,
    pub width: u64,
    pub height: u64,
}

impl Target {
    fn bytes(&self) -> usize {
        (self.width * self.height) as usize
    }
}

/// What the session agreed on.
struct Payloads {
    namer: Option<Namer>,
    cache: Mutex<Cache>,
    lz4: bool,
    link: Link,
}

impl Payloads {
    fn lock(&self) -> MutexGuard<'_, Cache> {
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a piece that begins with these bytes is worth a name.
    fn expects(&self, first: &[u8], target: &Target) -> bool {
        self.namer.is_some() && self.lock().expects(Sketch::of(first), target.bytes())
    }
}

static PAYLOADS: OnceLock<Payloads> = OnceLock::new();

/// What happened, for the report.
#[derive(Default)]
struct Counts {
    kept: AtomicU64,
    reused: AtomicU64,
    bytes_not_sent: AtomicU64,
    compressed: AtomicU64,
    bytes_before: AtomicU64,
    bytes_after: AtomicU64,
}

static COUNTS: Counts = Counts {
    kept: AtomicU64::new(0),
    reused: AtomicU64::new(0),
    bytes_not_sent: AtomicU64::new(0),
    compressed: AtomicU64::new(0),
    bytes_before: AtomicU64::new(0),
    bytes_after: AtomicU64::new(0),
};

/// A thread's buffers, for pieces that may be kept or compressed.
#[derive(Default)]
struct Scratch {
    raw: Vec<u8>,
    packer: Packer,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch { raw: Vec::new(), packer: Packer::new() }) };
}

fn payloads(session: &Session) -> &'static Payloads {
    PAYLOADS.get_or_init(|| {
        let (budget, lz4) = (session.payload_budget(), session.takes_lz4());
        session::log::debug(format_args!("the host keeps {budget} bytes of payloads, LZ4: {lz4}"));
        Payloads {
            namer: if budget == 0 { None } else { Namer::new() },
            cache: Mutex::new(Cache::new(budget)),
            lz4,
            link: if session.is_local() { Link::Local } else { Link::Network },
        }
    })
}

/// Defers the copy of a piece; `row` gives its rows. `last` as in `work::defer_piece`.
pub fn write<'a>(stream: &Stream, target: Target, last: bool, row: impl Fn(usize) -> &'a [u8]) -> Outcome {
    let payloads = payloads(process::session()?);
    let bytes = target.bytes();
    let Target { address, pitch, width, height } = target;
    // Through shared memory: one copy costs less than to name what is copied.
    if height == 1 && bytes >= BULK_BYTES {
        let head = WriteHead { address, pitch, width, height, stream: stream.number, data_bytes: bytes };
        if work::send_bulk(stream, head, row(0))? {
            return Ok(());
        }
    }
    let fill = |data: &mut [u8]| {
        for (number, packed) in data.chunks_exact_mut(target.width as usize).enumerate() {
            packed.copy_from_slice(row(number));
        }
    };
    if KEPT_BYTES.contains(&bytes) && (payloads.namer.is_some() || payloads.lz4) {
        let sent = SCRATCH.try_with(|scratch| {
            let mut scratch = scratch.try_borrow_mut().ok()?;
            let Scratch { raw, packer } = &mut *scratch;
            let named = payloads.expects(row(0), &target);
            let packed = payloads.lz4 && packer.promises(row(0), payloads.link);
            if !named && !packed {
                return None;
            }
            if raw.len() < bytes {
                raw.resize(bytes, 0);
            }
            fill(&mut raw[..bytes]);
            Some(send(payloads, stream, target, last, &raw[..bytes], packer, named))
        });
        // A thread that is ending has no buffers any more.
        if let Ok(Some(result)) = sent {
            return result;
        }
    }
    work::defer_piece(stream, last, |w| {
        if height == 1 {
            return operation::write(w, address, pitch, width, 1, stream.number, false, false, row(0));
        }
        operation::write_with(w, address, pitch, width, height, stream.number, false, false, bytes, fill);
    })
}

fn send(
    payloads: &Payloads,
    stream: &Stream,
    target: Target,
    last: bool,
    raw: &[u8],
    packer: &mut Packer,
    named: bool,
) -> Outcome {
    let Target { address, pitch, width, height } = target;
    let kept = |w: &mut Writer, number| operation::write_kept(w, address, pitch, width, height, stream.number, number);
    if let Some(namer) = payloads.namer.as_ref().filter(|_| named) {
        let name = namer.name(raw);
        let mut cache = payloads.lock();
        match cache.decide(name, raw.len()) {
            Decision::Kept(number) => {
                COUNTS.reused.fetch_add(1, Relaxed);
                COUNTS.bytes_not_sent.fetch_add(raw.len() as u64, Relaxed);
                return work::defer_piece(stream, last, |w| kept(w, number));
            }
            Decision::Keep { number, drop } => {
                let packed = pack(payloads, raw, packer);
                COUNTS.kept.fetch_add(1, Relaxed);
                return work::defer_piece(stream, last, |w| {
                    for old in drop {
                        operation::payload_drop(w, old);
                    }
                    let data = packed.unwrap_or(raw);
                    operation::payload_keep(w, number, raw.len() as u32, packed.is_some(), false, data);
                    kept(w, number);
                });
            }
            Decision::Pass => {}
        }
    }
    let packed = pack(payloads, raw, packer);
    let data = packed.unwrap_or(raw);
    work::defer_piece(stream, last, |w| {
        operation::write(w, address, pitch, width, height, stream.number, packed.is_some(), false, data);
    })
}

fn pack<'a>(payloads: &Payloads, raw: &[u8], packer: &'a mut Packer) -> Option<&'a [u8]> {
    let packed = if payloads.lz4 { packer.pack(raw, payloads.link) } else { None }?;
    COUNTS.compressed.fetch_add(1, Relaxed);
    COUNTS.bytes_before.fetch_add(raw.len() as u64, Relaxed);
    COUNTS.bytes_after.fetch_add(packed.len() as u64, Relaxed);
    Some(packed)
}

/// For the report.
pub fn section() -> Section {
    let counts = [
        ("kept", &COUNTS.kept),
        ("reused", &COUNTS.reused),
        ("bytes_not_sent", &COUNTS.bytes_not_sent),
        ("compressed", &COUNTS.compressed),
        ("bytes_before_compression", &COUNTS.bytes_before),
        ("bytes_after_compression", &COUNTS.bytes_after),
    ];
    Section { name: "payloads", counts: counts.map(|(name, count)| (name, count.load(Relaxed))).to_vec() }
}
