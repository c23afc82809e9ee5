//! A loop's body: the records of one iteration, and the holes in them.
//!
//! A hole is opened where two iterations differ. Its width is 8 or 4 bytes where those lie in one field (or in the
//! tail), else 2 or 1: a field is as wide as what changes in it, so that two neighbours never share a hole unless both
//! change.
//!
//! Source: `protos/tape.md`, the rules on holes and the limits of a template.

use crate::layout::{self, Zone};
use std::ops::Range;
use tape::{MAX_BODY_BYTES, MAX_HOLES, MAX_LEVELS};

/// Holes that one comparison may open: a record that differs in more is data, not a call of a loop.
const MAX_NEW_HOLES: usize = 160;
/// What a REPEAT in a body costs a host, in records.
const NESTED_RECORDS: u64 = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hole {
    /// From the start of the body.
    pub(crate) offset: u32,
    pub(crate) width: u8,
}

impl Hole {
    pub(crate) fn at(self) -> usize {
        self.offset as usize
    }

    pub(crate) fn width(self) -> usize {
        self.width.into()
    }
}

/// The template that a REPEAT repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nested {
    pub(crate) place: u32,
    /// Tells it from what had its place before.
    pub(crate) birth: u64,
    pub(crate) levels: u8,
}

#[derive(Debug, Clone)]
pub(crate) struct Item {
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) holes: Range<u32>,
    pub(crate) token: u64,
    pub(crate) nested: Option<Nested>,
}

