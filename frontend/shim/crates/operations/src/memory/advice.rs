//! What a program has said of managed memory (advice, prefetches), for it to ask. Nothing else reads it: the memory is
//! coherent in any case.
//!
//! Owns a map of ranges that the program gave advice for; the rest has none. A range is forgotten when its memory is
//! given out anew.
//! Source: CUDA runtime API, cudaMemRangeGetAttribute, cudaMemAdvise.
#![allow(non_snake_case)] // C's names

use crate::managed;
use crate::types::{MemRangeAttribute, MemoryAdvise};
use session::call::{Error, Outcome};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

const CPU: c_int = -1;
const NOWHERE: c_int = -2;
/// cudaMemLocationTypeInvalid, Device, Host.
const TYPES: [c_int; 3] = [0, 1, 2];
/// The host's place among the devices that access memory.
const HOST_BIT: u32 = 63;

/// What was said of a range. A location is a device, CPU or NOWHERE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Said {
    read_mostly: bool,
    preferred: c_int,
    accessed_by: u64,
    prefetched: c_int,
}

const NOTHING: Said = Said { read_mostly: false, preferred: NOWHERE, accessed_by: 0, prefetched: NOWHERE };

/// Ranges that do not overlap: start to end and what was said.
#[derive(Debug, Default)]
struct Ranges(BTreeMap<usize, (usize, Said)>);

static RANGES: Mutex<Ranges> = Mutex::new(Ranges(BTreeMap::new()));

fn ranges() -> MutexGuard<'static, Ranges> {
    RANGES.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ranges {
    /// A range that goes across the address becomes two.
    fn split(&mut self, at: usize) {
        if let Some((_, (end, said))) = self.0.range_mut(..at).next_back() {
            if *end > at {
                let rest = (*end, *said);
                *end = at;
                self.0.insert(at, rest);
            }
        }
    }

    fn change(&mut self, start: usize, end: usize, change: impl Fn(&mut Said)) {
        self.split(start);
        self.split(end);
        let mut at = start;
        while at < end {
            let next = self.0.range(at..end).next().map_or(end, |(next, _)| *next);
            let stop = if next > at {
                self.0.insert(at, (next, NOTHING));
                next
            } else {
                self.0[&at].0
            };
            if let Some((_, said)) = self.0.get_mut(&at) {
                change(said);
            }
            at = stop;
        }
    }

    fn forget(&mut self, start: usize, end: usize) {
        self.split(start);
        self.split(end);
        let gone: Vec<usize> = self.0.range(start..end).map(|(start, _)| *start).collect();
        for start in gone {
            self.0.remove(&start);
        }
    }

    /// What was said of each part of a range.
    fn within(&self, start: usize, end: usize) -> Vec<Said> {
        let (mut found, mut covered) = (Vec::new(), 0);
        let before = self.0.range(..start).next_back().filter(|(_, (stop, _))| *stop > start);
        for (from, (stop, said)) in before.into_iter().chain(self.0.range(start..end)) {
            found.push(*said);
            covered += (*stop).min(end) - (*from).max(start);
        }
        if covered < end - start {
            found.push(NOTHING);
        }
        found
    }
}

/// `None` is the host, as everywhere in this family.
fn location(device: Option<c_int>) -> c_int {
    device.unwrap_or(CPU)
}

fn bit(device: c_int) -> u64 {
    1 << u32::try_from(device).unwrap_or(HOST_BIT).min(HOST_BIT)
}

pub(super) fn advised(start: usize, count: usize, advice: MemoryAdvise, device: Option<c_int>) {
    let place = location(device);
    ranges().change(start, start + count, |said| match advice {
        1 | 2 => said.read_mostly = advice == 1,
        3 => said.preferred = place,
        4 => said.preferred = NOWHERE,
        5 => said.accessed_by |= bit(place),
        _ => said.accessed_by &= !bit(place),
    });
}

pub(super) fn prefetched(start: usize, count: usize, device: Option<c_int>) {
    ranges().change(start, start + count, |said| said.prefetched = location(device));
}

/// The memory is new.
pub(super) fn fresh(start: usize, count: usize) {
    ranges().forget(start, start + count);
}

