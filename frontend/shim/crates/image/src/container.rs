//! Fat binary containers: a 16-byte header and entries, each one image for one architecture.
//!
//! Layout (little-endian), as written by nvcc 13 and read by `fatbinary`'s consumers: container: u32 magic, u16
//! version, u16 header bytes, u64 bytes of the entries. entry: u16 kind, u16 version, u32 header bytes, u64 payload
//! bytes (padded), u32 compressed bytes (0: stored), u32 offset of options, u16 minor, u16 major, u32 architecture, u32
//! and u32 name, u64 flags, u64 uncompressed bytes.
//!
//! Rooms: `payload` (an entry's bytes, decompressed), `wrapper` (the struct that a program registers), `cut` (a
//! container with fewer entries), `joined` (several images as one).

pub(crate) mod cut;
pub(crate) mod joined;
mod payload;
pub(crate) mod wrapper;

use crate::bytes::{slice, u16_at, u32_at, u64_at};
use crate::error::Error;
use crate::limits;
use crate::select::{self, Target};

/// Bytes of a container's header, from which [`container_length`] is known.
pub const CONTAINER_HEADER: usize = 16;
pub(crate) const CONTAINER_MAGIC: u32 = 0xBA55_ED50;
const ENTRY_HEADER: usize = 64;

const FLAG_LZ4: u64 = 0x2000;
const FLAG_ZSTD: u64 = 0x8000;
const FLAG_ARCHITECTURE_SPECIFIC: u64 = 0x10_0000;
const FLAG_FAMILY_SPECIFIC: u64 = 0x20_0000;

/// What an entry holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Ptx,
    MachineCode,
    /// Something this version does not know (an intermediate representation, an index, ...).
    Other(u16),
}

/// On which devices besides its own architecture an entry runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Later ones: any for PTX, those of the same major version for machine code.
    Forward,
    /// Those of the same major version (`compute_100f`).
    Family,
    /// None (`compute_90a`).
    Exact,
}

/// How a payload is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Lz4,
    Zstd,
}

/// One entry of a container.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub kind: Kind,
    /// Major version times ten plus minor.
    pub architecture: u32,
    pub reach: Reach,
    pub(crate) compression: Compression,
    /// The bytes as stored, compressed or padded.
    pub(crate) stored: &'a [u8],
    /// Bytes once decompressed; 0 when the header does not say.
    pub(crate) size: u64,
    /// The whole entry, its header included.
    pub(crate) whole: &'a [u8],
}

/// A parsed container.
#[derive(Clone, Debug)]
pub struct Container<'a> {
    pub entries: Vec<Entry<'a>>,
}

/// The bytes of the whole container that starts with `header` (16 bytes).
///
/// # Errors
/// When it is no container, or a larger one than any compiler writes.
pub fn container_length(header: &[u8]) -> Result<usize, Error> {
    let short = || Error::malformed("the fat binary container is shorter than its header");
    let magic = u32_at(header, 0).ok_or_else(short)?;
    let header_bytes = u16_at(header, 6).ok_or_else(short)?;
    let entry_bytes = u64_at(header, 8).ok_or_else(short)?;
    if magic != CONTAINER_MAGIC {
        return Err(Error::malformed(format!("the fat binary container's magic is {magic:#010x}")));
    }
    if usize::from(header_bytes) < CONTAINER_HEADER {
        return Err(Error::malformed(format!("the fat binary container's header has {header_bytes} bytes")));
    }
    let total = entry_bytes.checked_add(u64::from(header_bytes)).filter(|total| *total <= limits::CONTAINER_BYTES);
    let total = total.ok_or_else(|| Error::too_large(format!("a fat binary container of {entry_bytes} bytes")))?;
    usize::try_from(total).map_err(|_| Error::too_large("a fat binary container larger than the address space"))
}

