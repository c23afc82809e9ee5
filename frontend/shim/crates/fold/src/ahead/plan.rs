//! What the host is to do ahead: the template of an iteration to come, and what its holes will hold, from the iterations that were.
//!
//! A loop that repeats for the first time needs evidence (`fit`): two iterations where nothing changes but arguments that follow from what was
//! read, three for counters, four for the rest. One that has been run ahead with success before is remembered: its first iteration
//! then says the constants, and everything else has to be what it was then.

use super::fit::Fit;
use super::watch::{read_bytes, Pattern, Watch, MOST_EVIDENCE, READ_ADDRESS};
use super::MOST_READ;
use crate::body::{Body, Hole, Nested};
use crate::layout::{self, operation};
use crate::templates::Templates;
use std::sync::Arc;
use tape::operations::code;

/// Loops that are remembered.
const MOST_KNOWN: usize = 8;

#[derive(Debug)]
struct Known {
    key: u64,
    reads: usize,
    place: Nested,
    fits: Vec<Fit>,
    /// Whether the last run was worth it.
    good: bool,
}

/// Loops that were run ahead, the last one last.
#[derive(Debug, Default)]
pub(super) struct Memory {
    known: Vec<Known>,
}

impl Memory {
    /// An iteration of a loop that is remembered has just been made.
    pub(super) fn again(&self, watch: &Watch) -> Option<Pattern> {
        self.known.iter().rev().filter(|known| known.good).find_map(|known| {
            let pattern = watch.last_iteration(known.reads)?;
            (pattern.key == known.key).then_some(pattern)
        })
    }

    /// Whether a run of the loop was worth it.
    pub(super) fn judge(&mut self, key: u64, good: bool) {
        if let Some(known) = self.known.iter_mut().find(|known| known.key == key) {
            known.good = good;
        }
    }
}

#[derive(Debug)]
pub(super) enum Plan {
    Ready(Nested, Vec<Fit>),
    /// More iterations may tell.
    Unclear,
    Never,
}

/// The template of an iteration to come, and what its holes will hold.
pub(super) fn plan(memory: &mut Memory, watch: &Watch, templates: &mut Templates, pattern: Pattern) -> Plan {
    let before = memory.known.iter().position(|known| known.key == pattern.key);
    let known = before.map(|index| &memory.known[index]).filter(|known| templates.nested(known.place).is_some());
    let old = known.and_then(|known| templates.nested(known.place)).map(|template| template.body.clone());
    let Some((body, changed)) = body_of(watch, pattern, old) else { return Plan::Never };
    if !is_doable(&body, pattern) {
        return Plan::Never;
    }
    let remembered = known.filter(|_| pattern.iterations == 1).map(|known| &known.fits[..]);
    if pattern.iterations == 1 && (changed || remembered.is_none()) {
        return Plan::Unclear;
    }
    let Some(fits) = fits_of(watch, pattern, &body, remembered) else {
        return if pattern.iterations < MOST_EVIDENCE { Plan::Unclear } else { Plan::Never };
    };
    let place = match known.filter(|_| !changed) {
        Some(known) => known.place,
        None => {
            let Some(place) = templates.add(body) else { return Plan::Never };
            let Some(birth) = templates.get(place).map(|template| template.birth) else { return Plan::Never };
            Nested { place, birth, levels: 1 }
        }
    };
    let good = before.is_some_and(|index| memory.known.remove(index).good);
    if memory.known.len() >= MOST_KNOWN {
        memory.known.remove(0);
    }
    memory.known.push(Known { key: pattern.key, reads: pattern.reads, place, fits: fits.clone(), good });
    Plan::Ready(place, fits)
}

/// A body that fits all iterations, and whether that is another one than `old`.
fn body_of(watch: &Watch, pattern: Pattern, old: Option<Arc<Body>>) -> Option<(Arc<Body>, bool)> {
    let mut changed = old.is_none();
    let mut body = old;
    for iteration in 0..pattern.iterations {
        let records = (0..pattern.reads).flat_map(|read| watch.stretch(pattern, iteration, read).records());
        let Some(current) = &body else {
            let mut first = Body::new();
            for (record, token) in records {
                if !first.push(record, token, None) {
                    return None;
                }
            }
            body = Some(Arc::new(first));
            continue;
        };
        let mut wider = current.clone();
        for (index, (record, token)) in records.enumerate() {
            let item = wider.items.get(index)?;
            if item.token != token || item.bytes().len() != record.len() {
                return None;
            }
            if !wider.fits(item, record) {
                wider = Arc::new(wider.widened(index, record, &[])?);
                changed = true;
            }
        }
        body = Some(wider);
    }
    Some((body?, changed))
}

/// Whether the host can do it ahead: as many reads as the pattern has, small ones, of a size that stays.
fn is_doable(body: &Body, pattern: Pattern) -> bool {
    let mut reads = 0;
    for item in &body.items {
        let record = &body.bytes[item.bytes()];
        if operation(record) == code::READ {
            reads += 1;
            let moves = |index: usize| !READ_ADDRESS.contains(&(body.holes[index].at() - item.start as usize));
            if read_bytes(record) > MOST_READ || item.holes().any(moves) {
                return false;
            }
        }
    }
    reads == pattern.reads
}

/// What each hole will hold. `remembered`: what it held when the loop ran before.
fn fits_of(watch: &Watch, pattern: Pattern, body: &Body, remembered: Option<&[Fit]>) -> Option<Vec<Fit>> {
    let mut rows: Vec<Vec<u64>> = Vec::with_capacity(pattern.iterations);
    for iteration in 0..pattern.iterations {
        let mut row = Vec::with_capacity(body.holes.len());
        let records = (0..pattern.reads).flat_map(|read| watch.stretch(pattern, iteration, read).records());
        for (item, (record, _)) in body.items.iter().zip(records) {
            let value = |index| {
                let hole: Hole = body.holes[index];
                layout::read(record, hole.at() - item.start as usize, hole.width())
            };
            row.extend(item.holes().map(value));
        }
        rows.push(row);
    }
    let mut fits = Vec::with_capacity(body.holes.len());
    let mut read = 0;
    for item in &body.items {
        for index in item.holes() {
            let width = body.holes[index].width();
            let earlier = |iteration, back| watch.value(pattern, iteration, read, back);
            let fit = match remembered {
                Some(before) => before.get(index)?.again(rows[0][index], width, earlier)?,
                None => {
                    let values: Vec<u64> = rows.iter().map(|row| row[index]).collect();
                    Fit::of(&values, width, earlier)?
                }
            };
            fits.push(fit);
        }
        read += usize::from(operation(&body.bytes[item.bytes()]) == code::READ);
    }
    Some(fits)
}
