//! How long a session works at a time, and the thread that runs the machine code of one that works without end.
//!
//! Where threads compute on every processor, the system lets one that wakes up wait for the end of a time slice, of some milliseconds,
//! even where the one that computes is nice. A guest's message takes several threads. So the kernels of a session that works without
//! end, beside sessions that wait, run on a thread with the policy SCHED_IDLE, which gives way at once.
//!
//! That thread is the session's own and runs machine code alone: where other programs fill the machine it may stand still for long, and
//! it holds no lock and not the GIL meanwhile. It keeps the policy for ever, so that the system need not let it come back.

use parking_lot::Mutex;
use std::io;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread;

/// A session that works for so long, in nanoseconds, until it waits for its guest works without end.
const ENDLESS: u64 = 2_000_000;

/// Of one session. Times are what the session has used so far, in nanoseconds.
#[derive(Debug, Default)]
pub struct Pace {
    rested: u64,
    endless: bool,
}

impl Pace {
    /// In the middle of work, while others wait.
    pub fn go_on(&mut self, used: u64) {
        self.endless |= used.wrapping_sub(self.rested) >= ENDLESS;
    }

    /// There is no work left for now.
    pub fn rest(&mut self, used: u64) {
        self.endless &= used.wrapping_sub(self.rested) >= ENDLESS;
        self.rested = used;
    }

    #[must_use]
    pub const fn is_endless(&self) -> bool {
        self.endless
    }
}

/// A call of machine code that needs no lock: a kernel's blocks, with its launch and its worker.
#[derive(Clone, Copy, Debug)]
pub struct MachineCode {
    pub run: unsafe extern "C" fn(*mut u8, *mut u8) -> i32,
    pub first: *mut u8,
    pub second: *mut u8,
}

// SAFETY: the code that makes one promises that any thread may call it, one at a time.
unsafe impl Send for MachineCode {}

impl MachineCode {
    /// # Safety
    /// What it points to is there, and nothing else uses it.
    #[must_use]
    pub unsafe fn call(self) -> i32 {
        // SAFETY: the caller's promise.
        unsafe { (self.run)(self.first, self.second) }
    }
}

/// What a call has returned, and how long its thread has worked on it, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub status: i32,
    pub nanoseconds: u64,
}

/// The thread that gives way to all others. It ends with this.
pub struct Background(Mutex<(Sender<MachineCode>, Receiver<Ended>)>);

impl Background {
    /// # Errors
    /// The system's: it lets no more threads start, or none give way.
    pub fn start() -> io::Result<Self> {
        let (calls, waiting) = channel::<MachineCode>();
        let (ends, ended) = channel();
        let (says, begun) = channel();
        thread::Builder::new().name("farlane-batch".into()).spawn(move || {
            let begins = give_way();
            let works = begins.is_ok();
            if says.send(begins).is_err() || !works {
                return;
            }
            for code in waiting {
                let began = thread_time();
                // SAFETY: `run` waits until it is over.
                let status = unsafe { code.call() };
                if ends.send(Ended { status, nanoseconds: thread_time().saturating_sub(began) }).is_err() {
                    return;
                }
            }
        })?;
        begun.recv().map_err(io::Error::other)??;
        Ok(Self(Mutex::new((calls, ended))))
    }

    /// Has the thread call it, and waits.
    ///
    /// # Safety
    /// As [`MachineCode::call`].
    ///
    /// # Panics
    /// The thread has panicked.
    pub unsafe fn run(&self, code: MachineCode) -> Ended {
        let thread = self.0.lock();
        thread.0.send(code).expect("the thread waits for calls");
        thread.1.recv().expect("the thread answers each call")
    }
}

/// From now on this thread comes after all others.
fn give_way() -> io::Result<()> {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: the parameters live over the call. On Linux 0 is the calling thread.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_IDLE, &raw const none) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The processor time of the calling thread so far, in nanoseconds.
#[must_use]
pub fn thread_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written there.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn a_session_works_without_end_until_it_has_worked_for_a_short_time() {
        let mut pace = Pace::default();
        pace.rest(MILLISECOND);
        pace.go_on(2 * MILLISECOND);
        assert!(!pace.is_endless());
        pace.go_on(3 * MILLISECOND);
        assert!(pace.is_endless());
        pace.rest(8 * MILLISECOND);
        assert!(pace.is_endless());
        pace.rest(9 * MILLISECOND);
        assert!(!pace.is_endless());
        pace.rest(18 * MILLISECOND);
        assert!(!pace.is_endless(), "no session waited");
    }

    /// The policy of the thread that calls it, and how often it was called.
    unsafe extern "C" fn policy(count: *mut u8, _: *mut u8) -> i32 {
        // SAFETY: the test's own; a plain call.
        unsafe {
            *count += 1;
            libc::sched_getscheduler(0)
        }
    }

    #[test]
    fn machine_code_runs_where_it_gives_way_and_its_caller_does_not() {
        let mut count = 0;
        let code = MachineCode { run: policy, first: &raw mut count, second: ptr::null_mut() };
        // SAFETY: the count lives longer.
        let usual = unsafe { code.call() };
        let background = Background::start().expect("a thread");
        for _ in 0..3 {
            // SAFETY: the same.
            let ended = unsafe { background.run(code) };
            assert_eq!(ended.status, libc::SCHED_IDLE);
        }
        // SAFETY: the same.
        assert_eq!(unsafe { code.call() }, usual);
        assert_eq!(count, 5);
    }
}
