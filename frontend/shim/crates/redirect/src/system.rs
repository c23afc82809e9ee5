//! System calls, made directly: where the library runs there is no C library yet, or another one than the program's.

use core::arch::asm;
use core::ffi::CStr;

const READ_ONLY: usize = 0;
const CLOSE_ON_EXEC: usize = 0o2_000_000;
const MAP_PRIVATE: usize = 2;
const MAP_ANONYMOUS: usize = 0x20;

pub const READ: usize = 1;
pub const WRITE: usize = 2;
pub const EXECUTE: usize = 4;
pub const PAGE: usize = 4096;

mod number {
    pub const WRITE: usize = 1;
    pub const OPEN: usize = 2;
    pub const CLOSE: usize = 3;
    pub const MMAP: usize = 9;
    pub const MPROTECT: usize = 10;
    pub const MUNMAP: usize = 11;
    pub const PREAD: usize = 17;
    pub const ACCESS: usize = 21;
    pub const LSEEK: usize = 8;
    pub const EXIT_GROUP: usize = 231;
}

/// # Safety
/// As the call of that number.
unsafe fn call(number: usize, arguments: [usize; 6]) -> Result<usize, ()> {
    let result: isize;
    // SAFETY: the kernel changes rax, rcx and r11, and what the arguments point to.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") arguments[0],
            in("rsi") arguments[1],
            in("rdx") arguments[2],
            in("r10") arguments[3],
            in("r8") arguments[4],
            in("r9") arguments[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    usize::try_from(result).map_err(drop)
}

/// An open file; closed when it is dropped.
pub struct File(usize);

impl File {
    pub fn open(path: &CStr) -> Option<File> {
        let path = path.as_ptr() as usize;
        // SAFETY: a string that ends with NUL.
        unsafe { call(number::OPEN, [path, READ_ONLY | CLOSE_ON_EXEC, 0, 0, 0, 0]) }.ok().map(File)
    }

    pub fn size(&self) -> Option<u64> {
        // SAFETY: nothing is written.
        unsafe { call(number::LSEEK, [self.0, 0, 2, 0, 0, 0]) }.ok().map(|size| size as u64)
    }

    /// Fills `bytes` from the offset on; how many there were.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> usize {
        let arguments = [self.0, bytes.as_mut_ptr() as usize, bytes.len(), offset as usize, 0, 0];
        // SAFETY: the kernel writes into `bytes` only.
        unsafe { call(number::PREAD, arguments) }.unwrap_or(0)
    }

    /// Maps a range of the file, read-only. The range must lie within it.
    pub fn map(&self, offset: u64, size: usize) -> Option<Mapping> {
        let skipped = offset as usize % PAGE;
        let length = size.checked_add(skipped)?;
        let arguments = [0, length, READ, MAP_PRIVATE, self.0, offset as usize - skipped];
        // SAFETY: a new mapping.
        let start = unsafe { call(number::MMAP, arguments) }.ok()?;
        Some(Mapping { start, length, skipped })
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: opened by this module, used by nothing else.
        let _ = unsafe { call(number::CLOSE, [self.0, 0, 0, 0, 0, 0]) };
    }
}

/// Pages of this module's own; unmapped when they are dropped.
pub struct Mapping {
    start: usize,
    length: usize,
    skipped: usize,
}

impl Mapping {
    /// Fresh pages of zeros.
    pub fn fresh(size: usize) -> Option<Mapping> {
        let arguments = [0, size, READ | WRITE, MAP_PRIVATE | MAP_ANONYMOUS, usize::MAX, 0];
        // SAFETY: a new mapping.
        let start = unsafe { call(number::MMAP, arguments) }.ok()?;
        Some(Mapping { start, length: size, skipped: 0 })
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: mapped and readable; a file that someone shortens meanwhile ends the process, as it does for the
        // loader.
        unsafe { core::slice::from_raw_parts((self.start + self.skipped) as *const u8, self.length - self.skipped) }
    }

    pub fn address(&self) -> usize {
        self.start + self.skipped
    }

    /// The pages stay for ever.
    pub fn keep(self) {
        core::mem::forget(self);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this module; `bytes` borrows the mapping.
        let _ = unsafe { call(number::MUNMAP, [self.start, self.length, 0, 0, 0, 0]) };
    }
}

/// Changes what may be done with whole pages.
///
/// # Safety
/// The pages are mapped, and nothing relies on what they lose.
pub unsafe fn protect(start: usize, end: usize, how: usize) -> Result<(), ()> {
    // SAFETY: the caller's promise.
    unsafe { call(number::MPROTECT, [start, end - start, how, 0, 0, 0]) }.map(drop)
}

/// Whether the path leads to something.
pub fn exists(path: &CStr) -> bool {
    // SAFETY: a string that ends with NUL.
    unsafe { call(number::ACCESS, [path.as_ptr() as usize, 0, 0, 0, 0, 0]) }.is_ok()
}

/// The name of the file that is mapped at an address, by the kernel's list of this process's mappings.
pub fn mapped_at(address: usize, path: &mut [u8]) -> Option<&CStr> {
    let list = File::open(c"/proc/self/maps")?;
    let mut piece = [0; 2 * PAGE]; // longer than a line
    let mut offset = 0;
    loop {
        let read = list.read_at(&mut piece, offset);
        let lines = piece.get(..read)?;
        let end = lines.iter().rposition(|byte| *byte == b'\n')? + 1;
        for line in lines.get(..end)?.split(|byte| *byte == b'\n') {
            if range_of(line).is_some_and(|(from, to)| from <= address && address < to) {
                let name = line.get(line.iter().position(|byte| *byte == b'/')?..)?;
                path.get_mut(..name.len())?.copy_from_slice(name);
                return CStr::from_bytes_until_nul(path.get(..=name.len())?).ok();
            }
        }
        offset += end as u64;
    }
}

/// "5581-5582 r--p ...": the range in hexadecimal.
fn range_of(line: &[u8]) -> Option<(usize, usize)> {
    let mut numbers = line.split(|byte| *byte == b'-' || *byte == b' ').map(|digits| {
        let digits = core::str::from_utf8(digits).ok()?;
        usize::from_str_radix(digits, 16).ok()
    });
    Some((numbers.next()??, numbers.next()??))
}

/// Writes to stderr.
pub fn say(line: &[u8]) {
    // SAFETY: nothing is written to memory.
    let _ = unsafe { call(number::WRITE, [2, line.as_ptr() as usize, line.len(), 0, 0, 0]) };
}

/// Ends the process at once.
pub fn exit(status: usize) -> ! {
    loop {
        // SAFETY: does not return.
        let _ = unsafe { call(number::EXIT_GROUP, [status, 0, 0, 0, 0, 0]) };
    }
}
