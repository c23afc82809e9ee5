//! Costs, printed; nothing is asserted about time. Against the fake host, or the one that FARLANE_HOST names:
//! `cargo test --release -p client -- --ignored --nocapture --test-threads 1 bench`

use super::fake_host::{Behaviour, FakeHost};
use super::hello;
use crate::{Config, Destination, Session};
use std::time::{Duration, Instant};
use tape::operations;
use tape::Writer;

const SIZE: usize = 64 << 20;

fn launch(w: &mut Writer) {
    operations::launch(w, 16, 1, [64, 1, 1], [256, 1, 1], 0, false, 0, &[0x5a; 32]);
}

fn per(what: &str, count: u32, took: Duration) {
    println!("{what}: {:.3} us", took.as_secs_f64() * 1e6 / f64::from(count));
}

/// A session with `SIZE` bytes at the start of its window.
fn session(config: &Config) -> (Session, u64) {
    let session = Session::open(config, hello).expect("opens");
    let base = session.welcome().window_base;
    session.defer(|w| operations::allocate(w, base, SIZE as u64)).expect("alive");
    (session, base)
}

/// Runs the measurement on every kind of connection.
fn on_hosts(measure: impl Fn(&str, &Session, u64)) {
    if let Ok(config) = Config::from_env() {
        let (session, base) = session(&config);
        measure(&config.endpoint.to_string(), &session, base);
        return;
    }
    for (name, host) in
        [("tcp", FakeHost::start(Behaviour::default())), ("unix", FakeHost::start_unix(Behaviour::default()))]
    {
        let (session, base) = session(&Config::new(host.endpoint()));
        measure(name, &session, base);
    }
}

fn synchronize(session: &Session) {
    assert_eq!(session.request(operations::device_synchronize).map(|answer| answer.error), Ok(0));
}

#[test]
#[ignore = "a measurement"]
fn encode() {
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
}

#[test]
#[ignore = "a measurement"]
fn enqueue() {
    on_hosts(|name, session, base| {
        // Like a launch in size.
        let work = |w: &mut Writer| {
            operations::memset(w, base, 0, 16, 1, 0, 1, 1);
            operations::stream_wait_event(w, 1, 1);
        };
        synchronize(session);
        for count in [10_000, 100_000] {
            let mut costs: Vec<Duration> = Vec::with_capacity(count);
            let start = Instant::now();
            for _ in 0..count {
                let start = Instant::now();
                session.defer(work).expect("alive");
                costs.push(start.elapsed());
            }
            let enqueued = start.elapsed();
            let _ = session.request(operations::device_synchronize).expect("alive");
            let finished = start.elapsed();
            costs.sort_unstable();
            let percentile = |percent| costs[count * percent / 100];
            println!("{name}: {count} calls, one: {:?} median, {:?} 99th percentile", percentile(50), percentile(99));
            per(&format!("{name}: {count} calls, each on average"), count as u32, enqueued);
            per(&format!("{name}: {count} calls and a synchronize, each"), count as u32, finished);
        }
    });
}

#[test]
#[ignore = "a measurement"]
fn latency() {
    const COUNT: u32 = 5_000;
    on_hosts(|name, session, base| {
        for (what, calls) in [("synchronize", 0), ("call + synchronize", 1)] {
            let start = Instant::now();
            for _ in 0..COUNT {
                for _ in 0..calls {
                    session.defer(|w| operations::memset(w, base, 0, 16, 1, 0, 1, 1)).expect("alive");
                }
                synchronize(session);
            }
            per(&format!("{name}: {what}"), COUNT, start.elapsed());
        }
    });
}

#[test]
#[ignore = "a measurement"]
fn bulk() {
    on_hosts(|name, session, base| {
        let mut memory = vec![1_u8; SIZE];
        let rate = |took: Duration| SIZE as f64 / took.as_secs_f64() / 1e9;
        for _ in 0..3 {
            let start = Instant::now();
            for (index, piece) in memory.chunks(1 << 20).enumerate() {
                let (address, width) = (base + ((index as u64) << 20), piece.len() as u64);
                session
                    .defer(|w| operations::write(w, address, width, width, 1, 1, false, false, piece))
                    .expect("alive");
            }
            synchronize(session);
            println!("{name}: 64 MiB up: {:.2} GB/s", rate(start.elapsed()));
        }
        for _ in 0..3 {
            let start = Instant::now();
            let destination = Destination { ptr: memory.as_mut_ptr(), pitch: SIZE, width: SIZE, height: 1 };
            let size = SIZE as u64;
            // SAFETY: the destination is `memory`.
            unsafe { session.read(destination, |w, slot| operations::read(w, base, size, size, 1, 1, slot)) }
                .expect("alive");
            println!("{name}: 64 MiB down: {:.2} GB/s", rate(start.elapsed()));
        }
    });
}
