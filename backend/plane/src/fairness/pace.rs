//! How the system's scheduler treats a session's thread: one that works without end lets all others of the machine come first.
//!
//! Where threads compute on every processor, the system lets one that wakes up wait for the end of a time slice, of some
//! milliseconds, even where the one that computes is nice. A guest's message takes several threads. So a thread that works without end,
//! beside sessions that wait, has the policy SCHED_IDLE, which gives way at once; and no more, where the system allows that, once its
//! session works for short times again.

use std::mem;

/// A session that works for so long, in nanoseconds, until it waits for its guest works without end.
const ENDLESS: u64 = 2_000_000;

/// Of one session, as its own thread sees it. Times are what the session has used so far, in nanoseconds.
#[derive(Debug, Default)]
pub struct Pace {
    rested: u64,
    /// The thread gives way to all others.
    gives_way: bool,
}

impl Pace {
    /// In the middle of work, while others wait.
    pub fn go_on(&mut self, used: u64) {
        if !self.gives_way && used.wrapping_sub(self.rested) >= ENDLESS && policy() == libc::SCHED_OTHER {
            self.gives_way = take(libc::SCHED_IDLE);
        }
    }

    /// There is no work left for now.
    pub fn rest(&mut self, used: u64) {
        let worked = used.wrapping_sub(mem::replace(&mut self.rested, used));
        if worked < ENDLESS && self.gives_way && take(libc::SCHED_OTHER) {
            self.gives_way = false;
        }
    }
}

/// This thread's.
fn policy() -> libc::c_int {
    // SAFETY: a plain call. On Linux 0 is the calling thread.
    unsafe { libc::sched_getscheduler(0) }
}

/// Whether this thread has the policy now: the system lets only some come back from SCHED_IDLE.
fn take(policy: libc::c_int) -> bool {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: as above; the parameters live over the call.
    unsafe { libc::sched_setscheduler(0, policy, &raw const none) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn a_thread_gives_way_while_its_session_works_without_end() {
        let usual = policy();
        let mut pace = Pace::default();
        pace.rest(MILLISECOND);
        pace.go_on(2 * MILLISECOND);
        assert_eq!(policy(), usual);
        pace.go_on(3 * MILLISECOND);
        assert_eq!(policy(), libc::SCHED_IDLE);
        pace.rest(8 * MILLISECOND);
        assert_eq!(policy(), libc::SCHED_IDLE);
        pace.rest(9 * MILLISECOND);
        // SAFETY: a plain call.
        let may = unsafe { libc::geteuid() } == 0;
        assert_eq!(policy(), if may { usual } else { libc::SCHED_IDLE });
    }
}
