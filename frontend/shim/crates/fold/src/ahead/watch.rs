//! The stretches of a program that waits: what one thread records from one read that it waits for to the next, and what the reads returned.
//!
//! Watching begins at a read that is waited for and ends with a stretch that is long: a loop without reads costs nothing here. Memory is
//! bounded by `MOST_STRETCHES` and `MOST_BYTES`.

use super::fit::MOST_BACK;
use crate::layout::{self, operation, u64_at};
use crate::mix;
use std::collections::VecDeque;
use tape::operations::code;

/// Reads in one iteration of a loop.
pub(crate) const MOST_READS: usize = 8;
/// Iterations that are compared: at least (of one read, of more), at most. `MOST_EVIDENCE`: with so many everything is told that can be.
const LEAST_ITERATIONS: (usize, usize) = (3, 2);
pub(crate) const MOST_EVIDENCE: usize = 4;
const MOST_ITERATIONS: usize = 6;
const MOST_STRETCHES: usize = MOST_ITERATIONS * MOST_READS + MOST_BACK;
/// Of one stretch, and of all.
const MOST_RECORDS: usize = 40;
const MOST_STRETCH_BYTES: usize = 16 << 10;
const MOST_BYTES: usize = 256 << 10;
const MOST_SPARE: usize = 8;
/// Where READ has its shape and its slot.
pub(crate) const READ_ADDRESS: std::ops::Range<usize> = 8..16;
const READ_WIDTH: usize = 24;
const READ_HEIGHT: usize = 32;
pub(crate) const READ_SLOT: std::ops::Range<usize> = 44..48;

/// A record as it is compared: without what differs from call to call by design.
pub(crate) fn plain(record: &mut [u8]) {
    if operation(record) == code::READ {
        record[READ_SLOT].fill(0);
    }
}

/// The bytes that a READ yields.
pub(crate) fn read_bytes(record: &[u8]) -> usize {
    let bytes = u64_at(record, READ_WIDTH).checked_mul(u64_at(record, READ_HEIGHT));
    bytes.and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(usize::MAX)
}

/// Whether an iteration that holds it can be undone by putting memory back.
pub(crate) fn may_run_ahead(record: &[u8]) -> bool {
    matches!(operation(record), code::LAUNCH | code::MEMSET | code::COPY | code::WRITE | code::WRITE_KEPT | code::READ)
}

/// Whether it makes something known to the host that a later record uses: once, before its first use.
pub(crate) fn opens(record: &[u8]) -> bool {
    const OPENING: [u16; 6] = [
        code::MODULE_OPEN,
        code::MODULE_BEGIN,
        code::MODULE_CHUNK,
        code::MODULE_END,
        code::FUNCTION_OPEN,
        code::VARIABLE_OPEN,
    ];
    OPENING.contains(&operation(record))
}

#[derive(Debug, Default)]
pub(crate) struct Stretch {
    bytes: Vec<u8>,
    /// Where each record ends, and its token.
    ends: Vec<(usize, u64)>,
    key: u64,
    /// What its read returned, if that fits a register.
    pub(crate) value: Option<u64>,
}

impl Stretch {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        (self.key, self.value) = (0, None);
    }

    pub(crate) fn records(&self) -> impl Iterator<Item = (&[u8], u64)> {
        let starts = std::iter::once(0).chain(self.ends.iter().map(|(end, _)| *end));
        starts.zip(&self.ends).map(|(start, (end, token))| (&self.bytes[start..*end], *token))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Watch {
    pub(crate) on: bool,
    thread: u64,
    current: Stretch,
    past: VecDeque<Stretch>,
    bytes: usize,
    /// Stretches that were given up, for the memory they have.
    spare: Vec<Stretch>,
}

/// What repeats: the last `iterations` iterations of `reads` stretches each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) reads: usize,
    pub(crate) iterations: usize,
    pub(crate) key: u64,
}

impl Watch {
    pub(crate) fn thread(&self) -> u64 {
        self.thread
    }

    pub(crate) fn forget(&mut self) {
        self.on = false;
        self.bytes = 0;
        self.current.clear();
        while let Some(stretch) = self.past.pop_front() {
            self.give_up(stretch);
        }
    }

