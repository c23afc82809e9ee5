//! Whether running ahead pays, and how far: by what the program has waited for reads by themselves, and for those of runs.
//!
//! A run delays nothing that the program has asked for: its read is answered first, and the host ends the run when the program does something
//! else. What can be done in vain is what the host gets ahead of the program: at most what some iterations take, and half of what was saved so
//! far. What the program then waits for, until the host has ended its iteration, is seen at its next read: a run that cost more than it
//! has saved is a loss like one of which nothing was of use.
//! The caller knows the time; where it is never told, nothing is known to be saved.

/// What an iteration is taken to last at least, and the iterations that a first run may take; nanoseconds.
const LEAST: u64 = 200_000;
const FIRST_ITERATIONS: u64 = 16;
const MOST_FIRST: u64 = 20_000_000;
const MOST: u64 = 200_000_000;
/// The share of a new time in the mean.
const SHARE: u64 = 4;

/// Waiting times in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// A read by itself: the host's work in front of it, and the way there and back. A running mean; 0: not known.
    alone: u64,
    /// What the program has waited for the reads of this run.
    waited: u64,
    /// Saved so far.
    credit: u64,
    /// What the last run has saved, if it was undone: the next read waits until it is.
    undone: Option<u64>,
}

impl Pace {
    /// True where that was so long that the run in front was a loss.
    pub(crate) fn alone(&mut self, nanoseconds: u64) -> bool {
        let nanoseconds = nanoseconds.max(1);
        if let Some(gain) = self.undone.take().filter(|_| self.alone > 0) {
            let cost = nanoseconds.saturating_sub(self.alone);
            self.credit = self.credit.saturating_sub(cost);
            return cost > gain.saturating_add(self.alone);
        }
        self.alone = match self.alone {
            0 => nanoseconds,
            before => before - before / SHARE + nanoseconds / SHARE,
        };
        false
    }

    pub(crate) fn ahead(&mut self, nanoseconds: u64) {
        self.waited = self.waited.saturating_add(nanoseconds);
    }

    /// What the next run may take: at least an iteration, of so many reads. `round_trip`: what the shortest takes.
    pub(crate) fn allowed(&self, round_trip: u64, reads: u64) -> u64 {
        let iteration = round_trip.max(LEAST).max(self.alone.saturating_mul(reads));
        let first = iteration.saturating_mul(FIRST_ITERATIONS).min(MOST_FIRST);
        iteration.max(first.saturating_add(self.credit / 2)).min(MOST)
    }

    /// The program has taken so many reads of the last run. False when that took no less than they would have taken one by one.
    pub(crate) fn settle(&mut self, reads: u64, undone: bool) -> bool {
        let cost = std::mem::take(&mut self.waited);
        if self.alone == 0 {
            return true;
        }
        let saved = self.alone.saturating_mul(reads);
        self.credit = self.credit.saturating_add(saved).saturating_sub(cost);
        self.undone = undone.then_some(saved.saturating_sub(cost));
        saved > cost
    }
}

#[cfg(test)]
mod tests {
    use super::{Pace, FIRST_ITERATIONS, LEAST, MOST, MOST_FIRST};

    fn after(alone: u64) -> Pace {
        let mut pace = Pace::default();
        (0..50).for_each(|_| assert!(!pace.alone(alone)));
        pace
    }

    #[test]
    fn what_is_slower_than_waiting_is_a_loss() {
        let mut pace = Pace::default();
        pace.ahead(1_000_000);
        assert!(pace.settle(1, false), "nothing is known to compare it with");
        let mut pace = after(100_000);
        pace.ahead(200_000);
        pace.ahead(150_000);
        assert!(pace.settle(5, false), "of 500 us");
        pace.ahead(350_000);
        assert!(!pace.settle(3, false));
        assert!(!pace.settle(0, true), "none of it was of use");
    }

    #[test]
    fn a_run_that_takes_long_to_be_undone_is_a_loss() {
        let mut pace = after(100_000);
        assert!(pace.settle(3, true));
        assert!(!pace.alone(500_000), "it has saved 300 us, and an answer may take a little longer");
        assert!(pace.settle(3, true));
        assert!(pace.alone(500_001));
        assert_eq!(pace.alone, 100_000, "neither says what a read takes");
        assert!(!pace.alone(900_000), "which says nothing of the run");
    }

    #[test]
    fn no_more_is_spent_than_some_iterations_and_half_of_what_was_saved() {
        let mut pace = after(300_000);
        assert_eq!(pace.allowed(100_000, 2), 600_000 * FIRST_ITERATIONS);
        assert_eq!(after(1000).allowed(100_000, 2), LEAST * FIRST_ITERATIONS);
        assert_eq!(after(1000).allowed(500_000, 2), 500_000 * FIRST_ITERATIONS);
        assert_eq!(pace.allowed(100_000_000, 2), 100_000_000, "an iteration");
        assert_eq!(pace.allowed(10_000_000, 2), MOST_FIRST);
        pace.ahead(400_000);
        assert!(pace.settle(2, false));
        assert_eq!(pace.credit, 600_000 - 400_000);
        assert_eq!(pace.allowed(10_000_000, 2), MOST_FIRST + 100_000);
        pace.ahead(1_000_000);
        assert!(!pace.settle(0, false));
        assert_eq!(pace.allowed(10_000_000, 2), MOST_FIRST, "it is spent");
        (0..1000).for_each(|_| assert!(pace.settle(10_000, false)));
        assert_eq!(pace.allowed(9_000_000, 1), MOST);
    }
}
