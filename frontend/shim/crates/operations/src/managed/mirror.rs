//! Memory that the program has registered and that kernels reach: a region whose device memory lies at another address.
//! Where a kernel is given the program's own address, the shim registers this address with the host, too (a host mapping).
//!
//! Owns the exchange of the program's pages for shared ones that a region can map twice, and back when the memory is
//! unregistered. Their bytes stay where they are, for the program; they are copied in both exchanges, so another thread
//! must not write to them meanwhile.
//!
//! Only private, writable memory is exchanged, no stack, and only whole pages that hold nothing else: what lies beside
//! the registered bytes could be this library's own, which must not fault where the lock is held. Whole pages are those
//! that the program has registered as such, or that the C library has mapped for one large allocation.
//!
//! Locking: as in `managed`; the caller keeps copies away (`hostmem::placed::change`). The bounds of all mirrors are
//! read without a lock.

use super::region::Region;
use super::{faults, regions, release};
use crate::memory::addresses;
use crate::page;
use session::call::{Error, Outcome};
use session::work::{self};
use session::{log, mappings};
use std::sync::atomic::{AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, PoisonError};
use tape::generated_operations as operation;

/// Where mirrors are, first and last byte and one; empty places are 0.
struct Bounds([(AtomicUsize, AtomicUsize); MOST]);

const MOST: usize = 64;
static BOUNDS: Bounds = Bounds([const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MOST]);
/// Places that were ever taken.
static USED: AtomicUsize = AtomicUsize::new(0);
/// Held by who takes or gives up a place.
static CHANGING: Mutex<()> = Mutex::new(());

impl Bounds {
    fn set(&self, start: usize, end: usize) -> Outcome {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = self.0.iter().position(|(_, end)| end.load(Acquire) == 0).ok_or(Error::NOT_SUPPORTED)?;
        self.0[free].0.store(start, Release);
        self.0[free].1.store(end, Release);
        USED.fetch_max(free + 1, Release);
        Ok(())
    }

    fn clear(&self, start: usize) {
        let _changing = CHANGING.lock().unwrap_or_else(PoisonError::into_inner);
        for (first, end) in &self.0 {
            if start == usize::MAX || first.load(Acquire) == start {
                end.store(0, Release);
            }
        }
    }
}

/// Whether there is mirrored memory in `[start, end)`. Async-signal-safe.
pub fn meets(start: usize, end: usize) -> bool {
    let used = USED.load(Acquire);
    BOUNDS.0[..used].iter().any(|(first, last)| start < last.load(Acquire) && first.load(Acquire) < end)
}

/// The device was reset: there are none.
pub fn forget() {
    BOUNDS.clear(usize::MAX);
}

/// The device's address of registered memory that kernels reach.
pub fn device_address(address: usize) -> Option<usize> {
    if !meets(address, address.saturating_add(1)) {
        return None;
    }
    regions().find(address).and_then(|region| region.mirrored(address))
}

/// Kernels find the mirrored memory that holds the address at the program's own addresses, too.
pub fn map_to_host_address(address: usize) -> Outcome {
    regions().find(address).map_or(Ok(()), Region::map_to_host_address)
}

/// Whether the pages of `[start, start + size)` hold nothing else. `head` is the word before it, where there is one.
fn is_alone(start: usize, size: usize, head: Option<usize>) -> bool {
    let end = start + size;
    if start.is_multiple_of(page::size()) && end.is_multiple_of(page::size()) {
        return true;
    }
    // The C library's header of an allocation that is a mapping of its own: its size, up to the mapping's end, and the
    // bit that says so.
    let Some(head) = head else { return false };
    let (chunk, length) = (start - 2 * size_of::<usize>(), head & !7);
    let first = chunk.is_multiple_of(page::size()) || start.is_multiple_of(page::size());
    head & 7 == 2
        && first
        && chunk.checked_add(length).is_some_and(|last| last.is_multiple_of(page::size()) && last >= end)
}

