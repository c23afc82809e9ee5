//! The templates of a session, and where their loops on the tape have got to.
//!
//! Here are the numbers, which template contains which, and the state that a REPEAT with the flag `continued` goes on
//! from.
//!
//! Source: protos/tape.md, "Loops".

use super::columns::{check_repetitions, read_headers, Columns, VALUES};
use super::template::{u64_at, Inner, Template, CONTINUED, REPEAT_COUNT, REPEAT_FIXED};
use super::turns::Turns;
use std::collections::HashMap;
use std::sync::Arc;
use tape::{Record, MAX_CONTINUED_BYTES};

/// Bytes of a session's templates.
const MAX_CONTENT: usize = 16 << 20;
/// Templates whose columns are kept as they were evaluated.
const EVALUATED: usize = 64;

struct Entry {
    template: Arc<Template>,
    /// What a continued REPEAT goes on with.
    columns: Box<[u8]>,
    /// The iteration that it begins with; `None`: there may be none.
    next: Option<u64>,
}

/// See the module's page.
#[derive(Default)]
pub(crate) struct Templates {
    entries: HashMap<u32, Entry>,
    /// How many templates contain one.
    users: HashMap<u32, u32>,
    /// The last used one stands last.
    evaluated: Vec<(u32, Arc<Columns>)>,
    bytes: usize,
}

impl Templates {
    /// The template of this number.
    pub(crate) fn get(&self, number: u32) -> Result<Arc<Template>, String> {
        self.entries.get(&number).map(|entry| entry.template.clone()).ok_or_else(|| missing(number))
    }

    /// A TEMPLATE.
    pub(crate) fn define(&mut self, record: &Record<'_>, version: u32) -> Result<(), String> {
        let (number, holes) = (record.u32(8), record.u32(12));
        if self.users.get(&number).is_some_and(|&users| users > 0) {
            return Err(format!("template {number} is given anew while another one contains it"));
        }
        let before = self.entries.remove(&number); // so that it does not contain itself
        let template = Template::read(number, holes, record.tail(), version, |inner| self.get(inner))?;
        if let Some(before) = before {
            self.bytes -= before.template.size;
            for inner in before.template.contains() {
                self.users.entry(inner).and_modify(|users| *users -= 1);
            }
        }
        self.bytes += template.size;
        for inner in template.contains() {
            *self.users.entry(inner).or_default() += 1;
        }
        if self.bytes > MAX_CONTENT {
            return Err(format!("the session's templates have more than {MAX_CONTENT} bytes"));
        }
        self.take_evaluated(number);
        self.entries.insert(number, Entry { template: Arc::new(template), columns: Box::default(), next: None });
        Ok(())
    }

    /// A REPEAT that stands on the tape itself.
    pub(crate) fn repeat(&mut self, record: &Record<'_>) -> Result<Turns, String> {
        let (number, count, columns) = (record.u32(8), record.u64(REPEAT_COUNT), record.tail());
        let known = self.take_evaluated(number);
        let entry = self.entries.get_mut(&number).ok_or_else(|| missing(number))?;
        let widths = &entry.template.widths;
        let ready = if record.flags & CONTINUED != 0 {
            if !columns.is_empty() || entry.next.is_none() {
                return Err(format!("template {number} cannot be continued, with {} bytes of columns", columns.len()));
            }
            check_repetitions(&[], count)?;
            match known {
                Some(known) => known,
                None => Arc::new(Columns::new(&read_headers(&entry.columns, widths)?, &entry.columns)),
            }
        } else {
            let headers = read_headers(columns, widths)?;
            check_repetitions(&headers, count)?;
            let lasting = columns.len() <= MAX_CONTINUED_BYTES && headers.iter().all(|header| header.kind != VALUES);
            entry.next = lasting.then_some(0);
            entry.columns = if lasting { columns.into() } else { Box::default() };
            Arc::new(Columns::new(&headers, columns))
        };
        let first = entry.next.unwrap_or_default();
        let turns = Turns::new(entry.template.clone(), ready.clone(), first, count);
        if let Some(next) = &mut entry.next {
            *next = first.wrapping_add(count);
            if self.evaluated.len() >= EVALUATED {
                self.evaluated.remove(0);
            }
            self.evaluated.push((number, ready));
        }
        Ok(turns)
    }

    /// One iteration of a template without holes, which a CONDITIONAL has chosen.
    pub(crate) fn once(&self, number: u32) -> Result<Turns, String> {
        let template = self.get(number)?;
        let headers = read_headers(&[], &template.widths)?;
        Ok(Turns::new(template, Arc::new(Columns::new(&headers, &[])), 0, 1))
    }

    /// The templates, each behind those that it contains, in the order of their numbers otherwise.
    pub(super) fn all(&self) -> Vec<Arc<Template>> {
        let mut found: Vec<_> = self.entries.values().map(|entry| entry.template.clone()).collect();
        found.sort_by_key(|template| (template.levels, template.number));
        found
    }

    /// What a continued REPEAT of each template goes on with, and where.
    pub(super) fn continuing(&self) -> Vec<(u32, Vec<u8>, u64)> {
        let ready = |(number, entry): (&u32, &Entry)| entry.next.map(|next| (*number, entry.columns.to_vec(), next));
        let mut found: Vec<_> = self.entries.iter().filter_map(ready).collect();
        found.sort_by_key(|each| each.0);
        found
    }

    /// A continued REPEAT goes on with this.
    pub(super) fn go_on(&mut self, number: u32, columns: &[u8], next: u64) -> Result<(), String> {
        let entry = self.entries.get_mut(&number).ok_or_else(|| missing(number))?;
        let headers = read_headers(columns, &entry.template.widths)?;
        if columns.len() > MAX_CONTINUED_BYTES || headers.iter().any(|header| header.kind == VALUES) {
            return Err(format!("template {number} cannot be continued, with {} bytes of columns", columns.len()));
        }
        (entry.columns, entry.next) = (columns.into(), Some(next));
        Ok(())
    }

    fn take_evaluated(&mut self, number: u32) -> Option<Arc<Columns>> {
        let place = self.evaluated.iter().position(|(known, _)| *known == number)?;
        Some(self.evaluated.remove(place).1)
    }
}

/// The iterations of a REPEAT in a body, `bytes`, whose holes are filled.
pub(crate) fn inner(inner: &Inner, bytes: &[u8]) -> Result<Turns, String> {
    let count = u64_at(bytes, REPEAT_COUNT);
    check_repetitions(&inner.headers, count)?;
    let size = u32::from_le_bytes(bytes[12..16].try_into().unwrap_or_default()) as usize;
    let columns = Columns::new(&inner.headers, &bytes[REPEAT_FIXED..REPEAT_FIXED + size]);
    Ok(Turns::new(inner.template.clone(), Arc::new(columns), 0, count))
}

fn missing(number: u32) -> String {
    format!("template {number} was not given")
}
