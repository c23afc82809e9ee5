//! Mode loops against the fake host, which expands what it gets: the same records, in few bytes, and never held back
//! for good.

use super::fake_host::{Behaviour, FakeHost};
use super::{eventually, hello, open, quiet};
use crate::{Config, Mode, Session};
use std::time::Duration;
use tape::operations::{self, code};

fn launches(session: &Session, count: u64) {
    for i in 0..count {
        let parameters = [i.to_le_bytes(), [7; 8]].concat();
        session.defer(|w| operations::launch(w, 16, 1, [1; 3], [32, 1, 1], 0, false, 0, &parameters)).expect("alive");
    }
}

fn synchronize(session: &Session) {
    assert_eq!(session.request(operations::device_synchronize).map(|answer| answer.error), Ok(0));
}

/// The first parameter of every launch that the host has replayed.
fn replayed(host: &FakeHost) -> Vec<u64> {
    let seen = host.seen.lock();
    let launches = seen.records.iter().filter(|record| record.code == code::LAUNCH);
    launches.map(|record| u64::from_le_bytes(record.fields[40..48].try_into().expect("8 bytes"))).collect()
}

#[test]
fn a_loop_is_one_group_of_few_bytes() {
    let host = FakeHost::start(Behaviour::default());
    let session = open(&host, Mode::Loops);
    launches(&session, 50_000);
    synchronize(&session);
    assert_eq!(replayed(&host), (0..50_000).collect::<Vec<_>>());
    let seen = host.seen.lock();
    assert_eq!(seen.messages.len(), 1);
    assert!(seen.messages[0].1 < 600, "{:?}", seen.messages);
    assert_eq!(session.counters().round_trips.get(), 2);
}

#[test]
fn a_host_of_version_1_gets_no_templates() {
    let mut behaviour = Behaviour::default();
    behaviour.welcome.tape_version = 1;
    let host = FakeHost::start(behaviour);
    let session = open(&host, Mode::Loops);
    launches(&session, 100);
    synchronize(&session);
    assert_eq!(replayed(&host), (0..100).collect::<Vec<_>>());
    assert!(host.seen.lock().messages[0].1 > 100 * 64);
}

#[test]
fn what_is_held_is_sent_when_the_program_makes_no_call() {
    let host = FakeHost::start(Behaviour::default());
    let mut config: Config = quiet(&host, Mode::Loops);
    config.age = Duration::from_micros(200);
    let session = Session::open(&config, hello).expect("opens");
    for round in 1..=3_usize {
        launches(&session, 100);
        eventually("everything arrives without another call", || replayed(&host).len() == 100 * round);
    }
    assert_eq!(session.counters().round_trips.get(), 1);
}

#[test]
fn one_group_on_its_way_holds_no_loop_back_and_two_do() {
    let behaviour = Behaviour { gate: tokio::sync::watch::Sender::new(false), ..Behaviour::default() };
    let host = FakeHost::start(behaviour);
    let mut config: Config = quiet(&host, Mode::Loops);
    config.age = Duration::from_micros(200);
    let session = Session::open(&config, hello).expect("opens");
    let groups = || session.counters().groups.get();
    session.defer(|w| operations::memset(w, 0x1000, 64, 64, 1, 7, 1, 1)).expect("alive");
    eventually("it is sent for its age", || groups() == 1);
    launches(&session, 100);
    eventually("the host has not answered, and gets the loop", || groups() == 2);
    launches(&session, 100);
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(groups(), 2);
    host.gate.send_replace(true);
    eventually("the rest follows", || replayed(&host).len() == 200);
}

#[test]
fn the_end_of_a_loop_sends_what_was_held_and_nothing_else() {
    let host = FakeHost::start(Behaviour::default());
    let session = open(&host, Mode::Loops);
    launches(&session, 2);
    session.flush();
    assert_eq!(session.counters().groups.get(), 0);
    launches(&session, 100);
    session.flush();
    assert_eq!(session.counters().groups.get(), 1);
    eventually("everything arrives", || replayed(&host).len() == 102);
}

#[test]
fn the_end_of_the_session_sends_what_is_held() {
    let host = FakeHost::start(Behaviour::default());
    let session = open(&host, Mode::Loops);
    launches(&session, 1000);
    session.finish(&crate::CallSummary::default());
    assert_eq!(replayed(&host).len(), 1000);
}

#[test]
fn threads_keep_their_order() {
    let host = FakeHost::start(Behaviour::default());
    let session = open(&host, Mode::Loops);
    session.set_origin(|| {
        let thread = std::thread::current().id();
        let mut hasher = std::hash::DefaultHasher::new();
        std::hash::Hash::hash(&thread, &mut hasher);
        crate::Origin { thread: std::hash::Hasher::finish(&hasher), site: 1, hint: 0 }
    });
    for _ in 0..5 {
        launches(&session, 200);
        std::thread::scope(|scope| {
            scope.spawn(|| launches(&session, 300));
        });
    }
    synchronize(&session);
    let expected: Vec<u64> = (0..5).flat_map(|_| (0..200).chain(0..300)).collect();
    assert_eq!(replayed(&host), expected);
}
