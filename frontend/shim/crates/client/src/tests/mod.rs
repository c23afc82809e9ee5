//! The engine against a host in the same process: real sockets, real gRPC, answers made up by `fake_host`.

mod bench;
mod deferred_reads;
mod elsewhere;
#[path = "../../../recorder/tests/support/expander.rs"]
mod expander;
mod failures;
mod fake_host;
mod flow;
mod hostile;
mod listening;
mod loops;
mod opening;
mod recorded_reads;
mod round_trips;
mod threads;
mod vsock;

use crate::{Config, HelloInfo, Mode, Session};
use fake_host::FakeHost;
use std::time::Duration;

fn hello() -> HelloInfo {
    HelloInfo {
        program: "test".to_owned(),
        pid: 1,
        module_digests: vec![[7; 32]],
        objects: Vec::new(),
        checks: Vec::new(),
        priority: None,
    }
}

/// Settings under which nothing is sent unless the test says so.
fn quiet(host: &FakeHost, mode: Mode) -> Config {
    let mut config = Config::new(host.endpoint());
    config.mode = mode;
    config.age = Duration::ZERO;
    config
}

fn open(host: &FakeHost, mode: Mode) -> Session {
    Session::open(&quiet(host, mode), hello).expect("opens")
}

/// Waits until a condition that another thread brings about holds.
fn eventually(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..2000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    panic!("{what}: did not happen within ten seconds");
}
