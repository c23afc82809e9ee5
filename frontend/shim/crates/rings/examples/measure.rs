//! Times of the rings, of a Unix socket pair and of `memcpy`, between two processes. benchmarks/rings.py makes a
//! table of it.
//!
//! Usage: measure ROUNDS [CAPACITY [PROCESSOR PROCESSOR]]
//!
//! Prints one line for each measurement: the case, the variant, and the median of its turns in nanoseconds. Each round
//! measures everything once, so that all variants meet the same load.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rings::{accept, offer, Options, Receiver, Rings, Sender, Waiting};

/// What both processes do for a variant: ask and answer, and send a payload and acknowledge it.
trait Link {
    fn send(&mut self, bytes: &[u8]);
    fn receive(&mut self, bytes: &mut [u8]);
}

struct OverRings(Sender, Receiver);

impl Link for OverRings {
    fn send(&mut self, bytes: &[u8]) {
        self.0.send(&[bytes], None).unwrap();
    }

    fn receive(&mut self, bytes: &mut [u8]) {
        assert_eq!(self.1.next(None), Ok(bytes.len() as u64));
        self.1.read(bytes, None).unwrap();
    }
}

struct OverSocket(UnixStream);

impl Link for OverSocket {
    fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    fn receive(&mut self, bytes: &mut [u8]) {
        self.0.read_exact(bytes).unwrap();
    }
}

/// A socket that does not block: both sides try again without a pause.
struct OverSpinningSocket(UnixStream);

impl Link for OverSpinningSocket {
    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.0.write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    }

    fn receive(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            match self.0.read(bytes) {
                Ok(0) => panic!("the other side has ended"),
                Ok(count) => bytes = &mut bytes[count..],
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Variant {
    Ring(Waiting),
    Socket,
    SpinningSocket,
}

impl Variant {
    fn name(self) -> &'static str {
        match self {
            Variant::Ring(Waiting::Adaptive) => "ring",
            Variant::Ring(Waiting::Sleep) => "ring asleep",
            Variant::Ring(Waiting::Spin) => "ring spinning",
            Variant::Socket => "socket",
            Variant::SpinningSocket => "socket spinning",
        }
    }

    fn link(self, socket: UnixStream, offers: bool, capacity: usize) -> Box<dyn Link> {
        match self {
            Variant::Ring(waiting) => {
                let options = Options {
                    outgoing: capacity,
                    incoming: capacity,
                    largest: capacity,
                    waiting,
                    ..Options::default()
                };
                let Rings { sender, receiver, .. } =
                    if offers { offer(socket, &options, None) } else { accept(socket, &options, None) }.unwrap();
                Box::new(OverRings(sender, receiver))
            }
            Variant::Socket => Box::new(OverSocket(socket)),
            Variant::SpinningSocket => {
                socket.set_nonblocking(true).unwrap();
                Box::new(OverSpinningSocket(socket))
            }
        }
    }
}

/// One case: a payload, its acknowledgement, and how often.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    payload: usize,
    answer: usize,
    turns: usize,
}

const CASES: [Case; 4] = [
    Case { name: "64 B there and back", payload: 64, answer: 64, turns: 3000 },
    Case { name: "64 KiB", payload: 64 << 10, answer: 1, turns: 300 },
    Case { name: "1 MiB", payload: 1 << 20, answer: 1, turns: 60 },
    Case { name: "64 MiB", payload: 64 << 20, answer: 1, turns: 3 },
];

fn pin(processor: usize) {
    // SAFETY: a set of this function, for this thread.
    unsafe {
        let mut set = std::mem::zeroed::<libc::cpu_set_t>();
        libc::CPU_SET(processor, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set), 0, "processor {processor}");
    }
}

/// Adaptive waiting asks how many processors a thread may use: with each side pinned to its own it would never spin.
/// So the other processor stays allowed, and the sides start apart; the scheduler leaves them where they are.
fn start_on(processor: usize, waiting_decides: bool, both: [usize; 2]) {
    pin(processor);
    if waiting_decides && both[0] != both[1] {
        // SAFETY: as above.
        unsafe {
            let mut set = std::mem::zeroed::<libc::cpu_set_t>();
            both.iter().for_each(|&one| libc::CPU_SET(one, &mut set));
            assert_eq!(libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set), 0);
        }
    }
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times[times.len() / 2]
}

fn time(variant: Variant, case: Case, capacity: usize, processors: [usize; 2], payload: &[u8]) -> u64 {
    let (mine, theirs) = UnixStream::pair().unwrap();
    for socket in [&mine, &theirs] {
        let size: libc::c_int = 1 << 20;
        for option in [libc::SO_SNDBUF, libc::SO_RCVBUF] {
            // SAFETY: an option of four bytes. The system may allow less.
            unsafe {
                libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const size).cast(), 4);
            }
        }
    }
    let warm_up = case.turns / 10 + 1;
    let decides = matches!(variant, Variant::Ring(Waiting::Adaptive));
    // SAFETY: this process has one thread.
    let child = unsafe { libc::fork() };
    assert!(child >= 0);
    if child == 0 {
        drop(mine);
        start_on(processors[1], decides, processors);
        let mut link = variant.link(theirs, false, capacity);
        let (mut bytes, answer) = (vec![1; case.payload], vec![2; case.answer]);
        for _ in 0..warm_up + case.turns {
            link.receive(&mut bytes);
            link.send(&answer);
        }
        // SAFETY: the child ends.
        unsafe { libc::_exit(0) };
    }
    drop(theirs);
    start_on(processors[0], decides, processors);
    let mut link = variant.link(mine, true, capacity);
    let mut answer = vec![0; case.answer];
    let mut times = Vec::with_capacity(case.turns);
    for turn in 0..warm_up + case.turns {
        let began = Instant::now();
        link.send(&payload[..case.payload]);
        link.receive(&mut answer);
        if turn >= warm_up {
            times.push(began.elapsed().as_nanos() as u64);
        }
    }
    let mut status = -1;
    // SAFETY: the child of above.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!(status, 0, "the other side failed");
    median(times)
}

fn copy(case: Case, from: &[u8], to: &mut [u8]) -> u64 {
    let mut times = Vec::new();
    for _ in 0..=case.turns {
        let began = Instant::now();
        to[..case.payload].copy_from_slice(&from[..case.payload]);
        std::hint::black_box(&mut *to);
        times.push(began.elapsed().as_nanos() as u64);
    }
    median(times)
}

fn main() {
    let arguments: Vec<usize> = std::env::args().skip(1).map(|argument| argument.parse().unwrap()).collect();
    let rounds = arguments.first().copied().unwrap_or(5);
    let capacity = arguments.get(1).copied().unwrap_or(Options::default().outgoing);
    let processors = [arguments.get(2).copied().unwrap_or(0), arguments.get(3).copied().unwrap_or(1)];
    let mut variants = vec![Variant::Ring(Waiting::Adaptive), Variant::Ring(Waiting::Sleep), Variant::Socket];
    if processors[0] != processors[1] {
        variants.extend([Variant::Ring(Waiting::Spin), Variant::SpinningSocket]);
    }
    let (payload, mut target) = (vec![3u8; 64 << 20], vec![4u8; 64 << 20]);
    for _ in 0..rounds {
        for case in CASES {
            pin(processors[0]);
            println!("{}\tmemcpy\t{}", case.name, copy(case, &payload, &mut target));
            for &variant in &variants {
                println!("{}\t{}\t{}", case.name, variant.name(), time(variant, case, capacity, processors, &payload));
            }
        }
    }
}
