//! Reads the headers of an ELF file, as far as the launcher asks: 64 bits, little-endian. Everything is bounded by the
//! file; a file that contradicts itself is an error.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;

const INTERPRETER: u32 = 3;
const DYNAMIC: u32 = 2;
const LOAD: u32 = 1;
const DYNAMIC_SYMBOLS: &[u8] = b".dynsym";
const MOST_HEADERS: usize = 1 << 16;
/// Symbol tables of larger files are not read.
const MOST_BYTES: u64 = 1 << 30;

pub const NEEDED: u64 = 1;
pub const FLAGS_1: u64 = 0x6fff_fffb;
const STRING_TABLE: u64 = 5;

/// An ELF file's headers.
pub struct Elf {
    file: File,
    size: u64,
    pub kind: u16,
    pub machine: u16,
    segments: Vec<Segment>,
    sections: Vec<Section>,
}

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

struct Section {
    name: Vec<u8>,
    link: usize,
    offset: u64,
    size: u64,
    on_disk: bool,
}

fn damaged() -> io::Error {
    ErrorKind::InvalidData.into()
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn quarter(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The bytes up to the first zero.
fn text_at(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let rest = bytes.get(at..)?;
    rest.iter().position(|byte| *byte == 0).map(|end| &rest[..end])
}

impl Elf {
    /// The file's headers; none when it is no ELF file.
    pub fn read(file: File) -> io::Result<Option<Self>> {
        let mut header = [0; 64];
        let size = file.metadata()?.len();
        if size < 4 || !read_start(&file, &mut header)?.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        if size < 64 || header[4] != 2 || header[5] != 1 {
            return Err(damaged());
        }
        let mut elf = Self {
            file,
            size,
            kind: quarter(&header, 16),
            machine: quarter(&header, 18),
            segments: Vec::new(),
            sections: Vec::new(),
        };
        let (programs, program_size, program_count) =
            (word(&header, 32), usize::from(quarter(&header, 54)), usize::from(quarter(&header, 56)));
        for entry in elf.table(programs, program_size, program_count, 56)?.chunks(program_size.max(1)) {
            elf.segments.push(Segment {
                kind: half(entry, 0),
                offset: word(entry, 8),
                address: word(entry, 16),
                size: word(entry, 32),
            });
        }
        elf.read_sections(&header)?;
        Ok(Some(elf))
    }

    fn read_sections(&mut self, header: &[u8; 64]) -> io::Result<()> {
        let (start, size, count) =
            (word(header, 40), usize::from(quarter(header, 58)), usize::from(quarter(header, 60)));
        let table = self.table(start, size, count, 64)?;
        let entries: Vec<&[u8]> = table.chunks(size.max(1)).collect();
        let names = match entries.get(usize::from(quarter(header, 62))) {
            Some(entry) => self.bytes(word(entry, 24), word(entry, 32))?,
            None => Vec::new(),
        };
        for entry in entries {
            self.sections.push(Section {
                name: text_at(&names, half(entry, 0) as usize).unwrap_or_default().to_vec(),
                link: half(entry, 40) as usize,
                offset: word(entry, 24),
                size: word(entry, 32),
                on_disk: half(entry, 4) != 8,
            });
        }
        Ok(())
    }

    fn table(&self, start: u64, size: usize, count: usize, least: usize) -> io::Result<Vec<u8>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if size < least || count > MOST_HEADERS {
            return Err(damaged());
        }
        self.bytes(start, (size * count) as u64)
    }

    fn bytes(&self, start: u64, size: u64) -> io::Result<Vec<u8>> {
        if size > MOST_BYTES || start.checked_add(size).is_none_or(|end| end > self.size) {
            return Err(damaged());
        }
        let mut bytes = vec![0; usize::try_from(size).map_err(|_| damaged())?];
        self.file.read_exact_at(&mut bytes, start)?;
        Ok(bytes)
    }

    pub fn has_section(&self, name: &str) -> bool {
        self.section(name.as_bytes()).is_some()
    }

    fn section(&self, name: &[u8]) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The names in the string table of a table of symbols, as the file has them; empty when there is none.
    fn names_of(&self, table: &Section) -> io::Result<Vec<u8>> {
        match self.sections.get(table.link) {
            Some(strings) if strings.on_disk && strings.size <= MOST_BYTES => self.bytes(strings.offset, strings.size),
            _ => Ok(Vec::new()),
        }
    }

    /// The names of all symbols, which stripping removes: each between two zeros.
    pub fn symbol_names(&self) -> io::Result<Vec<u8>> {
        self.section(b".symtab").map_or(Ok(Vec::new()), |table| self.names_of(table))
    }

    /// Whether the file takes a function of that name from a library.
    pub fn imports(&self, name: &str) -> io::Result<bool> {
        let Some(table) = self.section(DYNAMIC_SYMBOLS) else { return Ok(false) };
        let names = self.names_of(table)?;
        let symbols = self.bytes(table.offset, table.size)?;
        Ok(symbols.chunks_exact(24).any(|symbol| {
            quarter(symbol, 6) == 0 && text_at(&names, half(symbol, 0) as usize) == Some(name.as_bytes())
        }))
    }

    /// The loader that the file names.
    pub fn interpreter(&self) -> io::Result<Option<Vec<u8>>> {
        let Some(segment) = self.segments.iter().find(|segment| segment.kind == INTERPRETER) else { return Ok(None) };
        Ok(text_at(&self.bytes(segment.offset, segment.size)?, 0).map(<[u8]>::to_vec))
    }

    /// The values of a tag of the dynamic section.
    pub fn dynamic(&self, tag: u64) -> io::Result<Vec<u64>> {
        let Some(segment) = self.segments.iter().find(|segment| segment.kind == DYNAMIC) else { return Ok(Vec::new()) };
        let table = self.bytes(segment.offset, segment.size)?;
        let entries = table.chunks_exact(16).take_while(|entry| word(entry, 0) != 0);
        Ok(entries.filter(|entry| word(entry, 0) == tag).map(|entry| word(entry, 8)).collect())
    }

    /// The libraries that the file needs.
    pub fn needed(&self) -> io::Result<Vec<String>> {
        let Some(address) = self.dynamic(STRING_TABLE)?.first().copied() else { return Ok(Vec::new()) };
        let loaded = |segment: &&Segment| {
            segment.kind == LOAD && (segment.address..segment.address + segment.size).contains(&address)
        };
        let segment = self.segments.iter().find(loaded).ok_or_else(damaged)?;
        let start = segment.offset + (address - segment.address);
        let strings = self.bytes(start, segment.size - (address - segment.address))?;
        let text = |at: u64| {
            text_at(&strings, usize::try_from(at).ok()?).map(|name| String::from_utf8_lossy(name).into_owned())
        };
        self.dynamic(NEEDED)?.into_iter().map(|at| text(at).ok_or_else(damaged)).collect()
    }
}

fn read_start<'a>(file: &File, header: &'a mut [u8; 64]) -> io::Result<&'a [u8]> {
    let mut filled = 0;
    while filled < header.len() {
        match file.read_at(&mut header[filled..], filled as u64)? {
            0 => break,
            more => filled += more,
        }
    }
    Ok(&header[..filled])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_program_is_read() {
        let elf = Elf::read(File::open(std::env::current_exe().expect("a program")).expect("readable"));
        let elf = elf.expect("whole").expect("an ELF file");
        assert!(elf.interpreter().expect("whole").is_some_and(|path| path.starts_with(b"/")));
        assert!(elf.needed().expect("whole").contains(&"libc.so.6".to_owned()));
        assert!(elf.imports("getenv").expect("whole"));
        assert!(!elf.imports("__cudaRegisterFatBinary").expect("whole"));
        assert!(elf.has_section(".text"));
    }

    #[test]
    fn damaged_files_are_refused_and_others_are_no_elf_files() {
        let folder = std::env::temp_dir().join(format!("farlane-elf-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let read = |bytes: &[u8]| {
            let path = folder.join("file");
            std::fs::write(&path, bytes).expect("written");
            Elf::read(File::open(&path).expect("opened"))
        };
        assert!(read(b"#!/bin/sh\n").expect("a script").is_none());
        assert!(read(b"").expect("empty").is_none());
        assert!(read(b"\x7fELF").is_err());
        let whole = std::fs::read(std::env::current_exe().expect("a program")).expect("read");
        for length in [64, 100, 1000, whole.len() / 2] {
            // Its sections' headers are at the end.
            assert!(read(&whole[..length]).is_err(), "{length}");
        }
        std::fs::remove_dir_all(folder).expect("removed");
    }
}