    /// Begins a stretch. What the one so far has is the caller's to keep.
    fn start(&mut self) -> Stretch {
        let mut empty = self.spare.pop().unwrap_or_default();
        empty.clear();
        std::mem::replace(&mut self.current, empty)
    }

    fn give_up(&mut self, stretch: Stretch) {
        if self.spare.len() < MOST_SPARE {
            self.spare.push(stretch);
        }
    }

    pub(crate) fn note(&mut self, record: &[u8], token: u64, thread: u64) {
        if !self.on {
            return;
        }
        let current = &mut self.current;
        let full = current.ends.len() >= MOST_RECORDS || current.bytes.len() + record.len() > MOST_STRETCH_BYTES;
        if full || thread != self.thread || !may_run_ahead(record) || token == 0 {
            return self.forget();
        }
        let start = current.bytes.len();
        current.bytes.extend_from_slice(record);
        plain(&mut current.bytes[start..]);
        current.ends.push((current.bytes.len(), token));
        current.key = mix(current.key, token);
        self.bytes += record.len();
    }

    /// The record noted last is a read that the program waits for: the stretch ends.
    pub(crate) fn read(&mut self, thread: u64) {
        if !self.on {
            // The next stretch is the first whole one. This one has a value, and is like no other.
            (self.on, self.thread) = (true, thread);
            self.past.push_back(Stretch::default());
            return;
        }
        let stretch = self.start();
        self.past.push_back(stretch);
        while self.past.len() > MOST_STRETCHES || self.bytes > MOST_BYTES {
            let Some(stretch) = self.past.pop_front() else { break };
            self.bytes -= stretch.bytes.len();
            self.give_up(stretch);
        }
    }

    /// What the last read returned.
    pub(crate) fn answered(&mut self, data: &[u8]) {
        let Some(last) = self.past.back_mut().filter(|_| self.current.ends.is_empty()) else { return };
        last.value = matches!(data.len(), 4 | 8).then(|| layout::read(data, 0, data.len()));
    }

    /// What repeats, now that a stretch has ended: so many iterations of it at least.
    pub(crate) fn pattern(&self, least: usize) -> Option<Pattern> {
        let count = self.past.len();
        let key = |back: usize| self.past[count - 1 - back].key;
        for reads in 1..=MOST_READS.min(count / LEAST_ITERATIONS.1) {
            let most = count.min(MOST_ITERATIONS * reads);
            let matching = (0..most.saturating_sub(reads)).take_while(|back| key(*back) == key(back + reads)).count();
            let iterations = matching / reads + 1;
            let enough = if reads == 1 { LEAST_ITERATIONS.0 } else { LEAST_ITERATIONS.1 };
            if iterations >= enough.max(least) {
                return Some(Pattern { iterations, ..self.last_iteration(reads)? });
            }
        }
        None
    }

    /// The last stretches, as one iteration of so many.
    pub(crate) fn last_iteration(&self, reads: usize) -> Option<Pattern> {
        let first = self.past.len().checked_sub(reads)?;
        let key = self.past.range(first..).rev().fold(reads as u64, |hash, stretch| mix(hash, stretch.key));
        Some(Pattern { reads, iterations: 1, key })
    }

    /// A stretch of an iteration of the pattern.
    pub(crate) fn stretch(&self, pattern: Pattern, iteration: usize, read: usize) -> &Stretch {
        &self.past[self.place(pattern, iteration, read)]
    }

    fn place(&self, pattern: Pattern, iteration: usize, read: usize) -> usize {
        self.past.len() - (pattern.iterations - iteration) * pattern.reads + read
    }

    /// What the `back`th last read before a record of this stretch returned.
    pub(crate) fn value(&self, pattern: Pattern, iteration: usize, read: usize, back: usize) -> Option<u64> {
        self.past.get(self.place(pattern, iteration, read).checked_sub(back)?)?.value
    }

    /// What the last reads returned, the last one last. That of the read under way is not known.
    pub(crate) fn values(&self) -> [u64; MOST_BACK] {
        let mut values = [0; MOST_BACK];
        for (value, stretch) in values.iter_mut().rev().zip(self.past.iter().rev()) {
            *value = stretch.value.unwrap_or(0);
        }
        values
    }
}
