//! Loops that are predicted: the TEMPLATE is sent at the first call, and a wrong guess loses nothing.

mod support;

use recorder::{PredictedLaunch, Reason};
use support::{Random, Recording};
use tape::operations::code;

const MANY: u64 = 10_000;

/// The operations on the tape, in order.
fn operations_of(recording: &Recording) -> Vec<u16> {
    let (mut found, mut rest) = (Vec::new(), recording.tape.as_slice());
    while let Some(length) = tape::record_length(rest) {
        found.push(u16::from_le_bytes([rest[4], rest[5]]));
        rest = &rest[length..];
    }
    found
}

/// Something was recorded before: a recorder knows the thread then.
fn begun() -> Recording {
    let mut recording = Recording::new();
    recording.call(0, |w| tape::operations::allocate(w, 0x1000, 64));
    recording
}

fn two(first: [u64; 2], next: [u64; 2]) -> Vec<PredictedLaunch> {
    vec![
        Recording::predicted(1, 16, &[7, first[0]], &[7, next[0]]),
        Recording::predicted(2, 17, &[first[1]], &[next[1]]),
    ]
}

#[test]
fn the_template_is_told_before_the_first_call() {
    let mut recording = begun();
    assert!(recording.predict(MANY, &two([0, 5], [3, 5])));
    assert_eq!(operations_of(&recording), [code::ALLOCATE, code::TEMPLATE]);
    for k in 0..MANY {
        recording.launch(1, 16, &[7, 3 * k]);
        recording.launch(2, 17, &[5]);
        assert_eq!(operations_of(&recording).len(), 2, "all is held, from the first call on");
    }
    recording.flush(Reason::Sync);
    assert_eq!(operations_of(&recording), [code::ALLOCATE, code::TEMPLATE, code::REPEAT]);
    let counts = recording.recorder.counts();
    assert_eq!((counts.templates, counts.predicted, counts.repeats, counts.iterations), (1, 1, 1, MANY));
    recording.check();
}

#[test]
fn iterations_are_released_while_the_loop_goes_on() {
    let mut recording = begun();
    recording.predict(MANY, &two([0, 5], [3, 5]));
    let mut made = 0;
    for upto in [10, 12, 100] {
        while made < upto {
            recording.launch(1, 16, &[7, 3 * made]);
            recording.launch(2, 17, &[5]);
            made += 1;
        }
        assert!(recording.recorder.part(&mut recording.tape));
    }
    let repeats = [code::REPEAT; 3];
    assert_eq!(operations_of(&recording), [&[code::ALLOCATE, code::TEMPLATE], &repeats[..]].concat());
    recording.check();
}

#[test]
fn what_is_not_worth_it_or_known_is_not_told() {
    let mut recording = begun();
    assert!(!recording.predict(MANY, &[]));
    assert!(!recording.predict(2, &two([0, 5], [3, 5])), "a short loop");
    let long = PredictedLaunch { next: vec![0; 8], ..two([0, 5], [3, 5]).remove(0) };
    assert!(!recording.predict(MANY, &[long]), "of different lengths");
    let module = PredictedLaunch { site: 1, now: vec![0; 16], next: vec![0; 16] };
    assert!(!recording.predict(MANY, &[module]), "nothing that a body may hold");
    recording.thread = 2;
    assert!(!recording.predict(MANY, &two([0, 5], [3, 5])), "another thread");
    recording.thread = 1;
    assert!(recording.predict(MANY, &two([0, 5], [3, 5])));
    assert!(!recording.predict(MANY, &two([0, 5], [3, 5])), "predicted already");
    assert_eq!(recording.recorder.counts().predicted, 1);
    recording.check();
}

#[test]
fn another_call_in_the_loop_is_recorded_as_it_comes() {
    for (first, second) in [(9, 17), (7, 18)] {
        let [bytes, plain] = [true, false].map(|predicted| {
            let mut recording = begun();
            if predicted {
                recording.predict(MANY, &two([0, 5], [3, 5]));
            }
            for k in 0..500 {
                recording.launch(1, 16, &[first, 4 * k]);
                recording.launch(2, second, &[5]);
            }
            recording.check()
        });
        assert!(bytes < plain + 250, "{bytes}: the recorder finds what repeats");
    }
}

#[test]
fn a_loop_that_ends_early_costs_its_template_only() {
    for iterations in 0..4 {
        let mut recording = begun();
        recording.predict(MANY, &two([0, 5], [3, 5]));
        for k in 0..iterations {
            recording.launch(1, 16, &[7, 3 * k]);
            recording.launch(2, 17, &[5]);
        }
        recording.launch(3, 20, &[1]);
        let mut plain = begun();
        for k in 0..iterations {
            plain.launch(1, 16, &[7, 3 * k]);
            plain.launch(2, 17, &[5]);
        }
        plain.launch(3, 20, &[1]);
        assert!(recording.check() <= plain.check() + 250);
    }
}

#[test]
fn guesses_of_any_kind_lose_nothing() {
    for seed in 1..600 {
        let mut random = Random(seed);
        let mut recording = begun();
        let value = |random: &mut Random| random.below(3);
        for _ in 0..12 {
            let calls: Vec<(u64, u32, u64, u64)> = (0..1 + random.below(3))
                .map(|index| (1 + index, 16 + random.below(2) as u32, value(&mut random), value(&mut random)))
                .collect();
            let guess: Vec<PredictedLaunch> = calls
                .iter()
                .map(|(site, function, start, step)| {
                    let wrong = random.one_in(6);
                    let (site, step) = (site + u64::from(random.one_in(12)), if wrong { step + 1 } else { *step });
                    Recording::predicted(site, *function, &[*start, 4], &[start + step, 4])
                })
                .collect();
            recording.predict(1 + random.below(2000), &guess);
            for k in 0..random.below(200) {
                if random.one_in(40) {
                    break;
                }
                for (site, function, start, step) in &calls {
                    recording.launch(*site, *function, &[start + step * k, 4]);
                }
                if random.one_in(60) {
                    recording.recorder.part(&mut recording.tape);
                }
                if random.one_in(90) {
                    recording.flush(Reason::Sync);
                }
                if random.one_in(90) {
                    recording.thread = 1 + random.below(2);
                }
            }
        }
        recording.check();
    }
}
