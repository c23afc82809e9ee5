//! The templates of a session: which loops are known, which of them the host knows, and their numbers.
//!
//! A template is private until its first REPEAT; from then on it is never changed (a wider one takes its place). The
//! table is bounded: where it is full, the template used longest ago gives its place, or its number, to the new one. A
//! template that others contain, or that is open, stays.
//!
//! Source: `protos/tape.md`, the limits of "Loops".

use crate::body::{Body, Item, Nested};
use crate::policy::Balance;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

const MAX_TEMPLATES: usize = 4096;
/// The numbers from here on are those of loops that the host leads, and of the program's graphs.
pub const MAX_NUMBERS: u16 = 2816;
/// Bytes of all templates that were sent, as long as the host holds them.
const MAX_CONTENT: usize = 8 << 20;
/// Bytes of all bodies that were not sent.
const MAX_PRIVATE: usize = 4 << 20;
/// Tokens are hashes already.
#[derive(Default)]
pub(crate) struct Plain(u64);

impl Hasher for Plain {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        debug_assert!(false, "only u64 are hashed");
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

#[derive(Debug)]
pub(crate) struct Template {
    pub(crate) body: Arc<Body>,
    pub(crate) birth: u64,
    /// The host knows it by this number.
    pub(crate) number: Option<u16>,
    /// Templates that contain it.
    parents: u32,
    used: u64,
    pub(crate) balance: Balance,
    pub(crate) open: bool,
    /// The steps of the last run's columns: what the next run's are likely to be.
    pub(crate) steps: Vec<u64>,
    /// The template whose place this one takes, once it has succeeded.
    pub(crate) ancestor: Option<Nested>,
    /// A wider one has taken its place: loops that contain it are out of date.
    superseded: bool,
    /// The run whose REPEAT was the last on the tape itself.
    pub(crate) last_run: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Templates {
    places: Vec<Option<Template>>,
    free: Vec<u32>,
    by_first: HashMap<u64, u32, BuildHasherDefault<Plain>>,
    /// By all tokens of a body: the template that was made of it last.
    by_body: HashMap<u64, u32, BuildHasherDefault<Plain>>,
    clock: u64,
    births: u64,
    numbers: u16,
    content: usize,
    private: usize,
}

impl Templates {
    #[inline]
    pub(crate) fn starting_with(&self, token: u64) -> Option<u32> {
        if self.by_first.is_empty() {
            return None;
        }
        self.by_first.get(&token).copied()
    }

