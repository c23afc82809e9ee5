//! What copies may touch: disjoint ranges of addresses that may be read and written.
//!
//! Source: CUDA runtime API, cudaMemcpy (every byte lies in one allocation).

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Disjoint ranges. Any thread may use it.
#[derive(Debug, Default)]
pub struct Ranges(Mutex<BTreeMap<u64, u64>>);

impl Ranges {
    /// Adds `[start, end)`, which overlaps none.
    pub fn add(&self, start: u64, end: u64) {
        self.0.lock().insert(start, end);
    }

    /// Takes the range out that starts there.
    pub fn remove(&self, start: u64) {
        self.0.lock().remove(&start);
    }

    pub fn clear(&self) {
        self.0.lock().clear();
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.0.lock().len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }

    /// Whether one range holds all `size` bytes from `address` on.
    #[must_use]
    pub fn holds(&self, address: u64, size: u64) -> bool {
        let Some(last) = address.checked_add(size) else {
            return false;
        };
        self.0.lock().range(..=address).next_back().is_some_and(|(_, &end)| last <= end && address < end)
    }
}

/// Rows of bytes, `pitch` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rows {
    pub address: u64,
    pub pitch: u64,
    pub width: u64,
    pub height: u64,
}

impl Rows {
    /// From the first byte to the last one; `None`: there are none, they overlap, or no address space is so large.
    #[must_use]
    pub fn span(&self) -> Option<u64> {
        if self.width == 0 || self.height == 0 || (self.height > 1 && self.pitch < self.width) {
            return None;
        }
        (self.height - 1).checked_mul(self.pitch)?.checked_add(self.width)
    }

    /// Bytes of the rows.
    #[must_use]
    pub fn size(&self) -> Option<u64> {
        self.width.checked_mul(self.height)
    }

    #[must_use]
    pub const fn contiguous(&self) -> bool {
        self.height == 1 || self.pitch == self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_has_to_hold_all() {
        let ranges = Ranges::default();
        ranges.add(0x1000, 0x2000);
        ranges.add(0x2000, 0x3000);
        assert!(ranges.holds(0x1000, 0x1000));
        assert!(ranges.holds(0x1FFF, 1));
        assert!(!ranges.holds(0x1FFF, 2), "two allocations");
        assert!(!ranges.holds(0xFFF, 1));
        assert!(!ranges.holds(0x3000, 1));
        assert!(!ranges.holds(u64::MAX, 2));
        ranges.remove(0x1000);
        assert!(!ranges.holds(0x1000, 1));
    }

    #[test]
    fn rows_that_make_no_sense_have_no_span() {
        let rows = |pitch, width, height| Rows { address: 0, pitch, width, height };
        assert_eq!(rows(8, 4, 3).span(), Some(20));
        assert_eq!(rows(0, 4, 1).span(), Some(4));
        assert_eq!(rows(3, 4, 2).span(), None);
        assert_eq!(rows(4, 0, 1).span(), None);
        assert_eq!(rows(u64::MAX, u64::MAX, 3).span(), None);
        assert_eq!(rows(1, u64::MAX, 2).size(), None);
    }
}
