//! What one thread recorded lately, and whether it repeats.
//!
//! Records are compared by their tokens alone: a period is how far back the same token stood, and it is confirmed when a whole iteration
//! (three, of bodies of one to three records) has matched. Each record costs one look into a table, and the backward look of a new
//! candidate ends at the first difference. The bytes of records that were seen before are kept, so that a body can be made of them.
//! Memory is bounded: `WINDOW` records, `MAX_BYTES` of their bytes; what a short program does not need is not touched.

use crate::body::{Body, Nested, MAX_BODY};
use crate::policy::Doubt;

pub(crate) const WINDOW: usize = 2048;
const TABLE: usize = 2 * WINDOW;
/// Records longer than this are data, and end what repeats.
pub(crate) const MAX_RECORD: usize = 1024;
const MAX_BYTES: usize = 256 << 10;
/// How far a new candidate is followed backwards.
const MAX_BACKWARD: u64 = 512;
const NOT_KEPT: u64 = u64::MAX;

#[derive(Debug, Clone, Copy)]
struct Entry {
    token: u64,
    /// Of its bytes, counted from the beginning.
    start: u64,
    length: u32,
    nested: Option<Nested>,
}

const EMPTY: Entry = Entry { token: 0, start: NOT_KEPT, length: 0, nested: None };

#[derive(Debug)]
pub(crate) struct History {
    /// The last `WINDOW` places.
    entries: Vec<Entry>,
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
            entries: vec![EMPTY],
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

    fn entry(&self, place: u64) -> &Entry {
        &self.entries[place as usize % WINDOW]
    }

    /// Something that no body may hold.
    pub(crate) fn interrupt(&mut self) {
        (self.period, self.matched, self.hinted.0) = (0, 0, 0);
        self.put(EMPTY);
    }

    fn put(&mut self, entry: Entry) {
        match self.entries.get_mut(self.count as usize % WINDOW) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        self.count += 1;
    }

    /// How far before `place` the token stood last; 0: not in sight. It stands there from now on.
    #[allow(clippy::cast_possible_truncation)] // distances in sight are short
    fn distance(&mut self, token: u64, place: u64) -> u64 {
        let slot = &mut self.last[token as usize % TABLE];
        let distance = u64::from((place as u32).wrapping_sub(*slot));
        *slot = place as u32;
        let known = distance < WINDOW as u64 && distance < place && self.entry(place - distance).token == token;
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
        let kept = (known || self.matched > 0 || self.hinted.0 != 0) && record.len() <= MAX_RECORD;
        let start = if kept { self.keep(record) } else { NOT_KEPT };
        #[allow(clippy::cast_possible_truncation)] // at most MAX_RECORD where it is read
        let entry = Entry { token, start, length: record.len() as u32, nested };
        self.put(entry);
        if self.period != 0 && self.entry(place - self.period).token == token {
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
                    let token = self.entry(place - back).token;
                    token != 0 && token == self.entry(place - back - distance).token
                }
            })
            .count() as u64
    }

    fn keep(&mut self, record: &[u8]) -> u64 {
        if self.bytes.len() + record.len() > MAX_BYTES {
            let half = self.bytes.len() / 2;
            self.bytes.drain(..half);
            self.forgotten += half as u64;
        }
        let start = self.forgotten + self.bytes.len() as u64;
        self.bytes.extend_from_slice(record);
        start
    }

    /// The last `period` records as a body, if all of their bytes are at hand.
    pub(crate) fn body(&self, period: u64) -> Option<Body> {
        let mut body = Body::new();
        for place in self.count.checked_sub(period)?..self.count {
            let entry = self.entry(place);
            let start = usize::try_from(entry.start.checked_sub(self.forgotten)?).ok()?;
            let record = self.bytes.get(start..start.checked_add(entry.length as usize)?)?;
            if entry.start == NOT_KEPT || !body.push(record, entry.token, entry.nested) {
                return None;
            }
        }
        debug_assert!(body.bytes.len() <= MAX_BODY);
        Some(body)
    }

    /// The next record is the first of an iteration of this loop (the manifest says so). The period, when the one before began in sight.
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
    fn memory_is_bounded() {
        let mut history = History::new();
        assert_eq!(history.entries.len(), 1, "what is not needed is not touched");
        for index in 0..100_000_u64 {
            history.push(1 + index % 7, &[7; 1000], None);
        }
        assert_eq!(history.entries.len(), WINDOW);
        assert!(history.bytes.len() <= MAX_BYTES && history.bytes.capacity() <= 2 * MAX_BYTES);
    }
}
