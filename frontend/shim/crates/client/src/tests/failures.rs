//! What the program sees when the host dies or breaks the protocol.

use super::fake_host::{data, status, value, Behaviour, FakeHost};
use super::{eventually, hello, open, quiet};
use crate::{CallSummary, Destination, Failure, Mode, Session};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tape::operations::{self, code};

fn assert_dead(session: &Session) {
    assert_eq!(session.request(operations::device_synchronize), Err(Failure::Dead));
    assert_eq!(session.defer(|w| operations::free(w, 1)), Err(Failure::Dead));
    session.flush();
}

#[test]
fn a_killed_host_releases_every_waiting_thread() {
    for unix in [false, true] {
        let behaviour = Behaviour::default();
        let mut host = if unix { FakeHost::start_unix(behaviour) } else { FakeHost::start(behaviour) };
        host.gate.send_replace(false);
        let session = open(&host, Mode::Calls);
        let released = AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    assert_eq!(session.request(operations::device_synchronize), Err(Failure::Dead));
                    released.fetch_add(1, Ordering::Relaxed);
                });
            }
            eventually("all three wait", || host.seen.lock().messages.len() == 3);
            host.kill();
        });
        assert_eq!(released.load(Ordering::Relaxed), 3);
        assert_dead(&session);
    }
}

#[test]
fn a_killed_host_releases_a_thread_that_waits_for_credit() {
    let mut behaviour = Behaviour::default();
    behaviour.welcome.credit_bytes = tape::MAX_RECORD_BYTES as u64;
    let mut host = FakeHost::start(behaviour);
    host.gate.send_replace(false);
    let session = open(&host, Mode::Calls);
    let data = vec![0; 1 << 20];
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| loop {
            if let Err(failure) = session.defer(|w| operations::module_chunk(w, &data)) {
                return failure;
            }
        });
        eventually("the first group arrives", || host.seen.lock().messages.len() == 1);
        std::thread::sleep(Duration::from_millis(10));
        host.kill();
        assert_eq!(writer.join().expect("no panic"), Failure::Dead);
    });
    assert_dead(&session);
}

#[test]
fn an_idle_session_notices_and_finishing_it_is_harmless() {
    let mut host = FakeHost::start(Behaviour::default());
    let path = std::env::temp_dir().join(format!("farlane-dead-{}.json", std::process::id()));
    let mut config = quiet(&host, Mode::Calls);
    config.report = Some(path.clone());
    let session = Session::open(&config, hello).expect("opens");
    host.kill();
    eventually("the session is dead", || session.defer(|w| operations::free(w, 1)) == Err(Failure::Dead));
    let start = Instant::now();
    session.finish(&CallSummary::default());
    assert!(start.elapsed() < Duration::from_secs(1), "nothing to wait for");
    let report = std::fs::read_to_string(&path).expect("the report is written all the same");
    assert!(report.starts_with("{\"mode\":\"calls\",\"round_trips\":1,"), "{report}");
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn a_host_that_ends_the_stream_with_a_status_is_dead() {
    let host = FakeHost::start(Behaviour { dies_at: Some(code::FREE), ..Behaviour::default() });
    let session = open(&host, Mode::Calls);
    session.defer(|w| operations::free(w, 1)).expect("deferred");
    assert_eq!(session.request(operations::device_synchronize), Err(Failure::Dead));
    assert_dead(&session);
}

#[test]
fn a_host_that_stalls_does_not_hold_up_the_exit() {
    let mut behaviour = Behaviour::default();
    behaviour.welcome.credit_bytes = tape::MAX_RECORD_BYTES as u64;
    let host = FakeHost::start(behaviour);
    host.gate.send_replace(false);
    let session = open(&host, Mode::Calls);
    session.defer(|w| operations::free(w, 1)).expect("deferred");
    let start = Instant::now();
    session.finish(&CallSummary::default());
    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(host.seen.lock().goodbyes, 0, "the work is not done");

    // Nor does a thread that waits for credit, and so holds the lock that the exit wants.
    let session = open(&host, Mode::Calls);
    let data = vec![0; 1 << 20];
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| loop {
            if let Err(failure) = session.defer(|w| operations::module_chunk(w, &data)) {
                return failure;
            }
        });
        eventually("the first group arrives", || host.seen.lock().messages.len() == 2);
        std::thread::sleep(Duration::from_millis(10));
        let start = Instant::now();
        session.finish(&CallSummary::default());
        assert!(start.elapsed() < Duration::from_secs(2));
        assert_eq!(writer.join().expect("no panic"), Failure::Cuda { code: 4, sticky: false });
    });
}

