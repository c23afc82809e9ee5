//! WHILE: makes the calls of a loop as its slice decides them.
//!
//! The records are done as those of a message are, one after the other; a READ's bytes are handed to the slice before it goes on. Results are
//! sent while the loop goes on, so that the guest's own code can follow.
//!
//! Source: protos/tape.md, "Slices".

use super::slices::{Made, Sliced};
use super::upcoming;
use crate::replay::control::{Control, End};
use crate::replay::errors::CudaError;
use crate::replay::spans::Kind;
use crate::replay::walk::Walk;
use crate::replay::CHUNK_BYTES;
use slices::form::{Place, MAXIMUM_MEMORY};
use slices::{Evaluation, Event, Stuck};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tape::operations::code;
use tape::{Answer, Record};

/// WHILE's flag.
pub(super) const CONTINUED: u16 = 1;
/// Results wait so long for others that leave with them.
const PROMPT: Duration = Duration::from_micros(20);
/// Room for the results of a READ that fills memory: it has one DATA record, or a few.
const ROOM: usize = 2 * MAXIMUM_MEMORY;

/// Why a WHILE stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Bound = 0,
    Left = 1,
    Error = 2,
    Stuck = 3,
}

/// The loop of the last WHILE.
pub(crate) struct Deciding {
    sliced: Arc<Sliced>,
    evaluation: Evaluation,
    /// The template's, with what the calls so far have put into its holes.
    body: Vec<u8>,
    /// Iterations that it has begun.
    begun: u64,
    reason: Reason,
}

impl Deciding {
    /// What a continued WHILE answers: its slice, and the number. `None`: it would go on.
    pub(super) fn answer(&self) -> Option<(u32, u64)> {
        (self.reason != Reason::Bound).then(|| (self.sliced.number, self.number()))
    }

    /// A loop that has stopped with this answer.
    pub(super) fn stopped(sliced: Arc<Sliced>, number: u64) -> Option<Self> {
        let reason = match number & 0xFF {
            1 => Reason::Left,
            2 => Reason::Error,
            3 => Reason::Stuck,
            _ => return None,
        };
        let (evaluation, body) = (sliced.begin_blank()?, sliced.template.body.to_vec());
        Some(Self { sliced, evaluation, body, begun: number >> 8, reason })
    }

    const fn number(&self) -> u64 {
        self.begun << 8 | self.reason as u64
    }
}

/// How far one WHILE may go.
struct Bounds {
    /// Iterations, counted as `Deciding::begun`; 0: no bound.
    begun: u64,
    until: Option<Instant>,
}

type Done<A> = Result<Result<(), CudaError>, End<A>>;

