//! The file of an object, as far as it is needed: is there a symbol table, where does code lie. Untrusted: every offset
//! and size is checked against the file's size.

use crate::loaded::LinkMap;
use crate::symbols::Symbols;
use crate::system::{self, File, Mapping};

const HEADER: usize = 64;
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;
const SYMBOL_TABLE: u32 = 2;
const STRING_TABLE: u32 = 3;
const LOAD: u32 = 1;
const EXECUTABLE: u32 = 1;
const MOST_SEGMENTS: usize = 16;
/// The code of every runtime is larger; so objects with less code have none.
const LEAST_CODE: u64 = 128 << 10;
const LONGEST_PATH: usize = 4096;

/// A loaded part of the file that can be executed.
#[derive(Clone, Copy, Default)]
struct Code {
    address: u64,
    offset: u64,
    size: u64,
}

/// Sections' headers, read in pieces.
struct Sections {
    offset: u64,
    count: u64,
    names: u64,
}

/// An object's file.
pub struct ObjectFile {
    file: File,
    size: u64,
    header: [u8; HEADER],
    code: [Code; MOST_SEGMENTS],
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    word(bytes, at).map(u64::from_le_bytes)
}

fn short(bytes: &[u8], at: usize) -> Option<u64> {
    word(bytes, at).map(|bytes| u16::from_le_bytes(bytes).into())
}

fn middle(bytes: &[u8], at: usize) -> Option<u32> {
    word(bytes, at).map(u32::from_le_bytes)
}

impl ObjectFile {
    /// The file of that name; for the program itself, whose name is empty, the file that is mapped at its dynamic
    /// section: what the process executes may be the loader (`ld.so ./program`) or valgrind. `None` when it cannot be
    /// read, is no ELF file of this architecture, or has too little code for a runtime.
    pub fn open(map: &LinkMap) -> Option<ObjectFile> {
        if !map.name().to_bytes().is_empty() {
            return ObjectFile::of(File::open(map.name())?);
        }
        let mut path = [0; LONGEST_PATH];
        let named = system::mapped_at(map.address(), &mut path).and_then(File::open);
        ObjectFile::of(named.or_else(|| File::open(c"/proc/self/exe"))?)
    }

    fn of(file: File) -> Option<ObjectFile> {
        let size = file.size()?;
        let mut start = [0; HEADER + MOST_SEGMENTS * PROGRAM_HEADER];
        let length = file.read_at(&mut start, 0);
        let start = start.get(..length)?;
        let header: [u8; HEADER] = word(start, 0)?;
        // 64 bits, little-endian, x86-64.
        if !header.starts_with(b"\x7fELF\x02\x01") || short(&header, 18)? != 62 {
            return None;
        }
        let (offset, each, count) = (long(&header, 32)?, short(&header, 54)?, short(&header, 56)?);
        if each != PROGRAM_HEADER as u64 {
            return None;
        }
        let mut code = [Code::default(); MOST_SEGMENTS];
        let mut found = 0;
        let mut bytes = 0_u64;
        for index in 0..count.min(256) {
            let at = offset.checked_add(index * PROGRAM_HEADER as u64)?;
            let mut far = [0; PROGRAM_HEADER];
            let near = usize::try_from(at).ok().and_then(|at| word::<PROGRAM_HEADER>(start, at));
            let segment = match near {
                Some(segment) => segment,
                None if file.read_at(&mut far, at) == PROGRAM_HEADER => far,
                None => return None,
            };
            if middle(&segment, 0)? != LOAD || middle(&segment, 4)? & EXECUTABLE == 0 {
                continue;
            }
            let part = Code { address: long(&segment, 16)?, offset: long(&segment, 8)?, size: long(&segment, 32)? };
            if part.offset.checked_add(part.size)? > size || part.address.checked_add(part.size).is_none() {
                return None;
            }
            bytes = bytes.checked_add(part.size)?;
            *code.get_mut(found)? = part;
            found += 1;
        }
        (bytes >= LEAST_CODE).then_some(ObjectFile { file, size, header, code })
    }

