//! The pinned ranges of host memory: which there are, where each came from, and that they are disjoint.

use crate::allocator::new_id;
use crate::types::{HOST_REGISTER_IO_MEMORY, HOST_REGISTER_MAPPED, HOST_REGISTER_PORTABLE, HOST_REGISTER_READ_ONLY};
use session::call::{Error, Outcome};
use session::contexts;
use std::collections::BTreeMap;

const REGISTER_FLAGS: u32 =
    HOST_REGISTER_PORTABLE | HOST_REGISTER_MAPPED | HOST_REGISTER_IO_MEMORY | HOST_REGISTER_READ_ONLY;

/// One pinned range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    pub start: usize,
    pub size: usize,
    pub flags: u32,
    pub(super) place: Place,
    /// The context that it was allocated in.
    pub context: u32,
    /// It was tried, and cannot be memory of both sides.
    pub(super) refused: bool,
    /// No other allocation of the process has the number.
    pub id: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The program's own, which it registered.
    Registered,
    /// Allocated here, where there was no room in the window.
    Heap,
    /// At addresses of the window.
    Window,
    /// The same, and memory of the device.
    Reached,
}

impl Range {
    pub(super) fn new(start: usize, size: usize, flags: u32, place: Place) -> Range {
        Range { start, size, flags, place, context: contexts::acting(), refused: false, id: new_id() }
    }

    /// Whether a kernel may use it, by the same address.
    pub fn reachable(&self) -> bool {
        matches!(self.place, Place::Window | Place::Reached)
    }
}

/// The pinned ranges, disjoint, by start.
#[derive(Debug, Default)]
pub(super) struct Pinned(pub(super) BTreeMap<usize, Range>);

impl Pinned {
    pub(super) fn find(&self, address: usize) -> Option<Range> {
        let (_, range) = self.0.range(..=address).next_back()?;
        (address - range.start < range.size).then_some(*range)
    }

    fn overlaps(&self, start: usize, size: usize) -> bool {
        self.find(start).is_some() || self.0.range(start..start.saturating_add(size)).next().is_some()
    }

    pub(super) fn register(&mut self, start: usize, size: usize, flags: u32) -> Outcome {
        if start == 0 || size == 0 || start.checked_add(size).is_none() || flags & !REGISTER_FLAGS != 0 {
            return Err(Error::INVALID_VALUE);
        }
        if flags & HOST_REGISTER_IO_MEMORY != 0 {
            return Err(Error::NOT_SUPPORTED);
        }
        if self.overlaps(start, size) {
            return Err(Error::HOST_MEMORY_ALREADY_REGISTERED);
        }
        self.0.insert(start, Range::new(start, size, flags, Place::Registered));
        Ok(())
    }

    /// Takes out the range that starts at the address, when it came about that way.
    pub(super) fn remove(&mut self, start: usize, registered: bool) -> Option<Range> {
        self.0.get(&start).filter(|range| (range.place == Place::Registered) == registered)?;
        self.0.remove(&start)
    }
}

impl Pinned {
    pub(super) const fn new() -> Self {
        Self(BTreeMap::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_ranges_are_disjoint_and_found_inside() {
        let mut pinned = Pinned::default();
        assert_eq!(pinned.register(0x1000, 0x100, 0), Ok(()));
        for (start, size) in [(0x1000, 1), (0x10ff, 1), (0xfff, 2), (0x800, 0x1000), (0x1050, 0x1000)] {
            assert_eq!(pinned.register(start, size, 0), Err(Error::HOST_MEMORY_ALREADY_REGISTERED), "{start:#x}");
        }
        assert_eq!(pinned.register(0x1100, 0x100, 1), Ok(()));
        assert_eq!(pinned.find(0x11ff).map(|r| (r.start, r.flags)), Some((0x1100, 1)));
        assert_eq!((pinned.find(0xfff), pinned.find(0x1200)), (None, None));
    }

    #[test]
    fn bad_registrations_are_refused() {
        let mut pinned = Pinned::default();
        for (start, size, flags) in [(0, 8, 0), (8, 0, 0), (usize::MAX, 2, 0), (8, 8, 16)] {
            assert_eq!(pinned.register(start, size, flags), Err(Error::INVALID_VALUE));
        }
        assert_eq!(pinned.register(8, 8, HOST_REGISTER_IO_MEMORY), Err(Error::NOT_SUPPORTED));
        assert!(pinned.0.is_empty());
    }
}
