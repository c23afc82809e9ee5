//! Iterations: handed to a device that does them by itself, or walked like the records of a message, one after the
//! other.
//!
//! A device stops in front of what it finds wrong with an operation that is no launch. That operation and the rest of
//! its iteration are then walked, so that every error is worded and reported in one place.
//!
//! Source: protos/tape.md, "Loops" and "Conditions"; docs/explanation/systems.md, S1 points 4 and 5.

use super::plans::{Choice, Plan};
use super::store;
use super::template::Template;
use super::turns::Turns;
use super::upcoming;
use crate::replay::control::{Control, End};
use crate::replay::errors::CudaError;
use crate::replay::spans::Kind;
use crate::replay::walk::Walk;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use tape::operations::code;
use tape::{Record, MAX_LEVELS};

/// A CONDITIONAL's kind that repeats while its condition holds.
const WHILE: u32 = 1;

type Planned<H, A> = Result<Option<Arc<Plan<H>>>, End<A>>;
type Done<A> = Result<Result<(), CudaError>, End<A>>;

impl<C: Control> Walk<'_, C> {
    /// TEMPLATE.
    pub(in crate::replay) fn template(&mut self, record: &Record<'_>) -> Done<C::Abort> {
        let version = self.replay.version;
        let (loops, number) = (&mut self.replay.loops, record.u32(8));
        loops.plans.forget(number);
        loops.slices.forget(number);
        loops.end_deciding(|sliced| sliced.template.number == number);
        loops.templates.define(record, version).map_err(End::Broken)?;
        Ok(Ok(()))
    }

    /// A REPEAT that stands on the tape itself.
    pub(in crate::replay) fn repeat(&mut self, record: &Record<'_>) -> Done<C::Abort> {
        let turns = self.replay.loops.templates.repeat(record).map_err(End::Broken)?;
        self.replay.counts.loops_repeated.add(1);
        self.replay.counts.iterations.add(turns.left);
        let (span, iterations) = (self.replay.begin_span(), turns.left);
        let done = self.turns(turns);
        self.replay.end_span(Kind::Repeat, iterations, span);
        done
    }

    /// Does iterations.
    fn turns(&mut self, mut turns: Turns) -> Done<C::Abort> {
        let expected = self.replay.loops.expected;
        let mut body = self.replay.loops.spare.pop().unwrap_or_default();
        body.clear();
        body.extend_from_slice(&turns.template.body);
        let done = self.each(&mut turns, &mut body);
        self.replay.loops.spare.push(body);
        self.replay.loops.expected = expected;
        done
    }

    fn each(&mut self, turns: &mut Turns, body: &mut [u8]) -> Done<C::Abort> {
        let template = turns.template.clone();
        let mut plan = self.plan(turns)?;
        let mut fresh = true;
        let looks_ahead = self.control.looks_ahead() && !self.replay.loops.expected;
        let mut looked = 0;
        while turns.left > 0 {
            if self.replay.standing.interrupted.load(Ordering::Relaxed) {
                return Err(End::Interrupted);
            }
            if let Some(device) = plan.as_ref().filter(|plan| self.is_clear_for(plan)) {
                match self.by_device(device, turns, body, std::mem::take(&mut fresh))? {
                    Ok(true) => {}
                    Ok(false) => plan = None,
                    Err(error) => return Ok(Err(error)),
                }
                continue;
            }
            if self.replay.errors.is_lost() && !template.answers {
                break; // each record would fail with the same error, and nothing would tell it
            }
            if looks_ahead && looked == 0 {
                looked = self.look_into(turns)?;
            }
            looked = looked.saturating_sub(1);
            turns.fill(body);
            turns.advance(1);
            self.iteration(&template, body, 0)?;
        }
        Ok(Ok(()))
    }

    /// The records of an iteration, from one on.
    fn iteration(&mut self, template: &Template, body: &[u8], first: usize) -> Result<(), End<C::Abort>> {
        for part in &template.parts[first..] {
            let bytes = &body[part.offset..part.offset + part.length];
            if part.row.code == code::LAUNCH && self.launch_again(bytes)?.is_some() {
                continue;
            }
            let record = part.record(body, self.replay.version).map_err(End::Broken)?;
            let done = match &part.inner {
                Some(inner) => self.turns(store::inner(inner, bytes).map_err(End::Broken)?)?,
                None => self.one(&record, false, false)?,
            };
            if let Err(error) = done {
                self.failed(&record, error);
            }
        }
        self.replay.pass_on(self.sink)
    }

    // Devices that repeat loops by themselves ------------------------------------------------------------------

    /// The plan of a loop that a device is to be asked for.
    fn plan(&mut self, turns: &Turns) -> Planned<C::Plan, C::Abort> {
        let (template, columns, count) = (&turns.template, &turns.columns, turns.left);
        if template.allocates && self.replay.direct.is_enabled() {
            return Ok(None); // the device would call Python back for each allocation, the walk makes it here
        }
        let loops = &mut self.replay.loops;
        let worth = loops.prices.of(&self.replay.direct);
        let mut choice = loops.plans.choose(template, columns, count, worth);
        if let Choice::Make(constants) = choice {
            self.replay.asked = true;
            let made = self.control.plan(template, &constants).map_err(End::Abort)?;
            let plans = &mut self.replay.loops.plans;
            plans.made(template.number, &constants, made);
            choice = plans.choose(template, columns, count, worth);
        }
        Ok(if let Choice::Device(plan) = choice { Some(plan) } else { None })
    }

    /// Whether nothing but the steps themselves decides what comes of them.
    fn is_clear_for(&self, plan: &Plan<C::Plan>) -> bool {
        let standing = &self.replay.standing;
        !self.replay.errors.is_lost()
            && !standing.poisoned.load(Ordering::Relaxed)
            && (!plan.answers || !standing.deferred.load(Ordering::Relaxed))
    }

    /// Hands iterations to the device. Whether it is to be asked for more.
    fn by_device(
        &mut self,
        plan: &Plan<C::Plan>,
        turns: &mut Turns,
        body: &mut [u8],
        fresh: bool,
    ) -> Result<Result<bool, CudaError>, End<C::Abort>> {
        let columns = turns.columns.clone();
        self.replay.asked = true;
        let results = self.replay.results.buffer();
        let stop = match self.control.repeat(&plan.hand, &columns, turns.at, turns.left, fresh, results) {
            Ok(Ok(Some(stop))) => stop,
            Ok(Ok(None)) => {
                plan.decline();
                return Ok(Ok(false));
            }
            Ok(Err(error)) => return Ok(Err(error)),
            Err(abort) => return Err(End::Abort(abort)),
        };
        turns.advance(stop.iterations);
        if let Some(step) = stop.step {
            let path = plan.paths.get(step).map_or(&[][..], Vec::as_slice);
            turns.fill(body);
            turns.advance(1);
            self.resume(&turns.template.clone(), body, path, stop.error)?;
        }
        self.replay.pass_on(self.sink)?;
        Ok(Ok(stop.again))
    }

    /// The rest of an iteration, from the record at `path` on; that one has failed already if there is an error.
    fn resume(
        &mut self,
        template: &Template,
        body: &[u8],
        path: &[u64],
        error: Option<CudaError>,
    ) -> Result<(), End<C::Abort>> {
        let place = path.first().map_or(0, |&place| place as usize);
        let part = &template.parts[place];
        let [_, iteration, path @ ..] = path else {
            if let Some(error) = error {
                let record = part.record(body, self.replay.version).map_err(End::Broken)?;
                self.failed(&record, error);
                return self.iteration(template, body, place + 1);
            }
            return self.iteration(template, body, place);
        };
        if let Some(inner) = &part.inner {
            let bytes = &body[part.offset..part.offset + part.length];
            let mut turns = store::inner(inner, bytes).map_err(End::Broken)?;
            turns.advance(*iteration);
            let mut within = turns.template.body.to_vec();
            turns.fill(&mut within);
            turns.advance(1);
            self.resume(&inner.template, &within, path, error)?;
            if turns.left > 0 {
                if let Err(error) = self.turns(turns.again())? {
                    let record = part.record(body, self.replay.version).map_err(End::Broken)?;
                    self.failed(&record, error);
                }
            }
        }
        self.iteration(template, body, place + 1)
    }

    /// Tells the device what is known of the launches to come; how many iterations to go before looking again.
    fn look_into(&mut self, turns: &Turns) -> Result<u64, End<C::Abort>> {
        self.replay.loops.expected = false;
        if !turns.template.launches {
            return Ok(turns.left);
        }
        let (launches, iterations) = upcoming::of_loop(turns);
        if iterations > 0 {
            self.control.expect(&launches).map_err(End::Abort)?;
            self.replay.loops.expected = true;
        }
        Ok(if iterations == turns.left { iterations } else { (iterations / 2).max(1) })
    }

    // Conditions -----------------------------------------------------------------------------------------------

    /// A CONDITIONAL: what the control plane has made of it chooses templates.
    pub(in crate::replay) fn conditional(&mut self, record: &Record<'_>, condition: &C::Condition) -> Done<C::Abort> {
        if self.replay.loops.conditions == usize::from(MAX_LEVELS) {
            return Err(End::Broken(format!("CONDITIONALs are nested more than {MAX_LEVELS} deep")));
        }
        self.replay.loops.conditions += 1;
        let done = self.chosen(condition, record.u32(20) == WHILE);
        self.replay.loops.conditions -= 1;
        done
    }

    fn chosen(&mut self, condition: &C::Condition, goes_on: bool) -> Done<C::Abort> {
        let failures = self.replay.standing.failures.load(Ordering::Relaxed);
        loop {
            if self.replay.standing.interrupted.load(Ordering::Relaxed) {
                return Err(End::Interrupted);
            }
            self.replay.asked = true;
            let number = match self.control.choose(condition).map_err(End::Abort)? {
                Ok(Some(number)) => number,
                Ok(None) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            };
            let turns = self.replay.loops.templates.once(number).map_err(End::Broken)?;
            let template = turns.template.clone();
            if (template.parts.len() as u64) < self.replay.loops.prices.of(&self.replay.direct).asking {
                self.iteration(&template, &template.body, 0)?; // no device does it sooner
            } else if let Err(error) = self.turns(turns)? {
                return Ok(Err(error));
            }
            let standing = &self.replay.standing;
            let failed = standing.failures.load(Ordering::Relaxed) != failures;
            if !goes_on || failed || self.replay.errors.is_lost() {
                return Ok(Ok(()));
            }
        }
    }
}