/// A READ of two rows of four bytes, sixteen apart, against made-up results.
fn read_made_up(results: Vec<u8>) -> (Result<(), Failure>, Vec<u8>, Session) {
    let host = FakeHost::start(Behaviour { results: Some(results), ..Behaviour::default() });
    let session = open(&host, Mode::Calls);
    let mut memory = vec![0_u8; 64];
    let destination = Destination { ptr: memory[16..].as_mut_ptr(), pitch: 16, width: 4, height: 2 };
    // SAFETY: the rows lie inside `memory`, which no other thread uses.
    let result = unsafe { session.read(destination, |w, slot| operations::read(w, 0, 4, 4, 2, 1, slot)) };
    (result, memory, session)
}

#[test]
fn a_hostile_host_writes_nowhere_but_where_it_was_asked() {
    let untouched = |memory: &[u8]| {
        let asked = |at: &usize| (16..20).contains(at) || (32..36).contains(at);
        (0..memory.len()).filter(|at| !asked(at)).all(|at| memory[at] == 0)
    };
    let nine = [9_u8; 64];
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("too much", data(1, 0, 0, &nine)),
        ("behind the end", [data(1, 0, 0, &nine[..8]), data(1, 0, 8, &nine[..8])].concat()),
        ("before the start", data(1, 0, u64::MAX - 3, &nine[..8])),
        ("a gap", data(1, 0, 4, &nine[..4])),
        ("twice", [data(1, 0, 0, &nine[..4]), data(1, 0, 0, &nine[..4])].concat()),
        ("too little", data(1, 0, 0, &nine[..7])),
        ("another slot", data(2, 0, 0, &nine[..8])),
        ("a status", status(1, 0)),
        ("nothing", vec![]),
        ("data and an error", data(1, 700, 0, &nine[..8])),
        ("garbage", vec![0xff; 40]),
        ("half a record", data(1, 0, 0, &nine[..8])[..32].to_vec()),
    ];
    for (what, results) in cases {
        let (result, memory, session) = read_made_up(results);
        assert_eq!(result, Err(Failure::Dead), "{what}");
        assert!(untouched(&memory), "{what}");
        assert_dead(&session);
    }
    let good = [data(1, 0, 0, &nine[..3]), data(1, 0, 3, &nine[..5])].concat();
    let (result, memory, _session) = read_made_up(good);
    assert_eq!(result, Ok(()));
    assert!(untouched(&memory));
    assert_eq!((&memory[16..20], &memory[32..36]), (&nine[..4], &nine[..4]));
}

#[test]
fn answers_that_were_not_asked_for_end_the_session() {
    for (what, results) in [
        ("data", data(1, 0, 0, &[1])),
        ("two answers", [status(1, 0), value(1, 0, 1)].concat()),
        ("an unknown kind", [16_u32, 9, 1, 0].iter().flat_map(|w| w.to_le_bytes()).collect()),
        ("flags", [16_u32, 1 << 16 | 1, 1, 0].iter().flat_map(|w| w.to_le_bytes()).collect()),
    ] {
        let host = FakeHost::start(Behaviour { results: Some(results), ..Behaviour::default() });
        let session = open(&host, Mode::Calls);
        assert_eq!(session.request(operations::device_synchronize), Err(Failure::Dead), "{what}");
        assert_dead(&session);
    }
}
