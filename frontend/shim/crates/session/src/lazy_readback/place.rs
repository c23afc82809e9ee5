//! Which memory lazy readbacks may have: the blocks of the C library's malloc that are mappings of their own.
//!
//! Such a block's pages hold nothing but the program's bytes and the block's header, and no lock is held by anybody who
//! touches them: not by the program within malloc (`free` and `realloc` look at the header, hence the first page,
//! before anything else, with no lock), and not by this library, whose own data is in blocks of its own. Whatever else
//! there is shares its pages: stacks with the frames of a thread that is within a call of this library, heaps with
//! malloc's lists, which are written under its locks, globals with the C library's.
//!
//! A block is known by its header, in front of its first byte. A copy into its middle finds it by the blocks that
//! copies have begun with before (`Candidates`), whose headers are looked at again.
//! Source: glibc, malloc/malloc.c (the layout of chunks, which programs that preload their own malloc have relied on
//! since 1996).

use super::userfault::PAGE;
use super::Refusal;
use crate::{frame, mappings};
use std::ffi::{c_void, CStr};
use std::sync::OnceLock;

const WORD: usize = size_of::<usize>();
/// Words of a chunk in front of the program's bytes: what lies before it in the mapping, and its size.
const HEADER: usize = 2 * WORD;
/// The lowest bits of the size: a mapping of its own, and nothing else.
const FLAGS: usize = 7;
const MAPPED: usize = 2;

/// Whole pages, of which the program's block and its header are all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    pub start: usize,
    pub end: usize,
}

impl Block {
    /// By the header in front of `first`, which is perhaps a block's first byte; `read` gives a word where there is
    /// one.
    fn with_first(first: usize, read: impl Fn(usize) -> Option<usize>) -> Option<Self> {
        let chunk = first.checked_sub(HEADER)?;
        if !may_be_first(first) {
            return None;
        }
        let (before, size) = (read(chunk)?, read(chunk + WORD)?);
        let end = chunk.checked_add(size & !FLAGS)?;
        // An aligned block has a part of the mapping before it.
        let mapping = chunk.checked_sub(before)?;
        let whole = size & FLAGS == MAPPED && mapping.is_multiple_of(PAGE) && end.is_multiple_of(PAGE) && end > first;
        let aligned = before == 0 || first.is_multiple_of(PAGE);
        (whole && aligned).then_some(Self { start: chunk / PAGE * PAGE, end })
    }
}

/// Where a block that is a mapping of its own begins for the program.
fn may_be_first(address: usize) -> bool {
    matches!(address % PAGE, 0 | HEADER)
}

/// Blocks may begin there.
#[derive(Debug)]
pub struct Candidates {
    addresses: [usize; 16],
    next: usize,
}

impl Candidates {
    pub const fn new() -> Self {
        Self { addresses: [0; 16], next: 0 }
    }

    pub fn add(&mut self, address: usize) {
        if may_be_first(address) && !self.addresses.contains(&address) {
            self.addresses[self.next] = address;
            self.next = (self.next + 1) % self.addresses.len();
        }
    }

    pub fn below(&self, address: usize) -> Vec<usize> {
        self.addresses.into_iter().filter(|first| *first != 0 && *first <= address).collect()
    }
}

/// The block that has all of `[start, end)`.
pub fn find(start: usize, end: usize, candidates: &[usize]) -> Result<Block, Refusal> {
    if !is_glibc() {
        return Err(Refusal::Allocator);
    }
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| Refusal::Kernel)?;
    let holds = |block: &Block| block.start <= start && end <= block.end;
    let found = [start].iter().chain(candidates).find_map(|first| Block::with_first(*first, read_word).filter(holds));
    match found {
        Some(block) if mappings::is_ordinary(&maps, block.start, block.end - block.start) => Ok(block),
        _ => Err(kind(&maps, start)),
    }
}

/// A word of the process's memory, wherever it is.
fn read_word(address: usize) -> Option<usize> {
    let mut word = [0; WORD];
    mappings::read(address, &mut word).then(|| usize::from_ne_bytes(word))
}

/// Whether malloc is the C library's: others have other headers, or locks that are held while they touch free memory.
fn is_glibc() -> bool {
    static GLIBC: OnceLock<bool> = OnceLock::new();
    *GLIBC.get_or_init(|| {
        let is_libc = |name: &CStr| {
            // SAFETY: names that end with NUL, and a place for the answer.
            unsafe {
                let function = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr());
                let mut info: libc::Dl_info = std::mem::zeroed();
                !function.is_null()
                    && libc::dladdr(function, &mut info) != 0
                    && !info.dli_fname.is_null()
                    && CStr::from_ptr(info.dli_fname).to_bytes().ends_with(b"libc.so.6")
            }
        };
        cfg!(all(target_env = "gnu", target_pointer_width = "64"))
            && [c"malloc", c"free", c"realloc"].into_iter().all(is_libc)
    })
}

