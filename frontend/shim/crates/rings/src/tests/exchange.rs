//! Messages between honest sides: each way of sending against each way of receiving, at all lengths.

use std::time::{Duration, Instant};

use super::{plain_pair, small, Random};
use crate::{Error, Options, Receiver, Sender, Waiting};

const MESSAGES: usize = if cfg!(miri) { 40 } else { 4000 };

/// Sends a message in one of the ways that the crate has.
fn send(sender: &mut Sender, bytes: &[u8], random: &mut Random) {
    let cut = random.below(bytes.len() as u64 + 1) as usize;
    match random.below(5) {
        0 => sender.send(&[&bytes[..cut], &[], &bytes[cut..]], None).unwrap(),
        1 => {
            sender.begin(bytes.len() as u64, None).unwrap();
            bytes.chunks(1 + random.below(3000) as usize).for_each(|part| sender.write(part, None).unwrap());
            assert_eq!(sender.unwritten(), 0);
        }
        2 => {
            sender.begin(bytes.len() as u64, None).unwrap();
            let mut done = 0;
            while sender.unwritten() != 0 {
                let piece = sender.space(None).unwrap();
                let length = piece.length.min(1 + random.below(5000) as usize);
                assert!(length > 0 && done + length <= bytes.len());
                // SAFETY: a piece that the sender has just lent.
                unsafe { std::ptr::copy_nonoverlapping(bytes[done..].as_ptr(), piece.start, length) };
                sender.filled(length).unwrap();
                done += length;
            }
        }
        3 if bytes.len() <= 4088 => while !sender.try_send(&[&bytes[..cut], &bytes[cut..]]).unwrap() {},
        4 if bytes.len() <= 4000 => {
            let _ = sender.reserve(17, None).unwrap();
            let mut room = sender.reserve(bytes.len() + random.below(88) as usize, None).unwrap();
            room.put(&bytes[..cut]).unwrap();
            let mut done = cut;
            for piece in room.pieces() {
                let length = piece.length.min(bytes.len() - done);
                // SAFETY: a piece of the reservation.
                unsafe { std::ptr::copy_nonoverlapping(bytes[done..].as_ptr(), piece.start, length) };
                done += length;
            }
            room.filled(bytes.len() - cut).unwrap();
            room.commit();
        }
        _ => sender.send(&[bytes], None).unwrap(),
    }
}

/// Receives a message in one of the ways that the crate has, or skips it, wholly or its end.
fn receive(receiver: &mut Receiver, expected: &[u8], random: &mut Random) {
    let mut bytes = Vec::new();
    let way = random.below(5);
    if way == 0 {
        receiver.receive(&mut bytes, None).unwrap();
        assert_eq!(bytes, expected);
        return;
    }
    let length = if way == 1 {
        loop {
            match receiver.try_next().unwrap() {
                Some(length) => break length,
                None => std::thread::yield_now(),
            }
        }
    } else {
        receiver.next(None).unwrap()
    };
    assert_eq!(length, expected.len() as u64);
    let wanted = if way == 2 { random.below(length + 1) as usize } else { expected.len() };
    while bytes.len() < wanted {
        if way == 3 {
            let piece = receiver.piece(None).unwrap();
            let length = piece.length.min(1 + random.below(5000) as usize);
            assert!(length > 0);
            // SAFETY: a piece that the receiver has just lent; the other side is honest.
            bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(piece.start, length) });
            receiver.taken(length).unwrap();
        } else {
            let mut part = vec![0; (wanted - bytes.len()).min(1 + random.below(6000) as usize)];
            receiver.read(&mut part, None).unwrap();
            bytes.extend(part);
        }
    }
    assert_eq!(bytes, expected[..wanted]);
    assert_eq!(receiver.remaining(), (expected.len() - wanted) as u64);
    if wanted == expected.len() {
        assert_eq!(receiver.read(&mut [0], None), Err(Error::TooMuch));
    }
}

fn random_messages(waiting: Waiting, seed: u64) {
    let (mut one, mut other, _peers) = plain_pair(&Options { waiting, ..small() });
    let messages = |seed| {
        let mut random = Random(seed);
        (0..MESSAGES).map(move |_| {
            let length = random.length();
            random.bytes(length)
        })
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut random = Random(seed + 1);
            messages(seed).for_each(|bytes| send(&mut one.sender, &bytes, &mut random));
        });
        let mut random = Random(seed + 2);
        messages(seed).for_each(|bytes| receive(&mut other.receiver, &bytes, &mut random));
        assert_eq!(other.receiver.try_next(), Ok(None));
    });
}

