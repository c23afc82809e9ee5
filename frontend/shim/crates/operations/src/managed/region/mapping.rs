//! How a region's two mappings come to be, and how they go: new memory, shared memory that is taken over, registered
//! memory that is exchanged.

use super::{protect, Kind, Region, State};
use crate::page;
use session::call::{Error, Outcome};
use session::log;
use std::ffi::c_void;

impl Region {
    /// Maps memory at the address. Its pages are the device's.
    pub fn map(start: usize, length: usize, kind: Kind, raw: usize) -> Outcome<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE | libc::MAP_NORESERVE;
        // SAFETY: it replaces no mapping.
        let view = unsafe { libc::mmap(start as *mut c_void, length, libc::PROT_NONE, flags, -1, 0) };
        if view as usize != start {
            if view != libc::MAP_FAILED {
                // SAFETY: mapped just now; an old kernel that does not know the flag took another place.
                unsafe { libc::munmap(view, length) };
            }
            log::error(format_args!(
                "managed memory cannot be mapped at {start:#x} in this process: the host's address window is not usable"
            ));
            return Err(Error::MEMORY_ALLOCATION);
        }
        // SAFETY: with an old size of 0 this makes a second mapping of the same shared memory, anywhere.
        let second = unsafe { libc::mremap(view, 0, length, libc::MREMAP_MAYMOVE) };
        if second == libc::MAP_FAILED {
            // SAFETY: mapped above.
            unsafe { libc::munmap(view, length) };
            return Err(Error::MEMORY_ALLOCATION);
        }
        let region = Self::of(start, length, kind, raw, second as usize, State::Device);
        protect(region.second, length, libc::PROT_READ | libc::PROT_WRITE)?;
        Ok(region)
    }

    /// Takes over shared memory that is mapped there and the program's to write: all of it is new to the device.
    pub fn adopt(start: usize, length: usize, kind: Kind, raw: usize) -> Outcome<Self> {
        // SAFETY: with an old size of 0 this makes a second mapping of the same shared memory, anywhere.
        let second = unsafe { libc::mremap(start as *mut c_void, 0, length, libc::MREMAP_MAYMOVE) };
        if second == libc::MAP_FAILED {
            return Err(Error::MEMORY_ALLOCATION);
        }
        Ok(Self::of(start, length, kind, raw, second as usize, State::Dirty))
    }

    /// Exchanges the pages of `size` bytes of the program's for shared ones with the same bytes: all of it is new to
    /// the device.
    pub fn take_over(address: usize, size: usize, device: usize, raw: usize) -> Outcome<Self> {
        let start = address / page::size() * page::size();
        let length = (address + size).next_multiple_of(page::size()) - start;
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, anywhere.
        let second = unsafe { libc::mmap(std::ptr::null_mut(), length, access, flags, -1, 0) };
        if second == libc::MAP_FAILED {
            return Err(Error::MEMORY_ALLOCATION);
        }
        // SAFETY: both have so many bytes; the caller has seen that the program's are whole pages of its own.
        let placed = unsafe {
            std::ptr::copy_nonoverlapping(start as *const u8, second.cast(), length);
            libc::mremap(second, 0, length, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, start as *mut c_void)
        };
        if placed as usize != start {
            // SAFETY: mapped above.
            unsafe { libc::munmap(second, length) };
            return Err(Error::MEMORY_ALLOCATION);
        }
        let mut region = Self::of(start, length, Kind::Registered, raw, second as usize, State::Dirty);
        region.device = device;
        region.ranges = vec![(address - start, size)];
        Ok(region)
    }

    /// The opposite of `take_over`, with what the device has. The region is to be dropped.
    pub fn give_back(&mut self) -> Outcome {
        self.touch(self.start, self.end(), false)?;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: new memory, which takes the place of the region's mapping with the same bytes.
        let placed = unsafe {
            let plain = libc::mmap(std::ptr::null_mut(), self.length, access, flags, -1, 0);
            if plain == libc::MAP_FAILED {
                return Err(Error::MEMORY_ALLOCATION);
            }
            std::ptr::copy_nonoverlapping(self.second as *const u8, plain.cast(), self.length);
            let place = self.start as *mut c_void;
            libc::mremap(plain, self.length, self.length, libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED, place)
        };
        if placed as usize == self.start {
            Ok(())
        } else {
            Err(Error::OPERATING_SYSTEM)
        }
    }

    /// Gives back what `adopt` has taken over, as it was.
    pub fn abandon(self) {
        // SAFETY: the second mapping is the region's own; the first one stays, and its end is its owner's.
        unsafe { libc::munmap(self.second as *mut c_void, self.length) };
        std::mem::forget(self);
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: both mappings are the region's own, but for registered memory, which stays the program's.
        unsafe {
            if self.kind == Kind::Registered {
                libc::mprotect(self.start as *mut c_void, self.length, libc::PROT_READ | libc::PROT_WRITE);
            } else {
                libc::munmap(self.start as *mut c_void, self.length);
            }
            libc::munmap(self.second as *mut c_void, self.length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_pages_are_exchanged_and_given_back_with_their_bytes() {
        let mut memory = vec![0_u8; 5 * page::size()];
        memory.fill(7);
        let address = memory.as_ptr() as usize + 100;
        let mut region = Region::take_over(address, 3 * page::size(), 0x4323_0000_0000, 0).unwrap();
        let offset = address - region.start;
        assert_eq!(region.ranges, [(offset, 3 * page::size())]);
        assert_eq!(region.mirrored(address + 5), Some(0x4323_0000_0005 + offset));
        // SAFETY: the second mapping is writable.
        unsafe { ((region.second + offset) as *mut u8).write(9) };
        assert_eq!((memory[100], memory[101], memory[99]), (9, 7, 7));
        region.give_back().unwrap();
        drop(region);
        memory[100] += 1;
        assert_eq!((memory[100], memory[101], memory[5 * page::size() - 1]), (10, 7, 7));
    }
}
