//! What runs send: a REPEAT, or the records themselves where that is shorter; at a run's end, at a flush, and in parts
//! of a loop that goes on.

use super::{Offer, Recorder};
use crate::body::{Body, Nested};
use crate::policy::{Ending, Held};
use crate::run::Run;
use crate::{mix, Reason};
use tape::operations::{self, code};
use tape::Writer;

/// Of a TEMPLATE without its content.
const TEMPLATE_BYTES: usize = 24;

impl Recorder {
    /// Closes a run that was taken off the stack: what it holds goes to those below, in order.
    pub(super) fn close(&mut self, mut run: Box<Run>, tape: &mut Writer, failed: bool, ending: Ending) {
        let unjudged = self.expects(&run) || ending == Ending::GoesOn;
        self.send_iterations(&mut run, tape, true, ending);
        self.give_back(&run, run.k, run.pos, tape);
        self.retire(&run, failed && run.k == 0, unjudged);
    }

    /// The records of an iteration, up to item `end`.
    fn give_back(&mut self, run: &Run, k: u64, end: usize, tape: &mut Writer) {
        let mut record = Vec::new();
        let given_back = run.body.items.len();
        for index in 0..end {
            run.expand(index, k, &mut record);
            let item = &run.body.items[index];
            self.counts.returned += u64::from(item.nested.is_none());
            self.offer(Offer { record: &record, token: item.token, nested: item.nested, given_back }, tape);
        }
    }

    /// Sends a run's complete iterations; the run is off the stack. `last`: it will not go on from here. True when a
    /// REPEAT of them is on the tape itself.
    pub(super) fn send_iterations(&mut self, run: &mut Run, tape: &mut Writer, last: bool, ending: Ending) -> bool {
        let count = run.complete();
        let continues = run.base > 0;
        if count == 0 && !(last && continues) {
            return false;
        }
        let number = if count == 0 || self.is_worth(run, ending) { self.number(run, tape) } else { None };
        run.done += count * run.body.records();
        let (Some(number), Some(birth)) = (number, self.templates.get(run.place).map(|t| t.birth)) else {
            for k in run.base..run.k {
                self.give_back(run, k, run.body.items.len(), tape);
            }
            return false;
        };
        self.counts.iterations += count;
        run.repeated |= count > 0;
        let token = mix(mix(birth, run.shape()), code::REPEAT.into()).max(1);
        let nested = Some(Nested { place: run.place, birth, levels: run.body.levels });
        let at_bottom = self.stack.is_empty();
        if continues && at_bottom {
            if count > 0 {
                self.put_continued(run, number, tape);
            }
            if last {
                // The search for outer loops sees one REPEAT, however it was sent.
                self.remember(&run.repeat(number, 0), token, nested, 0);
            }
            return true;
        }
        let record = run.repeat(number, run.base);
        self.counts.repeats += u64::from(at_bottom);
        if at_bottom {
            self.sent_run(run);
        }
        if last || !at_bottom {
            self.offer(Offer { record: &record, token, nested, given_back: 0 }, tape);
        } else {
            tape.records(&record);
        }
        at_bottom
    }

    fn sent_run(&mut self, run: &Run) {
        if let Some(template) = self.templates.get_mut(run.place) {
            template.last_run = run.birth;
        }
    }

    fn put_continued(&mut self, run: &Run, number: u16, tape: &mut Writer) {
        self.counts.repeats += 1;
        if self.templates.get(run.place).is_some_and(|t| t.last_run == run.birth) {
            operations::repeat(tape, number.into(), run.complete(), true, &[]);
        } else {
            tape.records(&run.repeat(number, run.base));
        }
        self.sent_run(run);
    }

    /// Whether a REPEAT is to be sent, not the records themselves: the loop around expects it, one of the same run is
    /// on the tape, or it is worth it.
    fn is_worth(&self, run: &Run, ending: Ending) -> bool {
        if run.base > 0 || self.expects(run) {
            return true;
        }
        let template = if run.sealed { 0 } else { TEMPLATE_BYTES + run.body.content_bytes() };
        let held = Held {
            records: run.complete().saturating_mul(run.body.records()),
            bytes: run.complete().saturating_mul(run.body.bytes.len() as u64),
            repeat: run.repeat_bytes() as u64,
            template: template as u64,
            body: run.body.items.len() as u64,
            before: run.done,
            ending,
        };
        self.templates.get(run.place).is_some_and(|template| template.balance.is_worth(held))
    }

    /// The number of the run's template, which goes to the host now if it does not have it.
    fn number(&mut self, run: &mut Run, tape: &mut Writer) -> Option<u16> {
        if let Some(number) = self.templates.get(run.place)?.number {
            return Some(number);
        }
        let number = self.tell(run.place, &run.body, tape)?;
        run.sealed = true;
        Some(number)
    }

    /// Gives a template its number, by which the host knows it from here on.
    pub(super) fn tell(&mut self, place: u32, body: &Body, tape: &mut Writer) -> Option<u16> {
        let number = self.templates.publish(place)?;
        let holes = u32::try_from(body.holes.len()).ok()?;
        operations::template(tape, number.into(), holes, &body.content());
        self.counts.templates += 1;
        Some(number)
    }

    /// A flush: everything that is held goes to the tape. A run that stands between two iterations goes on afterwards.
    pub fn flush(&mut self, tape: &mut Writer, reason: Reason) {
        let held = self.holds();
        if held {
            self.flush_held(tape, reason);
        }
        if reason == Reason::Sync {
            self.policy.segments.end(self.counts.in_loops());
            if self.policy.segments.are_short() {
                self.retire_all();
            }
        }
    }

    fn flush_held(&mut self, tape: &mut Writer, reason: Reason) {
        self.counts.closed(reason);
        let ending = Ending::of(reason);
        while self.holds() {
            let Some(mut run) = self.stack.pop() else { break };
            if self.stack.is_empty() && run.pos == 0 {
                self.send_part(&mut run, tape, ending);
                self.stack.push(run);
            } else {
                self.close(run, tape, false, ending);
            }
        }
        self.pending = 0;
    }

    /// Sends the complete iterations of the outermost loop and keeps it open. False when there are none.
    pub fn part(&mut self, tape: &mut Writer) -> bool {
        if self.stack.first().is_none_or(|run| run.complete() == 0) {
            return false;
        }
        let mut above = std::mem::take(&mut self.stack);
        let mut run = above.remove(0);
        self.send_part(&mut run, tape, Ending::GoesOn);
        self.counts.closed(Reason::Age);
        self.stack.push(run);
        self.stack.append(&mut above);
        self.pending = 0;
        true
    }

    /// Sends the complete iterations of the only run, which is off the stack and goes on.
    fn send_part(&mut self, run: &mut Run, tape: &mut Writer, ending: Ending) {
        if run.complete() == 0 {
            return;
        }
        let repeated = self.send_iterations(run, tape, false, ending);
        // Records that were given back may have been found to repeat: this run repeats them already.
        while let Some(found) = self.stack.pop() {
            self.close(found, tape, false, Ending::GoesOn);
        }
        if repeated && run.can_continue() {
            run.continue_from_here();
        } else {
            run.rebase();
        }
    }

    /// Closes every run for good.
    pub(super) fn end_all(&mut self, tape: &mut Writer, reason: Reason) {
        if self.holds() {
            self.counts.closed(reason);
        }
        while let Some(run) = self.stack.pop() {
            self.close(run, tape, false, Ending::of(reason));
        }
        self.pending = 0;
    }
}
