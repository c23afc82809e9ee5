//! Reading memory that the program points to, without a fault when it points nowhere: every range is looked up in the
//! process's own map before it is touched.
//!
//! Images are checked once, when they are first needed, not when they are registered. The map is a snapshot: a program
//! that unmaps an image without unregistering it breaks the same rule that CUDA has.

use std::fs;

/// The readable ranges of the process, by address.
#[derive(Debug)]
pub struct Map {
    ranges: Vec<(u64, u64)>,
}

impl Map {
    /// The process's memory as it is now. Without /proc nothing counts as readable.
    pub fn read() -> Map {
        match fs::read_to_string("/proc/self/maps") {
            Ok(text) => Map::parse(&text),
            Err(error) => {
                session::log::error(format_args!("cannot read /proc/self/maps ({error}): no GPU code can be found"));
                Map { ranges: Vec::new() }
            }
        }
    }

    /// Lines of `/proc/PID/maps`: `start-end rwxp ...`, sorted. Adjacent readable ranges are joined.
    fn parse(text: &str) -> Map {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace();
            let bounds = words.next().and_then(|word| word.split_once('-'));
            let readable = words.next().is_some_and(|permissions| permissions.starts_with('r'));
            let Some((start, end)) = bounds.filter(|_| readable) else { continue };
            let (Ok(start), Ok(end)) = (u64::from_str_radix(start, 16), u64::from_str_radix(end, 16)) else { continue };
            match ranges.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => ranges.push((start, end)),
            }
        }
        Map { ranges }
    }

    /// How many bytes from `address` on can be read.
    pub fn readable(&self, address: u64) -> usize {
        let after = self.ranges.partition_point(|(start, _)| *start <= address);
        let range = after.checked_sub(1).and_then(|index| self.ranges.get(index));
        range.map_or(0, |(_, end)| end.saturating_sub(address) as usize)
    }

    /// The bytes at `address`, when all of them can be read.
    ///
    /// # Safety
    /// The range must stay mapped, and no code may write to it, for as long as the slice is used.
    pub unsafe fn slice(&self, address: u64, length: usize) -> Option<&'static [u8]> {
        if address == 0 || self.readable(address) < length {
            return None;
        }
        // SAFETY: mapped and readable just now; the caller's promise for later.
        Some(unsafe { std::slice::from_raw_parts(address as *const u8, length) })
    }
}

/// Memory from an address on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// How many bytes can be read.
    pub readable: usize,
    /// It is of a loaded object and never written: it stays as it is until the object is unloaded.
    pub constant: bool,
}

/// The memory from an address on; `None` when it cannot be read. Constant data of loaded objects is found without a
/// look at the whole map.
pub fn around(address: u64) -> Option<Memory> {
    if let Some(readable) = constant_bytes(address) {
        return Some(Memory { readable, constant: true });
    }
    let readable = if address == 0 { 0 } else { Map::read().readable(address) };
    (readable > 0).then_some(Memory { readable, constant: false })
}

/// How many bytes follow in the same read-only segment of a loaded object.
fn constant_bytes(address: u64) -> Option<usize> {
    struct Search {
        address: u64,
        found: Option<usize>,
    }
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _size: usize, search: *mut libc::c_void) -> libc::c_int {
        // SAFETY: the loader passes its own description and our search, and the program headers are as many as it says.
        let (info, search) = unsafe { (&*info, &mut *search.cast::<Search>()) };
        if info.dlpi_phdr.is_null() {
            return 0;
        }
        // SAFETY: as above.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
        for header in headers.iter().filter(|header| header.p_type == libc::PT_LOAD) {
            let start = info.dlpi_addr.wrapping_add(header.p_vaddr);
            let inside = search.address.wrapping_sub(start);
            if inside < header.p_filesz {
                if header.p_flags & libc::PF_R != 0 && header.p_flags & libc::PF_W == 0 {
                    search.found = usize::try_from(header.p_filesz - inside).ok();
                }
                return 1;
            }
        }
        0
    }
    let mut search = Search { address, found: None };
    // SAFETY: the function has the type that the loader wants, and the search outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_joined_and_holes_kept() {
        let map = Map::parse(
            "1000-3000 r--p 0 00:00 0 /a\n3000-4000 rw-p 0 00:00 0\n4000-5000 ---p 0 00:00 0\n\
             5000-6000 r-xp 0 00:00 0\nnonsense\n",
        );
        assert_eq!(map.readable(0xfff), 0);
        assert_eq!(map.readable(0x1000), 0x3000);
        assert_eq!(map.readable(0x3fff), 1);
        assert_eq!(map.readable(0x4000), 0);
        assert_eq!(map.readable(0x5800), 0x800);
        assert_eq!(map.readable(u64::MAX), 0);
    }

    #[test]
    fn the_process_itself() {
        let map = Map::read();
        let text = "some bytes of this process";
        let address = text.as_ptr() as u64;
        // SAFETY: a constant.
        assert_eq!(unsafe { map.slice(address, text.len()) }, Some(text.as_bytes()));
        // SAFETY: nothing is read.
        unsafe {
            assert!(map.slice(0, 1).is_none());
            assert!(map.slice(8, 1).is_none());
            assert!(map.slice(address, usize::MAX / 2).is_none());
        }
    }
}