/// Registered memory becomes memory of both sides. The device gets its bytes before the next work.
pub fn mirror(start: usize, size: usize) -> Outcome {
    let first = start / page::size() * page::size();
    let bytes = (start + size).next_multiple_of(page::size()) - first;
    let frame = 0_u8;
    let own = (&raw const frame) as usize;
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| Error::OPERATING_SYSTEM)?;
    let word = start.checked_sub(size_of::<usize>()).filter(|word| word.is_multiple_of(align_of::<usize>()));
    let word = word.filter(|word| mappings::is_ordinary(&maps, word / page::size() * page::size(), page::size()));
    // SAFETY: it lies in a page that can be read.
    let head = word.map(|word| unsafe { (word as *const usize).read() });
    let own_pages = mappings::is_ordinary(&maps, first, bytes) && !(first..first + bytes).contains(&own);
    if regions().overlap(first, bytes) || !own_pages || !is_alone(start, size, head) {
        log::error(format_args!(
            "kernels do not reach memory at {start:#x} that the program has registered: it has no pages of its own \
             (whole ones, or those of a large malloc), or is not the process's own writable memory"
        ));
        return Err(Error::NOT_SUPPORTED);
    }
    faults::install()?;
    let whole = bytes + page::size();
    let raw = {
        let mut live = addresses()?.lock();
        let raw = live.allocator.allocate(whole as u64)?;
        live.disown(raw);
        if let Err(error) = work::append(|w| operation::allocate(w, raw, whole as u64)) {
            live.allocator.free(raw)?;
            return Err(error);
        }
        raw as usize
    };
    let made = BOUNDS.set(first, first + bytes).and_then(|()| {
        Region::take_over(start, size, raw.next_multiple_of(page::size()), raw).inspect_err(|_| BOUNDS.clear(first))
    });
    match made {
        Ok(region) => {
            regions().add(region);
            Ok(())
        }
        Err(error) => {
            release(raw as u64)?;
            Err(error)
        }
    }
}

/// The memory is the program's alone again, if it was not.
pub fn end(start: usize) -> Outcome {
    if !meets(start, start.saturating_add(1)) {
        return Ok(());
    }
    let region = {
        let mut regions = regions();
        let Some(found) = regions.find(start) else { return Ok(()) };
        if found.mirrored(start).is_none() {
            return Ok(());
        }
        let first = found.start();
        found.give_back()?;
        BOUNDS.clear(first);
        regions.0.remove(&first)
    };
    let Some(raw) = region.map(|region| region.raw()) else { return Ok(()) };
    release(raw as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_alone_in_whole_pages_and_in_a_mapping_of_the_c_library() {
        let page = page::size();
        let start = 16 * page;
        assert!(is_alone(start, 2 * page, None));
        assert!(!is_alone(start, page + page / 2, None) && !is_alone(start + 16, 2 * page, None));
        // A mapping of three pages; the same with an aligned start; in the heap; too short; not up to a page's end.
        let part = 2 * page + page / 2;
        assert!(is_alone(start + 16, part, Some(3 * page + 2)));
        assert!(is_alone(start + page, page + page / 2, Some(2 * page + 0x12)));
        let others = [(16, 3 * page + 1), (32, 3 * page - 16 + 2), (16, 2 * page + 2), (16, 3 * page + page / 2 + 2)];
        for (offset, head) in others {
            assert!(!is_alone(start + offset, part, Some(head)), "{offset:#x} {head:#x}");
        }
    }

    #[test]
    fn places_are_found_and_given_up() {
        let bounds = Bounds([const { (AtomicUsize::new(0), AtomicUsize::new(0)) }; MOST]);
        for number in 1..=MOST {
            bounds.set(number * 100, number * 100 + 10).unwrap();
        }
        assert_eq!(bounds.set(1, 2), Err(Error::NOT_SUPPORTED));
        bounds.clear(300);
        assert_eq!(bounds.set(1, 2), Ok(()));
    }
}
