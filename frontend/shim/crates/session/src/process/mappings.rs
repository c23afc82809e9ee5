//! What /proc/self/maps says of memory; memory that may not be there.

use std::ffi::c_void;

/// Reads the process's memory, wherever it is; another thread may free it meanwhile. False: it is not all there.
pub fn read(start: usize, to: &mut [u8]) -> bool {
    let target = libc::iovec { iov_base: to.as_mut_ptr().cast(), iov_len: to.len() };
    let source = libc::iovec { iov_base: start as *mut c_void, iov_len: to.len() };
    // SAFETY: a place for so many bytes; the other address is only looked at by the kernel.
    let got = unsafe { libc::process_vm_readv(libc::getpid(), &target, 1, &source, 1, 0) };
    usize::try_from(got) == Ok(to.len())
}

/// Whether `[start, start + length)` is memory as programs allocate it, by the lines of /proc/self/maps.
pub fn is_ordinary(maps: &str, start: usize, length: usize) -> bool {
    let (mut at, end) = (start, start + length);
    for line in maps.lines() {
        let mut fields = line.split_ascii_whitespace();
        let (Some(range), Some(access)) = (fields.next(), fields.next()) else { continue };
        let bounds = range.split_once('-').map(|(low, high)| (hexadecimal(low), hexadecimal(high)));
        let Some((Some(low), Some(high))) = bounds else { continue };
        if high <= at || low >= end {
            continue;
        }
        if low > at || !access.starts_with("rw") || !access.ends_with('p') || line.ends_with("[stack]") {
            return false;
        }
        at = high;
        if at >= end {
            return true;
        }
    }
    false
}

fn hexadecimal(digits: &str) -> Option<usize> {
    usize::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_writable_memory_without_gaps_is_exchanged() {
        let maps = "\
1000-3000 rw-p 00000000 00:00 0 [heap]
3000-4000 rw-p 00000000 00:00 0
4000-5000 r--p 00000000 00:00 0
6000-8000 rw-s 00000000 00:01 7 /dev/zero
8000-9000 rw-p 00000000 00:00 0                          [stack]
";
        assert!(is_ordinary(maps, 0x1000, 0x3000) && is_ordinary(maps, 0x2000, 0x1000));
        for (start, length) in [(0x3000, 0x2000), (0x5000, 0x1000), (0x6000, 0x1000), (0x8000, 0x1000), (0, 0x2000)] {
            assert!(!is_ordinary(maps, start, length), "{start:#x}");
        }
    }
}
