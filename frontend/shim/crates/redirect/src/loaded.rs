//! Objects as the loader keeps them (`struct link_map`, link.h), and Farlane's own libraries among them.
//!
//! Only memory that the loader has mapped and described is read. Symbols are looked up in Farlane's own libraries
//! alone, whose tables are trusted.

use core::ffi::{c_char, CStr};

use crate::plan::{Library, Major};

const NEEDED: u64 = 1;
const STRINGS: u64 = 5;
const SYMBOLS: u64 = 6;
const SONAME: u64 = 14;
const GNU_HASH: u64 = 0x6fff_fef5;
const TEXT_RELOCATIONS: u64 = 22;
const MOST_ENTRIES: usize = 4096;
const SYMBOL: usize = 24;

const CORE: &[u8] = b"libfarlane_core.so";

/// The public part of the loader's own description.
#[repr(C)]
pub struct LinkMap {
    pub bias: usize,
    name: *const c_char,
    dynamic: *const [u64; 2],
    pub next: *mut LinkMap,
    previous: *mut LinkMap,
}

impl LinkMap {
    pub fn name(&self) -> &CStr {
        if self.name.is_null() {
            return c"";
        }
        // SAFETY: the loader's string, which lives as long as the object.
        unsafe { CStr::from_ptr(self.name) }
    }

    /// An address in the object.
    pub fn address(&self) -> usize {
        self.dynamic as usize
    }

    fn entries(&self) -> impl Iterator<Item = [u64; 2]> + '_ {
        let all = if self.dynamic.is_null() { 0 } else { MOST_ENTRIES };
        // SAFETY: the dynamic section, which ends with an entry of zeros.
        (0..all).map(|index| unsafe { self.dynamic.add(index).read() }).take_while(|entry| entry[0] != 0)
    }

    fn entry(&self, tag: u64) -> Option<u64> {
        self.entries().find(|entry| entry[0] == tag).map(|entry| entry[1])
    }

    /// An address in the dynamic section; the loader may have added the bias already.
    fn pointer(&self, tag: u64) -> Option<usize> {
        let value = self.entry(tag)? as usize;
        Some(if value < self.bias { value + self.bias } else { value })
    }

    fn string(&self, offset: u64) -> Option<&CStr> {
        // SAFETY: a string of the dynamic section of a loaded object.
        Some(unsafe { CStr::from_ptr((self.pointer(STRINGS)? + offset as usize) as *const c_char) })
    }

    pub fn is_named(&self, name: &[u8]) -> bool {
        self.entry(SONAME).and_then(|offset| self.string(offset)).is_some_and(|soname| soname.to_bytes() == name)
    }

    pub fn needs(&self, prefix: &[u8]) -> bool {
        let mut needed = self.entries().filter(|entry| entry[0] == NEEDED);
        needed.any(|entry| self.string(entry[1]).is_some_and(|name| name.to_bytes().starts_with(prefix)))
    }

    /// Its code is changed when it is relocated.
    pub fn has_text_relocations(&self) -> bool {
        self.entry(TEXT_RELOCATIONS).is_some()
    }

    /// The number and the address of an exported symbol, by the GNU hash table.
    fn find(&self, name: &[u8]) -> Option<(usize, usize)> {
        let (table, symbols, strings) = (self.pointer(GNU_HASH)?, self.pointer(SYMBOLS)?, self.pointer(STRINGS)?);
        let hash = name.iter().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)));
        // SAFETY: the hash table of a library of ours, within which its own numbers lead.
        let word = |index: usize| unsafe { ((table + 4 * index) as *const u32).read_unaligned() };
        let (buckets, first, bloom) = (word(0), word(1), word(2) as usize);
        let bucket = 4 + 2 * bloom + hash.checked_rem(buckets)? as usize;
        let mut number = word(bucket);
        if number < first {
            return None;
        }
        loop {
            let chained = word(4 + 2 * bloom + buckets as usize + (number - first) as usize);
            if chained | 1 == hash | 1 {
                let symbol = symbols + SYMBOL * number as usize;
                // SAFETY: an entry of the symbol table, and its name.
                let (offset, value, text) = unsafe {
                    let offset = (symbol as *const u32).read_unaligned() as usize;
                    let text = CStr::from_ptr((strings + offset) as *const c_char);
                    (number as usize, ((symbol + 8) as *const u64).read_unaligned(), text)
                };
                if text.to_bytes() == name {
                    return Some((offset, self.bias + value as usize));
                }
            }
            if chained & 1 == 1 {
                return None;
            }
            number += 1;
        }
    }

    /// The address of an exported symbol of a library of ours.
    pub fn symbol(&self, name: &[u8]) -> Option<usize> {
        self.find(name).map(|(_, address)| address)
    }
}

/// Farlane's libraries in the process.
#[derive(Clone, Copy)]
pub struct Farlane {
    twelve: Option<&'static LinkMap>,
    thirteen: Option<&'static LinkMap>,
    core: Option<&'static LinkMap>,
}

impl Farlane {
    pub const NONE: Farlane = Farlane { twelve: None, thirteen: None, core: None };

    /// Takes note of an object if it is one of them.
    pub fn note(&mut self, map: &'static LinkMap) {
        if map.is_named(CORE) {
            self.core = Some(map);
        } else if map.is_named(b"libcudart.so.12") && map.needs(CORE) {
            self.twelve = Some(map);
        } else if map.is_named(b"libcudart.so.13") && map.needs(CORE) {
            self.thirteen = Some(map);
        }
    }

    pub fn core(&self) -> Option<&'static LinkMap> {
        self.core
    }

    fn library(&self, major: Major) -> Option<&'static LinkMap> {
        match major {
            Major::Twelve => self.twelve,
            Major::Thirteen => self.thirteen,
        }
    }
}

impl Library for Farlane {
    fn present(&self, major: Major) -> bool {
        self.library(major).is_some() && self.core.is_some()
    }

    fn find(&self, major: Major, name: &[u8]) -> Option<(usize, usize)> {
        self.library(major)?.find(name)
    }
}
