//! From bytes to a manifest whose every offset and index is good; `checks` has the tables' rules.

mod checks;

use self::checks::check_text;
use crate::bytes::{array, u16_at, u32_at, u64_at};
use crate::code::Expression;
use crate::entries::{Argument, Identity, Loop, Site, Text};
use crate::joined::{self, JoinedCopy};
use crate::{Broken, MAX_BYTES, VERSION};
use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::ops::Range;

const HEADER: usize = 88;
const SITE: usize = 40;
const LOOP: usize = 32;
const ARGUMENT: usize = 16;
/// The version of the table of slices.
const SLICES: u32 = 1;
/// Nothing: no code, no text, no parent.
const NONE: u32 = u32::MAX;

/// A manifest that obeys the rules.
#[derive(Debug, Clone)]
pub struct Manifest {
    pub identity: Identity,
    pub flags: u32,
    bytes: Vec<u8>,
    sites: Table,
    loops: Table,
    arguments: Table,
    code: Range<usize>,
    texts: Range<usize>,
    joined: Vec<JoinedCopy>,
    slices: Range<usize>,
}

/// Entries of one size, one behind the other.
#[derive(Debug, Clone, Copy)]
struct Table {
    start: usize,
    count: u32,
}

impl Table {
    fn entry(self, bytes: &[u8], index: u32, size: usize) -> Option<&[u8]> {
        if index >= self.count {
            return None;
        }
        bytes.get(self.start + index as usize * size..)?.get(..size)
    }
}

fn broken<T>(rule: &'static str, at: usize) -> Result<T, Broken> {
    Err(Broken::at(rule, at))
}

impl Manifest {
    /// Whether bytes begin as a manifest of that object does, all of which this version could read.
    #[must_use]
    pub fn is_of(bytes: &[u8], object: &Identity) -> bool {
        bytes.len() >= HEADER
            && bytes.starts_with(b"FARLANEM")
            && u32_at(bytes, 8).is_some_and(|version| (1..=VERSION).contains(&version))
            && u32_at(bytes, 12).is_some_and(|length| length as usize == bytes.len())
            && identity(bytes).as_ref() == Ok(object)
    }

