//! How runs begin and end: with a template that is known, or with what the search has found.

use super::{Offer, Recorder};
use crate::body::{Body, Nested};
use crate::policy::{self, Balance};
use crate::run::{Run, Verdict};
use std::sync::Arc;

impl Recorder {
    /// Opens a run of a body that the search has found.
    pub(super) fn begin(&mut self, body: Body) {
        let known = self.templates.like(&body);
        if let Some(template) = known.and_then(|place| self.templates.get_mut(place)) {
            template.balance.found();
        }
        let Some(place) = known.or_else(|| self.templates.add(Arc::new(body))) else { return };
        if let Some(run) = self.open(place) {
            self.stack.push(run);
        }
    }

    pub(super) fn open(&mut self, place: u32) -> Option<Box<Run>> {
        self.templates.touch(place);
        self.births += 1;
        let template = self.templates.get_mut(place).filter(|template| !template.open)?;
        template.open = true;
        let sealed = template.number.is_some();
        Some(Box::new(Run::new(self.births, place, template.body.clone(), sealed, &template.steps)))
    }

    /// The runs go; they hold nothing.
    pub(super) fn retire_all(&mut self) {
        while let Some(run) = self.stack.pop() {
            self.retire(&run, false, false);
        }
    }

    /// A run that has nothing left to send goes. `failed`: the program did something else than the template said.
    /// `unjudged`: the loop around it had its place for it, so that what it was worth is that one's; or it did not end
    /// by itself.
    pub(super) fn retire(&mut self, run: &Run, failed: bool, unjudged: bool) {
        let Some(template) = self.templates.get_mut(run.place) else { return };
        template.open = false;
        if !unjudged {
            template.balance.ran(run.done);
            if let Some(worthwhile) = policy::judged(run.repeated, run.done) {
                self.histories[self.current].history.doubt.ran(worthwhile);
            }
        }
        let tried = template.balance.is_tried();
        if tried && (run.k > 0 || run.sealed && !failed) {
            template.steps = run.steps();
            self.templates.register(run.place);
        } else if !tried {
            self.templates.unregister(run.place);
        } else if run.pos == 0 {
            self.templates.register_first(run.place); // it has repeated, and ended there: perhaps it comes again
        }
        self.templates.drop_unused(run.place);
    }

    /// A template that takes the place of the run's, with more holes. The run holds its unfinished iteration only.
    pub(super) fn widen(&mut self, run: &mut Run, wider: Arc<Body>) -> bool {
        let Some(place) = self.templates.add(wider.clone()) else { return false };
        let (mut ancestor, mut balance) = (None, Balance::default());
        if let Some(template) = self.templates.get_mut(run.place) {
            template.open = false;
            balance = template.balance;
            ancestor = Some(Nested { place: run.place, birth: template.birth, levels: wider.levels });
        }
        if let Some(template) = self.templates.get_mut(place) {
            template.open = true;
            template.balance = balance;
            template.ancestor = ancestor;
        }
        run.adopt(place, wider);
        true
    }

    /// Opens a run of the template that is expected here, if the record begins it.
    pub(super) fn enter(&mut self, nested: Nested, offer: Offer) -> bool {
        let current = !self.templates.is_superseded(nested);
        let Some(run) = current.then(|| self.open(nested.place)).flatten() else { return false };
        self.start(run, offer)
    }

    /// The first record of a run that was just opened.
    pub(super) fn start(&mut self, mut run: Box<Run>, offer: Offer) -> bool {
        let mut verdict = self.feed(&mut run, offer);
        if let Verdict::Restart(Some(wider)) = verdict {
            if !self.widen(&mut run, wider) {
                let expected = self.expects(&run);
                self.retire(&run, true, expected);
                return false;
            }
            verdict = self.feed(&mut run, offer);
        }
        if matches!(verdict, Verdict::Taken) {
            self.stack.push(run);
            return true;
        }
        let inner = run.body.items[run.pos].nested;
        self.stack.push(run);
        if inner.is_some_and(|inner| self.enter(inner, offer)) {
            return true;
        }
        if let Some(run) = self.stack.pop() {
            let expected = self.expects(&run);
            self.retire(&run, true, expected);
        }
        false
    }

    /// Whether the run below waits for this run's REPEAT.
    pub(super) fn expects(&self, run: &Run) -> bool {
        self.stack
            .last()
            .is_some_and(|below| below.body.items[below.pos].nested.is_some_and(|nested| nested.place == run.place))
    }
}
