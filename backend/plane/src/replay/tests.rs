//! The walk over records with a control plane that makes nothing: what is done here, what is asked for, and hostile bytes.

mod session;

use super::loops::tests as loops;
use crate::device::cuda::fake;
use session::data_of;
use session::results_of;
pub(super) use session::{launch, records, Session, KNOWN};
use tape::operations as write;
use tape::Results;

#[test]
fn copies_and_synchronizations_are_done_here() {
    let mut session = Session::new(true);
    let base = session.base();
    let tape = records(|w| {
        write::write(w, base, 0, 5, 1, KNOWN, false, false, b"hello");
        write::copy(w, base + 8, 0, base, 0, 5, 1, KNOWN);
        write::memset(w, base + 10, 0, 2, 1, u32::from(b'x'), 1, KNOWN);
        write::read(w, base + 8, 0, 5, 1, KNOWN, 3);
        write::stream_synchronize(w, KNOWN, 4);
        write::device_synchronize(w, 5);
    });
    let expected = vec![(3, 0, b"hexxo".to_vec()), (4, 0, vec![]), (5, 0, vec![])];
    assert_eq!(session.results(&tape), expected);
    assert_eq!(session.fake.asked, ["end"], "once, to begin with");
    assert_eq!(session.results(&tape), expected);
    assert_eq!(session.fake.asked, ["end"]);
}

#[test]
fn payloads_are_kept_and_written_here() {
    let mut session = Session::new(true);
    let base = session.base();
    let tape = records(|w| {
        write::payload_keep(w, 7, 5, false, false, b"hello");
        write::write_kept(w, base + 3, 0, 5, 1, KNOWN, 7);
        write::payload_drop(w, 7);
        write::payload_keep(w, 7, 2, false, false, b"yo");
        write::write_kept(w, base, 1, 1, 2, KNOWN, 7);
        write::read(w, base, 0, 8, 1, KNOWN, 3);
    });
    assert_eq!(session.results(&tape), [(3, 0, b"yo\0hello".to_vec())]);
    assert_eq!(session.fake.asked, ["end"]);
    session.submit(&records(|w| write::payload_keep(w, 8, 9, true, false, b"packed"))).unwrap();
    assert_eq!(session.fake.asked, ["end", "PAYLOAD_KEEP", "end"], "what it expands to is asked for");
    let missing = records(|w| write::write_kept(w, base, 0, 5, 1, KNOWN, 9));
    assert_eq!(session.submit(&missing).unwrap_err(), "payload 9 is not kept");
}

#[test]
fn events_are_recorded_here() {
    let mut session = Session::new(true);
    let tape = records(|w| {
        write::event_record(w, KNOWN, KNOWN, 0);
        write::stream_wait_event(w, KNOWN, KNOWN);
        write::event_synchronize(w, KNOWN, 3);
        write::event_query(w, KNOWN, 4);
        write::event_query(w, 99, 5);
    });
    assert_eq!(session.results(&tape), [(3, 0, vec![]), (4, 0, vec![]), (5, 400, vec![])]);
    assert_eq!(session.fake.asked, ["end"]);
    let first = session.event.nanoseconds().unwrap();
    session.results(&tape);
    assert!(session.event.nanoseconds().unwrap() > first);
    session.results(&records(|w| write::event_record(w, 99, KNOWN, 0)));
    assert_eq!(session.fake.asked, ["end", "EVENT_RECORD", "end"]);
}

#[test]
fn streams_and_events_are_made_and_ended_here() {
    let mut session = Session::new(true);
    let tape = records(|w| {
        write::stream_create(w, 20, 1, 0);
        write::event_create(w, 20, 0);
        write::event_create(w, 21, 2); // without timing
        write::event_record(w, 20, 20, 0);
        write::event_elapsed(w, 20, 20, 3);
        write::stream_destroy(w, 20);
        write::event_destroy(w, 20);
        write::stream_query(w, 20, 4);
        write::event_query(w, 20, 5);
        write::stream_destroy(w, 20);
    });
    assert_eq!(session.results(&tape), [(3, 0, vec![]), (4, 400, vec![]), (5, 400, vec![])]);
    assert_eq!(session.fake.asked, ["end"]);
    let tape = records(|w| write::event_elapsed(w, 21, 21, 3));
    session.results(&tape);
    assert_eq!(session.fake.asked, ["end", "EVENT_ELAPSED", "end"], "the words are Python's");
    for broken in [records(|w| write::event_create(w, 21, 0)), records(|w| write::stream_create(w, 15, 0, 0))] {
        assert!(session.submit(&broken).is_err());
        session = Session::new(true);
        session.submit(&records(|w| write::event_create(w, 21, 0))).unwrap();
    }
}

#[test]
fn what_is_not_plain_is_asked_for() {
    let mut session = Session::new(true);
    let base = session.base();
    session.results(&records(|w| {
        write::write(w, base - 1, 0, 5, 1, KNOWN, false, false, b"hello");
        write::write(w, base, 0, 5, 1, 99, false, false, b"hello");
        write::write(w, base, 0, 5, 1, KNOWN, true, false, b"hello");
        write::write(w, 1 << 63, 0, 5, 1, KNOWN, false, false, b"hello");
    }));
    session.standing.poisoned.store(true, std::sync::atomic::Ordering::Relaxed);
    session.results(&records(|w| write::memset(w, base, 0, 2, 1, 0, 1, KNOWN)));
    assert_eq!(session.fake.asked, ["WRITE", "WRITE", "WRITE", "WRITE", "end", "MEMSET", "end"]);
    assert!(session.memory.iter().all(|&byte| byte == 0));
}