/// Where the mapping of a line of /proc/self/maps begins and ends.
pub fn bounds(line: &str) -> Option<(usize, usize)> {
    let (low, high) = line.split_once(' ')?.0.split_once('-')?;
    Some((usize::from_str_radix(low, 16).ok()?, usize::from_str_radix(high, 16).ok()?))
}

/// What memory it is that lazy readbacks may not have.
fn kind(maps: &str, address: usize) -> Refusal {
    if frame::stack().is_some_and(|(low, high)| (low..high).contains(&(address as u64))) {
        return Refusal::Stack;
    }
    let holds = |line: &&str| bounds(line).is_some_and(|(low, high)| (low..high).contains(&address));
    let Some(line) = maps.lines().find(holds) else { return Refusal::Part };
    let private = line.split_ascii_whitespace().nth(1).is_some_and(|access| access.ends_with('p'));
    match line.split_ascii_whitespace().nth(5) {
        _ if !private => Refusal::Shared,
        Some("[stack]") => Refusal::Stack,
        Some("[heap]") => Refusal::Heap,
        Some(name) if name.starts_with('/') => Refusal::Global,
        _ if is_global(address) => Refusal::Global,
        _ => Refusal::Part,
    }
}

/// Whether an address is in a segment of the program or a library.
fn is_global(address: usize) -> bool {
    // SAFETY: an all-zero value is valid, and dladdr fills it.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        libc::dladdr(address as *const c_void, &mut info) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::{alloc, dealloc, Layout};

    #[test]
    fn a_block_is_a_mapping_of_malloc_with_its_header() {
        let words =
            |before: usize, size: usize| move |at: usize| Some(if at.is_multiple_of(HEADER) { before } else { size });
        let block = |first, before, size| Block::with_first(first, words(before, size));
        assert_eq!(block(0x10010, 0, 0x3002), Some(Block { start: 0x10000, end: 0x13000 }));
        // Aligned to a page, with a page of the mapping before it.
        assert_eq!(block(0x12000, 0x1ff0, 0x3012), Some(Block { start: 0x11000, end: 0x15000 }));
        for (first, before, size, why) in [
            (0x10010, 0, 0x3003, "in the heap"),
            (0x10010, 0, 0x3006, "of another arena"),
            (0x10010, 0, 0x3012, "not up to a page's end"),
            (0x10020, 0, 0x3002, "not where a mapping's block begins"),
            (0x10010, 0x1000, 0x3002, "something before a block that is not aligned"),
            (0x12000, 0x1000, 0x3012, "a mapping that does not begin with a page"),
            (0x10010, 0, 2, "empty"),
            (0x10010, 0, usize::MAX - 5, "more than there is"),
        ] {
            assert_eq!(block(first, before, size), None, "{why}");
        }
        assert_eq!(Block::with_first(0x10010, |_| None), None);
    }

    #[test]
    fn large_blocks_of_this_process_are_found_and_other_memory_has_its_reason() {
        let layout = |size| Layout::from_size_align(size, 16).expect("a layout");
        // SAFETY: blocks that are freed below; only their addresses are used.
        let (large, small) = unsafe { (alloc(layout(64 << 20)) as usize, alloc(layout(100)) as usize) };
        let block = find(large, large + (64 << 20), &[]).expect("larger than what comes from the heap");
        assert_eq!(block.start, large - HEADER);
        assert!(block.end >= large + (64 << 20) && block.end < large + (65 << 20));
        let mut candidates = Candidates::new();
        candidates.add(large);
        candidates.add(large + 5);
        assert_eq!(candidates.below(large + 7), [large]);
        assert_eq!(find(large + 50_000, large + 60_000, &candidates.below(large + 50_000)), Ok(block));
        assert_eq!(find(large + 50_000, large + 60_000, &[]), Err(Refusal::Part));
        assert_eq!(find(large, block.end + 1, &[large]), Err(Refusal::Part));
        let local = 0_u8;
        let stack = (&raw const local) as usize;
        assert_eq!(find(stack, stack + 1, &[]), Err(Refusal::Stack));
        static GLOBAL: [u8; 3] = [0; 3];
        let global = GLOBAL.as_ptr() as usize;
        assert_eq!(find(global, global + 3, &[]), Err(Refusal::Global));
        assert!(find(small, small + 100, &[]).is_err());
        // SAFETY: allocated above.
        unsafe {
            dealloc(large as *mut u8, layout(64 << 20));
            dealloc(small as *mut u8, layout(100));
        }
    }
}
