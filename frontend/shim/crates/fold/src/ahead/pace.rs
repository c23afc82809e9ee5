//! Whether running ahead pays, and how far: by what the program has waited for a read by itself, and for one behind which the host ran on.
//!
//! What was saved so far is the credit: half of it may be spent on work that is perhaps in vain. So a loop that ends while the host is ahead loses
//! at most that half, and an iteration. The caller knows the time; where it is never told, nothing is known to be saved.

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
        first.saturating_add(self.credit / 2).min(MOST)
    }

    /// The program has taken so many reads of the last run. False when that took no less than they would have taken one by one.
    pub(crate) fn settle(&mut self, reads: u64) -> bool {
        if self.alone == 0 {
            return true;
        }
        let (cost, saved) = (self.ahead.saturating_sub(self.alone), self.alone.saturating_mul(reads));
        self.credit = self.credit.saturating_add(saved).saturating_sub(cost);
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
        assert!(pace.settle(1), "nothing is known to compare it with");
        let mut pace = after(100_000);
        pace.ahead(450_000);
        assert!(pace.settle(5) && !pace.settle(3));
    }

    #[test]
    fn half_of_what_was_saved_is_spent() {
        let mut pace = after(300_000);
        assert_eq!(pace.allowed(100_000, 2), 600_000, "an iteration");
        assert_eq!(after(1000).allowed(100_000, 2), LEAST);
        assert_eq!(after(1000).allowed(500_000, 2), 500_000);
        pace.ahead(700_000);
        assert!(pace.settle(10));
        assert_eq!(pace.allowed(100_000, 2), 600_000 + (3_000_000 - 400_000) / 2);
        pace.ahead(1_300_000);
        assert!(!pace.settle(0));
        assert_eq!(pace.allowed(100_000, 2), 600_000 + (3_000_000 - 1_400_000) / 2);
        (0..1000).for_each(|_| assert!(pace.settle(100)));
        assert_eq!(pace.allowed(0, 1), MOST);
    }
}
