//! The part of ELF that machine code needs: 64-bit little-endian sections and symbols, every offset checked.

use crate::bytes::{slice, string_at, u16_at, u32_at, u64_at};
use crate::limits;

const HEADER: usize = 64;
const SECTION_HEADER: usize = 64;
const SYMBOL: usize = 24;
const MACHINE_CUDA: u16 = 190;
const TYPE_SYMBOLS: u32 = 2;
const TYPE_NO_BITS: u32 = 8;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Section<'a> {
    pub name: &'a str,
    pub kind: u32,
    /// Empty for sections that occupy no bytes of the file.
    pub data: &'a [u8],
    pub size: u64,
    pub link: u32,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Symbol<'a> {
    pub name: &'a str,
    /// What it is and how it is bound.
    pub info: u8,
    pub other: u8,
    /// Index of its section.
    pub section: u16,
    pub size: u64,
}

/// A machine-code file.
#[derive(Debug)]
pub(crate) struct Elf<'a> {
    pub sections: Vec<Section<'a>>,
    pub architecture: u32,
}

pub(crate) fn is_elf(data: &[u8]) -> bool {
    data.starts_with(b"\x7fELF")
}

/// The bytes of the machine-code file that `data` begins with: up to the end of its last section or table. `None` when
/// it does not begin with one.
pub(crate) fn machine_code_length(data: &[u8]) -> Option<usize> {
    Elf::parse(data).ok()?;
    let table = |offset, size, count| {
        let bytes = u64::from(u16_at(data, size)?) * u64::from(u16_at(data, count)?);
        u64_at(data, offset)?.checked_add(bytes)
    };
    let (sections, segments) = (table(40, 58, 60)?, table(32, 54, 56)?);
    let first = usize::try_from(u64_at(data, 40)?).ok()?;
    let entry_bytes = usize::from(u16_at(data, 58)?).max(SECTION_HEADER);
    let headers = data.get(first..usize::try_from(sections).ok()?)?.chunks_exact(entry_bytes);
    let ends = headers.filter(|header| !matches!(u32_at(header, 4), Some(0 | TYPE_NO_BITS) | None));
    let ends = ends.filter_map(|header| u64_at(header, 24)?.checked_add(u64_at(header, 32)?));
    let end = ends.chain([sections, segments]).max()?;
    usize::try_from(end).ok().filter(|end| *end <= data.len())
}

impl<'a> Elf<'a> {
    /// Parses the headers. `Err` says what does not fit.
    pub(crate) fn parse(data: &'a [u8]) -> Result<Elf<'a>, &'static str> {
        let header = data.get(..HEADER).ok_or("it is shorter than an ELF header")?;
        if !is_elf(header) || header[4] != 2 || header[5] != 1 {
            return Err("it is no 64-bit little-endian ELF file");
        }
        if u16_at(header, 18) != Some(MACHINE_CUDA) {
            return Err("it is an ELF file, but not one of device code");
        }
        let flags = u32_at(header, 48).unwrap_or_default();
        // The architecture moved by eight bits with ABI version 8.
        let architecture = if header[8] >= 8 { flags >> 8 } else { flags } & 0xff;
        Ok(Elf { sections: read_sections(data).ok_or("its sections do not fit the file")?, architecture })
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Section<'a>> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// The symbols in order, the index of each being its position.
    pub(crate) fn symbols(&self) -> Vec<Symbol<'a>> {
        let Some(table) = self.sections.iter().find(|section| section.kind == TYPE_SYMBOLS) else { return Vec::new() };
        let strings = self.sections.get(table.link as usize).map_or(&[][..], |section| section.data);
        let name = |offset: u32| string_at(strings, offset as usize).unwrap_or("");
        let entries = table.data.chunks_exact(SYMBOL);
        entries
            .map(|entry| Symbol {
                name: name(u32_at(entry, 0).unwrap_or(0)),
                info: entry[4],
                other: entry[5],
                section: u16_at(entry, 6).unwrap_or(0),
                size: u64_at(entry, 16).unwrap_or(0),
            })
            .collect()
    }
}

fn read_sections(data: &[u8]) -> Option<Vec<Section<'_>>> {
    let table = u64_at(data, 40)?;
    let entry_bytes = usize::from(u16_at(data, 58)?);
    let mut count = u64::from(u16_at(data, 60)?);
    let mut names = u32::from(u16_at(data, 62)?);
    if table == 0 {
        return Some(Vec::new());
    }
    if entry_bytes < SECTION_HEADER {
        return None;
    }
    let first = slice(data, table, SECTION_HEADER as u64)?;
    // Counts that do not fit 16 bits stand in the first section header.
    if count == 0 {
        count = u64_at(first, 32)?;
    }
    if names == 0xffff {
        names = u32_at(first, 40)?;
    }
    if count > limits::SECTIONS as u64 {
        return None;
    }
    let headers = slice(data, table, count.checked_mul(entry_bytes as u64)?)?;
    let headers: Vec<&[u8]> = headers.chunks_exact(entry_bytes).collect();
    let names = headers.get(names as usize).and_then(|header| contents(data, header))?;
    headers
        .iter()
        .map(|header| {
            Some(Section {
                name: string_at(names, u32_at(header, 0)? as usize).unwrap_or(""),
                kind: u32_at(header, 4)?,
                data: contents(data, header)?,
                size: u64_at(header, 32)?,
                link: u32_at(header, 40)?,
            })
        })
        .collect()
}

fn contents<'a>(data: &'a [u8], header: &[u8]) -> Option<&'a [u8]> {
    match u32_at(header, 4)? {
        0 | TYPE_NO_BITS => Some(&[]),
        _ => slice(data, u64_at(header, 24)?, u64_at(header, 32)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::CUBIN;

    #[test]
    fn sections_and_symbols() {
        let elf = Elf::parse(CUBIN).unwrap();
        assert_eq!(elf.architecture, 75);
        assert_eq!(elf.section(".nv.constant3").unwrap().size, 88);
        assert!(elf.section(".nv.shared.mixed").unwrap().data.is_empty());
        assert!(elf.symbols().iter().any(|symbol| symbol.name == "mixed" && symbol.other & 0x10 != 0));
    }

    #[test]
    fn a_file_ends_with_its_last_part() {
        let mut followed = CUBIN.to_vec();
        followed.extend([0xaa; 1000]);
        assert_eq!(machine_code_length(&followed), Some(CUBIN.len()));
        assert_eq!(machine_code_length(&CUBIN[..1000]), None);
        assert_eq!(machine_code_length(b".version 8.0"), None);
    }

    #[test]
    fn other_files_are_refused() {
        assert!(Elf::parse(b"\x7fELF").is_err());
        let mut host = CUBIN.to_vec();
        host[18] = 62;
        assert!(Elf::parse(&host).is_err());
        let table = u64_at(CUBIN, 40).unwrap() as usize;
        for length in (0..table + SECTION_HEADER).step_by(97) {
            assert!(Elf::parse(&CUBIN[..length]).is_err());
        }
    }
}
