//! Every way in which opening can fail ends within its time, with a sentence for the user.

use super::fake_host::{refusal, Behaviour, FakeHost};
use super::{hello, quiet};
use crate::generated_farlane_v1::refusal::Reason;
use crate::{Config, Endpoint, Mode, OpenError, OpenReason, Session};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

fn fails(config: &Config) -> OpenError {
    let start = Instant::now();
    let error = Session::open(config, hello).expect_err("fails");
    assert!(start.elapsed() < config.connect_timeout.max(config.admission_timeout) + Duration::from_millis(500));
    assert!(error.message.contains(&config.endpoint.to_string()), "{error}");
    error
}

fn local(port: u16) -> Config {
    Config::new(Endpoint::Tcp { host: "127.0.0.1".to_owned(), port, tls: false })
}

#[test]
fn nobody_listens() {
    let port = TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address").port();
    let error = fails(&local(port));
    assert_eq!(error.reason, OpenReason::Unreachable);
    assert!(error.message.contains("no host listens there") && error.message.contains("farlane serve"), "{error}");

    let error = fails(&Config::new(Endpoint::Unix("/nonexistent/farlane.sock".into())));
    assert_eq!(error.reason, OpenReason::Unreachable);
    assert!(error.message.contains("no such socket"), "{error}");

    let error = fails(&Config::new(Endpoint::Tcp { host: "no-such-host.invalid".to_owned(), port: 1, tls: false }));
    assert_eq!(error.reason, OpenReason::Unreachable);
}

#[test]
fn nobody_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let mut config = local(listener.local_addr().expect("address").port());
    config.connect_timeout = Duration::from_millis(200);
    let error = fails(&config);
    assert_eq!(error.reason, OpenReason::Timeout);
    assert!(error.message.contains("0.2 s") && error.message.contains("FARLANE_TIMEOUT"), "{error}");

    let host = FakeHost::start(Behaviour { silent: true, ..Behaviour::default() });
    let mut config = quiet(&host, Mode::Calls);
    config.admission_timeout = Duration::from_millis(200);
    let error = fails(&config);
    assert_eq!(error.reason, OpenReason::Timeout);
    assert!(error.message.contains("has answered, but opened no session within 0.2 s"), "{error}");
}

#[test]
fn it_connects_while_what_is_said_first_is_put_together() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let hello = || {
        let (mut stream, _) = listener.accept().expect("accept");
        let mut preface = [0; 14];
        stream.read_exact(&mut preface).expect("read");
        assert_eq!(preface, *b"PRI * HTTP/2.0");
        hello()
    };
    let error = Session::open(&local(listener.local_addr().expect("address").port()), hello).expect_err("hung up");
    assert_eq!(error.reason, OpenReason::Protocol);
}

#[test]
fn something_else_is_done_while_the_host_answers() {
    let host = FakeHost::start(Behaviour { delay: Duration::from_millis(200), ..Behaviour::default() });
    let (seen, mut done) = (host.seen.clone(), false);
    let meanwhile = || {
        super::eventually("the host has the Hello", || seen.lock().hello.is_some());
        done = true;
    };
    let session = Session::open_while(&quiet(&host, Mode::Calls), hello, meanwhile).expect("opens");
    assert_eq!(session.welcome().session, "s-1");
    assert!(done);
}

#[test]
fn a_host_that_has_answered_may_take_longer_to_open_the_session() {
    let delay = Duration::from_millis(2500);
    let host = FakeHost::start(Behaviour { delay, ..Behaviour::default() });
    let mut config = quiet(&host, Mode::Calls);
    config.connect_timeout = Duration::from_secs(2);
    Session::open(&config, hello).expect("opens");
}

#[test]
fn a_session_that_opens_too_late_is_ended() {
    let delay = Duration::from_millis(300);
    let host = FakeHost::start(Behaviour { delay, ..Behaviour::default() });
    let mut config = quiet(&host, Mode::Calls);
    config.admission_timeout = Duration::from_millis(100);
    assert_eq!(fails(&config).reason, OpenReason::Timeout);
    assert_eq!(host.seen.lock().ended, 0);
    super::eventually("the session ends", || host.seen.lock().ended == 1);
}

