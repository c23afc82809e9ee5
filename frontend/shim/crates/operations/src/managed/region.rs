//! One region: its two mappings, the states of its pages, and the moves between them. Of registered memory the device's
//! address is another.
//!
//! Room: `mapping` (how the two mappings come to be and go).

mod mapping;

use crate::memory::payloads::{self, Target};
use crate::page;
use client::Destination;
use session::call::{Error, Outcome};
use session::contexts;
use session::work::{self, tracking};
use std::ffi::c_void;
use tape::generated_operations as operation;
use tape::MAX_TAIL_BYTES;

/// Fetched at a fault out of order, and at most, in pages.
const FIRST_FETCH: usize = 16;
const MOST_FETCH: usize = 4096;
/// Pages that become writable at once, at most, when the program writes in order.
const MOST_WRITABLE: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// cudaMallocManaged.
    Managed,
    /// cudaHostAlloc with cudaHostAllocMapped, and whatever flags.
    Mapped(u32),
    Variable,
    /// cudaHostRegister, after cudaHostGetDevicePointer: the device's memory lies at another address.
    Registered,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Shared,
    Dirty,
    Device,
}

/// Goes through memory in order, or not.
#[derive(Debug, Default)]
struct Order {
    next: usize,
    step: usize,
}

impl Order {
    /// How many pages to take at a fault on this one.
    fn take(&mut self, page: usize, first: usize, most: usize) -> usize {
        self.step = if page == self.next { (self.step * 2).clamp(first, most) } else { first };
        self.step
    }
}

#[derive(Debug)]
pub struct Region {
    start: usize,
    length: usize,
    /// What the program asked for, of `length`.
    size: usize,
    kind: Kind,
    /// Where its first byte is on the device.
    device: usize,
    /// Kernels find it at `start`, too.
    host_mapped: bool,
    /// Bytes travel as those of this context.
    context: u32,
    /// The device allocation's address.
    raw: usize,
    /// The second mapping.
    second: usize,
    states: Vec<State>,
    /// Bytes of the device's memory that are the region's: (offset, length), rising.
    ranges: Vec<(usize, usize)>,
    /// Some page is not `Device`.
    here: bool,
    reads: Order,
    writes: Order,
}

fn protect(start: usize, length: usize, access: i32) -> Outcome {
    // SAFETY: pages of a region's own mapping.
    if unsafe { libc::mprotect(start as *mut c_void, length, access) } == 0 {
        Ok(())
    } else {
        Err(Error::OPERATING_SYSTEM)
    }
}

impl Region {
    /// A region that is mapped at `start` and at `second`, all of its pages in one state.
    fn of(start: usize, length: usize, kind: Kind, raw: usize, second: usize, state: State) -> Self {
        Self {
            start,
            length,
            size: length,
            kind,
            device: start,
            host_mapped: false,
            context: contexts::acting(),
            raw,
            second,
            states: vec![state; length / page::size()],
            ranges: vec![(0, length)],
            here: state != State::Device,
            reads: Order::default(),
            writes: Order::default(),
        }
    }

    pub fn start(&self) -> usize {
        self.start
    }

    pub fn end(&self) -> usize {
        self.start + self.length
    }

    /// The program asked for no more than `size` bytes.
    pub fn asked(&mut self, size: usize) {
        self.size = size;
    }

