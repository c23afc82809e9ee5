//! What is worth recording: programs whose loops are not go as they are, and pay for it only so often; loops that are
//! worth it are found again.

mod support;

use recorder::Reason;
use support::{Random, Recording};

const BASE: u64 = 0x7000_0000_0000;

/// One of several loops with call sites of their own, of one to three launches.
fn enter(recording: &mut Recording, number: u64, iterations: u64) {
    for i in 0..iterations {
        for call in 0..=number % 3 {
            recording.launch(10 * number + call, 16 + number as u32, &[BASE, i * call]);
        }
    }
}

/// Loops entered in random order.
fn random_loops(recording: &mut Recording, random: &mut Random, entries: u64, least: u64, most: u64) {
    for _ in 0..entries {
        let number = random.below(32);
        enter(recording, number, least + random.below(most - least + 1));
    }
}

#[test]
fn short_loops_in_random_order_go_as_they_are() {
    let mut recording = Recording::new();
    random_loops(&mut recording, &mut Random(7), 4000, 2, 5);
    recording.flush(Reason::Sync);
    let counts = recording.recorder.counts().clone();
    assert_eq!((counts.templates, counts.repeats, counts.in_loops()), (0, 0, 0));
    assert!(counts.returned < 400, "{} records were held for nothing", counts.returned);
    assert_eq!(recording.tape.as_slice(), recording.original);
}

#[test]
fn tries_that_fail_do_not_go_on() {
    let mut recording = Recording::new();
    let mut random = Random(3);
    let mut alternate = |recording: &mut Recording, count: u64| {
        for _ in 0..count {
            let kernel = random.below(2);
            recording.launch(kernel, 16 + kernel as u32, &[BASE, 5]);
        }
    };
    alternate(&mut recording, 1000);
    let first = recording.recorder.counts().clone();
    alternate(&mut recording, 20_000);
    assert_eq!(recording.recorder.counts(), &first, "nothing was tried in 20,000 records more");
    // The program changes: its next loop is found after at most 32 records that repeat, and the one behind it sooner.
    for i in 0..1000 {
        recording.launch(5, 30, &[BASE, i]);
    }
    enter(&mut recording, 1, 500);
    recording.flush(Reason::Sync);
    let in_loops = recording.recorder.counts().in_loops();
    assert!(in_loops >= 2000 - 33 - 20, "{in_loops} of 2000");
    recording.check();
}

#[test]
fn a_loop_that_comes_once_is_worth_a_template_when_it_is_long() {
    for (iterations, templates) in [(40, 0), (70, 1)] {
        let mut recording = Recording::new();
        enter(&mut recording, 0, iterations);
        recording.launch(1000, 900, &[BASE]);
        recording.flush(Reason::Sync);
        assert_eq!(recording.recorder.counts().templates, templates, "{iterations} iterations");
        recording.check();
    }
}

#[test]
fn a_loop_that_comes_again_is_worth_it_when_it_is_short() {
    let mut recording = Recording::new();
    for _ in 0..10 {
        enter(&mut recording, 0, 20);
        recording.launch(1000, 900, &[BASE]);
    }
    recording.flush(Reason::Sync);
    // The first one goes as it is; those behind it are known by their first record.
    assert_eq!(recording.recorder.counts().in_loops(), 9 * 20);
    recording.check();
}

#[test]
fn loops_in_random_order_are_templates_once_each() {
    let mut recording = Recording::new();
    random_loops(&mut recording, &mut Random(5), 2000, 30, 60);
    recording.flush(Reason::Sync);
    let counts = recording.recorder.counts().clone();
    assert_eq!(counts.templates, 32);
    let original = recording.original.len();
    let bytes = recording.check();
    assert!(bytes < original / 30, "{bytes} of {original}");
}

#[test]
fn loops_that_begin_with_the_same_call_are_not_made_anew() {
    let mut recording = Recording::new();
    let mut random = Random(11);
    for _ in 0..200 {
        let other = 2 + random.below(4);
        for i in 0..40 {
            recording.launch(1, 16, &[BASE, i]);
            recording.launch(other, 16 + other as u32, &[BASE, i]);
        }
    }
    recording.flush(Reason::Sync);
    assert_eq!(recording.recorder.counts().templates, 4);
    recording.check();
}

#[test]
fn a_loop_that_goes_on_is_worth_a_template_once_it_has_lasted() {
    let mut recording = Recording::new();
    for i in 0..2000 {
        recording.launch(1, 16, &[BASE, i]);
        if i % 10 == 9 {
            recording.recorder.part(&mut recording.tape);
        }
    }
    assert_eq!(recording.recorder.counts().templates, 1);
    let in_loops = recording.recorder.counts().in_loops();
    assert!((1960..1980).contains(&in_loops), "{in_loops}: the first parts, of 10 records each, go as they are");
    recording.check();
}

#[test]
fn phases_of_both_kinds() {
    let mut recording = Recording::new();
    let mut random = Random(13);
    for _ in 0..20 {
        random_loops(&mut recording, &mut random, 60, 2, 5);
        let before = recording.recorder.counts().in_loops();
        enter(&mut recording, 40, 1000);
        recording.launch(1000, 900, &[BASE]);
        let in_loops = recording.recorder.counts().in_loops() - before;
        assert!(in_loops >= 2000 - 34, "{in_loops} of 2000");
    }
    recording.check();
}
