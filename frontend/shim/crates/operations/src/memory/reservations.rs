//! Reserved addresses, physical allocations, and which of these are mapped where.
//!
//! Owns the book of virtual memory: every rule about what may be mapped, unmapped, released and made accessible is
//! checked here, before anything is recorded. Knows neither CUDA nor the tape, and mints no address: the allocator does
//! (`Allocator::take_range`).
//!
//! A physical allocation lives as long as a reference of the program or a mapping keeps it; its number names it that
//! long. Mappings that touch and have the same access are one *run*: what a copy may cross.
//!
//! Locking: part of the state behind `Addresses::lock`.
//! Source: CUDA driver API, "Virtual Memory Management".

use crate::allocator::GRANULE;
use std::collections::BTreeMap;

/// What kernels and copies may do with a mapping; the numbers are the tape's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    #[default]
    None = 0,
    Read = 1,
    ReadWrite = 3,
}

/// What the program asked for beside a size, kept for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Properties {
    /// Ways of exporting the memory that the program may want: a set of bits.
    pub exports: u32,
}

#[derive(Debug, Clone)]
struct Physical {
    size: u64,
    properties: Properties,
    /// Of the program: creation and retaining make one each.
    references: u32,
    mappings: u32,
}

#[derive(Debug, Clone, Copy)]
struct Mapping {
    size: u64,
    memory: u32,
    access: Access,
}

/// The call breaks a rule; nothing has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken;

/// A physical allocation that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    pub memory: u32,
    pub size: u64,
}

/// See the module's comment.
#[derive(Debug, Clone)]
pub struct VirtualMemory {
    /// Start -> size, as the program asked for it.
    reservations: BTreeMap<u64, u64>,
    physical: BTreeMap<u32, Physical>,
    mappings: BTreeMap<u64, Mapping>,
    /// Start -> size and access of neighbouring mappings that the program may use.
    runs: BTreeMap<u64, (u64, Access)>,
    /// The last number given to a physical allocation: none is used twice in a session.
    last: u32,
}

impl Default for VirtualMemory {
    fn default() -> Self {
        let (reservations, physical, mappings, runs) = Default::default();
        Self { reservations, physical, mappings, runs, last: 15 }
    }
}

/// Whether `[address, address + size)` is made of whole granules.
fn whole(address: u64, size: u64) -> bool {
    size != 0 && address.is_multiple_of(GRANULE) && size.is_multiple_of(GRANULE) && address.checked_add(size).is_some()
}

impl VirtualMemory {
    /// Everything forgotten, the numbers that were used excepted.
    pub fn reset(&mut self) {
        *self = Self { last: self.last, ..Self::default() };
    }

    /// Start and size of every reservation.
    pub fn reservations(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.reservations.iter().map(|(start, size)| (*start, *size))
    }

    /// Number and size of every physical allocation.
    pub fn physical(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.physical.iter().map(|(memory, physical)| (*memory, physical.size))
    }