/// The answer for a range: `words` of them, of which only devices that access it may be several.
fn answer(said: &[Said], attribute: MemRangeAttribute, words: usize) -> Outcome<Vec<c_int>> {
    let same = |get: fn(&Said) -> c_int| {
        let first = said.first().map_or(NOWHERE, get);
        if said.iter().all(|each| get(each) == first) {
            first
        } else {
            NOWHERE
        }
    };
    let (preferred, prefetched) = (same(|said| said.preferred), same(|said| said.prefetched));
    let kind = |place: c_int| TYPES[if place == NOWHERE { 0 } else { 1 + usize::from(place == CPU) }];
    let number = |place: c_int| if place >= 0 { place } else { NOWHERE };
    let single = match attribute {
        1 => c_int::from(said.iter().all(|said| said.read_mostly)),
        2 => preferred,
        3 => {
            let all = said.iter().fold(u64::MAX, |all, said| all & said.accessed_by);
            let devices = (0..HOST_BIT as c_int).chain([CPU]).filter(|device| all & bit(*device) != 0);
            return Ok(devices.chain(std::iter::repeat(NOWHERE)).take(words).collect());
        }
        4 => prefetched,
        5 => kind(preferred),
        6 => number(preferred),
        7 => kind(prefetched),
        8 => number(prefetched),
        _ => return Err(Error::INVALID_VALUE),
    };
    if words == 1 {
        Ok(vec![single])
    } else {
        Err(Error::INVALID_VALUE)
    }
}

pub unsafe fn range_get_attribute(
    data: *mut c_void,
    dataSize: usize,
    attribute: MemRangeAttribute,
    devPtr: *const c_void,
    count: usize,
) -> Outcome {
    let start = devPtr as usize;
    if data.is_null() || dataSize == 0 || !dataSize.is_multiple_of(4) || count == 0 || !managed::holds(start, count) {
        return Err(Error::INVALID_VALUE);
    }
    let said = ranges().within(start, start + count);
    for (index, word) in answer(&said, attribute, dataSize / 4)?.into_iter().enumerate() {
        // SAFETY: the program says that there are `dataSize` bytes.
        unsafe { data.cast::<c_int>().add(index).write_unaligned(word) };
    }
    Ok(())
}

pub unsafe fn range_get_attributes(
    data: *mut *mut c_void,
    dataSizes: *mut usize,
    attributes: *mut MemRangeAttribute,
    numAttributes: usize,
    devPtr: *const c_void,
    count: usize,
) -> Outcome {
    if data.is_null() || dataSizes.is_null() || attributes.is_null() || numAttributes == 0 {
        return Err(Error::INVALID_VALUE);
    }
    for index in 0..numAttributes {
        // SAFETY: not null; the program says that there are so many.
        unsafe {
            let (place, size, which) =
                (data.add(index).read(), dataSizes.add(index).read(), attributes.add(index).read());
            range_get_attribute(place, size, which, devPtr, count)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_what_was_said_of_their_parts() {
        let mut ranges = Ranges::default();
        assert_eq!(ranges.within(100, 200), [NOTHING]);
        ranges.change(100, 200, |said| said.read_mostly = true);
        ranges.change(150, 300, |said| said.preferred = CPU);
        let (read, both) =
            (Said { read_mostly: true, ..NOTHING }, Said { read_mostly: true, preferred: CPU, ..NOTHING });
        assert_eq!(ranges.within(100, 150), [read]);
        assert_eq!(ranges.within(110, 190), [read, both]);
        assert_eq!(ranges.within(250, 310), [Said { preferred: CPU, ..NOTHING }, NOTHING]);
        ranges.forget(120, 400);
        assert_eq!(ranges.within(100, 130), [read, NOTHING]);
        assert_eq!(ranges.within(130, 400), [NOTHING]);
    }

    #[test]
    fn answers_are_what_holds_of_all_parts() {
        let all = Said { read_mostly: true, preferred: 0, accessed_by: bit(0) | bit(CPU), prefetched: CPU };
        let part = Said { accessed_by: bit(CPU), preferred: CPU, ..all };
        let one = |said: &[Said], attribute| answer(said, attribute, 1).unwrap()[0];
        let singles = |said: &[Said]| [1, 2, 4, 5, 6, 7, 8].map(|attribute| one(said, attribute));
        assert_eq!(singles(&[all]), [1, 0, CPU, 1, 0, 2, NOWHERE]);
        assert_eq!(singles(&[all, part]), [1, NOWHERE, CPU, 0, NOWHERE, 2, NOWHERE]);
        assert_eq!(singles(&[all, NOTHING]), [0, NOWHERE, NOWHERE, 0, NOWHERE, 0, NOWHERE]);
        assert_eq!(answer(&[all], 3, 3), Ok(vec![0, CPU, NOWHERE]));
        assert_eq!(answer(&[all, part], 3, 2), Ok(vec![CPU, NOWHERE]));
        assert_eq!(answer(&[all], 9, 1), Err(Error::INVALID_VALUE));
        assert_eq!(answer(&[all], 1, 2), Err(Error::INVALID_VALUE));
    }
}
