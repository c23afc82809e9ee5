//! Reads for which no call waits: their data is there when a later request is answered, their errors are deferred ones.

use super::fake_host::{pattern, Behaviour, FakeHost};
use super::open;
use crate::{Destination, Failure, Mode, Session};
use std::collections::HashMap;
use tape::operations::{self, code};

fn read_deferred(session: &Session, memory: &mut [u8]) -> Result<(), Failure> {
    let width = memory.len();
    let destination = Destination { ptr: memory.as_mut_ptr(), pitch: width, width, height: 1 };
    let width = width as u64;
    // SAFETY: the tests keep the memory, and synchronize before they look at it.
    unsafe { session.read_deferred(destination, |w, slot| operations::read(w, 0x1000, width, width, 1, 1, slot)) }
}

fn holds_pattern(memory: &[u8]) -> bool {
    (0..).zip(memory).all(|(offset, byte)| *byte == pattern(offset))
}

#[test]
fn data_of_many_reads_is_there_after_one_round_trip() {
    let host = FakeHost::start_unix(Behaviour::default());
    let session = open(&host, Mode::Calls);
    let mut memory = vec![vec![0xee_u8; 200_000]; 20];
    for part in &mut memory {
        read_deferred(&session, part).expect("sent");
    }
    assert_eq!(session.counters().round_trips.get(), 1, "the handshake");
    assert_eq!(session.request(operations::device_synchronize).map(|a| a.error), Ok(0));
    assert_eq!(session.counters().round_trips.get(), 2);
    assert!(memory.iter().all(|part| holds_pattern(part)));
}

#[test]
fn a_failed_read_is_the_error_of_a_deferred_call() {
    let host = FakeHost::start(Behaviour { errors: HashMap::from([(code::READ, 17)]), ..Behaviour::default() });
    let session = open(&host, Mode::Calls);
    let mut memory = [0xee_u8; 64];
    read_deferred(&session, &mut memory).expect("sent");
    assert_eq!(session.request(operations::device_synchronize).map(|a| a.error), Ok(0));
    assert_eq!((session.take_deferred_error(), session.take_deferred_error()), (Some(17), None));
    assert_eq!(memory, [0xee; 64]);
}

#[test]
fn mode_none_waits_for_the_read() {
    let host = FakeHost::start(Behaviour { errors: HashMap::from([(code::FENCE, 5)]), ..Behaviour::default() });
    let session = open(&host, Mode::None);
    let mut memory = [0_u8; 1000];
    read_deferred(&session, &mut memory).expect("read");
    assert!(holds_pattern(&memory));
    assert_eq!(session.counters().round_trips.get(), 2);
}

#[test]
fn a_dead_host_leaves_the_memory_alone_from_then_on() {
    let mut host = FakeHost::start(Behaviour::default());
    host.gate.send_replace(false);
    let session = open(&host, Mode::Calls);
    let mut memory = vec![0xee_u8; 64];
    read_deferred(&session, &mut memory).expect("sent");
    host.kill();
    assert_eq!(session.request(operations::device_synchronize), Err(Failure::Dead));
    drop(memory);
}
