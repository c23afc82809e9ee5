//! Which processors a thread may use, and which one it is on.

/// Whether the calling thread may use more than one processor.
pub(crate) fn several() -> bool {
    // More processors than the set has room for: several.
    allowed().is_none_or(|set| count(&set) > 1)
}

/// The processor that the calling thread is on, and one: never 0, which says nothing. 0 where it cannot be known.
pub(crate) fn current() -> u32 {
    if cfg!(miri) {
        return 0;
    }
    // SAFETY: asks.
    u32::try_from(unsafe { libc::sched_getcpu() }).map_or(0, |number| number + 1)
}

/// Moves the calling thread to another processor that it may use, if there is one. It may use the same ones afterwards.
pub(crate) fn leave() {
    let Some(set) = allowed() else { return };
    let mut others = set;
    let Some(number) = (current() as usize).checked_sub(1).filter(|&number| number < libc::CPU_SETSIZE as usize) else {
        return;
    };
    // SAFETY: the number is below the set's size.
    unsafe { libc::CPU_CLR(number, &mut others) };
    if count(&others) != 0 {
        // SAFETY: both read a set that is ours. Where the first is refused, the second changes nothing.
        unsafe {
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &others);
            libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
        }
    }
}

fn allowed() -> Option<libc::cpu_set_t> {
    // SAFETY: zeroed is an empty set.
    let mut set = unsafe { std::mem::zeroed::<libc::cpu_set_t>() };
    // SAFETY: the call fills the set for this thread.
    (unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set) } >= 0).then_some(set)
}

fn count(set: &libc::cpu_set_t) -> i32 {
    // SAFETY: reads the set.
    unsafe { libc::CPU_COUNT(set) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(not(miri))]
    fn a_thread_moves_and_may_use_the_same_processors_as_before() {
        std::thread::spawn(|| {
            let before = allowed().unwrap();
            let from = current();
            leave();
            let (now, after) = (current(), allowed().unwrap());
            // SAFETY: reads both sets.
            assert!(unsafe { libc::CPU_EQUAL(&before, &after) });
            assert!(from != 0 && now != 0);
            // What else runs may move it again: of several tries one shows that it moved.
            let moved = now != from
                || (0..100).any(|_| {
                    let from = current();
                    leave();
                    current() != from
                });
            assert_eq!(moved, several());
        })
        .join()
        .unwrap();
    }
}
