//! Costs, printed: `cargo test --release -p client -- --ignored --nocapture bench`. Nothing is asserted about time.

use super::fake_host::{Behaviour, FakeHost};
use super::hello;
use crate::{Config, Destination, Mode, Session};
use std::time::{Duration, Instant};
use tape::operations;
use tape::Writer;

fn launch(w: &mut Writer) {
    operations::launch(w, 16, 1, [64, 1, 1], [256, 1, 1], 0, false, &[0x5a; 32]);
}

fn per(what: &str, count: u32, took: Duration) {
    println!("{what}: {:.3} us", took.as_secs_f64() * 1e6 / f64::from(count));
}

fn session(host: &FakeHost, mode: Mode) -> Session {
    let mut config = Config::new(host.endpoint());
    config.mode = mode;
    Session::open(&config, hello(mode)).expect("opens")
}

#[test]
#[ignore = "a measurement"]
fn enqueue() {
    const COUNT: u32 = 1_000_000;
    let mut writer = Writer::with_capacity(1 << 20);
    let start = Instant::now();
    for _ in 0..COUNT {
        launch(&mut writer);
        if writer.len() > 500_000 {
            writer.truncate(0);
        }
    }
    per("encode a launch, no session", COUNT, start.elapsed());

    let host = FakeHost::start_unix(Behaviour::default());
    let session = session(&host, Mode::Calls);
    let mut costs: Vec<Duration> = Vec::with_capacity(100_000);
    let start = Instant::now();
    for _ in 0..10_000 {
        session.defer(launch).expect("alive");
    }
    session.request(operations::device_synchronize).expect("alive");
    per("10000 launches and a synchronize, per launch", 10_000, start.elapsed());
    for _ in 0..100_000 {
        let start = Instant::now();
        session.defer(launch).expect("alive");
        costs.push(start.elapsed());
    }
    costs.sort_unstable();
    for percent in [50, 90, 99] {
        println!("launch, {percent}th percentile: {:?}", costs[costs.len() * percent / 100]);
    }
    session.request(operations::device_synchronize).expect("alive");
}

#[test]
#[ignore = "a measurement"]
fn latency() {
    const COUNT: u32 = 5_000;
    for (name, host) in
        [("tcp", FakeHost::start(Behaviour::default())), ("unix", FakeHost::start_unix(Behaviour::default()))]
    {
        let session = session(&host, Mode::Calls);
        for (what, launches) in [("synchronize", 0), ("launch + synchronize", 1)] {
            let start = Instant::now();
            for _ in 0..COUNT {
                for _ in 0..launches {
                    session.defer(launch).expect("alive");
                }
                session.request(operations::device_synchronize).expect("alive");
            }
            per(&format!("{name}: {what}"), COUNT, start.elapsed());
        }
    }
}

#[test]
#[ignore = "a measurement"]
fn bulk() {
    const SIZE: usize = 64 << 20;
    for (name, host) in
        [("tcp", FakeHost::start(Behaviour::default())), ("unix", FakeHost::start_unix(Behaviour::default()))]
    {
        let session = session(&host, Mode::Calls);
        let mut memory = vec![1_u8; SIZE];
        let rate = |took: Duration| SIZE as f64 / took.as_secs_f64() / 1e9;
        for _ in 0..3 {
            let start = Instant::now();
            for piece in memory.chunks(1 << 20) {
                let width = piece.len() as u64;
                session.defer(|w| operations::write(w, 0, width, width, 1, 1, piece)).expect("alive");
            }
            session.request(operations::device_synchronize).expect("alive");
            println!("{name}: 64 MiB up: {:.2} GB/s", rate(start.elapsed()));
            host.seen.lock().records.clear();
        }
        for _ in 0..3 {
            let start = Instant::now();
            let destination = Destination { ptr: memory.as_mut_ptr(), pitch: SIZE, width: SIZE, height: 1 };
            // SAFETY: the destination is `memory`.
            unsafe { session.read(destination, |w, s| operations::read(w, 0, SIZE as u64, SIZE as u64, 1, 1, s)) }
                .expect("alive");
            println!("{name}: 64 MiB down: {:.2} GB/s", rate(start.elapsed()));
        }
    }
}
