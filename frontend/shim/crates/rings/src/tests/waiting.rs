//! Waits: their ends, and that no wake-up is lost.

use std::time::{Duration, Instant};

use super::{plain_pair, small};
use crate::{processors, Error, Options, Waiting};
use std::sync::atomic::Ordering;

const POLICIES: [Waiting; 3] = [Waiting::Adaptive, Waiting::Sleep, Waiting::Spin];

#[test]
fn a_wait_ends_at_its_deadline() {
    for waiting in POLICIES {
        let (mut one, _other, _peers) = plain_pair(&Options { waiting, ..small() });
        let began = Instant::now();
        assert_eq!(one.receiver.next(Some(began + Duration::from_millis(20))), Err(Error::TimedOut));
        assert!(began.elapsed() >= Duration::from_millis(20), "{waiting:?}");
        assert_eq!(one.receiver.next(Some(began)), Err(Error::TimedOut));
    }
}

#[test]
fn another_thread_interrupts_a_wait_until_it_resumes() {
    for waiting in POLICIES {
        let (mut one, mut other, _peers) = plain_pair(&Options { waiting, ..small() });
        let handle = one.handle.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            handle.interrupt();
        });
        assert_eq!(one.receiver.next(None), Err(Error::Interrupted));
        thread.join().unwrap();
        assert_eq!(one.sender.send(&[&[0; 5000]], None), Err(Error::Interrupted));
        one.handle.resume();
        assert_eq!(other.sender.try_send(&[b"x"]), Ok(true));
        assert_eq!(one.receiver.next(None), Ok(1));
    }
}

#[test]
#[cfg_attr(miri, ignore = "measures time")]
fn an_interrupt_wakes_at_once_and_not_at_the_next_look() {
    let mut fastest = Duration::MAX;
    for _ in 0..20 {
        let (mut one, _other, _peers) = plain_pair(&Options { waiting: Waiting::Sleep, ..small() });
        let handle = one.handle.clone();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(5));
            let began = Instant::now();
            handle.interrupt();
            began
        });
        assert_eq!(one.receiver.next(None), Err(Error::Interrupted));
        fastest = fastest.min(thread.join().unwrap().elapsed());
    }
    assert!(fastest < Duration::from_millis(25), "{fastest:?}");
}

#[test]
fn a_peer_that_left_ends_waits_after_what_it_had_sent() {
    for waiting in POLICIES {
        let (mut one, mut other, peers) = plain_pair(&Options { waiting, ..small() });
        other.sender.send(&[b"last"], None).unwrap();
        other.sender.begin(100, None).unwrap();
        other.sender.write(&[1; 30], None).unwrap();
        assert_eq!(other.sender.write(&[1; 71], None), Err(Error::TooMuch));
        drop(other);
        peers[0].leave();
        let mut bytes = Vec::new();
        one.receiver.receive(&mut bytes, None).unwrap();
        assert_eq!(bytes, b"last");
        assert_eq!(one.receiver.next(None), Ok(100));
        assert_eq!(one.receiver.read(&mut [0; 100], None), Err(Error::PeerGone));
        assert_eq!(one.receiver.remaining(), 70);
        assert_eq!(one.receiver.next(None), Err(Error::PeerGone));
        assert_eq!(one.sender.send(&[&[0; 5000]], None), Err(Error::PeerGone));
    }
}

/// Each side sleeps at each turn and the other wakes it. A lost wake-up makes a turn last until the next look, 50 ms.
#[test]
fn no_wake_up_is_lost() {
    let turns = if cfg!(miri) { 20 } else { 1000 };
    let (mut one, mut other, _peers) = plain_pair(&Options { waiting: Waiting::Sleep, ..small() });
    std::thread::scope(|scope| {
        let theirs = scope.spawn(move || {
            for _ in 0..turns {
                assert_eq!(other.receiver.next(None), Ok(1));
                other.receiver.skip(None).unwrap();
                other.sender.send(&[b"a"], None).unwrap();
            }
            (other.receiver.counters().slept, other.sender.counters().rang)
        });
        let mut slow = 0;
        for _ in 0..turns {
            let began = Instant::now();
            one.sender.send(&[b"q"], None).unwrap();
            assert_eq!(one.receiver.next(Some(began + Duration::from_secs(20))), Ok(1));
            one.receiver.skip(None).unwrap();
            slow += u32::from(began.elapsed() > Duration::from_millis(45));
        }
        assert!(cfg!(miri) || slow < turns / 20, "{slow} of {turns} turns were slow");
        // Where both share a processor, one of them may never find nothing.
        let (slept, rang) = theirs.join().unwrap();
        let (slept, rang) = (slept + one.receiver.counters().slept, rang + one.sender.counters().rang);
        assert!(slept > 0 && rang > 0, "{slept} {rang}");
    });
}

/// A sleeper in a large message is woken for half a ring, so it sleeps less often than pieces are published.
#[test]
fn a_large_message_wakes_for_half_a_ring() {
    let (capacity, length) = if cfg!(miri) { (4096, 20_000) } else { (1 << 20, 64 << 20) };
    let options = Options { waiting: Waiting::Sleep, outgoing: capacity, ..small() };
    let (mut one, mut other, _peers) = plain_pair(&options);
    std::thread::scope(|scope| {
        let sent = scope.spawn(move || {
            one.sender.send(&[&vec![5; length]], None).unwrap();
            one.sender.counters().slept
        });
        let mut bytes = vec![0; length];
        other.receiver.next(None).unwrap();
        other.receiver.read(&mut bytes, None).unwrap();
        assert!(bytes.iter().all(|&byte| byte == 5));
        let sleeps = sent.join().unwrap() + other.receiver.counters().slept;
        let halves = (2 * length / capacity) as u64;
        assert!(sleeps <= 3 * halves + 20, "{sleeps} sleeps for {halves} halves");
    });
}

#[test]
fn a_peer_that_wakes_for_nothing_costs_a_look_in_a_millisecond() {
    let (mut one, other, _peers) = plain_pair(&Options { waiting: Waiting::Sleep, ..small() });
    let bell = other.sender.test_ring();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(std::sync::atomic::Ordering::Relaxed) {
                bell.control().receiver.0.flag.store(0, std::sync::atomic::Ordering::SeqCst);
                crate::futex::wake(&bell.control().receiver.0.flag);
            }
        });
        let time = Duration::from_millis(if cfg!(miri) { 30 } else { 200 });
        assert_eq!(one.receiver.next(Some(Instant::now() + time)), Err(Error::TimedOut));
        done.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(one.receiver.counters().slept < 16 + 210, "{:?}", one.receiver.counters());
}

/// Whether a side leaves its processor within some waits beside a peer that waits on the same one.
fn left(moves: bool) -> u64 {
    let (mut one, other, _peers) = plain_pair(&Options { moves, ..small() });
    let ring = other.sender.test_ring();
    for _ in 0..2000 {
        let peers = processors::current();
        ring.processor(true).store(peers, Ordering::Relaxed);
        let deadline = Instant::now() + Duration::from_micros(110);
        assert_eq!(one.receiver.next(Some(deadline)), Err(Error::TimedOut));
        if one.receiver.counters().left != 0 {
            break;
        }
    }
    one.receiver.counters().left
}

#[test]
#[cfg_attr(miri, ignore = "asks for the processor")]
fn one_side_leaves_the_processor_on_which_both_wait() {
    assert_eq!(left(true), u64::from(processors::several()));
    assert_eq!(left(false), 0);
}