#[test]
fn something_else_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let config = local(listener.local_addr().expect("address").port());
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("accept");
        let _ = stream.read(&mut [0; 1024]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
    });
    let error = fails(&config);
    assert_eq!(error.reason, OpenReason::Protocol);
    assert!(error.message.contains("does not answer as a Farlane host"), "{error}");
    server.join().expect("no panic");
}

#[test]
fn a_host_that_ends_meanwhile_is_no_wrong_address() {
    let mut host = FakeHost::start(Behaviour { silent: true, ..Behaviour::default() });
    let (config, seen) = (quiet(&host, Mode::Calls), host.seen.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            super::eventually("the host has the Hello", || seen.lock().hello.is_some());
            host.kill();
        });
        let error = fails(&config);
        assert_eq!(error.reason, OpenReason::Ended);
        assert!(error.message.contains("has ended the connection before the session was open"), "{error}");
    });
}

#[test]
fn a_refusal_is_shown() {
    for (reason, expected) in [(Reason::Version, OpenReason::Version), (Reason::Busy, OpenReason::Refused)] {
        let refusal = Some(refusal(reason, "eight sessions are open: try later"));
        let host = FakeHost::start(Behaviour { refusal, ..Behaviour::default() });
        let error = fails(&quiet(&host, Mode::Calls));
        assert_eq!(error.reason, expected);
        assert!(error.message.contains("eight sessions are open: try later"), "{error}");
    }
}

#[test]
fn a_welcome_that_cannot_be_used() {
    let mut behaviour = Behaviour::default();
    behaviour.welcome.tape_version = tape::VERSION + 1;
    let error = fails(&quiet(&FakeHost::start(behaviour), Mode::Calls));
    assert_eq!(error.reason, OpenReason::Version);
    assert!(error.message.contains("the same version"), "{error}");

    let mut behaviour = Behaviour::default();
    behaviour.welcome.credit_bytes = 4096;
    let error = fails(&quiet(&FakeHost::start(behaviour), Mode::Calls));
    assert_eq!(error.reason, OpenReason::Protocol);
}

/// A host can lead a guest nowhere but to itself: there is no address to believe, and the guest checks the ticket.
#[test]
fn a_ticket_to_a_process_that_leads_nowhere() {
    for (bytes, expected) in [(15, "its ticket has 15 bytes, not 16"), (4096, "4096 bytes"), (16, "cannot be reached")]
    {
        let mut behaviour = Behaviour::default();
        behaviour.welcome.process_ticket = vec![7; bytes];
        let host = FakeHost::start(behaviour);
        let error = fails(&quiet(&host, Mode::Calls));
        assert_eq!(error.reason, OpenReason::Protocol);
        assert!(error.message.contains(expected), "{error}");
        super::eventually("the session ends", || host.seen.lock().ended == 1);
    }
}

#[test]
fn the_program_may_fail_to_open_and_try_again() {
    let host = FakeHost::start(Behaviour::default());
    let port = TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address").port();
    fails(&local(port));
    Session::open(&quiet(&host, Mode::Calls), hello).expect("opens");
}

#[test]
fn the_background_thread_takes_no_signals_of_the_program() {
    let host = FakeHost::start(Behaviour::default());
    let _session = super::open(&host, Mode::Calls);
    let blocked = std::fs::read_dir("/proc/self/task").expect("tasks").flatten().find_map(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:").map(str::trim).map(str::to_owned))?;
        (name.trim() == "farlane").then_some(mask)
    });
    let mask = u64::from_str_radix(&blocked.expect("the thread exists"), 16).expect("a mask");
    let bit = |signal: libc::c_int| 1_u64 << (signal - 1);
    assert_eq!(mask & bit(libc::SIGINT), bit(libc::SIGINT));
    assert_eq!(mask & bit(libc::SIGALRM), bit(libc::SIGALRM));
    assert_eq!(mask & bit(libc::SIGSEGV), 0);
}