impl<'a> Container<'a> {
    /// Parses the container at the start of `data`.
    ///
    /// # Errors
    /// When a header does not fit its surroundings. Entries of unknown kinds are kept, unread.
    pub fn parse(data: &'a [u8]) -> Result<Container<'a>, Error> {
        let total = container_length(data)?;
        let data = data.get(..total).ok_or_else(|| {
            Error::malformed(format!(
                "the fat binary container claims {total} bytes, of which {} are there",
                data.len()
            ))
        })?;
        let mut position = usize::from(u16_at(data, 6).unwrap_or_default());
        let mut entries = Vec::new();
        while position < total {
            if entries.len() == limits::ENTRIES {
                return Err(Error::too_large(format!("a fat binary with more than {} entries", limits::ENTRIES)));
            }
            let (entry, length) = parse_entry(&data[position..]).ok_or_else(|| {
                Error::malformed(format!("the fat binary entry at byte {position} does not fit its container"))
            })?;
            entries.push(entry);
            position += length;
        }
        Ok(Container { entries })
    }

    /// Whether any entry runs on the target.
    pub fn runs_on(&self, target: &Target) -> bool {
        select::choose(self, target).is_ok()
    }

    /// Whether any entry is meant for the target: runs on every device of its kind.
    pub fn is_meant_for(&self, target: &Target) -> bool {
        select::meant(self, target).is_some()
    }
}

/// The entry at the start of `data`, and the bytes it takes.
fn parse_entry(data: &[u8]) -> Option<(Entry<'_>, usize)> {
    let header_bytes = u32_at(data, 4)? as usize;
    if header_bytes < ENTRY_HEADER {
        return None;
    }
    let payload_bytes = u64_at(data, 8)?;
    let payload = slice(data, header_bytes as u64, payload_bytes)?;
    let compressed_bytes = u64::from(u32_at(data, 16)?);
    let flags = u64_at(data, 40)?;
    let compression = match (flags & FLAG_ZSTD != 0, flags & FLAG_LZ4 != 0) {
        (true, _) => Compression::Zstd,
        (_, true) => Compression::Lz4,
        _ => Compression::None,
    };
    let stored = match compression {
        Compression::None => payload,
        _ if compressed_bytes == 0 => payload,
        _ => slice(payload, 0, compressed_bytes)?,
    };
    let reach = match (flags & FLAG_ARCHITECTURE_SPECIFIC != 0, flags & FLAG_FAMILY_SPECIFIC != 0) {
        (true, _) => Reach::Exact,
        (_, true) => Reach::Family,
        _ => Reach::Forward,
    };
    let kind = match u16_at(data, 0)? {
        1 => Kind::Ptx,
        2 => Kind::MachineCode,
        other => Kind::Other(other),
    };
    let length = header_bytes + payload.len();
    let (architecture, size, whole) = (u32_at(data, 28)?, u64_at(data, 56)?, data.get(..length)?);
    Some((Entry { kind, architecture, reach, compression, stored, size, whole }, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn entries_of_every_kind() {
        let image = samples::container(&[
            samples::entry(2, 75, 0, b"cubin"),
            samples::entry(1, 80, 0, b"ptx"),
            samples::entry(1, 90, FLAG_ARCHITECTURE_SPECIFIC, b"ptx"),
            samples::entry(2, 100, FLAG_FAMILY_SPECIFIC, b"cubin"),
            samples::entry(77, 80, 0, b"new"),
        ]);
        let container = Container::parse(&image).unwrap();
        let kinds: Vec<_> =
            container.entries.iter().map(|entry| (entry.kind, entry.architecture, entry.reach)).collect();
        assert_eq!(
            kinds,
            [
                (Kind::MachineCode, 75, Reach::Forward),
                (Kind::Ptx, 80, Reach::Forward),
                (Kind::Ptx, 90, Reach::Exact),
                (Kind::MachineCode, 100, Reach::Family),
                (Kind::Other(77), 80, Reach::Forward),
            ]
        );
    }

    #[test]
    fn an_empty_container_has_no_entries() {
        assert!(Container::parse(&samples::container(&[])).unwrap().entries.is_empty());
    }

    #[test]
    fn every_truncation_is_an_error() {
        let image = samples::container(&[samples::entry(1, 80, 0, b"text"), samples::entry(2, 80, 0, b"code")]);
        for length in 0..image.len() {
            assert!(Container::parse(&image[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn claims_beyond_the_limits_are_refused() {
        let mut image = samples::container(&[]);
        image[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(matches!(container_length(&image), Err(Error::TooLarge(_))));
        image[8..16].copy_from_slice(&limits::CONTAINER_BYTES.to_le_bytes());
        assert!(matches!(container_length(&image), Err(Error::TooLarge(_))));
    }

    #[test]
    fn an_entry_cannot_claim_less_than_its_header() {
        let mut entry = samples::entry(1, 80, 0, b"");
        entry[4..8].copy_from_slice(&0u32.to_le_bytes());
        assert!(Container::parse(&samples::container(&[entry])).is_err());
    }
}
