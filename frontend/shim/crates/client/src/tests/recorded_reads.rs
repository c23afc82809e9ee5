//! Reads that are recorded and arrive together, many of them in one group.

use super::fake_host::{pattern, Behaviour, FakeHost};
use super::{eventually, open};
use crate::{Destination, Mode, Session};
use std::collections::HashMap;
use std::time::Duration;
use tape::operations::{self, code};

const WIDTH: usize = 24;

fn record(session: &Session, memory: &mut [u8], from: usize) {
    let width = memory.len();
    let destination = Destination { ptr: memory.as_mut_ptr(), pitch: width, width, height: 1 };
    let width = width as u64;
    // SAFETY: the tests keep the memory, and synchronize before they look at it.
    unsafe { session.record_read(destination, from, |w, slot| operations::read(w, 0x1000, width, width, 1, 1, slot)) }
        .expect("recorded");
}

fn holds_pattern(memory: &[u8]) -> bool {
    (0..).zip(memory).all(|(offset, byte)| *byte == pattern(offset))
}

#[test]
fn evenly_spaced_reads_from_two_places_arrive_with_one_round_trip() {
    let host = FakeHost::start_unix(Behaviour::default());
    let session = open(&host, Mode::Loops);
    let (mut up, mut down) = (vec![0xee_u8; 500 * WIDTH], vec![0xee_u8; 500 * WIDTH]);
    for index in 0..500 {
        record(&session, &mut up[index * WIDTH..][..WIDTH], 1);
        record(&session, &mut down[(499 - index) * WIDTH..][..WIDTH], 2);
    }
    assert_eq!(session.counters().round_trips.get(), 1, "the handshake");
    assert_eq!(session.request(operations::device_synchronize).map(|a| a.error), Ok(0));
    assert_eq!(session.counters().round_trips.get(), 2);
    assert!(up.chunks(WIDTH).chain(down.chunks(WIDTH)).all(holds_pattern));
}

#[test]
fn uneven_reads_arrive_as_well_and_are_sent_when_there_are_many() {
    let host = FakeHost::start_unix(Behaviour::default());
    let session = open(&host, Mode::Loops);
    let mut memory: Vec<Vec<u8>> = (0..5000).map(|index| vec![0xee_u8; 1 + index * 7 % 61]).collect();
    for (index, part) in memory.iter_mut().enumerate() {
        record(&session, part, index % 3);
    }
    assert!(session.counters().groups.get() >= 4, "sent on the way");
    assert_eq!(session.request(operations::device_synchronize).map(|a| a.error), Ok(0));
    assert!(memory.iter().all(|part| holds_pattern(part)));
}

#[test]
fn a_read_that_fails_is_the_error_of_a_deferred_call_and_the_others_go_on() {
    let host = FakeHost::start(Behaviour { errors: HashMap::from([(code::READ, 17)]), ..Behaviour::default() });
    let session = open(&host, Mode::Loops);
    let mut memory = [0xee_u8; 64];
    for part in memory.chunks_mut(16) {
        record(&session, part, 1);
    }
    assert_eq!(session.request(operations::device_synchronize).map(|a| a.error), Ok(0));
    assert_eq!((session.take_deferred_error(), session.take_deferred_error()), (Some(17), None));
    assert_eq!(memory, [0xee; 64]);
}

#[test]
fn reads_in_a_loop_that_is_sent_in_parts_go_with_their_records() {
    const COUNT: usize = 20_000;
    let host = FakeHost::start_unix(Behaviour::default());
    let mut config = super::quiet(&host, Mode::Loops);
    config.age = Duration::from_micros(200);
    let session = Session::open(&config, super::hello).expect("opens");
    let mut memory = vec![0xee_u8; COUNT * WIDTH];
    for (index, part) in memory.chunks_mut(WIDTH).enumerate() {
        record(&session, part, 1);
        session.defer(|w| operations::memset(w, 0x1000, 64, 64, 1, 7, 1, 1)).expect("alive");
        if index % (COUNT / 8) == 0 {
            // In the middle of an iteration, or at its end.
            let before = session.counters().groups.get();
            eventually("a part is sent for its age", || session.counters().groups.get() > before);
        }
    }
    assert_eq!(session.request(operations::device_synchronize).map(|a| a.error), Ok(0));
    assert!(memory.chunks(WIDTH).all(holds_pattern));
    let (groups, bytes) = (session.counters().groups.get(), session.counters().bytes_up.get());
    assert!(groups >= 8 && bytes < 2000 + 200 * groups, "{groups} groups of {bytes} bytes");
}