impl<C: Control> Walk<'_, C> {
    /// SLICE.
    pub(in crate::replay) fn slice(&mut self, record: &Record<'_>) -> Done<C::Abort> {
        let loops = &mut self.replay.loops;
        let template = loops.templates.get(record.u32(12)).map_err(End::Broken)?;
        loops.slices.define(record, template).map_err(End::Broken)?;
        loops.end_deciding(|sliced| sliced.number == record.u32(8));
        Ok(Ok(()))
    }

    /// WHILE.
    pub(in crate::replay) fn decide(&mut self, record: &Record<'_>, ends_message: bool) -> Done<C::Abort> {
        let mut deciding = self.begin(record).map_err(End::Broken)?;
        let (iterations, microseconds) = (record.u64(16), record.u32(24));
        deciding.sliced.answer_into(record.u32(12), &mut deciding.body);
        if record.flags & CONTINUED == 0 {
            self.replay.counts.loops_led.add(1);
        }
        if deciding.reason == Reason::Bound {
            let begun = deciding.begun;
            let bounds = Bounds {
                begun: if iterations == 0 { 0 } else { deciding.begun.saturating_add(iterations) },
                until: (microseconds != 0).then(|| Instant::now() + Duration::from_micros(microseconds.into())),
            };
            let span = self.replay.begin_span();
            deciding.reason = self.go_on(&mut deciding, &bounds)?;
            self.replay.end_span(Kind::While, deciding.begun - begun, span);
            self.replay.counts.iterations.add(deciding.begun - begun);
        }
        let number = deciding.number();
        self.replay.loops.deciding = Some(deciding);
        let done = self.answer(record, number);
        if !ends_message {
            self.send_results()?;
        }
        Ok(done)
    }

    /// What a WHILE goes on with, or begins.
    fn begin(&mut self, record: &Record<'_>) -> Result<Deciding, String> {
        let (number, inputs) = (record.u32(8), record.tail());
        let loops = &mut self.replay.loops;
        let last = loops.deciding.take();
        if record.flags & CONTINUED != 0 {
            let last = last.filter(|last| last.sliced.number == number && inputs.is_empty());
            return last
                .ok_or_else(|| format!("slice {number} cannot be continued, with {} bytes of inputs", inputs.len()));
        }
        let sliced = loops.slices.get(number)?;
        let evaluation = sliced.begin(inputs)?;
        let body = sliced.template.body.to_vec();
        Ok(Deciding { sliced, evaluation, body, begun: 0, reason: Reason::Bound })
    }

    /// Makes calls until the loop stops.
    fn go_on(&mut self, deciding: &mut Deciding, bounds: &Bounds) -> Result<Reason, End<C::Abort>> {
        let Deciding { sliced, evaluation, body, begun, .. } = deciding;
        let sliced = sliced.clone();
        let looks_ahead = self.control.looks_ahead() && sliced.template.launches;
        let (first, mut looked) = (*begun, 0);
        let mut clock = None; // when it was last looked at, in this iteration
        loop {
            if evaluation.iterations() > *begun {
                if let Some(reason) = self.stops(&sliced, bounds, *begun, first, clock.take())? {
                    return Ok(reason);
                }
                *begun = evaluation.iterations();
                if looks_ahead && looked == 0 && *begun > 1 {
                    let (launches, iterations) = upcoming::of_body(&sliced.template, body);
                    self.control.expect(&launches).map_err(End::Abort)?;
                    looked = iterations;
                }
                looked = looked.saturating_sub(1);
            }
            let call = match evaluation.step() {
                Ok(Event::Called(call)) => call,
                Ok(Event::Again) => continue,
                Ok(Event::Left(_)) => return Ok(Reason::Left),
                Err(Stuck) => return Ok(Reason::Stuck),
            };
            let Some(made) = &sliced.calls[call] else {
                continue;
            };
            made.fill(evaluation, body);
            if !self.make(&sliced, made, evaluation, body, &mut clock)? {
                self.heed_interruption()?; // it makes launches fail
                return Ok(Reason::Error);
            }
        }
    }

    fn heed_interruption(&self) -> Result<(), End<C::Abort>> {
        if self.replay.standing.interrupted.load(Ordering::Relaxed) {
            return Err(End::Interrupted);
        }
        Ok(())
    }

    /// Whether the next iteration is not begun.
    fn stops(
        &mut self,
        sliced: &Sliced,
        bounds: &Bounds,
        begun: u64,
        first: u64,
        clock: Option<Instant>,
    ) -> Result<Option<Reason>, End<C::Abort>> {
        self.heed_interruption()?;
        if bounds.begun != 0 && begun >= bounds.begun {
            return Ok(Some(Reason::Bound));
        }
        let late = |until: Instant| begun > first && clock.unwrap_or_else(Instant::now) >= until;
        if bounds.until.is_some_and(late) {
            return Ok(Some(Reason::Bound));
        }
        // Each record would fail with the same error, and nothing would tell it.
        Ok((self.replay.errors.is_lost() && !sliced.template.answers).then_some(Reason::Error))
    }

    /// Does the record that a call makes. False: its result is an error.
    fn make(
        &mut self,
        sliced: &Sliced,
        made: &Made,
        evaluation: &mut Evaluation,
        body: &[u8],
        clock: &mut Option<Instant>,
    ) -> Result<bool, End<C::Abort>> {
        let part = &sliced.template.parts[made.record];
        let bytes = &body[part.offset..part.offset + part.length];
        if part.row.code == code::LAUNCH && self.launch_again(bytes)?.is_some() {
            return Ok(true);
        }
        let record = part.record(body, self.replay.version).map_err(End::Broken)?;
        if let Some(place) = made.fills {
            let (width, height) = (record.u64(24), record.u64(32));
            if width.checked_mul(height) != Some(place.size.into()) {
                let rule = format!("a READ of {width} times {height} bytes for a call that fills {}", place.size);
                return Err(End::Broken(rule));
            }
            // The slice is given its bytes before they leave. A device that works by itself has the next work by now.
            let full = self.replay.results.len() + ROOM >= CHUNK_BYTES;
            if full || (self.replay.direct.works_apart() && self.results_are_due(Instant::now())) {
                self.send_results()?;
            }
        }
        let before = self.replay.results.len();
        let done = self.one(&record, false, false)?;
        let mut good = done.is_ok() || part.row.answer == Answer::None;
        if let Err(error) = done {
            self.failed(&record, error);
        } else if let Some(place) = made.fills {
            good = self.hand_over(before, evaluation, place);
            if !good {
                let lost = CudaError::ours(format!("a READ has not brought {} bytes", place.size));
                self.failed(&record, lost);
            }
        } else if part.row.answer == Answer::Status {
            good = self.replay.results.last_status() == 0;
        }
        if part.row.answer != Answer::None {
            let now = Instant::now();
            *clock = Some(now);
            if !self.replay.direct.works_apart() && self.results_are_due(now) {
                self.send_results()?;
            }
        }
        Ok(good)
    }

    /// Gives the slice what the DATA results from `before` on hold; they are the whole place's.
    fn hand_over(&self, before: usize, evaluation: &mut Evaluation, place: Place) -> bool {
        let mut filled = 0;
        for data in self.replay.results.data_from(before) {
            let size = data.len().min(MAXIMUM_MEMORY) as u16;
            if filled + size > place.size || !evaluation.fill(Place { offset: place.offset + filled, size }, data) {
                return false;
            }
            filled += size;
        }
        filled == place.size
    }

    fn results_are_due(&self, now: Instant) -> bool {
        self.replay.loops.sent.is_none_or(|sent| now.duration_since(sent) >= PROMPT)
    }

    /// Sends the results that there are.
    fn send_results(&mut self) -> Result<(), End<C::Abort>> {
        self.replay.send_results(self.sink)?;
        self.replay.loops.sent = Some(Instant::now());
        Ok(())
    }
}

impl Deciding {
    pub(super) fn sliced(&self) -> &Sliced {
        &self.sliced
    }
}