impl Item {
    pub(crate) fn bytes(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    pub(crate) fn holes(&self) -> Range<usize> {
        self.holes.start as usize..self.holes.end as usize
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Body {
    pub(crate) items: Vec<Item>,
    /// One iteration. What stands in the holes is of no meaning.
    pub(crate) bytes: Vec<u8>,
    pub(crate) holes: Vec<Hole>,
    pub(crate) levels: u8,
}

impl Body {
    pub(crate) fn new() -> Self {
        Self { levels: 1, ..Self::default() }
    }

    /// Appends a record, without holes. False when the body cannot hold it.
    pub(crate) fn push(&mut self, record: &[u8], token: u64, nested: Option<Nested>) -> bool {
        let start = self.bytes.len();
        let levels = 1 + nested.map_or(0, |nested| nested.levels);
        if start + record.len() > MAX_BODY_BYTES || levels > MAX_LEVELS {
            return false;
        }
        self.levels = self.levels.max(levels);
        self.bytes.extend_from_slice(record);
        #[allow(clippy::cast_possible_truncation)] // at most MAX_BODY_BYTES
        self.items.push(Item { start: start as u32, end: self.bytes.len() as u32, holes: 0..0, token, nested });
        true
    }

    /// A hash of the calls, whatever their arguments.
    pub(crate) fn token(&self) -> u64 {
        self.items.iter().fold(0, |hash, item| crate::mix(hash, item.token))
    }

    /// How much a host has to do for an iteration, in records.
    pub(crate) fn records(&self) -> u64 {
        self.items.iter().map(|item| if item.nested.is_some() { NESTED_RECORDS } else { 1 }).sum()
    }

    /// Whether a record is like the item outside the holes.
    pub(crate) fn fits(&self, item: &Item, record: &[u8]) -> bool {
        let body = &self.bytes[item.bytes()];
        let base = item.start as usize;
        let mut from = 0;
        for hole in &self.holes[item.holes()] {
            let at = hole.at() - base;
            if body[from..at] != record[from..at] {
                return false;
            }
            from = at + hole.width();
        }
        body[from..] == record[from..]
    }

    /// The body with holes wherever the record differs from the item; `None` where it may have none.
    pub(crate) fn widened(&self, index: usize, record: &[u8], widths: &[usize]) -> Option<Self> {
        let item = &self.items[index];
        let mut zones = Vec::new();
        match item.nested {
            Some(_) => layout::repeat_zones(record, widths.iter().copied(), &mut zones),
            None => layout::zones(record, &mut zones),
        }
        let cutter = Cutter {
            body: &self.bytes[item.bytes()],
            record,
            base: item.start as usize,
            holes: &self.holes[item.holes()],
            zones: &zones,
        };
        let mut found = Vec::new();
        for at in (0..record.len()).step_by(8) {
            cutter.cut(at, 8, &mut found)?;
        }
        if found.len() > MAX_NEW_HOLES || self.holes.len() + found.len() > MAX_HOLES {
            return None;
        }
        let mut wider = self.clone();
        wider.holes.extend_from_slice(&found);
        wider.holes.sort_unstable_by_key(|hole| hole.offset);
        let mut at = 0;
        for item in &mut wider.items {
            let start = at;
            while wider.holes.get(at as usize).is_some_and(|hole| hole.offset < item.end) {
                at += 1;
            }
            item.holes = start..at;
        }
        Some(wider)
    }

    /// The content of a TEMPLATE record.
    pub(crate) fn content(&self) -> Vec<u8> {
        let mut content = Vec::with_capacity(self.content_bytes());
        for hole in &self.holes {
            content.extend_from_slice(&hole.offset.to_le_bytes());
            content.extend_from_slice(&[hole.width, 0, 0, 0]);
        }
        let start = content.len();
        content.extend_from_slice(&self.bytes);
        for hole in &self.holes {
            content[start + hole.at()..start + hole.at() + hole.width()].fill(0);
        }
        content
    }

    pub(crate) fn content_bytes(&self) -> usize {
        8 * self.holes.len() + self.bytes.len()
    }
}

struct Cutter<'a> {
    body: &'a [u8],
    record: &'a [u8],
    base: usize,
    holes: &'a [Hole],
    zones: &'a [Zone],
}

impl Cutter<'_> {
    fn in_hole(&self, at: usize, width: usize) -> bool {
        let overlaps = |hole: &Hole| hole.at() < self.base + at + width && self.base + at < hole.at() + hole.width();
        self.holes.iter().any(overlaps)
    }

    fn differs(&self, at: usize, width: usize) -> bool {
        (at..at + width).any(|byte| self.body[byte] != self.record[byte] && !self.in_hole(byte, 1))
    }

    fn allowed(&self, at: usize, width: usize) -> bool {
        let inside = |zone: &Zone| zone.start <= at && at + width <= zone.end && width <= zone.width;
        self.zones.iter().any(inside) && !self.in_hole(at, width)
    }

    /// Holes over all differences in `[at, at + width)`; `None` where one may not be.
    fn cut(&self, at: usize, width: usize, found: &mut Vec<Hole>) -> Option<()> {
        if !self.differs(at, width) {
            return Some(());
        }
        let half = width / 2;
        let whole = width < 8 || (self.differs(at, half) && self.differs(at + half, half));
        if whole && self.allowed(at, width) {
            let offset = u32::try_from(self.base + at).ok()?;
            #[allow(clippy::cast_possible_truncation)] // at most 8
            found.push(Hole { offset, width: width as u8 });
            return Some(());
        }
        if width == 1 {
            return None;
        }
        self.cut(at, half, found)?;
        self.cut(at + half, half, found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tape::{operations, Writer};

    fn record(write: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut writer = Writer::new();
        write(&mut writer);
        writer.as_slice().to_vec()
    }

    fn launch(stream: u32, parameters: &[u8]) -> Vec<u8> {
        record(|w| operations::launch(w, 16, stream, [1; 3], [32, 1, 1], 0, false, 0, parameters))
    }

    fn holes(first: &[u8], second: &[u8]) -> Option<Vec<(u32, u8)>> {
        let mut body = Body::new();
        assert!(body.push(first, 1, None));
        let wider = body.widened(0, second, &[])?;
        assert!(wider.fits(&wider.items[0], second));
        Some(wider.holes.iter().map(|hole| (hole.offset, hole.width)).collect())
    }

    #[test]
    fn holes_are_as_wide_as_what_changes() {
        assert_eq!(holes(&launch(1, &[0; 16]), &launch(1, &[0; 16])), Some(vec![]));
        assert_eq!(holes(&launch(1, &[0; 16]), &launch(2, &[0; 16])), Some(vec![(12, 4)]));
        let both = [[1; 8], [0, 0, 0, 0, 5, 0, 0, 0]].concat();
        assert_eq!(holes(&launch(1, &[0; 16]), &launch(1, &both)), Some(vec![(48, 8), (60, 4)]));
    }

    #[test]
    fn holes_never_reach_into_padding() {
        assert_eq!(holes(&launch(1, &[0; 3]), &launch(1, &[9; 3])), Some(vec![(48, 2), (50, 1)]));
        assert_eq!(holes(&launch(1, &[0; 13]), &launch(1, &[9; 13])), Some(vec![(48, 8), (56, 4), (60, 1)]));
    }

    #[test]
    fn what_makes_another_call_is_no_hole() {
        let other = record(|w| operations::launch(w, 17, 1, [1; 3], [32, 1, 1], 0, false, 0, &[0; 16]));
        assert_eq!(holes(&launch(1, &[0; 16]), &other), None);
        assert_eq!(holes(&launch(1, &[0; 13]), &launch(1, &[0; 14])), None);
        let free = |address| record(|w| operations::free(w, address));
        assert_eq!(holes(&free(0x100), &free(0x200)), Some(vec![(8, 4)]));
    }
}
