//! Virtual memory management: reserving addresses, making physical memory, and mapping the one at the other.
//!
//! Owns what such calls do: they change the book (`reservations`) and record what the host has to do. Nothing here
//! waits. Reservations are the guest's alone; physical memory costs quota, once, mapped or not. Knows no function of an
//! API: faces check pointers, flags and locations.
//!
//! The lock of `Addresses` is held until the record is appended, as for allocations.
//!
//! Source: CUDA driver API, "Virtual Memory Management"; protos/tape.md, "Physical memory".

use super::reservations::{Access, Broken, Ended, Properties, VirtualMemory};
use super::{confirm, graphs};
use crate::allocator::{Refused, GRANULE};
use crate::memory::addresses::{addresses, Live};
use crate::testing;
use session::call::{Error, Outcome};
use session::process;
use session::work;
use std::sync::{MutexGuard, Once};
use tape::generated_operations as operation;

/// Sizes and addresses of physical memory are multiples of this.
pub const GRANULARITY: u64 = GRANULE;
/// Reservations are made of the pages of a host.
const PAGE: u64 = 4096;

impl From<Broken> for Error {
    fn from(_: Broken) -> Self {
        Self::INVALID_VALUE
    }
}

static NAMED: Once = Once::new();

/// The book, on a device that maps memory.
fn live() -> Outcome<MutexGuard<'static, Live>> {
    if !supported()? {
        NAMED.call_once(|| {
            session::log::error(format_args!(
                "the host's device does not map physical memory at addresses: virtual memory management is not supported"
            ));
        });
        return Err(Error::NOT_SUPPORTED);
    }
    Ok(addresses()?.lock())
}

/// Whether the device maps physical memory at addresses.
pub fn supported() -> Outcome<bool> {
    let old = process::session()?.welcome().tape_version < SINCE;
    Ok(!old && process::device()?.description.has_mappings)
}

/// The version of the tape that has the operations.
const SINCE: u32 = 4;

/// Reserves `size` bytes of addresses, at `hint` where that is free. `alignment`: a power of two, or 0.
pub fn reserve(size: u64, alignment: u64, hint: u64) -> Outcome<u64> {
    let aligned = alignment == 0 || alignment.is_power_of_two();
    if size == 0 || !size.is_multiple_of(PAGE) || !hint.is_multiple_of(PAGE) || !aligned {
        return Err(Error::INVALID_VALUE);
    }
    let mut live = live()?;
    let start = live.allocator.take_range(size, alignment.max(GRANULE), hint)?;
    live.virtual_memory.reserved(start, size);
    Ok(start)
}

/// Ends a reservation that has no mappings, named as it was made.
pub fn unreserve(start: u64, size: u64) -> Outcome {
    let mut live = live()?;
    live.virtual_memory.unreserve(start, size)?;
    live.allocator.give_range(start, size);
    Ok(())
}

/// Makes physical memory, and gives it a number.
pub fn create(size: u64, properties: Properties) -> Outcome<u32> {
    if size == 0 || !size.is_multiple_of(GRANULARITY) {
        return Err(Error::INVALID_VALUE);
    }
    let mut live = live()?;
    match live.allocator.charge(size) {
        Err(Refused::OutOfMemory) if graphs::trim(&mut live) => live.allocator.charge(size),
        charged => charged,
    }?;
    if let Err(earlier) = confirm(size) {
        live.allocator.refund(size);
        return Err(earlier);
    }
    let memory = live.virtual_memory.create(size, properties);
    let recorded = work::append(|w| operation::physical_create(w, memory, size));
    if let Err(error) = recorded.and_then(|()| confirm(size)) {
        let ended = live.virtual_memory.release(memory)?;
        let _ = end(&mut live, ended);
        return Err(error);
    }
    Ok(memory)
}

/// The program lets go of its handle, or of one that `retain` gave it.
pub fn release(memory: u32) -> Outcome {
    let mut live = live()?;
    let ended = live.virtual_memory.release(memory)?;
    end(&mut live, ended)
}

fn end(live: &mut Live, ended: Option<Ended>) -> Outcome {
    let Some(ended) = ended else { return Ok(()) };
    live.allocator.refund(ended.size);
    work::append(|w| operation::physical_release(w, ended.memory))
}

/// What the memory was made with.
pub fn properties(memory: u32) -> Outcome<Properties> {
    live()?.virtual_memory.properties(memory).ok_or(Error::INVALID_VALUE)
}

/// The first `size` bytes of physical memory are at the address from now on, without access.
pub fn map(address: u64, size: u64, memory: u32) -> Outcome {
    let mut live = live()?;
    live.virtual_memory.map(address, size, memory)?;
    let recorded = work::append(|w| operation::physical_map(w, address, 0, size, memory));
    if recorded.is_err() {
        live.virtual_memory.unmap(address);
    }
    recorded
}

/// Ends the mappings of which the range is made.
pub fn unmap(address: u64, size: u64) -> Outcome {
    testing::ends()?;
    let mut live = live()?;
    for start in live.virtual_memory.within(address, size)? {
        let ended = live.virtual_memory.unmap(start);
        work::append(|w| operation::physical_unmap(w, start))?;
        end(&mut live, ended)?;
    }
    Ok(())
}

/// A reset has ended this on the host, and it is to stay (`testing`): it is made again, the contents of the memory
/// excepted.
pub fn make_again(live: &mut Live, staying: VirtualMemory) -> Outcome {
    for (start, size) in staying.reservations() {
        live.allocator.take_range(size, GRANULE, start)?;
    }
    for (memory, size) in staying.physical() {
        live.allocator.charge(size)?;
        work::append(|w| operation::physical_create(w, memory, size))?;
    }
    for (start, size, memory, access) in staying.mappings() {
        work::append(|w| operation::physical_map(w, start, 0, size, memory))?;
        work::append(|w| operation::physical_access(w, start, access as u32))?;
    }
    live.virtual_memory = staying;
    Ok(())
}

/// What the device may do with the mappings of which the range is made.
pub fn set_access(address: u64, size: u64, access: Access) -> Outcome {
    if access == Access::Read {
        addresses()?.some_read_only();
    }
    let mut live = live()?;
    for start in live.virtual_memory.within(address, size)? {
        live.virtual_memory.set_access(start, access);
        work::append(|w| operation::physical_access(w, start, access as u32))?;
    }
    Ok(())
}

/// What the device may do with the mapping that holds the address.
pub fn access(address: u64) -> Outcome<Access> {
    live()?.virtual_memory.access(address).ok_or(Error::INVALID_VALUE)
}

/// One more handle, with the same number, of the memory that is mapped at the address.
pub fn retain(address: u64) -> Outcome<u32> {
    Ok(live()?.virtual_memory.retain(address)?)
}
