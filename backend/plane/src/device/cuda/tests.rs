//! Work on a driver that keeps what was called.

use super::fake;
use super::kernel::{Kernel, Parameters};
use super::outgoing::CHUNKS;
use super::{Cuda, LEGACY};
use crate::device::direct::Direct;
use crate::device::launch::{Launch, Ran};
use crate::device::objects::{Event, Stream};
use crate::device::ranges::{Ranges, Rows};
use crate::device::work::{Awaited, Fault, PIECE};
use std::sync::Arc;

static STREAM: Stream = Stream::new(LEGACY, true);

fn on(memory: &[u8]) -> (Direct, Arc<Cuda>, u64) {
    let address = memory.as_ptr() as u64;
    let ranges = Arc::new(Ranges::default());
    ranges.add(address, address + memory.len() as u64);
    let cuda = fake::cuda();
    (Direct::new(ranges, Box::new(cuda.clone()), None), cuda, address)
}

fn rows(address: u64, size: usize) -> Rows {
    Rows { address, pitch: size as u64, width: size as u64, height: 1 }
}

fn bytes(size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn read(direct: &Direct, rows: &Rows) -> Vec<u8> {
    let mut found = vec![];
    for from in (0..rows.width).step_by(PIECE) {
        assert_eq!(direct.fetch(rows, from, &STREAM), Ok(true));
        let part = from..rows.width.min(from + PIECE as u64);
        direct.show(rows, part, |bytes| found.extend_from_slice(bytes)).expect("it was fetched");
    }
    found
}

#[test]
fn a_large_read_comes_in_turns() {
    let memory = bytes(5 * PIECE + 17);
    let (direct, cuda, address) = on(&memory);
    assert_eq!(read(&direct, &rows(address, memory.len())), memory);
    assert_eq!((fake::left(), fake::calls("cuEventSynchronize")), ((3, 3), 6));
    assert_eq!(read(&direct, &rows(address + 5, 9)), memory[5..14]);
    assert_eq!((fake::left(), fake::calls("cuStreamSynchronize")), ((3, 3), 1), "one piece waits for its stream");
    // One that is given up is waited for before its places are used again.
    assert_eq!(direct.fetch(&rows(address, memory.len()), 0, &STREAM), Ok(true));
    assert_eq!(read(&direct, &rows(address, 4)), memory[..4]);
    assert_eq!(fake::calls("cuStreamSynchronize"), 3);
    cuda.end();
    assert_eq!(fake::left(), (0, 0));
}

#[test]
fn pinned_memory_is_used_again_when_its_copies_are_over() {
    let memory = vec![0; 64 * PIECE];
    let (direct, cuda, address) = on(&memory);
    let data = bytes(PIECE);
    let write = |at: usize, data: &[u8]| {
        assert_eq!(direct.write(&rows(address + at as u64, data.len()), data, &STREAM), Ok(true));
    };
    (0..100).for_each(|at| write(4 * at, &data[..4]));
    assert_eq!((fake::left(), fake::calls("cuEventRecord")), ((1, 0), 0), "small writes cost no events");
    (0..8).for_each(|at| write(at * PIECE, &data));
    assert_eq!(fake::left(), (1, 0), "one is over when the next one comes");
    fake::set_busy(true);
    (0..40).for_each(|at| write(at * PIECE, &data));
    assert_eq!(
        (fake::left().0, fake::calls("cuEventSynchronize") > 20),
        (CHUNKS, true),
        "then the oldest is waited for"
    );
    assert!(memory[..40 * PIECE].chunks(PIECE).all(|piece| piece == data));
    cuda.end();
    assert_eq!(fake::left(), (0, 0));
}

#[test]
fn work_of_non_blocking_streams_waits_for_copies_from_the_guest() {
    let memory = vec![0; 4096];
    let (direct, cuda, address) = on(&memory);
    let (other, event) = (Stream::new(50, false), Event::new(9, true));
    let waits = |expected: usize| assert_eq!(fake::calls("cuStreamWaitEvent"), expected);
    assert_eq!(direct.set(&rows(address, 8), 1, 4, &other), Ok(true));
    waits(0);
    for round in 1..3 {
        assert_eq!(direct.write(&rows(address, 4), b"word", &STREAM), Ok(true));
        assert_eq!(direct.record(&event, &other), Ok(true));
        assert_eq!(direct.copy(&rows(address, 4), &rows(address + 8, 4), &other), Ok(true));
        waits(round);
    }
    assert_eq!(direct.write(&rows(address, 4), b"word", &STREAM), Ok(true));
    assert_eq!(direct.synchronize(Awaited::Device), Ok(true));
    assert_eq!(direct.record(&event, &other), Ok(true));
    waits(2);
    assert_eq!(direct.write(&rows(address, 4), b"word", &other), Ok(true));
    assert_eq!(direct.record(&event, &Stream::new(51, false)), Ok(true));
    waits(2); // only copies in the legacy stream count
    assert_eq!(direct.elapsed(&event, &Event::new(10, true)), Ok(None));
    assert_eq!(direct.elapsed(&event, &event), Ok(Some(1.5)));
    let given = Event::new(11, true);
    given.give(7);
    assert_eq!((given.nanoseconds(), direct.elapsed(&given, &event)), (Some(7), Ok(None)));
    assert_eq!(direct.record(&given, &other), Ok(true));
    assert_eq!(direct.elapsed(&given, &event), Ok(Some(1.5)));
    cuda.end();
}

#[test]
fn an_allocation_where_memory_was_freed_joins_the_streams() {
    let memory = vec![0; 4096];
    let (direct, cuda, address) = on(&memory);
    let (other, apart) = (Stream::new(50, false), [50, 51]);
    let seen = || (fake::calls("cuEventRecord"), fake::calls("cuStreamWaitEvent"));
    cuda.allocated(&(0..256), &apart).unwrap();
    cuda.freed(&(256..512));
    cuda.freed(&(1024..2048));
    cuda.allocated(&(2048..4096), &apart).unwrap();
    assert_eq!(seen(), (0, 0), "nothing has used it");
    cuda.allocated(&(1536..2048), &apart).unwrap();
    assert_eq!(seen(), (3, 2), "the legacy stream waits for both");
    assert_eq!(direct.set(&rows(address, 8), 1, 4, &other), Ok(true));
    assert_eq!(direct.set(&rows(address, 8), 1, 4, &other), Ok(true));
    assert_eq!(seen(), (3, 3), "and this one for the legacy stream, once");
    cuda.allocated(&(256..512), &apart).unwrap();
    assert_eq!(seen(), (3, 3), "they were joined");
    cuda.freed(&(256..512));
    assert_eq!(direct.synchronize(Awaited::Device), Ok(true));
    cuda.allocated(&(256..512), &apart).unwrap();
    cuda.leave(&other).unwrap();
    assert_eq!(seen(), (3, 3), "all work was waited for");
    fake::set_busy(true);
    cuda.leave(&STREAM).unwrap();
    assert_eq!(seen(), (3, 3), "the legacy stream knows the blocking ones");
    cuda.leave(&other).unwrap();
    assert_eq!(seen(), (5, 4), "it cannot be joined later");
    cuda.end();
    assert_eq!(fake::left(), (0, 0));
}

#[test]
fn failures_are_the_drivers() {
    let memory = vec![0; 2 * PIECE];
    let (direct, cuda, address) = on(&memory);
    fake::set_busy(true);
    assert_eq!(direct.is_done(Awaited::Stream(&STREAM)), Ok(false));
    for (name, code) in [("cuStreamQuery", 700), ("cuMemcpyHtoDAsync_v2", 1), ("cuEventSynchronize", 719)] {
        fake::fail(name, code);
    }
    let failed = |call: &'static str, code: i32| Err(Fault { call, code });
    assert_eq!(direct.is_done(Awaited::Stream(&STREAM)), Err(Fault { call: "cuStreamQuery", code: 700 }));
    assert_eq!(direct.write(&rows(address, 4), b"word", &STREAM), failed("cuMemcpyHtoDAsync_v2", 1));
    assert_eq!(direct.fetch(&rows(address, 2 * PIECE), 0, &STREAM), failed("cuEventSynchronize", 719));
    fake::fail("cuMemHostAlloc", 2);
    assert_eq!(direct.write(&rows(address, PIECE), &vec![1; PIECE], &STREAM), failed("cuMemHostAlloc", 2));
    assert_eq!(direct.write(&rows(address + 1, 2 * PIECE), b"word", &STREAM), Ok(false), "not so many bytes");
    cuda.set_collects(true);
    assert_eq!(direct.synchronize(Awaited::Device), Ok(false), "memory is given back after it");
    cuda.end();
    assert_eq!(fake::left(), (0, 0));
}

#[test]
fn a_launch_takes_its_parameters_along() {
    let (direct, cuda, _) = on(&[]);
    let mut buffer = [0_u64; 2];
    let pointers = [buffer.as_mut_ptr() as usize];
    let kernel = Kernel {
        cuda,
        function: 77,
        grid: [1; 3],
        block: [1; 3],
        shared_bytes: 0,
        stream: Arc::new(Stream::new(5, true)),
        parameters: Parameters { address: buffer.as_mut_ptr() as usize, size: 8, pointers: pointers.as_ptr() as usize },
        prints: true,
        keep: Box::new(()),
    };
    let entry = direct.entry(Launch::Kernel(kernel));
    for number in [3_u64, 4] {
        assert_eq!(direct.launch(&entry, &number.to_le_bytes()), Ran::Done);
    }
    assert_eq!(fake::launched(), [(77, 5, 3), (77, 5, 4)]);
    assert!(direct.take_spoken() && direct.take_printing() && !direct.take_printing());
    assert_eq!(direct.launch(&entry, &[0; 4]), Ran::Stale, "other parameters");
    fake::fail("cuLaunchKernel", 701);
    assert_eq!(direct.launch(&entry, &[0; 8]), Ran::Fault(Fault { call: "cuLaunchKernel", code: 701 }));
    direct.interrupt();
    assert_eq!(direct.launch(&entry, &[0; 8]), Ran::Stale);
}
