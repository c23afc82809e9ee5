//! How far an image is on its way to the host, for a user at a terminal: a line after two seconds, and then one each ten
//! seconds. Whole lines on standard error, because the program may print at the same time.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use session::log;

const FIRST: Duration = Duration::from_secs(2);
const NEXT: Duration = Duration::from_secs(10);

/// One upload.
pub(super) struct Progress {
    total: usize,
    sent: usize,
    due: Option<Instant>,
}

impl Progress {
    /// An upload of so many bytes begins.
    pub(super) fn new(total: usize) -> Self {
        Self::at(total, std::io::stderr().is_terminal().then(Instant::now))
    }

    fn at(total: usize, now: Option<Instant>) -> Self {
        Self { total, sent: 0, due: now.map(|now| now + FIRST) }
    }

    /// So many bytes more are sent.
    pub(super) fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        if let Some(text) = self.due.and_then(|_| self.line(Instant::now())) {
            log::warn(format_args!("{text}"));
        }
    }

    /// What to say now, if anything.
    fn line(&mut self, now: Instant) -> Option<String> {
        if now < self.due? || self.sent >= self.total {
            return None;
        }
        self.due = Some(now + NEXT);
        let percent = self.sent as u64 * 100 / self.total as u64;
        Some(format!("sending device code to the host: {percent} % of {} MiB", self.total >> 20))
    }
}

#[cfg(test)]
mod tests {
    use super::{Duration, Instant, Progress};

    #[test]
    fn a_line_comes_after_two_seconds_and_then_each_ten() {
        let start = Instant::now();
        let mut progress = Progress::at(400 << 20, Some(start));
        let mut said = Vec::new();
        for second in 0..=13 {
            progress.sent += 10 << 20;
            said.extend(progress.line(start + Duration::from_secs(second)).map(|text| (second, text)));
        }
        assert_eq!(
            said,
            [
                (2, "sending device code to the host: 7 % of 400 MiB".to_owned()),
                (12, "sending device code to the host: 32 % of 400 MiB".to_owned())
            ]
        );
    }

    #[test]
    fn nothing_is_said_at_the_end_or_without_a_terminal() {
        let late = Instant::now() + Duration::from_secs(60);
        let mut done = Progress::at(1 << 20, Some(Instant::now()));
        done.sent = 1 << 20;
        assert_eq!(done.line(late), None);
        assert_eq!(Progress::at(1 << 20, None).line(late), None);
    }
}
