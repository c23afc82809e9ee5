//! Loops as programs have them: how many bytes they become, and that they are the same calls again.

mod support;

use recorder::Reason;
use support::Recording;
use tape::operations;

const BASE: u64 = 0x7000_0000_0000;

/// Bytes of the tape for `count` iterations.
fn bytes(count: u64, mut iteration: impl FnMut(&mut Recording, u64)) -> usize {
    let mut recording = Recording::new();
    for i in 0..count {
        iteration(&mut recording, i);
    }
    recording.check()
}

/// The bytes of a loop do not depend on its trip count.
fn closed_form(iteration: impl Fn(&mut Recording, u64)) {
    let few = bytes(100, &iteration);
    let many = bytes(20_000, &iteration);
    assert!(many <= few + 200, "{few} bytes for 100, {many} for 20,000");
}

#[test]
fn a_constant_loop() {
    closed_form(|r, _| r.launch(1, 16, &[BASE, 5]));
    assert!(bytes(200_000, |r, _| r.launch(1, 16, &[BASE, 5])) < 1024);
}

#[test]
fn affine_arguments_of_every_width() {
    closed_form(|r, i| r.launch(1, 16, &[BASE + 512 * i, i | ((1 << 20) - i) << 32, 3]));
    closed_form(|r, i| r.call(1, |w| operations::memset(w, BASE + i * 64, 0, 64, 1, i as u32, 1, 1)));
    closed_form(|r, i| r.call(1, |w| operations::copy(w, BASE + i * 64, 0, BASE - i * 64, 0, 64, 1, 1)));
}

#[test]
fn bodies_of_several_calls() {
    closed_form(|r, i| {
        for kernel in 0..40 {
            r.launch(kernel.into(), 16 + kernel, &[BASE, i, u64::from(kernel)]);
        }
    });
    let long = bytes(100, |r, i| (0..400_u32).for_each(|n| r.launch(n.into(), 16 + n % 3, &[BASE, i])));
    assert!(long < 250_000, "{long}");
}

#[test]
fn pointers_that_swap_and_arguments_that_alternate() {
    closed_form(|r, i| r.launch(1, 16, &[BASE + 4096 * (i % 2), BASE + 4096 * ((i + 1) % 2)]));
    closed_form(|r, i| r.launch(1, 16, &[BASE, [3, 1, 4, 1, 5][i as usize % 5]]));
    closed_form(|r, i| r.launch(1 + i % 2, 16 + (i % 2) as u32, &[BASE, i]));
}

#[test]
fn minted_addresses_and_handles() {
    closed_form(|r, i| {
        let (event, address) = (16 + i as u32, BASE + 512 * i);
        r.call(1, |w| operations::allocate(w, address, 512));
        r.call(2, |w| operations::event_create(w, event, 0));
        r.launch(3, 16, &[address, i]);
        r.call(4, |w| operations::event_record(w, event, 1, 0));
        r.call(5, |w| operations::event_destroy(w, event));
        r.call(6, |w| operations::free(w, address));
    });
    // Addresses that follow no rule are sent once, however often they are used.
    let wild = |i: u64| BASE + (i.wrapping_mul(0x9e37_79b9) % 65_521) * 256;
    let once = bytes(10_000, |r, i| {
        r.call(1, |w| operations::allocate(w, wild(i), 256));
        r.launch(2, 16, &[wild(i), 7]);
        r.launch(3, 17, &[wild(i), wild(i)]);
        r.call(4, |w| operations::free(w, wild(i)));
    });
    assert!(once < 10_000 * 9, "{once}");
}

#[test]
fn nested_loops() {
    let nested = |outer: u64, inner: fn(u64) -> u64| {
        bytes(outer, |r, i| {
            r.launch(1, 16, &[BASE, i]);
            for j in 0..inner(i) {
                r.launch(2, 17, &[BASE + i * 4096, j]);
            }
            r.launch(3, 18, &[BASE, i]);
        })
    };
    assert!(nested(1000, |_| 10) <= nested(100, |_| 10) + 200);
    assert!(nested(300, |_| 300) <= nested(100, |_| 10) + 400);
    let (few, many) = (nested(100, |i| i + 1), nested(300, |i| i + 1));
    assert!(many <= few + 200, "triangular: {few} for 100, {many} for 300");
}

#[test]
fn three_levels() {
    let deep = |n: u64| {
        bytes(n, |r, i| {
            for j in 0..n {
                for k in 0..n {
                    r.launch(1, 16, &[BASE + i * 65_536, j, k]);
                }
                r.launch(2, 17, &[i, j]);
            }
            r.launch(3, 18, &[i]);
        })
    };
    let (few, many) = (deep(8), deep(20));
    assert!(many <= few + 400, "{few} for 8, {many} for 20");
}

#[test]
fn a_loop_entered_again_sends_columns_only() {
    let mut recording = Recording::new();
    let enter = |recording: &mut Recording, base: u64| {
        for i in 0..50 {
            recording.launch(1, 16, &[base, i]);
            recording.launch(2, 17, &[base, i * 2]);
        }
        recording.flush(Reason::Sync);
        recording.tape.len()
    };
    let first = enter(&mut recording, BASE);
    enter(&mut recording, BASE + 4096);
    let third = enter(&mut recording, BASE + 128);
    let fourth = enter(&mut recording, BASE + 640) - third;
    assert!(fourth < 180 && first > 2 * fourth, "{first}, {fourth}");
    recording.check();
}

