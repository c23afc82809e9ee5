//! Joined copies: copies to the host that may wait until the next call that waits, and what each is compared with.

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::Broken;

/// Bytes of an entry, and of a range behind the entries.
pub(crate) const COPY: usize = 16;
pub(crate) const RANGE: usize = 16;

/// A copy to the host that may join the next call that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedCopy {
    /// At link time.
    pub return_address: u64,
    /// Others than the function may know the destination.
    pub shared: bool,
    /// What the destination must not meet.
    pub ranges: Vec<Range>,
    pub(crate) proof: u32,
}

/// Bytes that the program reads behind a joined copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// An address at link time, or so far from rsp.
    pub start: u64,
    pub size: u32,
    pub frame: bool,
}

/// The bytes of the table that begins at `start` with so many entries; `None`: it ends beyond the manifest.
pub(crate) fn length(bytes: &[u8], start: usize, count: usize) -> Option<usize> {
    let entries = bytes.get(start..)?.get(..count * COPY)?;
    let ranges: usize = entries.iter().skip(12).step_by(COPY).map(|ranges| usize::from(*ranges)).sum();
    Some(count * COPY + ranges * RANGE)
}

/// All entries of a table.
pub(crate) fn read(table: &[u8], count: usize) -> Result<Vec<JoinedCopy>, Broken> {
    let broken = |rule, index| Err(Broken::at(rule, index));
    let mut at = count * COPY;
    let mut found: Vec<JoinedCopy> = Vec::with_capacity(count);
    for index in 0..count {
        let entry = table.get(index * COPY..).unwrap_or_default();
        let (Some(return_address), Some(proof), Some([ranges, shared]), Some(0)) =
            (u64_at(entry, 0), u32_at(entry, 8), crate::bytes::array::<2>(entry, 12), u16_at(entry, 14))
        else {
            return broken("reserved fields are 0", index);
        };
        if found.last().is_some_and(|before| before.return_address >= return_address) {
            return broken("joined copies stand by rising return address", index);
        }
        if usize::from(ranges) > limits::JOINED_RANGES || shared > 1 {
            return broken("a joined copy has at most 16 ranges, and its flags are defined", index);
        }
        let mut copy = JoinedCopy { return_address, shared: shared == 1, ranges: Vec::new(), proof };
        for _ in 0..ranges {
            let range = table.get(at..).unwrap_or_default();
            let (Some(start), Some(size), Some(frame @ 0..=1)) =
                (u64_at(range, 0), u32_at(range, 8), u32_at(range, 12))
            else {
                return broken("a range is of an object or of the frame", index);
            };
            if size == 0 || start >> 63 != 0 {
                return broken("a range is not empty, and starts at 0 or above", index);
            }
            copy.ranges.push(Range { start, size, frame: frame == 1 });
            at += RANGE;
        }
        found.push(copy);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{nested, seal};
    use crate::Manifest;

    #[test]
    fn joined_copies_stand_behind_the_texts_from_version_4_on() {
        let good = nested();
        let proof = u32::from_le_bytes(good.sites[0][28..32].try_into().unwrap());
        let copy = |address: u64, proof: u32, ranges: u8, shared: u8| {
            let mut entry = [0; 16];
            entry[..8].copy_from_slice(&address.to_le_bytes());
            entry[8..12].copy_from_slice(&proof.to_le_bytes());
            entry[12..14].copy_from_slice(&[ranges, shared]);
            entry
        };
        let range = |start: u64, size: u32, frame: u32| {
            let mut entry = [0; 16];
            entry[..8].copy_from_slice(&start.to_le_bytes());
            entry[8..12].copy_from_slice(&size.to_le_bytes());
            entry[12..].copy_from_slice(&frame.to_le_bytes());
            entry
        };
        let with = |version: u8, said: u16, entries: &[[u8; 16]]| {
            let mut bytes = good.bytes();
            bytes[8] = version;
            bytes[26..28].copy_from_slice(&said.to_le_bytes());
            bytes.extend(entries.concat());
            let length = bytes.len() as u32;
            bytes[12..16].copy_from_slice(&length.to_le_bytes());
            seal(&mut bytes);
            Manifest::parse(&bytes)
        };
        let entries = [copy(8, proof, 2, 1), copy(9, proof, 0, 0), range(0x4010, 8, 0), range(16, 4, 1)];
        let manifest = with(4, 2, &entries).expect("good");
        let [first, second] = manifest.joined() else { panic!("two copies") };
        assert_eq!((first.return_address, first.shared, second.return_address, second.shared), (8, true, 9, false));
        assert_eq!(
            first.ranges,
            [Range { start: 0x4010, size: 8, frame: false }, Range { start: 16, size: 4, frame: true }]
        );
        assert_eq!((second.ranges.len(), manifest.proof_of_joining(first)), (0, "the destination is not read"));
        for (version, said, entries, words) in [
            (3, 2, &entries[..], "reserved"),
            (4, 1, &entries[..], "tables fill"),
            (4, 3, &entries[..], "tables fill"),
            (4, 1, &[copy(8, proof, 1, 0)], "tables fill"),
            (4, 2, &[copy(8, proof, 0, 0), copy(8, proof, 0, 0)], "rising"),
            (4, 1, &[copy(8, proof, 0, 2)], "flags are defined"),
            (4, 1, &[copy(8, proof + 1, 0, 0)], "start of one"),
            (4, 1, &[copy(8, proof, 1, 0), range(8, 0, 0)], "not empty"),
            (4, 1, &[copy(8, proof, 1, 0), range(u64::MAX, 8, 0)], "0 or above"),
            (4, 1, &[copy(8, proof, 1, 0), range(8, 8, 2)], "of the frame"),
        ] {
            let found = with(version, said, entries).expect_err("broken").rule;
            assert!(found.contains(words), "{version} {said}: {found}");
        }
    }
}