    /// A template of the same calls, which may differ in their arguments.
    pub(crate) fn like(&self, body: &Body) -> Option<u32> {
        let place = *self.by_body.get(&body.token())?;
        let known = self.get(place)?;
        let same = |(one, other): (&Item, &Item)| one.token == other.token && one.bytes() == other.bytes();
        let alike = known.body.items.len() == body.items.len() && known.body.items.iter().zip(&body.items).all(same);
        (alike && !known.open && !known.superseded).then_some(place)
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> Option<&Template> {
        self.places.get(place as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut Template> {
        self.places.get_mut(place as usize)?.as_mut()
    }

    pub(crate) fn nested(&self, nested: Nested) -> Option<&Template> {
        self.get(nested.place).filter(|template| template.birth == nested.birth)
    }

    /// The widths of its holes.
    pub(crate) fn widths(&self, nested: Nested) -> Vec<usize> {
        self.nested(nested).map_or_else(Vec::new, |t| t.body.holes.iter().map(|hole| hole.width()).collect())
    }

    pub(crate) fn touch(&mut self, place: u32) {
        self.clock += 1;
        let clock = self.clock;
        if let Some(template) = self.get_mut(place) {
            template.used = clock;
        }
    }

    /// A private template, not yet looked up by anything. `None` when there is no place for it, or what it contains is
    /// gone.
    pub(crate) fn add(&mut self, body: Arc<Body>) -> Option<u32> {
        if body.items.iter().any(|item| item.nested.is_some_and(|nested| self.nested(nested).is_none())) {
            return None;
        }
        if self.places.len() - self.free.len() >= MAX_TEMPLATES || self.private + body.bytes.len() > MAX_PRIVATE {
            self.forget_private();
        }
        if self.places.len() - self.free.len() >= MAX_TEMPLATES || self.private + body.bytes.len() > MAX_PRIVATE {
            return None;
        }
        self.change_parents(&body, true);
        self.private += body.bytes.len();
        let token = body.token();
        self.clock += 1;
        self.births += 1;
        let template = Template {
            body,
            birth: self.births,
            number: None,
            parents: 0,
            used: self.clock,
            balance: Balance::default(),
            open: false,
            steps: Vec::new(),
            ancestor: None,
            superseded: false,
            last_run: 0,
        };
        let place = self.free.pop().map_or(self.places.len(), |place| place as usize);
        match self.places.get_mut(place) {
            Some(free) => *free = Some(template),
            None => self.places.push(Some(template)),
        }
        let place = u32::try_from(place).ok()?;
        self.by_body.insert(token, place);
        Some(place)
    }

    fn change_parents(&mut self, body: &Body, more: bool) {
        let mut children: Vec<u32> = body.items.iter().filter_map(|item| item.nested.map(|n| n.place)).collect();
        children.sort_unstable();
        children.dedup();
        for child in children {
            if let Some(child) = self.get_mut(child) {
                child.parents = if more { child.parents + 1 } else { child.parents.saturating_sub(1) };
            }
        }
    }

    /// A private template's body was widened (its records are the same).
    pub(crate) fn replace_body(&mut self, place: u32, body: &Arc<Body>) {
        if let Some(template) = self.get_mut(place) {
            template.body = body.clone();
        }
    }

    /// From now on a record that looks like its first one begins it.
    pub(crate) fn register(&mut self, place: u32) {
        let Some(first) = self.get(place).and_then(|t| t.body.items.first()).map(|item| item.token) else { return };
        if let Some(ancestor) = self.get_mut(place).and_then(|template| template.ancestor.take()) {
            if self.nested(ancestor).is_some() {
                self.unregister(ancestor.place);
                if let Some(ancestor) = self.get_mut(ancestor.place) {
                    ancestor.superseded = true;
                }
            }
        }
        let before = self.by_first.insert(first, place);
        if let Some(before) = before.filter(|before| *before != place) {
            // Nothing finds a private one any more.
            self.drop_private(before);
        }
    }

    /// As `register`, if nothing else begins with that record.
    pub(crate) fn register_first(&mut self, place: u32) {
        let first = self.get(place).and_then(|t| t.body.items.first()).map(|item| item.token);
        if first.is_some_and(|first| !self.by_first.contains_key(&first)) {
            self.register(place);
        }
    }

    pub(crate) fn is_superseded(&self, nested: Nested) -> bool {
        self.nested(nested).is_none_or(|template| template.superseded)
    }

    /// It contains one that is superseded, and so does the one that it was to take the place of: both are.
    pub(crate) fn outdate(&mut self, place: u32) {
        self.unregister(place);
        let Some(template) = self.get_mut(place) else { return };
        template.superseded = true;
        if let Some(ancestor) = template.ancestor.take().filter(|ancestor| self.nested(*ancestor).is_some()) {
            self.outdate(ancestor.place);
        }
    }

    /// Nothing begins it any more.
    pub(crate) fn unregister(&mut self, place: u32) {
        let first = self.get(place).and_then(|t| t.body.items.first()).map(|item| item.token);
        if let Some(first) = first.filter(|first| self.by_first.get(first) == Some(&place)) {
            self.by_first.remove(&first);
        }
    }

    /// Forgets it, if nothing begins it.
    pub(crate) fn drop_unused(&mut self, place: u32) {
        let first = self.get(place).and_then(|t| t.body.items.first()).map(|item| item.token);
        if first.is_some_and(|first| self.by_first.get(&first) != Some(&place)) {
            self.drop_private(place);
        }
    }

    /// Forgets it, if the host does not know it and nothing refers to it.
    pub(crate) fn drop_private(&mut self, place: u32) {
        if self.get(place).is_some_and(|t| t.number.is_none() && t.parents == 0 && !t.open) {
            self.remove(place);
        }
    }

    fn remove(&mut self, place: u32) {
        self.unregister(place);
        let Some(template) = self.places.get_mut(place as usize).and_then(Option::take) else { return };
        let token = template.body.token();
        if self.by_body.get(&token) == Some(&place) {
            self.by_body.remove(&token);
        }
        self.change_parents(&template.body, false);
        match template.number {
            Some(_) => self.content -= template.body.content_bytes(),
            None => self.private -= template.body.bytes.len(),
        }
        self.free.push(place);
    }

    fn forget_private(&mut self) {
        let mut old: Vec<(u64, u32)> = Vec::new();
        for (place, template) in (0_u32..).zip(&self.places) {
            if let Some(t) = template.as_ref().filter(|t| t.number.is_none() && t.parents == 0 && !t.open) {
                old.push((t.used, place));
            }
        }
        old.sort_unstable();
        for (_, place) in old.iter().take(old.len().div_ceil(2)) {
            self.remove(*place);
        }
    }

    /// Gives a private template its number: from now on the host knows it. `None` when none can be had.
    pub(crate) fn publish(&mut self, place: u32) -> Option<u16> {
        let bytes = self.get(place)?.body.content_bytes();
        let full = self.numbers >= MAX_NUMBERS || self.content + bytes > MAX_CONTENT;
        let number = if full { self.oldest(bytes)? } else { self.numbers };
        if !full {
            self.numbers += 1;
        }
        self.private -= self.get(place)?.body.bytes.len();
        self.content += bytes;
        self.get_mut(place)?.number = Some(number);
        Some(number)
    }

    /// Takes the number of the template that was used longest ago, if what the host holds is then not too much.
    fn oldest(&mut self, bytes: usize) -> Option<u16> {
        let mut found: Option<(u64, u32)> = None;
        for (place, template) in (0_u32..).zip(&self.places) {
            let Some(t) = template.as_ref().filter(|t| t.number.is_some() && t.parents == 0 && !t.open) else {
                continue;
            };
            if self.content - t.body.content_bytes() + bytes <= MAX_CONTENT
                && found.is_none_or(|(used, _)| t.used < used)
            {
                found = Some((t.used, place));
            }
        }
        let (_, place) = found?;
        let number = self.get(place)?.number;
        self.remove(place);
        number
    }
}
