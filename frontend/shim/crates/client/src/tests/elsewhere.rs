//! A gateway leads the guest to another host: once, and at the cost of one round trip.

use super::fake_host::{refusal, Behaviour, FakeHost};
use super::{hello, quiet};
use crate::generated_farlane_v1::refusal::Reason;
use crate::generated_farlane_v1::Elsewhere;
use crate::{Mode, OpenError, OpenReason, Session};
use std::net::TcpListener;

fn gateway_to(url: String) -> FakeHost {
    let elsewhere = Some(Elsewhere { url, token: "once".to_owned(), certificate: Vec::new() });
    FakeHost::start(Behaviour { elsewhere, ..Behaviour::default() })
}

fn fails(gateway: &FakeHost) -> OpenError {
    Session::open(&quiet(gateway, Mode::Calls), hello).expect_err("fails")
}

#[test]
fn the_session_is_opened_there() {
    let host = FakeHost::start(Behaviour::default());
    let gateway = gateway_to(host.endpoint().to_string());
    let session = Session::open(&quiet(&gateway, Mode::Calls), hello).expect("opens");
    assert_eq!(session.counters().round_trips.get(), 2, "one more than without a gateway");
    assert!(gateway.seen.lock().hello.as_ref().is_some_and(|hello| hello.follows));
    assert_eq!(gateway.seen.lock().shown, None, "nothing is shown without TLS");
    assert!(host.seen.lock().hello.as_ref().is_some_and(|hello| !hello.follows));
    assert_eq!(host.seen.lock().shown.as_deref(), Some("Bearer once"));
    super::eventually("the gateway has done its part", || gateway.seen.lock().ended == 1);
    drop(session);
    super::eventually("the session ends", || host.seen.lock().ended == 1);
    let seen = gateway.seen.lock();
    assert_eq!((seen.messages.len(), seen.ended), (0, 1), "no data through the gateway");
}

#[test]
fn one_redirect_is_followed() {
    let host = FakeHost::start(Behaviour::default());
    let second = gateway_to(host.endpoint().to_string());
    let first = gateway_to(second.endpoint().to_string());
    let error = fails(&first);
    assert_eq!(error.reason, OpenReason::Protocol);
    assert!(error.message.contains("leads the guest to a further host"), "{error}");
    assert!(host.seen.lock().hello.is_none());
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let port = TcpListener::bind("127.0.0.1:0").expect("bind").local_addr().expect("address").port();
    let gateway = gateway_to(format!("grpc://127.0.0.1:{port}"));
    let error = fails(&gateway);
    assert_eq!(error.reason, OpenReason::Unreachable);
    let (host, from) = (format!("grpc://127.0.0.1:{port}"), gateway.endpoint().to_string());
    assert!(error.message.contains(&host) && error.message.contains(&from), "{error}");
}

#[test]
fn a_refusal_of_the_host_is_shown() {
    let refusal = Some(refusal(Reason::Unauthorized, "the token was used already"));
    let host = FakeHost::start(Behaviour { refusal, ..Behaviour::default() });
    let error = fails(&gateway_to(host.endpoint().to_string()));
    assert_eq!(error.reason, OpenReason::Refused);
    assert!(error.message.contains("the token was used already"), "{error}");
}

#[test]
fn a_gateway_that_leads_to_a_socket_of_this_machine_is_not_followed() {
    let error = fails(&gateway_to("unix:///run/host.sock".to_owned()));
    assert_eq!(error.reason, OpenReason::Protocol);
    assert!(error.message.contains("own machine"), "{error}");
}