#[test]
fn a_launch_is_asked_for_twice_and_then_done_here() {
    let mut session = Session::new(false);
    let tape = records(|w| (0..5).for_each(|_| launch(w, 1)));
    session.submit(&tape).unwrap();
    assert_eq!(session.fake.asked, ["LAUNCH", "again", "end"]);
    assert_eq!(session.fake.direct.launches(), 3);
    session.standing.resolved.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    session.submit(&tape).unwrap();
    assert_eq!(session.fake.asked.len(), 6, "an object has ended");
    let cut = &tape[..tape.len() - 8];
    assert!(session.submit(cut).unwrap_err().contains("left"));
}

#[test]
fn a_large_read_leaves_in_pieces_and_its_end_with_the_group() {
    let mut session = Session::new(true);
    let base = session.base();
    session.memory.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8);
    let size = (1 << 20) + 100_001;
    let replies = session.submit(&records(|w| write::read(w, base, 0, size, 1, KNOWN, 3))).unwrap();
    assert_eq!(replies.len(), 2);
    let data: Vec<u8> = replies
        .iter()
        .flat_map(|reply| Results::new(results_of(reply)).map(|result| data_of(&result.unwrap())))
        .flatten()
        .collect();
    assert_eq!(data, session.memory[..size as usize]);
    let both = records(|w| {
        write::read(w, base, 0, size, 1, KNOWN, 3);
        write::fence(w, 4);
    });
    assert_eq!(session.submit(&both).unwrap().len(), 3);
}

#[test]
fn errors_are_told_as_the_tape_says() {
    let mut session = Session::new(true);
    let told = session.results(&records(|w| {
        write::free(w, 1);
        write::fence(w, 3);
        write::fence(w, 4);
        write::stream_synchronize(w, 77, 5);
    }));
    assert_eq!(told, [(3, 1, vec![]), (4, 0, vec![]), (5, 400, vec![])]);
    let lost = session.results(&records(|w| {
        write::free(w, 666);
        write::device_synchronize(w, 3);
        write::read(w, 0, 0, 4, 1, KNOWN, 4);
        write::device_reset(w, 5);
        write::device_synchronize(w, 6);
    }));
    assert_eq!(lost, [(3, 1, vec![]), (4, 1, vec![]), (5, 0, vec![]), (6, 0, vec![])]);
}

/// Bytes of all kinds: the session ends by a rule or goes on, and what it answers is whole. FARLANE_FUZZ_INPUTS says how many.
#[test]
fn hostile_tapes_do_no_harm() {
    hostile_tapes(1, || Session::new(true));
}

#[test]
fn hostile_tapes_do_no_harm_on_a_driver() {
    let cuda = fake::cuda();
    hostile_tapes(4, || Session::on(Box::new(cuda.clone())));
    for name in ["cuMemcpyDtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuMemsetD8Async", "cuStreamSynchronize"] {
        assert!(fake::calls(name) > 100, "{name}");
    }
}

fn hostile_tapes(share: u64, new: impl Fn() -> Session) {
    let inputs = fuzzing::inputs(100_000) / share;
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut session = new();
    let (mut answered, mut refused) = (0, 0);
    for _ in 0..inputs {
        let base = session.base();
        let mut tape = records(|w| {
            for _ in 0..next() % 6 {
                let (at, size) = (base + next() % (1 << 21), next() % 300);
                match next() % 10 {
                    0 => write::write(w, at, next() % 64, 5, 1 + next() % 3, KNOWN, false, false, &[1; 10]),
                    1 => write::read(w, at, next() % 400, size, next() % 5, KNOWN, 3),
                    2 => write::copy(
                        w,
                        at,
                        next() % 400,
                        base + next() % (1 << 21),
                        next() % 400,
                        size,
                        next() % 5,
                        KNOWN,
                    ),
                    3 => write::memset(w, at, next() % 400, size, next() % 5, 7, 1 << (next() % 3), KNOWN),
                    4 => write::free(w, [1, 666][next() as usize % 2]),
                    5 => launch(w, next() as u32 % 4),
                    6 => loops::hostile(w, base, &mut next),
                    7 => write::device_reset(w, 4),
                    8 => write::context(w, 16 + next() as u32 % 3, false),
                    _ => write::stream_synchronize(w, next() as u32 % 3, 3),
                }
            }
        });
        for _ in 0..next() % 4 {
            if !tape.is_empty() {
                let at = next() as usize % tape.len();
                tape[at] = [0, 1, 8, 0x7F, 0x80, 0xFF, next() as u8, next() as u8][next() as usize % 8];
            }
        }
        match session.submit(&tape) {
            Ok(replies) => {
                answered += 1;
                for reply in replies {
                    assert!(Results::new(results_of(&reply)).all(|result| result.is_ok()));
                }
            }
            Err(_) => {
                refused += 1;
                session = new();
            }
        }
        session.fake.asked.clear();
    }
    assert!(answered > inputs / 10 && refused > inputs / 20, "{answered} answered, {refused} refused");
}