    /// Start, size, memory and access of every mapping.
    pub fn mappings(&self) -> impl Iterator<Item = (u64, u64, u32, Access)> + '_ {
        self.mappings.iter().map(|(start, mapping)| (*start, mapping.size, mapping.memory, mapping.access))
    }

    /// Reservations, physical allocations, mappings.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.reservations.len(), self.physical.len(), self.mappings.len())
    }

    // Reservations -------------------------------------------------------------------------------------------------

    pub fn reserved(&mut self, start: u64, size: u64) {
        self.reservations.insert(start, size);
    }

    /// Ends a reservation, which must be named exactly and have no mapping.
    pub fn unreserve(&mut self, start: u64, size: u64) -> Result<(), Broken> {
        if self.reservations.get(&start) != Some(&size) || self.mapped_in(start, start + size) {
            return Err(Broken);
        }
        self.reservations.remove(&start);
        Ok(())
    }

    /// The reservation that holds the address: its start and size.
    fn reservation(&self, address: u64) -> Option<(u64, u64)> {
        let (&start, &size) = self.reservations.range(..=address).next_back()?;
        (address - start < size).then_some((start, size))
    }

    // Physical allocations -----------------------------------------------------------------------------------------

    pub fn create(&mut self, size: u64, properties: Properties) -> u32 {
        self.last += 1;
        self.physical.insert(self.last, Physical { size, properties, references: 1, mappings: 0 });
        self.last
    }

    pub fn properties(&self, memory: u32) -> Option<Properties> {
        self.referenced(memory).map(|physical| physical.properties)
    }

    fn referenced(&self, memory: u32) -> Option<&Physical> {
        self.physical.get(&memory).filter(|physical| physical.references != 0)
    }

    /// One more reference to the memory that is mapped at the address.
    pub fn retain(&mut self, address: u64) -> Result<u32, Broken> {
        let memory = self.mapping(address).ok_or(Broken)?.1.memory;
        let physical = self.physical.get_mut(&memory).ok_or(Broken)?;
        physical.references = physical.references.checked_add(1).ok_or(Broken)?;
        Ok(memory)
    }

    /// One reference less; what has ended with it.
    pub fn release(&mut self, memory: u32) -> Result<Option<Ended>, Broken> {
        let physical = self.physical.get_mut(&memory).filter(|physical| physical.references != 0).ok_or(Broken)?;
        physical.references -= 1;
        Ok(self.end_unused(memory))
    }

    fn end_unused(&mut self, memory: u32) -> Option<Ended> {
        let physical = self.physical.get(&memory)?;
        if physical.references != 0 || physical.mappings != 0 {
            return None;
        }
        let size = physical.size;
        self.physical.remove(&memory);
        Some(Ended { memory, size })
    }

    // Mappings -----------------------------------------------------------------------------------------------------

    /// The mapping that holds the address, with its start.
    fn mapping(&self, address: u64) -> Option<(u64, Mapping)> {
        let (&start, &mapping) = self.mappings.range(..=address).next_back()?;
        (address - start < mapping.size).then_some((start, mapping))
    }

    fn mapped_in(&self, start: u64, end: u64) -> bool {
        self.mappings.range(..end).next_back().is_some_and(|(low, mapping)| low + mapping.size > start)
    }

    /// The first `size` bytes of an allocation are at the address from now on, without access.
    pub fn map(&mut self, address: u64, size: u64, memory: u32) -> Result<(), Broken> {
        let physical = self.referenced(memory).filter(|physical| size <= physical.size).ok_or(Broken)?;
        let mappings = physical.mappings.checked_add(1).ok_or(Broken)?;
        if !whole(address, size) || self.mapped_in(address, address + size) {
            return Err(Broken);
        }
        let (start, length) = self.reservation(address).ok_or(Broken)?;
        if address - start + size > length {
            return Err(Broken);
        }
        self.mappings.insert(address, Mapping { size, memory, access: Access::None });
        self.physical.get_mut(&memory).ok_or(Broken)?.mappings = mappings;
        Ok(())
    }

    /// The starts of the mappings of which exactly the range is made.
    pub fn within(&self, address: u64, size: u64) -> Result<Vec<u64>, Broken> {
        if !whole(address, size) {
            return Err(Broken);
        }
        let (mut at, end, mut starts) = (address, address + size, Vec::new());
        while at < end {
            let mapping = self.mappings.get(&at).ok_or(Broken)?;
            starts.push(at);
            at += mapping.size;
        }
        if at == end {
            Ok(starts)
        } else {
            Err(Broken)
        }
    }

    /// Ends the mapping that starts there; the memory that has ended with it.
    pub fn unmap(&mut self, start: u64) -> Option<Ended> {
        let mapping = self.mappings.remove(&start)?;
        self.cut(start, mapping);
        let physical = self.physical.get_mut(&mapping.memory)?;
        physical.mappings -= 1;
        self.end_unused(mapping.memory)
    }

    /// Access to the mapping that starts there.
    pub fn set_access(&mut self, start: u64, access: Access) {
        let Some(mapping) = self.mappings.get_mut(&start) else { return };
        let before = std::mem::replace(mapping, Mapping { access, ..*mapping });
        self.cut(start, before);
        if access != Access::None {
            self.join(start, before.size, access);
        }
    }

    /// Access to the mapping that holds the address.
    pub fn access(&self, address: u64) -> Option<Access> {
        self.mapping(address).map(|(_, mapping)| mapping.access)
    }

    /// The run that holds the address: start, size and access.
    pub fn run(&self, address: u64) -> Option<(u64, u64, Access)> {
        let (&start, &(size, access)) = self.runs.range(..=address).next_back()?;
        (address - start < size).then_some((start, size, access))
    }

    fn cut(&mut self, start: u64, mapping: Mapping) {
        if mapping.access == Access::None {
            return;
        }
        let Some((low, size, access)) = self.run(start) else { return };
        self.runs.remove(&low);
        let (high, end) = (start + mapping.size, low + size);
        for (from, to) in [(low, start), (high, end)] {
            if from < to {
                self.runs.insert(from, (to - from, access));
            }
        }
    }

    fn join(&mut self, start: u64, size: u64, access: Access) {
        let (mut low, mut high) = (start, start + size);
        if let Some((before, length, same)) = start.checked_sub(1).and_then(|address| self.run(address)) {
            if same == access {
                self.runs.remove(&before);
                (low, high) = (before, before + length + size);
            }
        }
        if let Some(&(length, same)) = self.runs.get(&high) {
            if same == access {
                self.runs.remove(&high);
                high += length;
            }
        }
        self.runs.insert(low, (high - low, access));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: u64 = 0x2000_0000_0000;
    const G: u64 = GRANULE;

    fn reserved(granules: u64) -> VirtualMemory {
        let mut memory = VirtualMemory::default();
        memory.reserved(BASE, granules * G);
        memory
    }

    #[test]
    fn a_mapping_lies_in_one_reservation_and_over_no_other_mapping() {
        let mut book = reserved(8);
        book.reserved(BASE + 8 * G, 2 * G);
        let memory = book.create(4 * G, Properties::default());
        for (address, size) in [
            (BASE - G, G),
            (BASE, 0),
            (BASE, 5 * G),
            (BASE + 1, G),
            (BASE, G + 4096),
            (BASE + 7 * G, 2 * G),
            (BASE + 10 * G, G),
            (u64::MAX - G + 1, G),
        ] {
            assert_eq!(book.map(address, size, memory), Err(Broken), "{size} bytes at {address:#x}");
        }
        assert_eq!(book.map(BASE, G, memory + 1), Err(Broken));
        assert_eq!(book.map(BASE + G, 2 * G, memory), Ok(()));
        for (address, size) in [(BASE + G, G), (BASE, 2 * G), (BASE + 2 * G, G), (BASE, 4 * G)] {
            assert_eq!(book.map(address, size, memory), Err(Broken), "{size} bytes at {address:#x}");
        }
        assert_eq!((book.map(BASE, G, memory), book.map(BASE + 3 * G, G, memory)), (Ok(()), Ok(())));
        assert_eq!(book.mapping(BASE + 3 * G - 1).map(|(start, one)| (start, one.size)), Some((BASE + G, 2 * G)));
        assert!(book.mapping(BASE + 4 * G).is_none());
    }

    #[test]
    fn memory_ends_with_its_last_reference_and_its_last_mapping() {
        let mut book = reserved(8);
        let memory = book.create(2 * G, Properties::default());
        book.map(BASE, 2 * G, memory).unwrap();
        book.map(BASE + 4 * G, 2 * G, memory).unwrap();
        assert_eq!(book.release(memory), Ok(None));
        assert_eq!(book.release(memory), Err(Broken));
        assert_eq!(book.map(BASE + 2 * G, G, memory), Err(Broken), "the handle has no owner");
        assert_eq!(book.unmap(BASE), None);
        assert_eq!(book.retain(BASE + 5 * G), Ok(memory));
        assert_eq!(book.unmap(BASE + 4 * G), None);
        assert_eq!(book.retain(BASE + 5 * G), Err(Broken));
        let ended = Ended { memory, size: 2 * G };
        assert_eq!(book.release(memory), Ok(Some(ended)));
        let other = book.create(G, Properties::default());
        assert_ne!(other, memory);
        book.map(BASE, G, other).unwrap();
        book.release(other).unwrap();
        assert_eq!(book.unmap(BASE), Some(Ended { memory: other, size: G }));
        book.reset();
        assert!(book.create(G, Properties::default()) > other, "numbers are not used twice");
    }

    #[test]
    fn a_range_of_whole_mappings_is_unmapped_at_once() {
        let mut book = reserved(8);
        let memory = book.create(2 * G, Properties::default());
        for granule in [0, 1, 3] {
            book.map(BASE + granule * G, G, memory).unwrap();
        }
        assert_eq!(book.within(BASE, 2 * G), Ok(vec![BASE, BASE + G]));
        for (address, size) in [(BASE, 4 * G), (BASE, 3 * G), (BASE + 2 * G, G), (BASE, 0), (BASE, G / 2)] {
            assert_eq!(book.within(address, size), Err(Broken), "{size} bytes at {address:#x}");
        }
        book.map(BASE + 4 * G, 2 * G, memory).unwrap();
        assert_eq!(book.within(BASE + 3 * G, 2 * G), Err(Broken), "a part of a mapping");
    }

    #[test]
    fn mappings_that_touch_are_one_run() {
        let mut book = reserved(8);
        let memory = book.create(2 * G, Properties::default());
        for granule in 0..4 {
            book.map(BASE + granule * G, G, memory).unwrap();
            assert_eq!(book.run(BASE + granule * G), None, "without access");
        }
        for granule in [0, 2, 1] {
            book.set_access(BASE + granule * G, Access::ReadWrite);
        }
        assert_eq!(book.run(BASE + 2 * G), Some((BASE, 3 * G, Access::ReadWrite)));
        book.set_access(BASE + 3 * G, Access::Read);
        assert_eq!(book.run(BASE + 3 * G), Some((BASE + 3 * G, G, Access::Read)));
        book.set_access(BASE + G, Access::None);
        assert_eq!(book.run(BASE + G), None);
        assert_eq!(book.run(BASE), Some((BASE, G, Access::ReadWrite)));
        assert_eq!(book.run(BASE + 2 * G), Some((BASE + 2 * G, G, Access::ReadWrite)));
        book.unmap(BASE + 2 * G);
        assert_eq!((book.run(BASE + 2 * G), book.access(BASE + 2 * G)), (None, None));
        assert_eq!(book.access(BASE + 3 * G), Some(Access::Read));
    }

    #[test]
    fn a_reservation_is_freed_exactly_and_empty() {
        let mut book = reserved(4);
        let memory = book.create(G, Properties::default());
        book.map(BASE + 3 * G, G, memory).unwrap();
        for (start, size) in [(BASE, 4 * G), (BASE, 2 * G), (BASE + G, 3 * G), (BASE + 4 * G, G)] {
            assert_eq!(book.unreserve(start, size), Err(Broken));
        }
        book.unmap(BASE + 3 * G);
        assert_eq!(book.reservation(BASE + 4 * G - 1), Some((BASE, 4 * G)));
        assert_eq!(book.unreserve(BASE, 4 * G), Ok(()));
        assert_eq!(book.reservation(BASE), None);
    }
}