    pub fn size(&self) -> usize {
        self.size
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn raw(&self) -> usize {
        self.raw
    }

    /// Where the device's memory is that the region has.
    pub fn on_device(&self) -> std::ops::Range<usize> {
        self.device..self.device + self.length
    }

    /// The device's address of a byte that it has at another one.
    pub fn mirrored(&self, address: usize) -> Option<usize> {
        (self.kind == Kind::Registered).then(|| self.device + (address - self.start))
    }

    /// Makes kernels find it at the program's address, too.
    pub fn map_to_host_address(&mut self) -> Outcome {
        if self.host_mapped || self.device == self.start {
            return Ok(());
        }
        let (start, device, length) = (self.start as u64, self.device as u64, self.length as u64);
        work::append(|w| operation::host_map(w, start, device, length))?;
        self.host_mapped = true;
        Ok(())
    }

    pub fn set_ranges(&mut self, ranges: Vec<(usize, usize)>) {
        self.ranges = ranges;
    }

    /// New memory: both sides have zeros.
    pub fn fresh(&mut self) -> Outcome {
        self.set(0, self.states.len(), State::Shared)
    }

    fn set(&mut self, first: usize, count: usize, state: State) -> Outcome {
        let access = match state {
            State::Shared => libc::PROT_READ,
            State::Dirty => libc::PROT_READ | libc::PROT_WRITE,
            State::Device => libc::PROT_NONE,
        };
        protect(self.start + first * page::size(), count * page::size(), access)?;
        self.states[first..first + count].fill(state);
        self.here |= state != State::Device;
        Ok(())
    }

    /// The pages from `first` on, at most `most`, that are in this state.
    fn run(&self, first: usize, most: usize, state: State) -> usize {
        self.states[first..].iter().take(most).take_while(|other| **other == state).count()
    }

    /// The parts of `[start, end)` that are the region's on the device.
    fn parts(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let clip = |&(offset, length): &(usize, usize)| (offset.max(start), (offset + length).min(end));
        self.ranges.iter().map(clip).filter(|(from, to)| from < to).collect()
    }

    /// The device's bytes of `count` pages, which the program may then read.
    fn fetch(&mut self, first: usize, count: usize) -> Outcome {
        let _acting = contexts::act_for(self.context);
        let legacy = tracking()?.order.legacy.clone();
        for (from, to) in self.parts(first * page::size(), (first + count) * page::size()) {
            let width = to - from;
            let destination = Destination { ptr: (self.second + from) as *mut u8, pitch: width, width, height: 1 };
            let (address, width) = ((self.device + from) as u64, width as u64);
            // SAFETY: the second mapping is writable, and as long as the region.
            unsafe {
                work::read(&legacy, destination, |w, slot| {
                    operation::read(w, address, width, width, 1, legacy.number, slot);
                })
            }?;
        }
        self.set(first, count, State::Shared)
    }

    /// Makes the page of an address accessible.
    pub fn resolve(&mut self, address: usize, write: bool) -> Outcome {
        let page = (address - self.start) / page::size();
        if self.states[page] == State::Device {
            let wanted = self.reads.take(page, FIRST_FETCH, MOST_FETCH);
            let count = self.run(page, wanted, State::Device);
            self.fetch(page, count)?;
            self.reads.next = page + count;
        }
        if write && self.states[page] == State::Shared {
            let wanted = self.writes.take(page, 1, MOST_WRITABLE);
            let count = self.run(page, wanted, State::Shared);
            self.set(page, count, State::Dirty)?;
            self.writes.next = page + count;
        }
        Ok(())
    }

    /// Makes all pages of `[start, end)` accessible.
    pub fn touch(&mut self, start: usize, end: usize, write: bool) -> Outcome {
        let (mut page, last) = ((start - self.start) / page::size(), (end - self.start).div_ceil(page::size()));
        let from = page;
        while page < last {
            let count = self.run(page, last - page, State::Device);
            if count > 0 {
                self.fetch(page, count)?;
            }
            page += count.max(1);
        }
        if write {
            self.set(from, last - from, State::Dirty)?;
        }
        Ok(())
    }

    pub fn expect_reads(&mut self, length: usize) {
        self.reads = Order { next: 0, step: (length / page::size()).clamp(FIRST_FETCH, MOST_FETCH) };
    }

    /// The device gets what the program has written; all pages are its own.
    pub fn hand_over(&mut self) -> Outcome {
        let _acting = contexts::act_for(self.context);
        if !self.here {
            return Ok(());
        }
        // No more writes from here on.
        protect(self.start, self.length, libc::PROT_NONE)?;
        let legacy = tracking()?.order.legacy.clone();
        let mut page = 0;
        while page < self.states.len() {
            let count = self.run(page, usize::MAX, State::Dirty);
            for (from, to) in self.parts(page * page::size(), (page + count) * page::size()) {
                for piece in (from..to).step_by(MAX_TAIL_BYTES) {
                    let length = MAX_TAIL_BYTES.min(to - piece);
                    let (address, width) = ((self.device + piece) as u64, length as u64);
                    let target = Target { address, pitch: width, width, height: 1 };
                    let second = self.second + piece;
                    // SAFETY: the second mapping is readable, and as long as the region.
                    let row = |_| unsafe { std::slice::from_raw_parts(second as *const u8, length) };
                    payloads::write(&legacy, target, true, row)?;
                }
            }
            page += count.max(1);
        }
        self.states.fill(State::Device);
        self.here = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_seen_through_both_mappings_and_gone_afterwards() {
        let start = 0x4321_0000_0000;
        let mut region = Region::map(start, 4 * page::size(), Kind::Managed, start).unwrap();
        assert!(Region::map(start, page::size(), Kind::Managed, start).is_err());
        region.fresh().unwrap();
        region.resolve(start + page::size(), true).unwrap();
        // SAFETY: the page is writable, and so is the second mapping.
        unsafe {
            (start as *mut u8).add(page::size() + 5).write(77);
            assert_eq!((region.second as *const u8).add(page::size() + 5).read(), 77);
            (region.second as *mut u8).write(3);
            assert_eq!((start as *const u8).read(), 3);
        }
        assert_eq!(region.states, [State::Shared, State::Dirty, State::Shared, State::Shared]);
        drop(region);
        drop(Region::map(start, page::size(), Kind::Managed, start).unwrap());
    }

    #[test]
    fn parts_are_what_belongs_to_the_region() {
        let start = 0x4322_0000_0000;
        let mut region = Region::map(start, 3 * page::size(), Kind::Variable, start).unwrap();
        region.set_ranges(vec![(8, 4), (100, page::size()), (2 * page::size() + 16, 8)]);
        assert_eq!(region.parts(0, page::size()), [(8, 12), (100, page::size())]);
        assert_eq!(region.parts(page::size(), 2 * page::size()), [(page::size(), page::size() + 100)]);
        assert_eq!(region.parts(2 * page::size(), 3 * page::size()), [(2 * page::size() + 16, 2 * page::size() + 24)]);
    }

    #[test]
    fn going_in_order_takes_more_each_time() {
        let mut order = Order::default();
        let mut page = 5;
        let mut taken = Vec::new();
        for _ in 0..4 {
            let count = order.take(page, 2, 8);
            taken.push(count);
            page += count;
            order.next = page;
        }
        assert_eq!(taken, [2, 4, 8, 8]);
        assert_eq!(order.take(1, 2, 8), 2);
    }
}
