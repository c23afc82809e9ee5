//! Sections of an object's file: for the identity of one without a build-id, and for an embedded manifest.
//!
//! The file is untrusted: every offset is checked by reading, and what is read at once is bounded.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Where a manifest is embedded.
const MANIFEST_SECTION: &str = ".note.farlane";
const NOTE_MANIFEST: u32 = 1;
const SECTION_HEADER: usize = 64;
const TYPE_NO_BITS: u32 = 8;
/// Longer tables of names are read name by name: most of one is of no interest.
const MOST_NAMES: usize = 16 << 10;
/// Longer names of sections are none that matter.
const LONGEST_NAME: usize = 64;
const CHUNK: usize = 64 << 10;
/// A manifest and its note's header.
const LONGEST_NOTE: u64 = manifest::MAX_BYTES as u64 + 64;

/// A section's place in the file.
struct Place {
    offset: u64,
    size: u64,
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> io::Result<[u8; N]> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().ok_or_else(invalid)
}

fn bytes_at(file: &File, offset: u64, size: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; size];
    file.read_exact_at(&mut bytes, offset)?;
    Ok(bytes)
}

/// The places of the named sections, in the order of the names; those that are not there are left out.
fn places(file: &File, names: &[&str]) -> io::Result<Vec<Place>> {
    let header = bytes_at(file, 0, 64)?;
    // 64 bits, little-endian.
    if !header.starts_with(b"\x7fELF\x02\x01") || u16::from_le_bytes(word(&header, 58)?) as usize != SECTION_HEADER {
        return Err(invalid());
    }
    let table = u64::from_le_bytes(word(&header, 40)?);
    let count = usize::from(u16::from_le_bytes(word(&header, 60)?));
    let headers = bytes_at(file, table, count * SECTION_HEADER)?;
    let section = |index: usize| headers.get(index * SECTION_HEADER..).ok_or_else(invalid);
    let long = |bytes: &[u8], at| word(bytes, at).map(u64::from_le_bytes);
    let strings = section(usize::from(u16::from_le_bytes(word(&header, 62)?)))?;
    let (strings, size) = (long(strings, 24)?, long(strings, 32)?);
    let at_once = usize::try_from(size).ok().filter(|size| *size <= MOST_NAMES);
    let at_once = at_once.map(|size| bytes_at(file, strings, size)).transpose()?;
    let mut found: Vec<Option<Place>> = names.iter().map(|_| None).collect();
    for index in 0..count {
        let bytes = section(index)?;
        let (name, kind) = (u32::from_le_bytes(word(bytes, 0)?), u32::from_le_bytes(word(bytes, 4)?));
        if kind == TYPE_NO_BITS {
            continue;
        }
        let mut one = [0; LONGEST_NAME];
        let text = match &at_once {
            Some(all) => all.get(name as usize..).ok_or_else(invalid)?,
            None => {
                let length = file.read_at(&mut one, strings.checked_add(u64::from(name)).ok_or_else(invalid)?)?;
                &one[..length]
            }
        };
        let text = text.split(|byte| *byte == 0).next().unwrap_or_default();
        if let Some(wanted) = names.iter().position(|name| name.as_bytes() == text) {
            found[wanted] = Some(Place { offset: long(bytes, 24)?, size: long(bytes, 32)? });
        }
    }
    Ok(found.into_iter().flatten().collect())
}

/// Passes the bytes of the named sections to `take`, in the order of the names, in pieces.
pub fn each_section(file: &File, names: &[&str], take: &mut dyn FnMut(&[u8])) -> io::Result<()> {
    for Place { mut offset, size } in places(file, names)? {
        let mut left = size;
        let mut piece = vec![0; CHUNK];
        while left > 0 {
            let length = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            file.read_exact_at(&mut piece[..length], offset)?;
            take(&piece[..length]);
            offset += length as u64;
            left -= length as u64;
        }
    }
    Ok(())
}

/// The manifest in the object's note.
pub fn embedded_manifest(file: &File) -> io::Result<Option<Vec<u8>>> {
    let Some(Place { offset, size }) = places(file, &[MANIFEST_SECTION])?.pop() else { return Ok(None) };
    if size > LONGEST_NOTE {
        return Err(invalid());
    }
    let notes = bytes_at(file, offset, usize::try_from(size).map_err(|_| invalid())?)?;
    Ok(super::each_note(&notes, |owner, kind, descriptor| {
        (owner == b"FARLANE\0" && kind == NOTE_MANIFEST).then(|| descriptor.to_vec())
    }))
}
