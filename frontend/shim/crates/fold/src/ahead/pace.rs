//! Whether running ahead pays: what the program has waited for a read by itself, and for one behind which the host ran on.
//!
//! The caller knows the time. Where it is never told, running ahead is taken to pay.

/// Waiting times in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// A read by itself: the host's work in front of it, and the way there and back. A running mean; 0: not known.
    alone: u64,
    /// The last read behind which the host ran on.
    ahead: u64,
}

impl Pace {
    /// The share of a new time in the mean.
    const SHARE: u64 = 4;

    pub(crate) fn alone(&mut self, nanoseconds: u64) {
        let nanoseconds = nanoseconds.max(1);
        self.alone = match self.alone {
            0 => nanoseconds,
            before => before - before / Self::SHARE + nanoseconds / Self::SHARE,
        };
    }

    pub(crate) fn ahead(&mut self, nanoseconds: u64) {
        self.ahead = nanoseconds;
    }

    /// Whether so many reads, done ahead, have taken as long as they would have taken one by one.
    pub(crate) fn is_loss(&self, reads: u64) -> bool {
        self.alone > 0 && self.ahead.saturating_sub(self.alone) >= self.alone.saturating_mul(reads)
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;

    #[test]
    fn what_is_slower_than_waiting_is_a_loss() {
        let mut pace = Pace::default();
        pace.ahead(1_000_000);
        assert!(!pace.is_loss(1), "nothing is known to compare it with");
        for _ in 0..30 {
            pace.alone(100_000);
        }
        pace.ahead(450_000);
        assert!(!pace.is_loss(5) && pace.is_loss(3));
        for _ in 0..30 {
            pace.alone(400_000);
        }
        pace.ahead(1_000_000);
        assert!(!pace.is_loss(2) && pace.is_loss(1));
    }
}
