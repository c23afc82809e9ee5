//! Copies on memory of the test, and launches of a function of its own.

use super::direct::Direct;
use super::host::{Code, Host};
use super::launch::{Launch, Ran};
use super::objects::Stream;
use super::ranges::{Ranges, Rows};
use crate::fairness::slot::{Bell, Page, Place};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

static STREAM: Stream = Stream::new(0, true);

fn memory(size: usize) -> (Vec<u8>, u64, Direct) {
    let memory = vec![0_u8; size];
    let address = memory.as_ptr() as u64;
    let ranges = Arc::new(Ranges::default());
    ranges.add(address, address + size as u64);
    (memory, address, Direct::new(ranges, Box::new(Host { backed: true }), None))
}

fn rows(address: u64, pitch: u64, width: u64, height: u64) -> Rows {
    Rows { address, pitch, width, height }
}

#[test]
fn rows_are_written_and_shown() {
    let (memory, address, direct) = memory(64);
    assert_eq!(direct.write(&rows(address, 8, 2, 3), b"abcdef", &STREAM), Ok(true));
    assert_eq!(&memory[..20], b"ab\0\0\0\0\0\0cd\0\0\0\0\0\0ef\0\0");
    assert_eq!(direct.show(&rows(address, 0, 10, 1), 8..10, <[u8]>::to_vec), Some(b"cd".to_vec()));
    assert_eq!(direct.set(&rows(address + 4, 4, 4, 2), 0x0102_0304, 4, &STREAM), Ok(true));
    assert_eq!(&memory[4..12], &[4, 3, 2, 1, 4, 3, 2, 1]);
    assert_eq!(direct.copy(&rows(address + 1, 0, 8, 1), &rows(address, 0, 8, 1), &STREAM), Ok(true));
    assert_eq!(&memory[..9], b"aab\0\0\x04\x03\x02\x01");
}

#[test]
fn what_no_allocation_holds_is_left_alone() {
    let (memory, address, direct) = memory(64);
    assert_eq!(direct.write(&rows(address + 60, 0, 8, 1), b"abcdefgh", &STREAM), Ok(false));
    assert_eq!(direct.write(&rows(address, 0, 7, 1), b"abcdefgh", &STREAM), Ok(false), "not so many bytes");
    assert_eq!(direct.set(&rows(address, 61, 4, 2), 1, 1, &STREAM), Ok(false));
    assert_eq!(direct.set(&rows(address, 4, 6, 1), 1, 4, &STREAM), Ok(false));
    assert_eq!(direct.copy(&rows(address, 0, 8, 1), &rows(0, 0, 8, 1), &STREAM), Ok(false));
    assert_eq!(direct.copy(&rows(address + 2, 4, 2, 2), &rows(address, 4, 2, 2), &STREAM), Ok(false), "they overlap");
    assert!(!direct.may_read(&rows(address, 4, 2, 2)), "gaps");
    direct.disable();
    assert_eq!(direct.write(&rows(address, 0, 1, 1), b"a", &STREAM), Ok(false));
    assert!(memory.iter().all(|&byte| byte == 0));
}

#[repr(C)]
struct Words {
    next_block: u64,
    grid_id: u64,
    abort: u32,
    status: i32,
    parameters: u64,
}

unsafe extern "C" fn kernel(launch: *mut u8, worker: *mut u8) -> i32 {
    // SAFETY: the test's own.
    unsafe {
        let launch = &*launch.cast::<Words>();
        assert_eq!(launch.next_block, 0);
        *worker.cast::<u64>() += launch.grid_id * 100 + launch.parameters;
        launch.status
    }
}

fn laid(launch: &mut Words, sum: &mut u64) -> Launch {
    let launch = std::ptr::from_mut(launch).cast::<u8>();
    Launch::Code(Code {
        run: kernel,
        launch,
        worker: std::ptr::from_mut(sum).cast(),
        parameters: launch.wrapping_add(24),
        size: 8,
        next_block: 0,
        end_block: 0,
        grid_id: 8,
        abort: 16,
        provisional: false,
        limit: u64::MAX,
        calls_back: false,
        keep: Box::new(()),
    })
}

#[test]
fn a_launch_runs_until_something_changes() {
    let (_memory, _, direct) = memory(8);
    let (mut launch, mut sum) = (Words { next_block: 9, grid_id: 0, abort: 0, status: 0, parameters: 0 }, 0);
    let entry = direct.entry(laid(&mut launch, &mut sum));
    assert_eq!(direct.launch(&entry, &7_u64.to_le_bytes()), Ran::Done);
    assert_eq!(direct.launch(&entry, &5_u64.to_le_bytes()), Ran::Done);
    assert_eq!(direct.launch(&entry, &[0; 4]), Ran::Stale, "other parameters");
    assert_eq!((sum, direct.launches()), (312, 2));
    launch.status = 1;
    assert_eq!(direct.launch(&entry, &[0; 8]), Ran::Failed);
    direct.changed();
    assert_eq!(direct.launch(&entry, &[0; 8]), Ran::Stale);
    let entry = direct.entry(Launch::Counted);
    assert_eq!(direct.launch(&entry, &[]), Ran::Done);
    direct.interrupt();
    let entry = direct.entry(laid(&mut launch, &mut sum));
    assert_eq!(direct.launch(&entry, &[0; 8]), Ran::Stale);
    assert_eq!(launch.abort, 0, "nothing ran");
}

/// Takes a while, and says the policy of its thread.
unsafe extern "C" fn slow_kernel(_: *mut u8, worker: *mut u8) -> i32 {
    thread::sleep(Duration::from_millis(1));
    // SAFETY: the test's own; a plain call.
    unsafe { *worker.cast::<u64>() = libc::sched_getscheduler(0).unsigned_abs().into() };
    0
}

#[test]
fn long_launches_of_a_session_that_works_without_end_give_way() {
    let (_memory, _, direct) = memory(8);
    let page = Arc::new(Page::create().expect("a page"));
    page.slot().stop.store(0, Ordering::SeqCst);
    let place = Arc::new(Place::new(page, Bell::Here(Weak::new())));
    direct.gate.share(place.clone());
    let (mut launch, mut policy) = (Words { next_block: 0, grid_id: 0, abort: 0, status: 0, parameters: 0 }, 0);
    let mut laid_out = |calls_back| match laid(&mut launch, &mut policy) {
        Launch::Code(code) => direct.entry(Launch::Code(Code { run: slow_kernel, calls_back, ..code })),
        _ => unreachable!("a launch of code"),
    };
    let (plain, asking) = (laid_out(false), laid_out(true));
    let mut found = Vec::new();
    for endless in [false, true] {
        if endless {
            place.add(10_000_000);
            place.step_aside();
        }
        for entry in [&plain, &asking] {
            assert_eq!(direct.launch(entry, &[0; 8]), Ran::Done);
            found.push(policy);
        }
    }
    // SAFETY: a plain call.
    let usual = u64::from(unsafe { libc::sched_getscheduler(0) }.unsigned_abs());
    let idle = u64::from(libc::SCHED_IDLE.unsigned_abs());
    assert_eq!(found, [usual, usual, idle, usual]);
}
