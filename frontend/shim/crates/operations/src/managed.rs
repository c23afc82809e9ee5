//! Managed memory: one address for the program and the kernels, kept coherent by page protection.
//!
//! A *region* is device memory with the program's memory at the same address: what cudaMallocManaged gives, mapped host
//! memory (which is the same here), and the pages of `__managed__` variables. (Registered memory has another address on
//! the device: `mirror`.) Each of its pages is in one state:
//!
//! - `Shared`: guest and device have the same bytes; the program may read them.
//! - `Dirty`: the program may have written; the device's bytes are old.
//! - `Device`: a kernel may have written since; the program may not touch them.
//!
//! The first touch of a page that is not allowed faults (`faults`), and the page's bytes are fetched, with more behind
//! it when the program goes through memory in order. Before work that could touch regions on the device (`hand_over`)
//! the dirty pages are sent, and all become `Device`. So untouched pages never travel. Bytes move through a
//! second mapping of the same memory, which is always accessible: no thread sees a page half filled.
//!
//! System calls do not fault, they fail: `io` makes the memory accessible before the common ones.
//!
//! Locking: one mutex around all regions. `hand_over` returns it locked, and the caller appends its record before it
//! lets go, so that no page is fetched in between. Nothing that may fault is touched while it, or a lock of the
//! session, is held.
//! Source: CUDA programming guide, "Unified Memory Programming".

mod faults;
mod mirror;
mod region;

pub use mirror::{device_address, end as end_mirror, map_to_host_address, meets as meets_mirror, mirror};
pub use region::Kind;

use crate::memory::addresses;
use crate::page;
use region::Region;
use session::call::{Error, Outcome};
use session::work::{self};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tape::generated_operations as operation;

/// The regions, by start.
#[derive(Debug, Default)]
pub struct Regions(BTreeMap<usize, Region>);

static REGIONS: Mutex<Regions> = Mutex::new(Regions(BTreeMap::new()));
static ANY: AtomicBool = AtomicBool::new(false);
/// The memory on the device of all regions that there ever were lies in `[LOW, HIGH)`, and so do the regions, but for
/// mirrors.
static LOW: AtomicUsize = AtomicUsize::new(usize::MAX);
static HIGH: AtomicUsize = AtomicUsize::new(0);

fn regions() -> MutexGuard<'static, Regions> {
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether there ever was a region.
#[inline]
pub fn any() -> bool {
    ANY.load(Acquire)
}

/// Whether an address may be in a region. Async-signal-safe.
fn near(address: usize) -> bool {
    address >= LOW.load(Acquire) && address < HIGH.load(Acquire) || mirror::meets(address, address.saturating_add(1))
}

impl Regions {
    fn find(&mut self, address: usize) -> Option<&mut Region> {
        let (_, region) = self.0.range_mut(..=address).next_back()?;
        (address < region.end()).then_some(region)
    }

    /// Whether a region has a byte of `[start, start + length)`.
    fn overlap(&self, start: usize, length: usize) -> bool {
        self.0.range(..start + length).next_back().is_some_and(|(_, region)| region.end() > start)
    }

    fn add(&mut self, region: Region) {
        let device = region.on_device();
        LOW.fetch_min(device.start, Release);
        HIGH.fetch_max(device.end, Release);
        ANY.store(true, Release);
        self.0.insert(region.start(), region);
    }
}

/// What cudaPointerGetAttributes says of an address.
pub fn kind(address: usize) -> Option<Kind> {
    if !near(address) {
        return None;
    }
    regions().find(address).map(|region| region.kind())
}

/// The device allocation of the region that holds the address.
pub fn allocation(address: usize) -> Option<u64> {
    if !near(address) {
        return None;
    }
    regions().find(address).map(|region| region.raw() as u64)
}

/// The start of the region that holds the address, and the size that was asked for.
pub fn range(address: usize) -> Option<(usize, usize)> {
    if !near(address) {
        return None;
    }
    regions().find(address).map(|region| (region.start(), region.size()))
}

/// Memory of both sides.
pub fn allocate(size: usize, kind: Kind) -> Outcome<*mut u8> {
    faults::install()?;
    // The allocator packs small allocations; a region needs pages of its own.
    let bytes = size.checked_next_multiple_of(page::size()).ok_or(Error::MEMORY_ALLOCATION)?;
    let whole = bytes.checked_add(page::size()).ok_or(Error::MEMORY_ALLOCATION)?;
    let address = crate::memory::allocate(whole)? as usize;
    let start = address.next_multiple_of(page::size());
    let made = Region::map(start, bytes, kind, address).and_then(|mut region| {
        region.fresh()?;
        region.asked(size);
        Ok(region)
    });
    match made {
        Ok(region) => {
            regions().add(region);
            Ok(start as *mut u8)
        }
        Err(error) => {
            release(address as u64)?;
            Err(error)
        }
    }
}

