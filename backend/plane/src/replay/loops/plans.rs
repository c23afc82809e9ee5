//! The plans of templates: which loops a device repeats by itself, and when making a plan is worth it.
//!
//! How a device can repeat a body is the control plane's to find, once; what it made is kept here until one of its
//! objects may have ended.

use super::columns::Columns;
use super::template::Template;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use tape::operations::code;

/// Of one template.
const MAX_PLANS: usize = 16;

/// When a device is worth asking, in records that are replayed otherwise (benchmarks/replay/repeating.py).
#[derive(Debug, Clone, Copy)]
pub struct Worth {
    /// A plan, and a device's table of it, take as long as so many records ...
    pub planning: u64,
    /// ... and so many for each record of the body.
    pub planning_record: u64,
    /// Fewer are walked sooner than a device that has a plan is asked.
    pub asking: u64,
}

/// What the control plane has made of a template.
#[derive(Debug)]
pub struct Plan<H> {
    pub hand: H,
    /// Where each step stands: a record of the body; or a loop in it, its iteration, and a place in that loop's body.
    pub paths: Vec<Vec<u64>>,
    /// It yields results.
    pub answers: bool,
    /// The device has refused it, as things were.
    declined: AtomicBool,
}

impl<H> Plan<H> {
    pub fn new(hand: H, paths: Vec<Vec<u64>>, answers: bool) -> Self {
        Self { hand, paths, answers, declined: AtomicBool::new(false) }
    }

    pub(crate) fn decline(&self) {
        self.declined.store(true, Ordering::Relaxed);
    }

    fn is_declined(&self) -> bool {
        self.declined.load(Ordering::Relaxed)
    }
}

enum Known<H> {
    /// So many records.
    Walked(u64),
    Made(Arc<Plan<H>>),
    Declined,
}

impl<H> Known<H> {
    fn is_declined(&self) -> bool {
        match self {
            Self::Walked(_) => false,
            Self::Made(plan) => plan.is_declined(),
            Self::Declined => true,
        }
    }
}

/// A template's plans: one, or one for each set of values of the holes that only a constant may fill: loops are entered
/// with another stream, or another grid.
struct Planned<H> {
    fixed: Box<[usize]>,
    /// The oldest one stands first.
    known: Vec<(Vec<u64>, Known<H>)>,
}

/// What is to be done with iterations.
pub(crate) enum Choice<H> {
    Walk,
    Device(Arc<Plan<H>>),
    /// A plan is to be made for these values of these holes (`Plans::made`).
    Make(Vec<(usize, u64)>),
}

/// See the module's page.
pub(crate) struct Plans<H> {
    of: HashMap<u32, Planned<H>>,
    /// Templates that could not be planned, or not repeated, as things were.
    declined: HashSet<u32>,
}

impl<H> Default for Plans<H> {
    fn default() -> Self {
        Self { of: HashMap::new(), declined: HashSet::new() }
    }
}

impl<H> Plans<H> {
    /// How `count` iterations with these columns are to be done.
    pub(crate) fn choose(&mut self, template: &Template, columns: &Columns, count: u64, worth: Worth) -> Choice<H> {
        let planned = self.of.entry(template.number).or_insert_with(|| Planned::new(template));
        let mut key = Vec::with_capacity(planned.fixed.len());
        for &hole in &planned.fixed {
            let Some(value) = columns.constant(hole) else {
                return Choice::Walk; // it is another one in each iteration
            };
            key.push(value);
        }
        let records = template.parts.len() as u64;
        let place = planned.known.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            if planned.known.len() >= MAX_PLANS {
                planned.known.remove(0);
            }
            planned.known.push((key, Known::Walked(0)));
            planned.known.len() - 1
        });
        let (key, known) = &mut planned.known[place];
        match known {
            Known::Walked(walked) => {
                *walked = walked.saturating_add(count.saturating_mul(records));
                if *walked < worth.planning + worth.planning_record * records {
                    return Choice::Walk;
                }
                Choice::Make(planned.fixed.iter().copied().zip(key.iter().copied()).collect())
            }
            Known::Made(plan) if !plan.is_declined() => {
                if count.saturating_mul(plan.paths.len() as u64) < worth.asking {
                    return Choice::Walk;
                }
                Choice::Device(plan.clone())
            }
            Known::Made(_) | Known::Declined => {
                self.declined.insert(template.number);
                Choice::Walk
            }
        }
    }

    /// What has come of `Choice::Make`.
    pub(crate) fn made(&mut self, template: u32, constants: &[(usize, u64)], plan: Option<Plan<H>>) {
        let key = || constants.iter().map(|&(_, value)| value);
        if plan.is_none() {
            self.declined.insert(template);
        }
        let made = plan.map_or(Known::Declined, |plan| Known::Made(Arc::new(plan)));
        let known = self.of.get_mut(&template).and_then(|planned| {
            planned.known.iter_mut().find(|(known, _)| known.iter().copied().eq(key())).map(|(_, known)| known)
        });
        if let Some(known) = known {
            *known = made;
        }
    }

    /// Those of a template, and whether each is in use.
    pub(crate) fn of(&self, template: u32) -> impl Iterator<Item = &H> {
        let known = self.of.get(&template).into_iter().flat_map(|planned| &planned.known);
        known.filter_map(|(_, known)| if let Known::Made(plan) = known { Some(&plan.hand) } else { None })
    }

    /// What could not be planned may be possible now.
    pub(crate) fn look_again(&mut self) {
        for number in self.declined.drain() {
            if let Some(planned) = self.of.get_mut(&number) {
                planned.known.retain(|(_, known)| !known.is_declined());
            }
        }
    }

    /// The template is given anew. No other one contains it.
    pub(crate) fn forget(&mut self, template: u32) {
        self.of.remove(&template);
    }

    pub(crate) fn clear(&mut self) {
        self.of.clear();
        self.declined.clear();
    }
}

impl<H> Planned<H> {
    fn new(template: &Template) -> Self {
        let fixed = template.holes.iter().enumerate().filter(|(_, hole)| {
            let part = &template.parts[hole.record];
            let at = hole.offset - part.offset;
            let constant = constant(part.row.code);
            constant.start < at + usize::from(hole.width) && at < constant.end
        });
        Self { fixed: fixed.map(|(index, _)| index).collect(), known: vec![] }
    }
}

/// Where in a record a hole can only be planned with a constant in it: handles, shapes, and how often an inner loop
/// goes round.
const fn constant(code: u16) -> Range<usize> {
    match code {
        code::LAUNCH => 8..48,
        code::MEMSET => 48..56,
        code::COPY => 56..64,
        code::WRITE | code::WRITE_KEPT => 40..44,
        code::READ => 24..44,
        code::STREAM_SYNCHRONIZE | code::EVENT_SYNCHRONIZE => 8..12,
        code::EVENT_RECORD => 8..24,
        code::STREAM_WAIT_EVENT => 8..16,
        code::REPEAT => 16..24,
        _ => 0..0,
    }
}
