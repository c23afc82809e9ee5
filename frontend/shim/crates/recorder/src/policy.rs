//! What is worth recording: the one place that decides whether a run is opened, and whether what it holds becomes a
//! REPEAT.
//!
//! Owns the prices, and what is remembered of earlier tries: of each template its [`Balance`], of each thread its
//! [`Doubt`], of the program's waits the `segments`. Does not own what repeats (`history`) nor what is sent
//! (`engine::sending`). Pure: no clock, no tape.
//!
//! Prices are in *records*: what a host takes for one that it replays by itself, such as a launch. They were measured
//! on hosts with the simulated device, beside the records themselves. A run that was worth less than its price costs
//! the guest, too, and so tries that fail are fewer and fewer:
//!
//! - A template's balance falls with each run that held less than a REPEAT's price, and rises with each that held more.
//!   Below `LEAST_BALANCE` its first record begins it no more. It has to be found by the search again, which it can be
//!   at any time.
//! - A thread's doubt doubles with each run that was not worth it, up to `MOST_EVIDENCE`: so many records have to have
//!   repeated before the search opens a run. It is halved by each run that was. So a program whose loops never are pays
//!   what it takes to look for repetition, and a loop that is worth it, wherever it comes, at most `MOST_EVIDENCE`
//!   records more that are sent as they are.

mod segments;

use crate::Reason;
use segments::Segments;

/// What a REPEAT costs a host.
const REPEAT: i64 = 16;
/// What a TEMPLATE costs it besides, with what it does at the first REPEAT, and for each record of the body: a loop
/// that has come for the first time has to be so much longer. One that comes again is taken to come once more, and one
/// that goes on to go on as long.
///
/// Letting earlier runs pay for the TEMPLATE, too, would be fairer to loops that come twice, but loops around this one
/// are found by its REPEATs: three nested loops of 20 iterations took three times as many bytes.
const TEMPLATE: i64 = 44;
const TEMPLATE_RECORD: i64 = 5;
/// What a group costs guest and host, beyond what it holds.
const GROUP: i64 = 192;
/// So many bytes are as good as a record: they have to be sent.
const BYTES: u64 = 256;

/// Four runs in a row that held nothing, of a template of which nothing is known.
const LEAST_BALANCE: i64 = -64;
/// What a template that was good has in reserve: twice as many.
const MOST_BALANCE: i64 = 128;

/// The most records that have to repeat before the search opens a run: doubt goes no further than where a REPEAT is
/// worth it.
const MOST_EVIDENCE: u64 = 32;
const FIRST_EVIDENCE: u64 = 4;

/// What a run holds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Held {
    /// Records that the host would replay.
    pub(crate) records: u64,
    /// Their bytes, and those of the REPEAT that would take their place.
    pub(crate) bytes: u64,
    pub(crate) repeat: u64,
    /// The bytes of the TEMPLATE that would have to be sent in front of it; 0 where the host has that.
    pub(crate) template: u64,
    /// The records of its body.
    pub(crate) body: u64,
    /// Records of the loop that were sent as they are.
    pub(crate) before: u64,
    pub(crate) ending: Ending,
}

/// Why what a run holds is to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The loop has ended.
    Over,
    /// The program waits, and may go on with the loop.
    Waits,
    /// The loop goes on, as far as is known: it is held too long already.
    GoesOn,
}

impl Ending {
    /// Where everything is sent for this reason.
    pub(crate) fn of(reason: Reason) -> Self {
        match reason {
            Reason::Sync | Reason::Exit => Self::Waits,
            Reason::Age | Reason::Size => Self::GoesOn,
            Reason::Deviation | Reason::Thread | Reason::Hint => Self::Over,
        }
    }
}

impl Held {
    fn value(self) -> i64 {
        self.records.max(self.bytes / BYTES).try_into().unwrap_or(i64::MAX)
    }

    fn before(self) -> i64 {
        self.before.try_into().unwrap_or(i64::MAX)
    }

    /// What the host would do at the first REPEAT alone.
    fn first_price(self) -> i64 {
        if self.template == 0 {
            0
        } else {
            price_of_template(self.body)
        }
    }
}

/// What a TEMPLATE of so many records costs, with the first REPEAT of it.
fn price_of_template(body: u64) -> i64 {
    TEMPLATE.saturating_add(i64::try_from(body).unwrap_or(i64::MAX).saturating_mul(TEMPLATE_RECORD))
}

/// Whether to send the template of a loop that has not begun, and that is expected to have so many
/// records in all. What is sent at once travels in a group of its own, which has a price, too.
pub(crate) fn is_worth_telling(records: u64, body: u64) -> bool {
    let price = REPEAT.saturating_add(price_of_template(body)).saturating_add(GROUP);
    i64::try_from(records).unwrap_or(i64::MAX) >= price
}

/// What a template's runs have been worth so far, beyond their price.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Balance(i64);

impl Balance {
    /// Whether a record that looks like the template's first one is to begin it.
    pub(crate) fn is_tried(self) -> bool {
        self.0 > LEAST_BALANCE
    }

    /// A run of it has ended that has taken so many records in all.
    pub(crate) fn ran(&mut self, records: u64) {
        let value = i64::try_from(records).unwrap_or(i64::MAX);
        self.0 = self.0.saturating_add(value.saturating_sub(REPEAT)).clamp(LEAST_BALANCE, MOST_BALANCE);
    }

    /// Of a template that was predicted: one try.
    pub(crate) fn guessed() -> Self {
        Self(LEAST_BALANCE + REPEAT)
    }

