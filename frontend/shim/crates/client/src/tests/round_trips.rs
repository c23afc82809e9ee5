//! Exact counts, order, results, errors: what a session promises while all is well.

use super::fake_host::{pattern, Behaviour, FakeHost};
use super::{eventually, open, quiet};
use crate::{Answer, CallSummary, Destination, Failure, Mode, Session};
use std::collections::HashMap;
use tape::operations::{self, code};

pub(super) fn memset(session: &Session, number: u32) {
    session.defer(|w| operations::memset(w, 0x1000, 0, 4, 1, number, 1, 1)).expect("deferred");
}

fn synchronize(session: &Session) -> Result<Answer, Failure> {
    session.request(operations::device_synchronize)
}

pub(super) fn read(session: &Session, pitch: usize, width: usize, height: usize) -> Result<Vec<u8>, Failure> {
    let mut memory = vec![0xee_u8; pitch * height];
    let destination = Destination { ptr: memory.as_mut_ptr(), pitch, width, height };
    let (width, height) = (width as u64, height as u64);
    // SAFETY: the destination is `memory`, which no other thread uses.
    unsafe { session.read(destination, |w, slot| operations::read(w, 0x1000, width, width, height, 1, slot)) }?;
    Ok(memory)
}

#[test]
fn deferred_calls_cost_no_round_trip_and_one_synchronize_costs_one() {
    for host in [FakeHost::start(Behaviour::default()), FakeHost::start_unix(Behaviour::default())] {
        let session = open(&host, Mode::Calls);
        assert_eq!(session.counters().round_trips.get(), 1, "the handshake");
        for number in 0..10_000 {
            memset(&session, number);
        }
        assert_eq!(session.counters().round_trips.get(), 1);
        assert_eq!(synchronize(&session), Ok(Answer { error: 0, value: 0 }));
        assert_eq!(session.counters().round_trips.get(), 2);
        let numbers: Vec<u32> = (0..10_000).collect();
        let seen = host.seen.lock();
        let got: Vec<u32> = seen.records[..10_000]
            .iter()
            .map(|r| u32::from_le_bytes(r.fields[32..36].try_into().expect("value")))
            .collect();
        assert_eq!(got, numbers);
        assert_eq!(seen.records.len(), 10_001);
        assert_eq!(seen.hello.as_ref().map(|h| (h.mode.as_str(), h.module_digests.len())), Some(("calls", 1)));
    }
}

#[test]
fn mode_none_waits_for_every_call() {
    let host = FakeHost::start(Behaviour::default());
    let session = open(&host, Mode::None);
    for number in 0..10 {
        memset(&session, number);
        assert_eq!(host.codes().len(), 2 * (number as usize + 1), "replayed before the call returns");
    }
    assert_eq!(synchronize(&session).map(|a| a.error), Ok(0));
    assert_eq!(session.counters().round_trips.get(), 1 + 10 + 1);
    assert_eq!(session.counters().groups.get(), 11);
}

#[test]
fn mode_none_returns_the_calls_own_error() {
    let host = FakeHost::start(Behaviour { errors: HashMap::from([(code::FENCE, 98)]), ..Behaviour::default() });
    let session = open(&host, Mode::None);
    let failed = session.defer(|w| operations::free(w, 1));
    assert_eq!(failed, Err(Failure::Cuda { code: 98, sticky: false }));
    assert_eq!(session.take_deferred_error(), None);

    // A host may also leave it with the group.
    let host = FakeHost::start(Behaviour { deferred: Some((code::FREE, 17, false)), ..Behaviour::default() });
    let session = open(&host, Mode::None);
    let failed = session.defer(|w| operations::free(w, 1));
    assert_eq!(failed, Err(Failure::Cuda { code: 17, sticky: false }));
    assert_eq!(session.take_deferred_error(), None, "reported once");
}

#[test]
fn values_and_errors_are_answers() {
    let host =
        FakeHost::start(Behaviour { errors: HashMap::from([(code::STREAM_SYNCHRONIZE, 709)]), ..Behaviour::default() });
    let session = open(&host, Mode::Calls);
    let address = session.request(|w, slot| operations::variable_address(w, 16, slot));
    assert_eq!(address, Ok(Answer { error: 0, value: 0xabcd }));
    let failed = session.request(|w, slot| operations::stream_synchronize(w, 16, slot));
    assert_eq!(failed, Ok(Answer { error: 709, value: 0 }));
    assert_eq!(session.sticky(), None);
}