#[test]
fn random_messages_arrive_as_they_were_sent() {
    random_messages(Waiting::Adaptive, 10);
}

#[test]
fn they_do_so_with_each_policy_of_waiting() {
    random_messages(Waiting::Sleep, 20);
    if !cfg!(miri) {
        random_messages(Waiting::Spin, 30);
    }
}

#[test]
fn both_directions_at_once() {
    let (mut one, mut other, _peers) = plain_pair(&small());
    let turns: u64 = if cfg!(miri) { 30 } else { 20_000 };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut bytes = Vec::new();
            for _ in 0..turns {
                other.receiver.receive(&mut bytes, None).unwrap();
                other.sender.send(&[&bytes], None).unwrap();
            }
        });
        let mut answer = Vec::new();
        for turn in 0..turns {
            one.sender.send(&[&turn.to_le_bytes(), b"question"], None).unwrap();
            one.receiver.receive(&mut answer, None).unwrap();
            assert_eq!(answer, [&turn.to_le_bytes()[..], b"question"].concat());
        }
    });
}

#[test]
fn a_message_of_exactly_the_ring_fits_and_one_byte_more_does_not() {
    let (mut one, mut other, _peers) = plain_pair(&small());
    assert_eq!(one.sender.try_send(&[&[7; 4089]]), Err(Error::TooMuch));
    assert!(matches!(one.sender.reserve(4089, None), Err(Error::TooMuch)));
    let mut bytes = Vec::new();
    for _ in 0..3 {
        assert_eq!(one.sender.try_send(&[&[7; 4088]]), Ok(true));
        assert_eq!(one.sender.try_send(&[&[]]), Ok(false));
        assert!(other.receiver.arrived().unwrap());
        other.receiver.receive(&mut bytes, None).unwrap();
        assert_eq!(bytes, [7; 4088]);
        assert!(!other.receiver.arrived().unwrap());
        // The next turn begins elsewhere in the ring.
        assert_eq!(one.sender.try_send(&[&[8; 700]]), Ok(true));
        other.receiver.receive(&mut bytes, None).unwrap();
    }
}

#[test]
fn a_full_ring_ends_a_wait_at_its_deadline_and_the_message_can_be_finished() {
    let (mut one, mut other, _peers) = plain_pair(&small());
    let soon = || Some(Instant::now() + Duration::from_millis(2));
    let bytes = Random(3).bytes(9000);
    assert_eq!(one.sender.send(&[&bytes], soon()), Err(Error::TimedOut));
    let written = bytes.len() - one.sender.unwritten() as usize;
    assert!((1..4096).contains(&written));
    assert_eq!(one.sender.begin(1, None), Err(Error::Unfinished));
    assert_eq!(one.sender.try_send(&[]), Err(Error::Unfinished));
    assert!(matches!(one.sender.reserve(1, None), Err(Error::Unfinished)));
    let mut received = vec![0; 9000];
    assert_eq!(other.receiver.next(None), Ok(9000));
    assert_eq!(other.receiver.read(&mut received, soon()), Err(Error::TimedOut));
    assert_eq!(other.receiver.remaining(), one.sender.unwritten());
    let rest = written + 4000;
    one.sender.write(&bytes[written..rest], soon()).unwrap();
    other.receiver.read(&mut received[written..rest], soon()).unwrap();
    assert_eq!(one.sender.write(&[0; 9000], None), Err(Error::TooMuch));
    one.sender.write(&bytes[rest..], soon()).unwrap();
    other.receiver.read(&mut received[rest..], soon()).unwrap();
    assert_eq!(received, bytes);
}

#[test]
fn a_reservation_sends_what_was_filled_and_nothing_when_dropped() {
    let (mut one, mut other, _peers) = plain_pair(&small());
    let mut room = one.sender.reserve(100, None).unwrap();
    room.put(b"abc").unwrap();
    assert_eq!(room.put(&[0; 98]), Err(Error::TooMuch));
    assert_eq!(room.filled(98), Err(Error::TooMuch));
    // The room is dropped here, without `commit`.
    assert!(!other.receiver.arrived().unwrap());
    let mut room = one.sender.reserve(100, None).unwrap();
    room.put(b"defg").unwrap();
    room.commit();
    let mut bytes = Vec::new();
    other.receiver.receive(&mut bytes, None).unwrap();
    assert_eq!(bytes, b"defg");
    one.sender.reserve(100, None).unwrap().commit();
    assert_eq!(other.receiver.try_next(), Ok(Some(0)));
    assert_eq!(other.receiver.try_next(), Ok(None));
}