    /// Checks every rule of the format.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub fn parse<'a>(bytes: impl Into<Cow<'a, [u8]>>) -> Result<Self, Broken> {
        let content = bytes.into();
        let bytes = content.as_ref();
        if bytes.len() > MAX_BYTES {
            return broken("a manifest has at most 16 MiB", bytes.len());
        }
        let word = |at| u32_at(bytes, at).ok_or(Broken::at("a manifest has a header of 88 bytes", bytes.len()));
        if bytes.len() < HEADER {
            return broken("a manifest has a header of 88 bytes", bytes.len());
        }
        if !bytes.starts_with(b"FARLANEM") {
            return broken("a manifest starts with FARLANEM", 0);
        }
        let version = word(8)?;
        if !(1..=VERSION).contains(&version) {
            return broken("the version is 1 to 4", 8);
        }
        if word(12)? as usize != bytes.len() {
            return broken("the length is that of the whole manifest", 12);
        }
        if bytes[16..24] != checksum(bytes) {
            return broken("the checksum is that of the contents", 16);
        }
        let identity = identity(bytes)?;
        let flags = word(28)?;
        if flags & !7 != 0 {
            return broken("flags that are not defined are 0", 28);
        }
        let slices = word(84)?;
        let copies = usize::from(u16_at(bytes, 26).unwrap_or(0));
        if (version < 4 && copies != 0) || (version < 3 && slices != 0) {
            return broken("reserved fields are 0", 26);
        }
        let counts = [word(64)?, word(68)?, word(72)?, word(76)?, word(80)?];
        // At most 5 * 2^32 * 40: no overflow.
        let sizes = [SITE, LOOP, ARGUMENT, 1, 1].map(|size| size as u64);
        let mut starts = [HEADER as u64; 6];
        for index in 0..5 {
            starts[index + 1] = (starts[index] + u64::from(counts[index]) * sizes[index]).next_multiple_of(8);
        }
        // Behind the tables stand the joined copies and the slices, which have a version of their own.
        let joined = usize::try_from(starts[5]).ok().and_then(|start| joined::length(bytes, start, copies));
        let Some(first_slice) = joined.map(|length| starts[5] + length as u64) else {
            return broken("the tables fill the manifest", 64);
        };
        if first_slice + u64::from(slices) != bytes.len() as u64 {
            return broken("the tables fill the manifest", 64);
        }
        #[allow(clippy::cast_possible_truncation)] // at most the length of the manifest
        let (starts, first_slice) = (starts.map(|start| start as usize), first_slice as usize);
        let table = |index: usize| Table { start: starts[index], count: counts[index] };
        let blob = |index: usize| starts[index]..starts[index] + counts[index] as usize;
        let joined = joined::read(&bytes[starts[5]..first_slice], copies)?;
        for index in [3, 4] {
            if bytes[blob(index).end..starts[index + 1]].iter().any(|byte| *byte != 0) {
                return broken("padding is 0", blob(index).end);
            }
        }
        let manifest = Self {
            identity,
            flags,
            sites: table(0),
            loops: table(1),
            arguments: table(2),
            code: blob(3),
            texts: blob(4),
            joined,
            slices: first_slice..bytes.len(),
            bytes: content.into_owned(),
        };
        let texts = manifest.check_texts()?;
        manifest.check_loops(&texts)?;
        manifest.check_arguments(version)?;
        manifest.check_sites(&texts)?;
        for (index, copy) in manifest.joined.iter().enumerate() {
            check_text(&texts, copy.proof, index)?;
        }
        Ok(manifest)
    }

    fn text(&self, offset: u32) -> Option<Text<'_>> {
        let texts = self.bytes.get(self.texts.clone())?;
        let length = usize::from(u16_at(texts, offset as usize)?);
        std::str::from_utf8(texts.get(offset as usize + 2..)?.get(..length)?).ok()
    }

    fn code(&self) -> &[u8] {
        self.bytes.get(self.code.clone()).unwrap_or_default()
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    #[must_use]
    pub fn site(&self, index: u32) -> Option<Site> {
        let entry = self.sites.entry(&self.bytes, index, SITE)?;
        let word = |at| u32_at(entry, at);
        let code = |at| word(at).map(|code| (code != NONE).then_some(code));
        Some(Site {
            return_address: u64_at(entry, 0)?,
            in_loop: word(8)?,
            position: u16_at(entry, 12)?,
            flags: entry[14],
            permissions: entry[15],
            more: code(16)?,
            remaining: code(20)?,
            name: word(24)?,
            proof: word(28)?,
            first_argument: word(32)?,
            argument_count: word(36)?,
        })
    }

    #[must_use]
    pub fn site_count(&self) -> u32 {
        self.sites.count
    }

    /// The site of a call that returns there, and its index.
    #[must_use]
    pub fn site_at(&self, return_address: u64) -> Option<(u32, Site)> {
        let (mut low, mut high) = (0, self.sites.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let at = u64_at(self.sites.entry(&self.bytes, middle, SITE)?, 0)?;
            match at.cmp(&return_address) {
                Ordering::Equal => return Some((middle, self.site(middle)?)),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// The innermost loops' parents come before them.
    #[must_use]
    pub fn loop_at(&self, index: u32) -> Option<Loop> {
        let entry = self.loops.entry(&self.bytes, index, LOOP)?;
        Some(Loop {
            header: u64_at(entry, 0)?,
            function: u64_at(entry, 8)?,
            parent: u32_at(entry, 16).map(|parent| (parent != NONE).then_some(parent))?,
            class: entry[20],
            flags: entry[21],
            body: u16_at(entry, 22)?,
            name: u32_at(entry, 24)?,
            line: u32_at(entry, 28)?,
        })
    }

    /// In the order of their return addresses.
    pub fn sites(&self) -> impl Iterator<Item = Site> + '_ {
        (0..self.sites.count).filter_map(|index| self.site(index))
    }

    pub fn loops(&self) -> impl Iterator<Item = Loop> + '_ {
        (0..self.loops.count).filter_map(|index| self.loop_at(index))
    }

    /// What is predicted of a site's arguments.
    pub fn arguments<'a>(&'a self, site: &Site) -> impl Iterator<Item = Argument> + 'a {
        let range = site.first_argument..site.first_argument.saturating_add(site.argument_count);
        range.filter_map(|index| {
            let entry = self.arguments.entry(&self.bytes, index, ARGUMENT)?;
            let value = u64_at(entry, 8)?.cast_signed();
            let first = u32_at(entry, 4)?.checked_sub(1);
            Some(Argument { index: entry[0], kind: entry[1], width: entry[2], first, value })
        })
    }

    /// The CUDA function, or the kernel's host symbol.
    #[must_use]
    pub fn name_of(&self, site: &Site) -> Text<'_> {
        self.text(site.name).unwrap_or_default()
    }

    /// How the site's permissions were proven.
    #[cfg(test)]
    pub fn proof_of(&self, site: &Site) -> Option<Text<'_>> {
        (site.proof != NONE).then(|| self.text(site.proof)).flatten()
    }

    /// The loop's function.
    #[must_use]
    pub fn function_of(&self, each: &Loop) -> Text<'_> {
        self.text(each.name).unwrap_or_default()
    }

    /// The copies to the host that may join the next call that waits.
    #[must_use]
    pub fn joined(&self) -> &[JoinedCopy] {
        &self.joined
    }

    /// The one that returns there.
    #[must_use]
    pub fn joined_at(&self, return_address: u64) -> Option<&JoinedCopy> {
        let index = self.joined.binary_search_by_key(&return_address, |copy| copy.return_address).ok()?;
        self.joined.get(index)
    }

    /// How it was proven that a copy may.
    #[cfg(test)]
    pub fn proof_of_joining(&self, copy: &JoinedCopy) -> Text<'_> {
        self.text(copy.proof).unwrap_or_default()
    }

    /// A site's code, decoded.
    #[must_use]
    pub fn expression(&self, code: u32) -> Option<Expression> {
        Expression::decode(self.code(), code as usize)
    }

    /// The loops that have a slice, with its bytes, which are not looked at here. None where the table has a version that
    /// is not known; a broken one ends early.
    pub fn slices(&self) -> impl Iterator<Item = (u32, &[u8])> {
        let table = self.bytes.get(self.slices.clone()).unwrap_or_default();
        let known = u32_at(table, 0) == Some(SLICES);
        let (mut at, mut left) = (8, if known { u32_at(table, 4).unwrap_or(0) } else { 0 });
        std::iter::from_fn(move || {
            left = left.checked_sub(1)?;
            let (of, length) = (u32_at(table, at)?, u32_at(table, at + 4)? as usize);
            let slice = table.get(at + 8..)?.get(..length)?;
            at += 8 + length.next_multiple_of(8);
            Some((of, slice))
        })
    }

    /// Whether `inner` is `outer` or a loop inside it.
    #[must_use]
    pub fn is_within(&self, inner: u32, outer: u32) -> bool {
        let mut at = Some(inner);
        // Parents have smaller indices: this ends.
        while let Some(index) = at.filter(|index| *index >= outer) {
            if index == outer {
                return true;
            }
            at = self.loop_at(index).and_then(|each| each.parent);
        }
        false
    }
}

fn identity(bytes: &[u8]) -> Result<Identity, Broken> {
    let (kind, length) = (bytes[24], usize::from(bytes[25]));
    if !matches!(kind, Identity::BUILD_ID | Identity::SHA_256) || !(1..=32).contains(&length) {
        return broken("the identity is a build-id or a SHA-256, of 1 to 32 bytes", 24);
    }
    if bytes[32 + length..64].iter().any(|byte| *byte != 0) {
        return broken("the identity is padded with zeros", 32);
    }
    Identity::new(kind, &bytes[32..32 + length]).ok_or(Broken::at("the identity has 1 to 32 bytes", 25))
}

/// The first 8 bytes of BLAKE2b-256 over the manifest with the checksum 0. `bytes` has a header.
pub(crate) fn checksum(bytes: &[u8]) -> [u8; 8] {
    let mut hash = Blake2b::<U32>::new();
    hash.update(&bytes[..16]);
    hash.update([0; 8]);
    hash.update(&bytes[24..]);
    array(&hash.finalize(), 0).unwrap_or_default()
}
