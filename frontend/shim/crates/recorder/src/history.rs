//! What one thread recorded lately, and whether it repeats.
//!
//! Records are compared by their tokens alone: a period is how far back the same token stood, and it is confirmed when
//! a whole iteration (three, of bodies of one to three records) has matched. Each record costs one look into a table,
//! and the backward look of a new candidate ends at the first difference. The bytes of records that were seen before
//! are kept, so that a body can be made of them; not where the policy would not have one made. Memory is bounded:
//! `WINDOW` records, `MAX_BYTES` of their bytes; what a short program does not need is not touched.

use crate::body::{Body, Nested};
use crate::policy::Doubt;

pub(crate) const WINDOW: usize = 2048;
const TABLE: usize = 2 * WINDOW;
/// Records longer than this are data, and end what repeats.
pub(crate) const MAX_RECORD: usize = 1024;
const MAX_BYTES: usize = 256 << 10;
/// How far a new candidate is followed backwards.
const MAX_BACKWARD: u64 = 512;

/// A record of which more than its token was kept.
#[derive(Debug, Clone, Copy)]
struct Kept {
    place: u64,
    /// Of its bytes, counted from the beginning.
    start: u64,
    length: u32,
    nested: Option<Nested>,
}

/// There is no such place.
const NONE: Kept = Kept { place: 0, start: 0, length: 0, nested: None };

#[derive(Debug)]
pub(crate) struct History {
    /// Of the last `WINDOW` places. Apart from what was kept, so that little memory is touched where nothing repeats.
    tokens: Vec<u64>,
    kept: Vec<Kept>,
    /// By token: the last place where one like it stood, in its low bits.
    last: Box<[u32]>,
    count: u64,
    bytes: Vec<u8>,
    /// Bytes forgotten in front of `bytes`.
    forgotten: u64,
    period: u64,
    matched: u64,
    /// The hinted loop, and where its body began last.
    hinted: (u32, u64),
    /// How much more than a period has to be seen.
    pub(crate) doubt: Doubt,
}

impl History {
    pub(crate) fn new() -> Self {
        Self {
            tokens: vec![0],
            kept: Vec::new(),
            last: vec![0; TABLE].into(),
            count: 1, // so that 0 is never a place
            bytes: Vec::new(),
            forgotten: 0,
            period: 0,
            matched: 0,
            hinted: (0, 0),
            doubt: Doubt::default(),
        }
    }

    fn token(&self, place: u64) -> u64 {
        self.tokens[place as usize % WINDOW]
    }

    /// Something that no body may hold.
    pub(crate) fn interrupt(&mut self) {
        (self.period, self.matched, self.hinted.0) = (0, 0, 0);
        self.put(0);
    }

    fn put(&mut self, token: u64) {
        match self.tokens.get_mut(self.count as usize % WINDOW) {
            Some(place) => *place = token,
            None => self.tokens.push(token),
        }
        self.count += 1;
    }

    /// How far before `place` the token stood last; 0: not in sight. It stands there from now on.
    #[allow(clippy::cast_possible_truncation)] // distances in sight are short
    fn distance(&mut self, token: u64, place: u64) -> u64 {
        let slot = &mut self.last[token as usize % TABLE];
        let distance = u64::from((place as u32).wrapping_sub(*slot));
        *slot = place as u32;
        let known = distance < WINDOW as u64 && distance < place && self.token(place - distance) == token;
        if known {
            distance
        } else {
            0
        }
    }

    /// Adds a record; the period when whole iterations of it have just been seen to repeat.
    pub(crate) fn push(&mut self, token: u64, record: &[u8], nested: Option<Nested>) -> Option<u64> {
        let place = self.count;
        let distance = self.distance(token, place);
        let known = distance != 0;
        let promising = self.hinted.0 != 0 || self.doubt.allows(self.matched + self.period + 1);
        if (known || self.matched > 0 || self.hinted.0 != 0) && promising && record.len() <= MAX_RECORD {
            self.keep(place, record, nested);
        }
        self.put(token);
        if self.period != 0 && self.token(place - self.period) == token {
            self.matched += 1;
        } else if known {
            self.period = distance;
            self.matched = 1 + self.backward(place, distance);
        } else {
            (self.period, self.matched) = (0, 0);
            return None;
        }
        let needed = if self.period < 4 { 2 * self.period } else { self.period };
        let found = self.matched >= needed && self.matched.is_multiple_of(self.period);
        (found && self.doubt.allows(self.matched)).then_some(self.period)
    }