#[test]
fn several_questions_are_one_round_trip() {
    let host = FakeHost::start(Behaviour::default());
    let session = open(&host, Mode::Loops);
    let before = session.counters().round_trips.get();
    for questions in [1, 2, 100] {
        let answers = session.request_all(questions, |w, slot| {
            for question in 0..questions as u32 {
                operations::variable_address(w, 16 + question, slot + question);
            }
        });
        assert_eq!(answers, Ok(vec![Answer { error: 0, value: 0xabcd }; questions]));
    }
    assert_eq!(session.counters().round_trips.get(), before + 3);

    let mut behaviour = Behaviour { errors: HashMap::from([(code::VARIABLE_ADDRESS, 13)]), ..Behaviour::default() };
    behaviour.welcome.credit_bytes = tape::MAX_RECORD_BYTES as u64;
    let host = FakeHost::start(behaviour);
    let session = open(&host, Mode::Calls);
    let refused = session.request_all(100, |w, slot| {
        operations::module_chunk(w, &vec![0; tape::MAX_TAIL_BYTES]);
        operations::module_chunk(w, &[0; 4000]);
        for question in 0..100 {
            operations::variable_address(w, 16, slot + question);
        }
    });
    assert_eq!(refused, Ok(vec![Answer { error: 13, value: 0xabcd }; 100]));
    assert_eq!(session.counters().groups.get(), 2, "the questions are in two groups");
    assert_eq!(session.take_deferred_error(), None);
}

#[test]
fn reads_land_in_the_destination() {
    let host = FakeHost::start_unix(Behaviour::default());
    let session = open(&host, Mode::Calls);
    let flat = read(&session, 3_000_001, 3_000_001, 1).expect("read");
    assert!((0..).zip(&flat).all(|(offset, byte)| *byte == pattern(offset)));
    assert_eq!(session.counters().round_trips.get(), 2);

    let rows = read(&session, 700, 333, 1000).expect("read");
    for (row, bytes) in rows.chunks(700).enumerate() {
        let start = row as u64 * 333;
        assert!((start..).zip(&bytes[..333]).all(|(offset, byte)| *byte == pattern(offset)), "row {row}");
        assert!(bytes[333..].iter().all(|byte| *byte == 0xee), "the padding of row {row} is untouched");
    }
    assert_eq!(read(&session, 8, 0, 5).map(|memory| memory[0]), Ok(0xee));
    let empty = Destination { ptr: std::ptr::null_mut(), pitch: 1, width: 2, height: 2 };
    // SAFETY: refused before anything is written.
    let refused = unsafe { session.read(empty, |w, slot| operations::read(w, 0, 2, 2, 2, 1, slot)) };
    assert_eq!(refused, Err(Failure::Cuda { code: 1, sticky: false }));
}

#[test]
fn a_failed_read_returns_its_error() {
    let host = FakeHost::start(Behaviour {
        errors: HashMap::from([(code::READ, 700)]),
        deferred: Some((code::READ, 0, true)),
        ..Behaviour::default()
    });
    let session = open(&host, Mode::Calls);
    // The result delivered the error, so the reply does not repeat it, but says that it is sticky.
    assert_eq!(read(&session, 4, 4, 1), Err(Failure::Cuda { code: 700, sticky: true }));
    assert_eq!(session.sticky(), Some(700));
    assert_eq!(session.take_deferred_error(), None);
    session.clear_errors();
    assert_eq!(session.sticky(), None);
}

#[test]
fn the_first_deferred_error_is_told_once() {
    let host = FakeHost::start(Behaviour { deferred: Some((code::FREE, 17, false)), ..Behaviour::default() });
    let session = open(&host, Mode::Calls);
    session.defer(|w| operations::free(w, 1)).expect("deferred");
    assert_eq!(session.take_deferred_error(), None, "not sent yet");
    session.flush();
    let reported = std::cell::Cell::new(None);
    eventually("the error arrives", || {
        reported.set(session.take_deferred_error());
        reported.get().is_some()
    });
    assert_eq!(reported.get(), Some(17));
    assert_eq!(session.sticky(), None);
    assert_eq!(session.take_deferred_error(), None);
}

#[test]
fn threads_interleave_by_whole_calls() {
    const THREADS: u32 = 4;
    const CALLS: u32 = 2_000;
    let host = FakeHost::start(Behaviour::default());
    let mut config = quiet(&host, Mode::Calls);
    config.group_bytes = 4096;
    let session = Session::open(&config, super::hello).expect("opens");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let session = &session;
            scope.spawn(move || {
                for call in 0..CALLS {
                    // Two records of one call stay together.
                    let both = |w: &mut tape::Writer| {
                        operations::stream_wait_event(w, thread, call);
                        operations::event_destroy(w, thread);
                    };
                    session.defer(both).expect("deferred");
                    if call % 500 == 0 {
                        assert_eq!(synchronize(session).map(|a| a.error), Ok(0));
                    }
                }
            });
        }
    });
    synchronize(&session).expect("alive");
    assert_eq!(session.counters().round_trips.get(), 1 + u64::from(THREADS * CALLS / 500) + 1);
    let seen = host.seen.lock();
    let mut next = [0; THREADS as usize];
    let mut records = seen.records.iter().filter(|r| r.code != code::DEVICE_SYNCHRONIZE);
    while let Some(first) = records.next() {
        let second = records.next().expect("pairs");
        assert_eq!((first.code, second.code), (code::STREAM_WAIT_EVENT, code::EVENT_DESTROY));
        assert_eq!(first.fields[..4], second.fields[..4]);
        let (thread, call) = (first.fields[0] as usize, u32::from_le_bytes(first.fields[4..8].try_into().expect("4")));
        assert_eq!(call, next[thread], "the order of thread {thread}");
        next[thread] += 1;
    }
    assert_eq!(next, [CALLS; THREADS as usize]);
}

