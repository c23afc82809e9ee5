//! Loops that a manifest predicts: the host learns the template at the loop's first call, before anything has repeated.
//!
//! What is predicted is a guess. The template is one as any other: each record is compared with it, the iterations that
//! the program has made are what is sent, and where the program does something else the run closes as any run. A wrong
//! guess costs a TEMPLATE that is never repeated.

use super::{token_of, Recorder, NO_TOKEN};
use crate::body::Body;
use crate::layout;
use crate::policy::{self, Balance};
use std::sync::Arc;
use tape::Writer;

/// A record of a loop's first iteration, and what it is expected to be in the second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictedLaunch {
    /// As in [`crate::Origin`].
    pub site: u64,
    pub now: Vec<u8>,
    pub next: Vec<u8>,
}

impl Recorder {
    /// The thread's next record is expected to be the first one of a loop of so many iterations, each of these records.
    /// Puts the TEMPLATE on the tape where the loop is worth it and is not known yet; whether it did.
    pub fn predict(&mut self, tape: &mut Writer, thread: u64, iterations: u64, records: &[PredictedLaunch]) -> bool {
        let busy = thread != self.thread || self.histories.is_empty() || !self.stack.is_empty();
        if busy || self.policy.segments.are_short() {
            return false;
        }
        let Some((body, steps)) = iteration_of(records) else { return false };
        let begins = body.items.first().is_some_and(|item| self.templates.starting_with(item.token).is_some());
        let worth = policy::is_worth_telling(iterations.saturating_mul(body.records()), body.items.len() as u64);
        if begins || !worth || self.templates.like(&body).is_some() {
            return false;
        }
        let body = Arc::new(body);
        let Some(place) = self.templates.add(body.clone()) else { return false };
        if self.tell(place, &body, tape).is_none() {
            return false;
        }
        self.counts.predicted += 1;
        if let Some(template) = self.templates.get_mut(place) {
            template.steps = steps;
            template.balance = Balance::guessed();
        }
        self.templates.register(place);
        true
    }
}

/// The body of an iteration, with holes where the next one is another, and by how much they grow. `None`: no body may
/// hold it.
fn iteration_of(records: &[PredictedLaunch]) -> Option<(Body, Vec<u64>)> {
    let mut body = Body::new();
    for PredictedLaunch { site, now, .. } in records {
        let token = token_of(now, *site);
        if token == NO_TOKEN || !body.push(now, token, None) {
            return None;
        }
    }
    let mut next = Vec::new();
    for (index, record) in records.iter().enumerate() {
        if record.next.len() != record.now.len() {
            return None;
        }
        next.extend_from_slice(&record.next);
        body = body.widened(index, &record.next, &[])?;
    }
    let step = |hole: &crate::body::Hole| {
        let (at, width) = (hole.at(), hole.width());
        layout::read(&next, at, width).wrapping_sub(layout::read(&body.bytes, at, width)) & layout::mask(width)
    };
    let steps = body.holes.iter().map(step).collect();
    Some((body, steps))
}