    /// How many records before `place` match those `distance` before them.
    fn backward(&self, place: u64, distance: u64) -> u64 {
        let most = MAX_BACKWARD.min((WINDOW as u64).saturating_sub(distance + 1)).min(place - 1);
        (1..=most)
            .take_while(|back| {
                place - back > distance && {
                    let token = self.token(place - back);
                    token != 0 && token == self.token(place - back - distance)
                }
            })
            .count() as u64
    }

    fn keep(&mut self, place: u64, record: &[u8], nested: Option<Nested>) {
        if self.bytes.len() + record.len() > MAX_BYTES {
            let half = self.bytes.len() / 2;
            self.bytes.drain(..half);
            self.forgotten += half as u64;
        }
        let start = self.forgotten + self.bytes.len() as u64;
        self.bytes.extend_from_slice(record);
        #[allow(clippy::cast_possible_truncation)] // at most MAX_RECORD
        let kept = Kept { place, start, length: record.len() as u32, nested };
        let index = place as usize % WINDOW;
        if self.kept.len() <= index {
            self.kept.resize(index + 1, NONE);
        }
        self.kept[index] = kept;
    }

    /// The last `period` records as a body, if all of their bytes are at hand.
    pub(crate) fn body(&self, period: u64) -> Option<Body> {
        let mut body = Body::new();
        for place in self.count.checked_sub(period)?..self.count {
            let kept = self.kept.get(place as usize % WINDOW).filter(|kept| kept.place == place)?;
            let start = usize::try_from(kept.start.checked_sub(self.forgotten)?).ok()?;
            let record = self.bytes.get(start..start.checked_add(kept.length as usize)?)?;
            if !body.push(record, self.token(place), kept.nested) {
                return None;
            }
        }
        debug_assert!(body.bytes.len() <= tape::MAX_BODY_BYTES);
        Some(body)
    }

    /// The next record is the first of an iteration of this loop (the manifest says so). The period, when the one
    /// before began in sight.
    pub(crate) fn begin_hinted(&mut self, hint: u32) -> Option<u64> {
        let (before, place) = self.hinted;
        self.hinted = (hint, self.count);
        let period = self.count - place;
        (before == hint && period > 0 && period < WINDOW as u64 && self.doubt.allows_hints()).then_some(period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn periods(text: &str) -> Vec<(usize, u64)> {
        let mut history = History::new();
        let found = |(index, letter)| history.push(u64::from(letter), &[letter; 8], None).map(|period| (index, period));
        text.bytes().enumerate().filter_map(found).collect()
    }

    #[test]
    fn periods_are_found_where_a_body_begins() {
        assert_eq!(periods("xaaaa"), [(3, 1), (4, 1)]);
        assert_eq!(periods("xabcdabcde"), [(8, 4)]);
        assert_eq!(periods("zabacdabacd"), [(10, 5)]);
        // The inner repetition does not hide the outer one.
        assert_eq!(periods("zaabaabaab").first(), Some(&(9, 3)));
        assert_eq!(periods("abcdefghij"), []);
    }

    #[test]
    fn bodies_are_what_was_recorded() {
        let mut history = History::new();
        for letter in b"zabcabcabc" {
            history.push(u64::from(*letter), &[*letter; 8], None);
        }
        let body = history.body(3).expect("kept");
        assert_eq!(body.bytes, [[b'a'; 8], [b'b'; 8], [b'c'; 8]].concat());
    }

    #[test]
    fn nothing_is_kept_that_doubt_would_not_allow_a_body_of() {
        let mut history = History::new();
        (0..5).for_each(|_| history.doubt.ran(false));
        for place in 0..3000_u64 {
            history.push(1 + place * place % 7 % 5, &[7; 64], None); // repeats after 7
        }
        assert!(history.body(7).is_some());
        let mut history = History::new();
        (0..5).for_each(|_| history.doubt.ran(false));
        for place in 0..3000_u64 {
            history.push(1 + (place >> (place % 3)) % 2, &[7; 64], None);
        }
        assert!(history.bytes.len() < 3000 * 64 / 2, "{}", history.bytes.len());
    }

    #[test]
    fn memory_is_bounded() {
        let mut history = History::new();
        assert_eq!(history.tokens.len(), 1, "what is not needed is not touched");
        for index in 0..100_000_u64 {
            history.push(1 + index % 7, &[7; 1000], None);
        }
        assert_eq!((history.tokens.len(), history.kept.len()), (WINDOW, WINDOW));
        assert!(history.bytes.len() <= MAX_BYTES && history.bytes.capacity() <= 2 * MAX_BYTES);
    }
}
