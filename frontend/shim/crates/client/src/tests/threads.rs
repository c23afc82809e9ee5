//! Threads of the program that wait in states in which little of a thread works.

use super::fake_host::{Behaviour, FakeHost};
use super::open;
use crate::{Mode, Session};
use std::cell::RefCell;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use tape::operations;

extern "C" {
    fn pthread_cancel(thread: libc::pthread_t) -> c_int;
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

fn fence(session: &Session) -> bool {
    session.request(operations::fence).is_ok()
}

#[test]
fn who_waits_reads_for_itself() {
    for host in [FakeHost::start(Behaviour::default()), FakeHost::start_unix(Behaviour::default())] {
        let session = open(&host, Mode::Calls);
        assert!((0..200).all(|_| fence(&session)));
        // A wait may take longer than a turn where the machine is busy.
        let handed_over = session.shared().stream.handed_over.load(Ordering::SeqCst);
        assert!(handed_over < 100, "{handed_over} of 200 waits were handed over");
    }
}

/// A thread-local value whose end asks the host.
struct Asks(Arc<Session>, Arc<AtomicBool>);

impl Drop for Asks {
    fn drop(&mut self) {
        self.1.store(fence(&self.0), Ordering::SeqCst);
    }
}

thread_local! {
    static LAST: RefCell<Option<Asks>> = const { RefCell::new(None) };
}

#[test]
fn a_thread_that_has_lost_its_thread_locals_gets_its_answer() {
    let host = FakeHost::start(Behaviour::default());
    let session = Arc::new(open(&host, Mode::Calls));
    let answered = Arc::new(AtomicBool::new(false));
    let asks = Asks(session.clone(), answered.clone());
    let thread = std::thread::spawn(move || {
        LAST.with(|last| *last.borrow_mut() = Some(asks)); // dropped last: destructors run backwards
        LAST.with(|last| last.borrow().as_ref().is_some_and(|asks| fence(&asks.0)))
    });
    assert!(thread.join().expect("no panic"));
    assert!(answered.load(Ordering::SeqCst));
}

#[test]
fn a_wait_is_no_place_to_be_cancelled_at() {
    let host = FakeHost::start(Behaviour::default());
    let session = Arc::new(open(&host, Mode::Calls));
    let answered = std::thread::spawn(move || {
        // SAFETY: the calling thread, which is cancelled at its next cancellation point.
        unsafe { pthread_cancel(libc::pthread_self()) };
        let answered = (0..10).all(|_| fence(&session));
        // SAFETY: the calling thread's own state: what follows in it is no test's.
        unsafe { pthread_setcancelstate(1, std::ptr::null_mut()) };
        answered
    });
    assert!(answered.join().expect("not cancelled"));
}