    /// The search has found it again: one try.
    pub(crate) fn found(&mut self) {
        self.0 = self.0.max(Self::guessed().0);
    }

    /// Whether a REPEAT of what is held is worth it, not the records themselves.
    pub(crate) fn is_worth(self, held: Held) -> bool {
        let price = match held.ending {
            // What follows costs next to nothing, and is as much again as there was so far: half the TEMPLATE is its.
            Ending::GoesOn => (REPEAT / 2).saturating_add(held.first_price() / 2 - held.before()).max(REPEAT / 2),
            Ending::Over | Ending::Waits if self.0 > 0 => REPEAT, // it has come again
            Ending::Over | Ending::Waits => REPEAT.saturating_add(held.first_price()),
        };
        held.value() >= price && 2 * held.repeat + held.template <= held.bytes
    }
}

/// Whether a run was worth opening: it was sent as a REPEAT, or it held too little for one. `None`: it may be worth it
/// when it comes again.
pub(crate) fn judged(repeated: bool, records: u64) -> Option<bool> {
    let enough = i64::try_from(records).is_ok_and(|records| records >= REPEAT);
    (repeated || !enough).then_some(repeated)
}

/// How far a thread's repetitions are to be trusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Doubt(u64);

impl Doubt {
    /// Whether a run may be opened when so many records have been seen to repeat.
    #[inline]
    pub(crate) fn allows(self, matched: u64) -> bool {
        matched >= self.0
    }

    /// Whether the manifest's word that a loop begins is enough.
    pub(crate) fn allows_hints(self) -> bool {
        self.0 < MOST_EVIDENCE
    }

    /// A run of the thread's has ended.
    pub(crate) fn ran(&mut self, worthwhile: bool) {
        self.0 = match (worthwhile, self.0) {
            (true, doubt) => doubt / 2,
            (false, 0) => FIRST_EVIDENCE,
            (false, doubt) => (2 * doubt).clamp(FIRST_EVIDENCE, MOST_EVIDENCE),
        };
    }
}

/// What concerns the whole program.
#[derive(Debug, Default)]
pub(crate) struct Policy {
    pub(crate) segments: Segments,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(records: u64, known: bool, ending: Ending) -> Held {
        let template = if known { 0 } else { 96 };
        Held { records, bytes: 64 * records, repeat: 48, template, body: 1, before: 0, ending }
    }

    #[test]
    fn a_repeat_has_its_price() {
        let unknown = Balance::default();
        let worth = |balance: Balance, records, known, ending| balance.is_worth(held(records, known, ending));
        for ending in [Ending::Over, Ending::Waits] {
            assert!(worth(unknown, 65, false, ending) && !worth(unknown, 64, false, ending));
            assert!(worth(unknown, 16, true, ending) && !worth(unknown, 15, true, ending));
            assert!(worth(Balance(1), 16, false, ending) && !worth(Balance(1), 15, false, ending));
        }
        assert!(worth(unknown, 8, true, Ending::GoesOn) && !worth(unknown, 7, true, Ending::GoesOn));
        assert!(worth(unknown, 32, false, Ending::GoesOn) && !worth(unknown, 31, false, Ending::GoesOn));
        let later = |records, before| unknown.is_worth(Held { before, ..held(records, false, Ending::GoesOn) });
        assert!(later(12, 20) && !later(11, 20) && later(8, 1 << 40) && !later(7, u64::MAX));
    }

    #[test]
    fn bytes_count_as_records() {
        let one = Held { bytes: 4096, ..held(4, true, Ending::Over) };
        assert!(Balance::default().is_worth(one));
        assert!(!Balance::default().is_worth(Held { repeat: 2049, ..one }), "not where the REPEAT is hardly shorter");
    }

    #[test]
    fn a_long_body_has_its_price() {
        let long = |records| Held { body: 16, ..held(records, false, Ending::Over) };
        assert!(Balance::default().is_worth(long(140)) && !Balance::default().is_worth(long(139)));
        assert!(!Balance::default().is_worth(Held { body: u64::MAX, ..long(1 << 40) }), "no overflow");
    }

    #[test]
    fn four_runs_that_held_nothing_end_the_tries() {
        let mut balance = Balance::default();
        for _ in 0..3 {
            balance.ran(0);
            assert!(balance.is_tried());
        }
        balance.ran(0);
        assert!(!balance.is_tried());
        balance.found();
        assert!(balance.is_tried());
        balance.ran(0);
        assert!(!balance.is_tried(), "one more try");
        balance.found();
        balance.ran(1 << 40);
        (0..11).for_each(|_| balance.ran(0));
        assert!(balance.is_tried(), "a good one has a reserve");
        balance.ran(0);
        assert!(!balance.is_tried(), "and it is bounded");
    }

    #[test]
    fn doubt_grows_with_failures_and_goes_with_success() {
        let mut doubt = Doubt::default();
        assert!(doubt.allows(0));
        let mut needed = Vec::new();
        for _ in 0..6 {
            doubt.ran(false);
            needed.push((0..100).find(|matched| doubt.allows(*matched)));
        }
        assert_eq!(needed, [4, 8, 16, 32, 32, 32].map(Some));
        assert!(!doubt.allows_hints());
        (0..6).for_each(|_| doubt.ran(true));
        assert!(doubt.allows(0) && doubt.allows_hints());
        assert_eq!(judged(false, 15), Some(false));
        assert_eq!(judged(false, 16), None);
        assert_eq!(judged(true, 0), Some(true));
    }
}