#[test]
fn loops_of_growing_length_are_no_lists_of_values() {
    let bytes = bytes(60, |r, i| (0..=i).for_each(|j| r.launch(1, 16, &[BASE + 64 * j, i])));
    assert!(bytes < 6500, "{bytes}");
}

#[test]
fn a_hint_makes_the_second_iteration_fold() {
    let mut recording = Recording::new();
    for i in 0..10 {
        recording.hint = 7;
        for n in 0..6_u32 {
            recording.launch(n.into(), 16, &[BASE, i]);
        }
        if i == 0 {
            assert_eq!(recording.recorder.counts().taken, 0);
        }
    }
    assert_eq!(recording.recorder.counts().taken, 54);
    recording.check();
}

#[test]
fn a_flush_in_a_loop_is_continued() {
    let mut recording = Recording::new();
    for i in 0..1000 {
        recording.launch(1, 16, &[BASE, i]);
        recording.launch(2, 17, &[BASE, i]);
        if i % 100 == 99 {
            recording.flush(Reason::Sync);
        } else if i % 10 == 9 {
            recording.recorder.part(&mut recording.tape);
        }
    }
    let bytes = recording.check();
    let first = 20 * 96; // sent as they are: too few for a TEMPLATE, as far as could be told
    assert!(bytes < first + 1000 + 100 * 24, "{bytes}");
}

#[test]
fn threads_take_turns() {
    let mut recording = Recording::new();
    for i in 0..3000 {
        recording.thread = 1 + i / 100 % 3;
        recording.launch(recording.thread, 16 + recording.thread as u32, &[BASE, i]);
    }
    let bytes = recording.check();
    assert!(bytes < 30 * 200 + 2000, "{bytes}");
}

#[test]
fn what_does_not_repeat_is_left_alone() {
    let mut recording = Recording::new();
    for i in 0..500_u32 {
        recording.launch(i.into(), 16 + i, &[u64::from(i); 3]);
    }
    assert_eq!(recording.tape.as_slice(), recording.original);
    recording.check();
}

#[test]
fn few_records_between_waits_go_as_they_are() {
    let mut recording = Recording::new();
    let mut ends = Vec::new();
    for i in 0..20 {
        recording.call(1, |w| operations::memset(w, BASE, 4, 4, 1, i as u32, 1, 1));
        recording.launch(2, 16, &[BASE, i]);
        recording.flush(Reason::Sync);
        ends.push(recording.tape.len());
    }
    assert!(ends.windows(2).all(|pair| pair[1] - pair[0] == ends[0]), "{ends:?}");
    recording.check();
}

#[test]
fn a_loop_between_waits_is_worth_a_repeat_when_it_is_long() {
    let bytes = |count: u64| {
        let mut recording = Recording::new();
        for _ in 0..50 {
            for i in 0..count {
                recording.launch(1, 16, &[BASE, i]);
            }
            recording.call(2, |w| operations::memset(w, BASE, 4, 4, 1, 0, 1, 1));
            recording.flush(Reason::Sync);
        }
        (recording.check(), recording.original.len())
    };
    let (short, original) = bytes(20);
    assert!(short > original - original / 40, "{short} of {original}");
    let (long, original) = bytes(100);
    assert!(long < original / 30, "{long} of {original}");
}

#[test]
fn a_second_wait_behind_a_loop_makes_it_no_shorter() {
    let mut recording = Recording::new();
    for _ in 0..50 {
        for i in 0..100 {
            recording.launch(1, 16, &[BASE, i]);
        }
        recording.flush(Reason::Sync);
        recording.flush(Reason::Sync);
    }
    let (bytes, original) = (recording.check(), recording.original.len());
    assert!(bytes < original / 60, "{bytes} of {original}");
}

#[test]
fn short_loops_in_a_long_segment_make_outer_ones() {
    let mut recording = Recording::new();
    for i in 0..200 {
        for j in 0..20 + i % 7 {
            recording.launch(1, 16, &[BASE, j]);
        }
        recording.call(2, |w| operations::memset(w, BASE, 4, 4, 1, i as u32, 1, 1));
    }
    assert!(recording.check() < 6000);
    assert_eq!(recording.levels(), 2);
}

#[test]
fn a_loop_that_waits_is_not_recorded_for_nothing() {
    let mut recording = Recording::new();
    for i in 0..300 {
        recording.call(1, |w| operations::memset(w, BASE, 4, 4, 1, i as u32, 1, 1));
        recording.launch(2, 16, &[BASE, i]);
        recording.flush(Reason::Sync);
    }
    assert_eq!(recording.recorder.counts().taken, 0);
    // Once it does not wait any more it is a loop as any other.
    for i in 0..1000 {
        recording.call(1, |w| operations::memset(w, BASE, 4, 4, 1, i as u32, 1, 1));
        recording.launch(2, 16, &[BASE, i]);
    }
    recording.flush(Reason::Sync);
    let in_loops = recording.recorder.counts().in_loops();
    assert!(in_loops > 1960, "{in_loops} of 2000 records");
    recording.check();
}

#[test]
fn waits_without_loops_keep_no_loop_from_being_recorded() {
    let mut recording = Recording::new();
    for i in 0..50 {
        recording.launch(i, 16 + i as u32, &[BASE, i]);
        recording.flush(Reason::Sync);
    }
    for i in 0..1000 {
        recording.launch(1, 99, &[BASE, i]);
    }
    recording.flush(Reason::Sync);
    let in_loops = recording.recorder.counts().in_loops();
    assert!(in_loops > 960, "{in_loops} of 1000 records");
    recording.check();
}
