//! How the system's scheduler treats a session's thread: one that works without end lets all others of the machine come first.
//!
//! Where threads compute on every processor, the system lets one that wakes up wait for the end of a time slice, of some
//! milliseconds. A guest's message takes several threads. So a thread that works without end, beside sessions that wait, is nice; and no
//! more, where the system allows that, once its session works for short times again.

use std::mem;

/// A session that works for so long, in nanoseconds, until it waits for its guest works without end.
const ENDLESS: u64 = 2_000_000;
const NICEST: i32 = 19;

/// Of one session, as its own thread sees it. Times are what the session has used so far, in nanoseconds.
#[derive(Debug, Default)]
pub struct Pace {
    rested: u64,
    /// How nice the thread was, while it is as nice as it can be.
    before: Option<i32>,
}

impl Pace {
    /// In the middle of work, while others wait.
    pub fn go_on(&mut self, used: u64) {
        if self.before.is_none() && used.wrapping_sub(self.rested) >= ENDLESS {
            let before = nice();
            if become_nice(NICEST) {
                self.before = Some(before);
            }
        }
    }

    /// There is no work left for now.
    pub fn rest(&mut self, used: u64) {
        let worked = used.wrapping_sub(mem::replace(&mut self.rested, used));
        if worked < ENDLESS && self.before.is_some_and(become_nice) {
            self.before = None;
        }
    }
}

/// How nice this thread is.
fn nice() -> i32 {
    // SAFETY: a plain call. On Linux 0 is the calling thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Whether this thread is so nice now: the system lets only some become less nice.
fn become_nice(nice: i32) -> bool {
    // SAFETY: as above.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLISECOND: u64 = 1_000_000;

    #[test]
    fn a_thread_is_nice_while_its_session_works_without_end() {
        let usual = nice();
        let mut pace = Pace::default();
        pace.rest(MILLISECOND);
        pace.go_on(2 * MILLISECOND);
        assert_eq!(nice(), usual);
        pace.go_on(3 * MILLISECOND);
        assert_eq!(nice(), NICEST);
        pace.rest(8 * MILLISECOND);
        assert_eq!(nice(), NICEST);
        pace.rest(9 * MILLISECOND);
        // SAFETY: a plain call.
        let may = unsafe { libc::geteuid() } == 0;
        assert_eq!(nice(), if may { usual } else { NICEST });
    }
}
