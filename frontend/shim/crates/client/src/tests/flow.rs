//! When and how the tape is sent: size, age, messages, credit.

use super::fake_host::{Behaviour, FakeHost};
use super::{eventually, hello, open, quiet};
use crate::generated_farlane_v1::Welcome;
use crate::{Mode, Session};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tape::operations::{self, code};
use tape::MAX_RECORD_BYTES;

fn chunk(session: &Session, bytes: usize) {
    let data = vec![0; bytes - 16];
    session.defer(|w| operations::module_chunk(w, &data)).expect("deferred");
}

fn welcome(message_bytes: usize, credit_bytes: usize) -> Behaviour {
    let mut behaviour = Behaviour::default();
    let limits =
        Welcome { message_bytes: message_bytes as u32, credit_bytes: credit_bytes as u64, ..behaviour.welcome };
    behaviour.welcome = limits;
    behaviour
}

#[test]
fn a_full_tape_is_sent() {
    let host = FakeHost::start(Behaviour::default());
    let mut config = quiet(&host, Mode::Calls);
    config.group_bytes = 4096;
    let session = Session::open(&config, hello).expect("opens");
    for _ in 0..3 {
        chunk(&session, 1024);
    }
    assert_eq!(session.counters().groups.get(), 0);
    chunk(&session, 1024);
    assert_eq!(session.counters().groups.get(), 1);
    eventually("the group arrives", || host.codes().len() == 4);
    assert_eq!(host.seen.lock().messages, [(1, 4096, true)]);
}

#[test]
fn an_explicit_flush_sends_once() {
    let host = FakeHost::start(Behaviour::default());
    let session = open(&host, Mode::Calls);
    session.flush();
    chunk(&session, 64);
    session.flush();
    session.flush();
    eventually("the group arrives", || host.codes().len() == 1);
    assert_eq!(session.counters().groups.get(), 1);
    assert_eq!(session.counters().round_trips.get(), 1);
}

#[test]
fn a_flush_brings_the_timer_forward() {
    let host = FakeHost::start(Behaviour::default());
    let mut config = quiet(&host, Mode::Calls);
    config.age = Duration::from_secs(3600);
    let session = Session::open(&config, hello).expect("opens");
    for round in 1..=3 {
        chunk(&session, 64);
        session.flush();
        session.flush();
        eventually("the group arrives", || host.codes().len() == round);
        assert_eq!(session.counters().groups.get(), round as u64);
    }
    assert_eq!(session.counters().round_trips.get(), 1);
}

#[test]
fn an_old_tape_is_sent_by_the_timer() {
    let host = FakeHost::start(Behaviour::default());
    let mut config = quiet(&host, Mode::Calls);
    config.age = Duration::from_micros(200);
    let session = Session::open(&config, hello).expect("opens");
    for round in 1..=5 {
        chunk(&session, 64);
        eventually("the timer sends", || host.codes().len() == round);
        assert_eq!(session.counters().groups.get(), round as u64);
    }
    assert_eq!(session.counters().round_trips.get(), 1);
}

#[test]
fn a_busy_host_lets_the_tape_grow() {
    let host = FakeHost::start(Behaviour::default());
    host.gate.send_replace(false);
    let mut config = quiet(&host, Mode::Calls);
    config.age = Duration::from_micros(200);
    let session = Session::open(&config, hello).expect("opens");
    for _ in 0..50 {
        chunk(&session, 64);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(session.counters().groups.get(), 2, "two groups keep a host busy");
    host.gate.send_replace(true);
    eventually("the rest is sent when the host has time", || host.codes().len() == 50);
    assert_eq!(session.counters().groups.get(), 3);
}

#[test]
fn groups_are_cut_into_messages_between_records() {
    let host = FakeHost::start(welcome(MAX_RECORD_BYTES, 16 << 20));
    let mut config = quiet(&host, Mode::Calls);
    config.group_bytes = 8 << 20;
    let session = Session::open(&config, hello).expect("opens");
    for _ in 0..5 {
        chunk(&session, 500_000);
    }
    chunk(&session, MAX_RECORD_BYTES);
    session.request(operations::device_synchronize).expect("alive");
    let messages = host.seen.lock().messages.clone();
    let expected = [(1, 1_000_000, false), (1, 1_000_000, false), (1, 500_000, false), (1, MAX_RECORD_BYTES, false)];
    assert_eq!(messages[..4], expected);
    assert_eq!(messages[4..], [(1, 16, true)]);
    assert_eq!(session.counters().groups.get(), 1);
}

#[test]
fn a_tape_larger_than_the_credit_becomes_several_groups() {
    let host = FakeHost::start(welcome(MAX_RECORD_BYTES, MAX_RECORD_BYTES));
    let mut config = quiet(&host, Mode::Calls);
    config.group_bytes = 8 << 20;
    let session = Session::open(&config, hello).expect("opens");
    for _ in 0..5 {
        chunk(&session, 600_000);
    }
    session.request(operations::device_synchronize).expect("alive");
    let seen = host.seen.lock();
    let sizes: Vec<(u64, usize, bool)> =
        [(1, 600_000), (2, 600_000), (3, 600_000), (4, 600_000), (5, 600_016)].map(|(g, b)| (g, b, true)).to_vec();
    assert_eq!(seen.messages, sizes);
    assert_eq!(session.counters().groups.get(), 5);
    assert!(session.counters().flow_waits.get() <= 4);
    assert_eq!(session.counters().round_trips.get(), 2, "flow control is no round trip");
}

#[test]
fn credit_bounds_what_is_in_flight_and_a_waiting_thread_goes_on() {
    const CREDIT: usize = 2 << 20;
    let host = FakeHost::start(welcome(MAX_RECORD_BYTES, CREDIT));
    host.gate.send_replace(false);
    let mut config = quiet(&host, Mode::Calls);
    config.group_bytes = 256 * 1024;
    let session = Session::open(&config, hello).expect("opens");
    let waiting = AtomicBool::new(true);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..64 {
                chunk(&session, 256 * 1024);
            }
            waiting.store(false, Ordering::Relaxed);
        });
        eventually("the credit is used up", || host.seen.lock().messages.len() == CREDIT / (256 * 1024));
        std::thread::sleep(Duration::from_millis(20));
        assert!(waiting.load(Ordering::Relaxed));
        assert_eq!(session.counters().groups.get() as usize, CREDIT / (256 * 1024));
        host.gate.send_replace(true);
    });
    session.request(operations::device_synchronize).expect("alive");
    let seen = host.seen.lock();
    assert_eq!(seen.records.iter().filter(|r| r.code == code::MODULE_CHUNK).count(), 64);
    assert!(seen.most_unacknowledged <= CREDIT as u64, "{}", seen.most_unacknowledged);
    assert!(session.counters().flow_waits.get() >= 1);
    assert_eq!(session.counters().round_trips.get(), 2);
}
