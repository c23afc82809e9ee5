use super::*;
use crate::call::outgoing::Shared;
use tokio::runtime::Builder;

/// As of a connection that is broken: it takes nothing.
fn sent(messages: &[&'static [u8]]) -> Sent {
    let runtime = Arc::new(Builder::new_current_thread().enable_time().build().expect("a runtime"));
    let wire = Wire::new(Arc::new(Shared::default()), runtime, None);
    let mut sent = Sent { messages: VecDeque::new(), bytes: 0, first: 0, next: 0, wire };
    for message in messages {
        sent.push(Bytes::from_static(message));
        sent.pump(true);
    }
    sent
}

#[test]
fn messages_are_kept_until_the_guest_has_them() {
    let mut sent = sent(&[b"welcome", b"first", b"second"]);
    assert_eq!((sent.messages.len(), sent.next, sent.bytes), (3, 0, 18 + 3 * OVERHEAD));
    assert!(sent.confirm(2));
    assert_eq!((sent.first, sent.bytes), (2, 6 + OVERHEAD));
    assert_eq!(sent.messages.front().map(|message| &message[..]), Some(&b"second"[..]));
    assert!(sent.confirm(1), "it has said so before");
    assert_eq!(sent.first, 2);
    assert!(!sent.confirm(4), "there are three");
    assert!(sent.confirm(3));
    assert_eq!((sent.messages.len(), sent.bytes), (0, 0));
}

#[test]
fn what_the_guest_has_is_not_to_be_sent() {
    let mut sent = sent(&[b"a", b"b", b"c"]);
    sent.next = 2;
    assert!(sent.confirm(1));
    assert_eq!(sent.next, 1, "of two messages one was sent");
    sent.next = 0;
    assert!(sent.confirm(3));
    assert_eq!(sent.next, 0);
}

#[test]
fn what_is_set_aside_is_bounded() {
    let kept = Kept {
        grace: Duration::ZERO,
        given_up: AtomicBool::new(false),
        sent: Mutex::new(sent(&[])),
        aside: Mutex::default(),
        aside_bytes: AtomicUsize::new(0),
        changed: Condvar::new(),
    };
    let large = Bytes::from(vec![0; ASIDE_BYTES / 2]);
    assert!(!kept.put_aside(Received::Other(large.clone())));
    assert!(matches!(kept.take_aside(), Some(Received::Other(_))));
    assert!(!kept.put_aside(Received::Other(large.clone())));
    assert!(kept.put_aside(Received::Other(large)), "with what each costs it is too much");
    assert!(matches!(kept.take_aside(), Some(Received::Refused(_))), "the guest learns it first");
}
