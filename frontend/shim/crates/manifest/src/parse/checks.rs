//! The rules of a manifest's tables, each looked at once (`parse`).

use super::{broken, ARGUMENT, NONE};
use crate::bytes::array;
use crate::{code, Broken, Manifest};

impl Manifest {
    /// Where the texts start, in rising order. Each is looked at once, however often it is named.
    pub(super) fn check_texts(&self) -> Result<Vec<u32>, Broken> {
        let (mut starts, mut at) = (Vec::new(), 0_u32);
        while (at as usize) < self.texts.len() {
            let text = self.text(at).ok_or(Broken::at("texts are UTF-8, one behind the other", at as usize))?;
            starts.push(at);
            #[allow(clippy::cast_possible_truncation)] // at most 65535
            let length = text.len() as u32;
            at += 2 + length;
        }
        Ok(starts)
    }

    pub(super) fn check_loops(&self, texts: &[u32]) -> Result<(), Broken> {
        for (index, each) in self.loops().enumerate() {
            if each.parent.is_some_and(|parent| parent as usize >= index) {
                return broken("a parent stands before its children", index);
            }
            if each.class > 4 || each.flags > 1 {
                return broken("a loop's class is 0 to 4, and its flags are defined", index);
            }
            check_text(texts, each.name, index)?;
        }
        Ok(())
    }

    pub(super) fn check_arguments(&self, version: u32) -> Result<(), Broken> {
        for index in 0..self.arguments.count {
            let entry = self.arguments.entry(&self.bytes, index, ARGUMENT).unwrap_or_default();
            let [_, kind, width, reserved, first @ ..] = array::<8>(entry, 0).unwrap_or_default();
            if kind > 5 || !matches!(width, 0 | 1 | 2 | 4 | 8) || reserved != 0 {
                return broken("an argument's kind is 0 to 5, its width 0, 1, 2, 4 or 8", index as usize);
            }
            let first = u32::from_le_bytes(first);
            if first != 0 && (version < 2 || width == 0) {
                return broken("a first value is known from version 2 on, and has a width", index as usize);
            }
            if let Some(code) = first.checked_sub(1) {
                code::check(self.code(), code as usize)?;
            }
        }
        Ok(())
    }

    pub(super) fn check_sites(&self, texts: &[u32]) -> Result<(), Broken> {
        let mut before = None;
        for (index, site) in self.sites().enumerate() {
            if before.is_some_and(|before| before >= site.return_address) {
                return broken("sites stand by rising return address", index);
            }
            before = Some(site.return_address);
            if site.in_loop >= self.loops.count {
                return broken("a site's loop exists", index);
            }
            if site.flags & !7 != 0 || site.permissions & !7 != 0 {
                return broken("a site's flags and permissions are defined", index);
            }
            for code in [site.more, site.remaining].into_iter().flatten() {
                code::check(self.code(), code as usize)?;
            }
            check_text(texts, site.name, index)?;
            if site.proof != NONE {
                check_text(texts, site.proof, index)?;
            }
            let end = u64::from(site.first_argument) + u64::from(site.argument_count);
            if end > u64::from(self.arguments.count) {
                return broken("a site's arguments exist", index);
            }
        }
        Ok(())
    }
}

pub(super) fn check_text(texts: &[u32], offset: u32, index: usize) -> Result<(), Broken> {
    texts.binary_search(&offset).map(drop).map_err(|_| Broken::at("a text's offset is the start of one", index))
}
