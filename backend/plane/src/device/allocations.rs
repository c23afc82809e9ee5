//! The allocation map: which parts of a window belong to what.
//!
//! Disjoint, ordered by address. Ranges of mapped physical memory are in the map as well; their bytes are not counted.
//! The map keeps [`Ranges`], what copies may touch, up to date. Any thread may use it.
//!
//! Source: docs/explanation/systems.md, S2 point 1 (one mapping per address).

use super::ranges::Ranges;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Ended allocations that are remembered, for messages.
const REMEMBERED: usize = 64;

/// What a part of the window is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Label {
    /// The guest's.
    Allocation,
    /// Mapped physical memory.
    Mapped,
    /// Another thing, by its name for the user.
    Named(Arc<str>),
}

/// A part of the window: `[start, end)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocation {
    pub start: u64,
    pub end: u64,
    pub label: Label,
    /// 0: kernels and copies may do nothing with it.
    pub access: u32,
}

impl Allocation {
    #[must_use]
    pub const fn size(&self) -> u64 {
        self.end - self.start
    }
}

#[derive(Debug, Default)]
struct Map {
    by_start: BTreeMap<u64, Allocation>,
    ended: VecDeque<Allocation>,
    bytes: u64,
    version: u64,
}

/// See the module's page.
#[derive(Debug)]
pub struct Allocations {
    ranges: Arc<Ranges>,
    map: Mutex<Map>,
}

impl Allocations {
    #[must_use]
    pub fn new(ranges: Arc<Ranges>) -> Self {
        Self { ranges, map: Mutex::default() }
    }

    #[must_use]
    pub const fn ranges(&self) -> &Arc<Ranges> {
        &self.ranges
    }

    /// Adds one, which overlaps none.
    pub fn add(&self, allocation: Allocation) {
        if allocation.access != 0 {
            self.ranges.add(allocation.start, allocation.end);
        }
        let mut map = self.map.lock();
        if allocation.label != Label::Mapped {
            map.bytes += allocation.size();
        }
        map.version += 1;
        map.by_start.insert(allocation.start, allocation);
    }

    /// Takes the one out that starts there.
    pub fn take(&self, start: u64) -> Option<Allocation> {
        let mut map = self.map.lock();
        let allocation = map.by_start.remove(&start)?;
        self.ranges.remove(start);
        if allocation.label != Label::Mapped {
            map.bytes -= allocation.size();
        }
        map.version += 1;
        Some(allocation)
    }

    /// Remembers what has ended.
    pub fn remember(&self, ended: Allocation) {
        let mut map = self.map.lock();
        if map.ended.len() == REMEMBERED {
            map.ended.pop_front();
        }
        map.ended.push_back(ended);
    }

    /// The one that holds this byte.
    #[must_use]
    pub fn holding(&self, address: u64) -> Option<Allocation> {
        let map = self.map.lock();
        map.by_start.range(..=address).next_back().map(|(_, found)| found).filter(|found| address < found.end).cloned()
    }

    /// One that overlaps `[start, end)`: the last one.
    #[must_use]
    pub fn overlapping(&self, start: u64, end: u64) -> Option<Allocation> {
        let map = self.map.lock();
        map.by_start.range(..end).next_back().map(|(_, found)| found).filter(|found| found.end > start).cloned()
    }

    #[must_use]
    pub fn overlaps(&self, start: u64, end: u64) -> bool {
        self.map.lock().by_start.range(..end).next_back().is_some_and(|(_, found)| found.end > start)
    }

    /// Those that start at the address or behind it, in order.
    #[must_use]
    pub fn since(&self, address: u64) -> Vec<Allocation> {
        self.map.lock().by_start.range(address..).map(|(_, found)| found.clone()).collect()
    }

    /// What has ended, oldest first.
    #[must_use]
    pub fn ended(&self) -> Vec<Allocation> {
        self.map.lock().ended.iter().cloned().collect()
    }

    /// The last one that starts before the address, and the first one behind it.
    #[must_use]
    pub fn around(&self, address: u64) -> (Option<Allocation>, Option<Allocation>) {
        let map = self.map.lock();
        let below = map.by_start.range(..=address).next_back().map(|(_, found)| found.clone());
        let above = address.checked_add(1).and_then(|next| map.by_start.range(next..).next());
        (below, above.map(|(_, found)| found.clone()))
    }

    pub fn clear(&self) {
        let mut map = self.map.lock();
        self.ranges.clear();
        *map = Map { version: map.version + 1, ..Map::default() };
    }

    /// What kernels may touch is another, though the map is not.
    pub fn changed(&self) {
        self.map.lock().version += 1;
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.map.lock().by_start.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Without mapped physical memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.map.lock().bytes
    }

    /// Counts changes.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.map.lock().version
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allocation(start: u64, end: u64, label: Label) -> Allocation {
        Allocation { start, end, label, access: 3 }
    }

    #[test]
    fn the_map_knows_what_is_where() {
        let map = Allocations::new(Arc::default());
        map.add(allocation(0x1000, 0x1800, Label::Allocation));
        map.add(allocation(0x2000, 0x3000, Label::Mapped));
        assert_eq!((map.len(), map.bytes(), map.version()), (2, 0x800, 2));
        assert!(map.ranges().holds(0x1000, 0x800) && !map.ranges().holds(0x1000, 0x801));
        assert!(map.overlaps(0x17FF, 0x1800) && !map.overlaps(0x1800, 0x2000) && map.overlaps(0, u64::MAX));
        assert_eq!(map.holding(0x17FF).map(|found| found.start), Some(0x1000));
        assert_eq!(map.holding(0x1800), None);
        let (below, above) = map.around(0x1900);
        assert_eq!((below.unwrap().start, above.unwrap().start), (0x1000, 0x2000));
        let ended = map.take(0x1000).unwrap();
        map.remember(ended.clone());
        assert_eq!((map.take(0x1000), map.ended(), map.bytes()), (None, vec![ended], 0));
        assert!(!map.ranges().holds(0x1000, 1));
        map.clear();
        assert!(map.is_empty() && map.ended().is_empty() && map.version() == 4);
    }
}
