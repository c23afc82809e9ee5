//! Joined copies: copies to the host that may wait until the next call that waits, and what each is compared with.

use crate::bytes::{u16_at, u32_at, u64_at};
use crate::Broken;

/// Bytes of an entry, and of a range behind the entries.
pub(crate) const COPY: usize = 16;
pub(crate) const RANGE: usize = 16;
const MOST_RANGES: u8 = 16;

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
        if ranges > MOST_RANGES || shared > 1 {
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