    fn sections(&self) -> Option<Sections> {
        let (offset, each) = (long(&self.header, 40)?, short(&self.header, 58)?);
        let (mut count, mut names) = (short(&self.header, 60)?, short(&self.header, 62)?);
        if offset == 0 || each != SECTION_HEADER as u64 {
            return None;
        }
        let first = self.section_at(offset)?;
        if count == 0 {
            count = long(&first, 32)?; // more than the header can say
        }
        if names == 0xffff {
            names = middle(&first, 40)?.into();
        }
        let end = count.checked_mul(SECTION_HEADER as u64)?.checked_add(offset)?;
        (end <= self.size).then_some(Sections { offset, count, names })
    }

    fn section_at(&self, offset: u64) -> Option<[u8; SECTION_HEADER]> {
        let mut section = [0; SECTION_HEADER];
        (self.file.read_at(&mut section, offset) == SECTION_HEADER).then_some(section)
    }

    /// Calls `take` for each section's header, until it says that this is enough.
    fn each_section(&self, sections: &Sections, take: &mut dyn FnMut(&[u8; SECTION_HEADER]) -> bool) {
        const PIECE: usize = 64;
        let mut piece = [0; PIECE * SECTION_HEADER];
        let mut done = 0;
        while done < sections.count {
            let wanted = usize::try_from(sections.count - done).unwrap_or(PIECE).min(PIECE) * SECTION_HEADER;
            let Some(part) = piece.get_mut(..wanted) else { return };
            if self.file.read_at(part, sections.offset + done * SECTION_HEADER as u64) != wanted {
                return;
            }
            if part.as_chunks::<SECTION_HEADER>().0.iter().any(&mut *take) {
                return;
            }
            done += PIECE as u64;
        }
    }

    /// The symbol table and its strings.
    pub fn symbols(&self) -> Option<SymbolBytes> {
        let sections = self.sections()?;
        let mut table = None;
        self.each_section(&sections, &mut |section| {
            if middle(section, 4) == Some(SYMBOL_TABLE) {
                table = Some(*section);
            }
            table.is_some()
        });
        let table = table?;
        let link = u64::from(middle(&table, 40)?);
        if link >= sections.count {
            return None;
        }
        let strings = self.section_at(sections.offset + link * SECTION_HEADER as u64)?;
        if middle(&strings, 4)? != STRING_TABLE {
            return None;
        }
        Some(SymbolBytes { table: self.map_section(&table)?, strings: self.map_section(&strings)? })
    }

    fn map_section(&self, section: &[u8]) -> Option<Mapping> {
        self.map(long(section, 24)?, long(section, 32)?)
    }

    fn map(&self, offset: u64, size: u64) -> Option<Mapping> {
        let inside = size > 0 && offset.checked_add(size)? <= self.size;
        inside.then(|| self.file.map(offset, usize::try_from(size).ok()?)).flatten()
    }

    /// Whether it has a section of that name.
    pub fn has_section(&self, name: &[u8]) -> bool {
        let Some(sections) = self.sections() else { return false };
        let Some(strings) = self.section_at(sections.offset.saturating_add(sections.names * SECTION_HEADER as u64))
        else {
            return false;
        };
        let Some(strings) = self.map_section(&strings) else { return false };
        let mut found = false;
        self.each_section(&sections, &mut |section| {
            let text = middle(section, 0).and_then(|at| strings.bytes().get(at as usize..)).unwrap_or_default();
            found = text.starts_with(name) && text.get(name.len()) == Some(&0);
            found
        });
        found
    }

    /// The bytes of code between two link-time addresses, which lie in one segment.
    pub fn code(&self, start: u64, end: u64) -> Option<Mapping> {
        let inside = |code: &&Code| code.address <= start && start < end && end <= code.address + code.size;
        let code = self.code.iter().find(inside)?;
        self.map(code.offset + (start - code.address), end - start)
    }

    /// Whether the segment goes on for so many bytes.
    pub fn code_ends(&self, address: u64) -> Option<u64> {
        let inside = |code: &&Code| code.address <= address && address < code.address + code.size;
        self.code.iter().find(inside).map(|code| code.address + code.size)
    }
}

/// A mapped symbol table.
pub struct SymbolBytes {
    table: Mapping,
    strings: Mapping,
}

impl SymbolBytes {
    pub fn symbols(&self) -> Symbols<'_> {
        Symbols::new(self.table.bytes(), self.strings.bytes())
    }
}
