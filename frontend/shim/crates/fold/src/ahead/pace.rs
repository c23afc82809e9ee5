//! Whether running ahead pays, and how far: by what the program has waited for a read by itself, and for one behind which the host ran on.
//!
//! What was saved so far is the credit: half of it may be spent on work that is perhaps in vain. So a loop that ends while the host is ahead loses
//! at most that half, and an iteration. Nor is more spent than is to be won: where a run costs a round trip `r`, a loop of unknown length that has
//! taken the time `t` costs least in runs of `2 sqrt(r t)` (the round trips of runs of a length, and half a run in vain at the end, are equal then).
//! The caller knows the time; where it is never told, nothing is known to be saved.

/// What a run may take before anything was saved; nanoseconds.
const LEAST: u64 = 200_000;
const MOST: u64 = 20_000_000;
/// The share of a new time in the mean.
const SHARE: u64 = 4;

/// Waiting times in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// A read by itself: the host's work in front of it, and the way there and back. A running mean; 0: not known.
    alone: u64,
    /// The last read behind which the host ran on.
    ahead: u64,
    /// Saved so far.
    credit: u64,
    /// What the runs of this loop have taken, since one was undone.
    series: u64,
}

impl Pace {
    pub(crate) fn alone(&mut self, nanoseconds: u64) {
        let nanoseconds = nanoseconds.max(1);
        self.alone = match self.alone {
            0 => nanoseconds,
            before => before - before / SHARE + nanoseconds / SHARE,
        };
    }

    pub(crate) fn ahead(&mut self, nanoseconds: u64) {
        self.ahead = nanoseconds;
    }

    /// What the next run may take: at least an iteration, of so many reads. `round_trip`: what the shortest takes.
    pub(crate) fn allowed(&self, round_trip: u64, reads: u64) -> u64 {
        let first = round_trip.max(LEAST).max(self.alone.saturating_mul(reads));
        let best = 2 * (round_trip as f64 * self.series as f64).sqrt() as u64;
        first.max(best.min(first.saturating_add(self.credit / 2))).min(MOST)
    }

    /// The program has taken so many reads of the last run. False when that took no less than they would have taken one by one.
    pub(crate) fn settle(&mut self, reads: u64, undone: bool) -> bool {
        if self.alone == 0 {
            return true;
        }
        let (cost, saved) = (self.ahead.saturating_sub(self.alone), self.alone.saturating_mul(reads));
        self.credit = self.credit.saturating_add(saved).saturating_sub(cost);
        self.series = if undone { 0 } else { self.series.saturating_add(cost) };
        saved > cost
    }
}

#[cfg(test)]
mod tests {
    use super::{Pace, LEAST, MOST};

    fn after(alone: u64) -> Pace {
        let mut pace = Pace::default();
        (0..50).for_each(|_| pace.alone(alone));
        pace
    }

    #[test]
    fn what_is_slower_than_waiting_is_a_loss() {
        let mut pace = Pace::default();
        pace.ahead(1_000_000);
        assert!(pace.settle(1, false), "nothing is known to compare it with");
        let mut pace = after(100_000);
        pace.ahead(450_000);
        assert!(pace.settle(5, false) && !pace.settle(3, false));
    }

    #[test]
    fn no_more_is_spent_than_half_of_what_was_saved() {
        let mut pace = after(300_000);
        assert_eq!(pace.allowed(100_000, 2), 600_000, "an iteration");
        assert_eq!(after(1000).allowed(100_000, 2), LEAST);
        assert_eq!(after(1000).allowed(500_000, 2), 500_000);
        pace.ahead(700_000);
        assert!(pace.settle(2, false));
        let far = 100_000_000;
        assert_eq!(pace.allowed(far, 2), MOST);
        assert_eq!(pace.credit, 600_000 - 400_000);
        assert_eq!(pace.allowed(900_000, 2), 900_000 + 100_000);
        pace.ahead(1_300_000);
        assert!(!pace.settle(0, false));
        assert_eq!(pace.allowed(900_000, 2), 900_000, "it is spent");
        (0..1000).for_each(|_| assert!(pace.settle(100, false)));
        assert_eq!(pace.allowed(9_000_000, 1), MOST);
    }

    #[test]
    fn near_a_host_runs_stay_short() {
        let mut pace = after(300_000);
        pace.ahead(1_300_000);
        (0..9).for_each(|_| assert!(pace.settle(20, false)));
        assert_eq!(pace.allowed(100_000, 2), 2 * 948_683, "of 9 ms");
        assert!(pace.settle(20, true));
        assert_eq!(pace.allowed(100_000, 2), 600_000, "another loop");
    }
}