/// Pinned memory, whole pages mapped at this address of the window, becomes memory of both sides. The device gets its
/// bytes before the next work.
pub fn adopt(start: usize, bytes: usize) -> Outcome {
    faults::install()?;
    let region = Region::adopt(start, bytes, Kind::Mapped(crate::types::HOST_ALLOC_MAPPED), start)?;
    let made = {
        let mut live = addresses()?.lock();
        live.reach(start as u64, bytes as u64).map_err(Error::from).and_then(|()| {
            let appended = work::append(|w| operation::allocate(w, start as u64, bytes as u64));
            appended.inspect_err(|_| live.unreach(start as u64))
        })
    };
    match made {
        Ok(()) => regions().add(region),
        Err(_) => region.abandon(),
    }
    made
}

fn release(address: u64) -> Outcome {
    let mut live = addresses()?.lock();
    live.free(address)?;
    work::append(|w| operation::free(w, address))
}

/// Ends the region that starts at the address; `None` when there is none of such a kind.
pub fn free(address: usize, is_meant: fn(Kind) -> bool) -> Option<Outcome> {
    if !near(address) {
        return None;
    }
    let mut regions = regions();
    let found = regions.0.get(&address).filter(|region| is_meant(region.kind()))?.raw();
    let region = regions.0.remove(&address);
    drop(regions);
    drop(region);
    Some(release(found as u64))
}

/// The pages of variables, given by their device addresses and sizes: they start as what the device has.
pub fn add_variables(places: &[(usize, usize)]) -> Outcome {
    faults::install()?;
    let mut places = places.to_vec();
    places.sort_unstable();
    let mut at = 0;
    while at < places.len() {
        let start = places[at].0 / page::size() * page::size();
        let (mut end, mut ranges) = (start, Vec::new());
        while at < places.len() && (ranges.is_empty() || places[at].0 < end) {
            let (address, size) = places[at];
            end = end.max((address + size).next_multiple_of(page::size()));
            ranges.push((address - start, size));
            at += 1;
        }
        let mut region = Region::map(start, end - start, Kind::Variable, start)?;
        region.set_ranges(ranges);
        regions().add(region);
    }
    Ok(())
}

/// The regions end that have these variables: so does their module.
pub fn end_variables(places: &[(usize, usize)]) {
    let holds = |region: &Region| places.iter().any(|(address, _)| (region.start()..region.end()).contains(address));
    regions().0.retain(|_, region| region.kind() != Kind::Variable || !holds(region));
}

/// Where the regions in these allocations start.
pub fn regions_in(allocations: &BTreeSet<u64>) -> Vec<usize> {
    regions().0.values().filter(|region| allocations.contains(&(region.raw() as u64))).map(Region::start).collect()
}

/// The variables' regions end: so have their modules.
pub fn forget_variables() {
    if any() {
        regions().0.retain(|_, region| region.kind() != Kind::Variable);
    }
}

/// The device was reset: there are none.
pub fn forget() {
    if any() {
        regions().0.clear();
        mirror::forget();
    }
}

/// Before work that may touch regions on the device: it has all bytes, the program has none. The caller appends that
/// work before it drops what this returns.
pub fn hand_over() -> Outcome<Option<MutexGuard<'static, Regions>>> {
    if !any() {
        return Ok(None);
    }
    let mut regions = regions();
    for region in regions.0.values_mut() {
        region.hand_over()?;
    }
    Ok(Some(regions))
}

/// As `hand_over`, for a copy or a set of which these are the device's addresses.
pub fn hand_over_for(addresses: &[u64]) -> Outcome<Option<MutexGuard<'static, Regions>>> {
    if any() && addresses.iter().any(|address| near(*address as usize)) {
        return hand_over();
    }
    Ok(None)
}

/// Makes one address accessible. False when it is in no region.
fn resolve(address: usize, write: bool) -> Outcome<bool> {
    let mut regions = regions();
    let Some(region) = regions.find(address) else { return Ok(false) };
    region.resolve(address, write)?;
    Ok(true)
}

/// Makes `[start, start + length)` accessible to a system call, as far as it is in regions.
pub fn touch(start: usize, length: usize, write: bool) {
    let end = start.saturating_add(length);
    let outside = start >= HIGH.load(Acquire) || end <= LOW.load(Acquire);
    if length == 0 || outside && !mirror::meets(start, end) {
        return;
    }
    let mut at = start;
    while at < end {
        let mut regions = regions();
        let next = regions.0.range(at..end).next().map(|(next, _)| *next);
        let Some(region) = regions.find(at) else {
            let Some(next) = next else { return };
            at = next;
            continue;
        };
        let stop = end.min(region.end());
        if region.touch(at, stop, write).is_err() {
            return; // the call will fail by itself
        }
        at = stop;
    }
}

/// The program will read all of it: the first touch fetches all.
pub fn expect_reads(start: usize, length: usize) -> Outcome {
    let mut regions = regions();
    let region = regions.find(start).filter(|region| start.saturating_add(length) <= region.end());
    region.ok_or(Error::INVALID_VALUE)?.expect_reads(length);
    Ok(())
}

/// Whether all of it is in one region.
pub fn holds(start: usize, length: usize) -> bool {
    near(start) && regions().find(start).is_some_and(|region| start.saturating_add(length) <= region.end())
}
