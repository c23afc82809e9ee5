//! A peer that writes anything at any time: 10^5 inputs over plain memory, and one that writes while this side works.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

use super::{plain_pair, small, Random};
use crate::half::Half;
use crate::layout::{Capacities, Ring};
use crate::memory::{self, Memory};
use crate::peer::Peer;
use crate::receiver::Receiver;
use crate::sender::Sender;
use crate::{Error, Options, Violation, Waiting};

const INPUTS: u64 = if cfg!(miri) { 60 } else { 100_000 };
const LIMIT: u64 = 10_000;
const GUARD: u8 = 0xa5;

/// What a hostile peer may cause. Everything else is a bug of this side.
fn allowed(error: Error) -> bool {
    matches!(error, Error::Violation(_) | Error::TimedOut | Error::TooMuch | Error::Unfinished)
}

/// A value near what would be right, or any.
fn index(random: &mut Random, near: u64) -> u64 {
    match random.below(4) {
        0 => random.next(),
        1 => near.wrapping_add(random.below(5000)).wrapping_sub(random.below(200)),
        2 => near.wrapping_add(8 * random.below(513)),
        _ => near.wrapping_add(random.below(30)),
    }
}

/// The peer's hand: changes one thing in the memory.
fn scribble(ring: &Ring, random: &mut Random) {
    let control = ring.control();
    let (head, tail) = (control.head.0.load(Ordering::Relaxed), control.tail.0.load(Ordering::Relaxed));
    match random.below(6) {
        0 => control.head.0.store(index(random, tail), Ordering::SeqCst),
        1 => control.tail.0.store(index(random, head), Ordering::SeqCst),
        2 => {
            control.receiver.0.flag.store(random.next() as u32, Ordering::SeqCst);
            control.sender.0.flag.store(random.below(2) as u32, Ordering::SeqCst);
        }
        3 => {
            control.receiver.0.wanted.store(random.next(), Ordering::SeqCst);
            control.sender.0.wanted.store(random.next(), Ordering::SeqCst);
        }
        4 => {
            let length = [random.below(20), random.below(2 * LIMIT), random.next()][random.below(3) as usize];
            ring.store_length(if random.below(2) == 0 { tail } else { random.next() }, length);
        }
        _ => (0..ring.capacity()).step_by(64).for_each(|place| ring.store_length(place, random.next())),
    }
}

/// One call of the receiving side, chosen at random. Whatever it copies stays inside of what it was given.
fn receive(receiver: &mut Receiver, random: &mut Random, now: Option<Instant>) -> Result<(), Error> {
    let before = receiver.remaining();
    match random.below(7) {
        0 => receiver.arrived().map(drop),
        1 => receiver.next(now).map(|length| assert!(length <= LIMIT)),
        2 => receiver.try_next().map(drop),
        3 => {
            let mut bytes = [GUARD; 320];
            let length = random.below(257) as usize;
            let result = receiver.read(&mut bytes[32..32 + length], now);
            assert!(bytes[..32].iter().chain(&bytes[32 + length..]).all(|&byte| byte == GUARD));
            assert!(before - receiver.remaining() <= length as u64);
            result
        }
        4 => receiver.skip(now),
        5 => {
            let mut bytes = Vec::new();
            let result = receiver.receive(&mut bytes, now);
            assert!(bytes.len() as u64 <= LIMIT);
            result
        }
        _ => receiver.piece(now).and_then(|piece| {
            assert!(piece.length as u64 <= before.min(4096));
            receiver.taken(piece.length)
        }),
    }
}

fn send(sender: &mut Sender, random: &mut Random, now: Option<Instant>) -> Result<(), Error> {
    let bytes = [3; 6000];
    let bytes = &bytes[..[random.below(100), random.below(6000)][random.below(2) as usize] as usize];
    match random.below(6) {
        0 => sender.send(&[bytes, &bytes[..bytes.len() / 2]], now),
        1 => sender.try_send(&[bytes]).map(drop),
        2 => sender.begin(bytes.len() as u64, now),
        3 => sender.write(&bytes[..bytes.len().min(sender.unwritten() as usize)], now),
        4 => sender.space(now).and_then(|piece| {
            assert!(piece.length as u64 <= sender.unwritten().min(4096));
            sender.filled(piece.length)
        }),
        _ => sender.reserve(bytes.len().min(4088), now).and_then(|mut room| {
            room.put(&bytes[..bytes.len() / 2])?;
            assert!(room.pieces().iter().all(|piece| piece.length <= 4088));
            room.commit();
            Ok(())
        }),
    }
}

#[test]
fn random_memory_breaks_nothing_but_its_own_rings() {
    let mut random = Random(77);
    let (mut violations, mut successes) = (0, 0);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..fuzzing::inputs(INPUTS) {
        let waiting = if random.below(2) == 0 { Waiting::Sleep } else { Waiting::Adaptive };
        let (mut one, mut other, _peers) = plain_pair(&Options { limit: LIMIT, waiting, ..small() });
        let (outgoing, incoming) = (one.sender.test_ring(), other.sender.test_ring());
        for _ in 0..12 {
            match random.below(4) {
                0 => scribble(&outgoing, &mut random),
                1 => scribble(&incoming, &mut random),
                // An honest message between, if the ring takes it.
                _ => drop(other.sender.try_send(&[b"honest"])),
            }
            let now = Some(Instant::now());
            for result in [receive(&mut one.receiver, &mut random, now), send(&mut one.sender, &mut random, now)] {
                match result {
                    Ok(()) => successes += 1,
                    Err(error) => {
                        assert!(allowed(error), "{error:?}");
                        if let Error::Violation(violation) = error {
                            violations += 1;
                            seen.insert(std::mem::discriminant(&violation));
                        }
                    }
                }
            }
        }
        // A broken half stays broken.
        for _ in 0..2 {
            if let Err(Error::Violation(violation)) = one.receiver.arrived() {
                assert_eq!(one.receiver.next(None), Err(violation.into()));
                assert_eq!(one.receiver.taken(0), Err(violation.into()));
            }
        }
    }
    assert!(violations > INPUTS / 10 && successes > INPUTS, "{violations} {successes}");
    assert!(cfg!(miri) || seen.len() == 4, "not each rule was broken: {}", seen.len());
}