#[test]
fn a_panicking_or_oversized_encoder_leaves_no_trace() {
    let host = FakeHost::start(Behaviour::default());
    let session = open(&host, Mode::Calls);
    memset(&session, 1);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        session.defer(|w| {
            w.begin(code::LAUNCH, 0);
            panic!("as a test");
        })
    }));
    assert!(panicked.is_err());
    let unknown = Err(Failure::Cuda { code: 999, sticky: false });
    let oversized = vec![0; tape::MAX_RECORD_BYTES];
    let refused = session.defer(|w| {
        operations::free(w, 1);
        operations::module_chunk(w, &oversized);
    });
    assert_eq!(refused, unknown);
    assert_eq!(session.request(|_, _| {}).map(|_| ()), unknown, "nothing was asked");
    memset(&session, 2);
    synchronize(&session).expect("alive");
    assert_eq!(host.codes(), [code::MEMSET, code::MEMSET, code::DEVICE_SYNCHRONIZE]);
}

#[test]
fn finish_sends_what_is_left_and_writes_the_report() {
    let host = FakeHost::start(Behaviour::default());
    let path = std::env::temp_dir().join(format!("farlane-finish-{}.json", std::process::id()));
    let mut config = quiet(&host, Mode::Calls);
    config.report = Some(path.clone());
    let session = Session::open(&config, super::hello).expect("opens");
    memset(&session, 1);
    synchronize(&session).expect("alive");
    memset(&session, 2);
    let calls =
        CallSummary { local: 1, deferred: 2, sync: 1, unsupported: vec!["cudaX".to_owned()], sections: Vec::new() };
    session.finish(&calls);
    assert_eq!(host.codes(), [code::MEMSET, code::DEVICE_SYNCHRONIZE, code::MEMSET]);
    let report = std::fs::read_to_string(&path).expect("report");
    std::fs::remove_file(&path).expect("removed");
    let seen = host.seen.lock();
    assert_eq!((seen.goodbyes, seen.ended), (1, 1));
    let start = format!(
        "{{\"mode\":\"calls\",\"round_trips\":2,\"calls\":{{\"local\":1,\"deferred\":2,\"sync\":1}},\"groups\":2,\
         \"bytes_up\":{},\"bytes_down\":{},\"wall_seconds\":",
        seen.bytes_up, seen.bytes_down
    );
    assert!(report.starts_with(&start), "{report}\n{start}");
    assert!(
        report.ends_with(",\"device_seconds\":0.000000005,\"flow_waits\":0,\"unsupported\":[\"cudaX\"]}\n"),
        "{report}"
    );
    drop(seen);

    let unloading = Failure::Cuda { code: 4, sticky: false };
    assert_eq!(session.defer(|w| operations::free(w, 1)), Err(unloading));
    assert_eq!(synchronize(&session), Err(unloading));
    session.flush();
    session.finish(&calls);
    assert!(!path.exists(), "the second finish does nothing");
}

#[test]
fn the_child_of_a_fork_touches_nothing() {
    let host = FakeHost::start(Behaviour::default());
    let session = open(&host, Mode::Calls);
    memset(&session, 1);
    // SAFETY: the child only makes calls that take no lock and allocate nothing, then leaves without running handlers.
    let child = unsafe { libc::fork() };
    if child == 0 {
        session.abandon_after_fork();
        let dead = session.defer(|w| operations::free(w, 1)) == Err(Failure::Dead)
            && session.request(operations::device_synchronize) == Err(Failure::Dead);
        session.flush();
        session.finish(&CallSummary::default());
        drop(session);
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(i32::from(!dead)) };
    }
    assert!(child > 0);
    let mut status = -1;
    // SAFETY: waits for the child just made.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(status, 0);
    memset(&session, 2);
    synchronize(&session).expect("the parent is unharmed");
    assert_eq!(host.codes(), [code::MEMSET, code::MEMSET, code::DEVICE_SYNCHRONIZE]);
    session.finish(&CallSummary::default());
    assert_eq!(host.seen.lock().goodbyes, 1);
}
