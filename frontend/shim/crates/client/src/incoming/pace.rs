//! How long the host takes for a call of a loop, from the groups that hold many: what decides when the next part of one
//! is sent (`outgoing::loops`).
//!
//! A group's acknowledgement says when the host was done with it. It began when the group had come, and the one before it
//! was done: the shortest time in which any group was acknowledged is taken for the way there and back.

use std::time::{Duration, Instant};

/// Of fewer calls the time would be the connection's.
pub(super) const MEASURED: u64 = 64;

#[derive(Debug, Default)]
pub(super) struct Pace {
    shortest: Option<Duration>,
    call: Duration,
}

impl Pace {
    /// Zero while nothing is known.
    pub(super) fn of_a_call(&self) -> Duration {
        self.call
    }

    /// A group with so many calls of a loop is acknowledged. `preceded`: when the one before it was, where it was sent
    /// before that.
    pub(super) fn measure(&mut self, work: u64, sent: Instant, preceded: Option<Instant>, now: Instant) {
        let took = now.saturating_duration_since(sent);
        let shortest = self.shortest.map_or(took, |shortest| shortest.min(took));
        self.shortest = Some(shortest);
        if work >= MEASURED {
            let came = sent + shortest;
            let began = preceded.map_or(came, |preceded| preceded.max(came));
            let nanoseconds = now.saturating_duration_since(began).as_nanos() / u128::from(work);
            self.call = Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loop_is_measured_from_when_the_host_could_begin_it() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let mut pace = Pace::default();
        assert_eq!(pace.of_a_call(), Duration::ZERO);
        pace.measure(1, at(0), None, at(10));
        assert_eq!(pace.of_a_call(), Duration::ZERO, "that was the way there and back");
        pace.measure(100, at(0), None, at(110));
        assert_eq!(pace.of_a_call(), Duration::from_millis(1));
        pace.measure(100, at(0), Some(at(100)), at(300));
        assert_eq!(pace.of_a_call(), Duration::from_millis(2), "the host was busy until then");
        pace.measure(100, at(100), Some(at(105)), at(410));
        assert_eq!(pace.of_a_call(), Duration::from_millis(3), "it had not come yet");
        pace.measure(100, at(100), Some(at(500)), at(500));
        assert_eq!(pace.of_a_call(), Duration::ZERO);
    }
}