#[test]
fn each_rule_is_named() {
    let (mut one, other, _peers) = plain_pair(&Options { limit: LIMIT, ..small() });
    let ring = other.sender.test_ring();
    let head = &ring.control().head.0;
    assert_eq!(one.receiver.arrived(), Ok(false));
    head.store(4097, Ordering::SeqCst);
    assert_eq!(one.receiver.next(None), Err(Violation::IndexTooFar { limit: 4096, now: 4097 }.into()));
    head.store(8, Ordering::SeqCst);
    assert_eq!(one.receiver.try_next(), Err(Violation::IndexTooFar { limit: 4096, now: 4097 }.into()));

    let (mut one, other, _peers) = plain_pair(&Options { limit: LIMIT, ..small() });
    let ring = other.sender.test_ring();
    ring.store_length(0, LIMIT + 1);
    ring.control().head.0.store(16, Ordering::SeqCst);
    let error = Violation::MessageTooLong { limit: LIMIT, length: LIMIT + 1 };
    assert_eq!(one.receiver.next(None), Err(error.into()));

    let (mut one, other, _peers) = plain_pair(&small());
    let ring = other.sender.test_ring();
    ring.store_length(0, 3);
    ring.control().head.0.store(11, Ordering::SeqCst);
    assert_eq!(one.receiver.next(None), Ok(3));
    assert_eq!(one.receiver.read(&mut [0; 3], None), Err(Violation::IndexInPadding { end: 16, now: 11 }.into()));

    let (mut one, other, _peers) = plain_pair(&small());
    let ring = other.sender.test_ring();
    ring.control().head.0.store(9, Ordering::SeqCst);
    assert_eq!(one.receiver.next(None), Ok(0));
    ring.control().head.0.store(8, Ordering::SeqCst);
    assert_eq!(one.receiver.arrived(), Err(Violation::IndexBackwards { seen: 9, now: 8 }.into()));

    let (mut one, _other, _peers) = plain_pair(&small());
    let ring = one.sender.test_ring();
    assert_eq!(one.sender.try_send(&[&[0; 4080]]), Ok(true));
    ring.control().tail.0.store(4089, Ordering::SeqCst);
    assert_eq!(one.sender.try_send(&[&[0; 100]]), Err(Violation::IndexTooFar { limit: 4088, now: 4089 }.into()));
}

/// The hostile peer has a mapping of its own, as another process has, and writes all of it while this side works.
#[test]
#[cfg_attr(miri, ignore = "races on purpose, with mappings that Miri does not have")]
fn memory_that_changes_all_the_time() {
    let capacities = Capacities([4096, 4096]);
    let file = memory::create(capacities.bytes()).unwrap();
    let [mine, theirs] = [0, 1].map(|_| Arc::new(Memory::map(&file, capacities.bytes()).unwrap()));
    let (done, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let rings = [0, 1].map(|number| Ring::new(&theirs, capacities, number));
            let mut random = Random(5);
            while !done.load(Ordering::Relaxed) {
                if random.below(50) == 0 {
                    let words = theirs.base().cast::<AtomicU64>();
                    for place in 0..theirs.size() / 8 {
                        // SAFETY: inside the mapping.
                        unsafe { words.add(place).as_ref() }.store(random.next(), Ordering::Relaxed);
                    }
                }
                scribble(&rings[random.below(2) as usize], &mut random);
            }
        });
        let mut random = Random(6);
        let began = Instant::now();
        while began.elapsed().as_millis() < 1500 {
            // Fresh halves on memory that is nothing but fresh. The indices begin at zero, so zero is what they meet
            // at times.
            let peer = Arc::new(Peer::new(None));
            let mut receiver =
                Receiver::new(Half::new(Ring::new(&mine, capacities, 1), peer.clone(), Waiting::Sleep, false), LIMIT);
            let mut sender = Sender::new(Half::new(Ring::new(&mine, capacities, 0), peer, Waiting::Adaptive, true));
            for number in 0..2 {
                let ring = Ring::new(&mine, capacities, number);
                ring.control().head.0.store(random.below(2000), Ordering::SeqCst);
                ring.control().tail.0.store(0, Ordering::SeqCst);
            }
            for _ in 0..20 {
                let now = Some(Instant::now());
                for result in [receive(&mut receiver, &mut random, now), send(&mut sender, &mut random, now)] {
                    assert!(
                        result.is_ok_and(|()| calls.fetch_add(1, Ordering::Relaxed) < u64::MAX)
                            || result.is_err_and(allowed)
                    );
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(calls.load(Ordering::Relaxed) > 1000, "{calls:?}");
}
