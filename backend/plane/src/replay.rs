//! A session's tape, replayed: the walk over the records of its messages, their results, and deferred and sticky errors.
//!
//! What is hot is done here: the header and rules of every record, launches that were laid out before, copies, sets and synchronizations of a
//! device that [`Direct`] works on, results and replies. Everything else is the control plane's (`Control`, Python): it makes and ends
//! objects of a driver, compiles kernels, and does what a device has no short way for.
//!
//! - `replay` (this page): groups, and the replies to them
//! - [`control`]: what the control plane is asked for
//! - [`counts`]: what metrics show of a session
//! - `walk`: the walk over records; `work`: what is done here; `making`: streams and events
//! - [`errors`]: deferred and sticky errors, and the contexts that are lost
//! - [`payloads`]: what the guest names instead of sending it again
//! - [`placing`]: large copies that go to their place as they arrive
//! - [`saving`]: what a saved session keeps of it
//! - [`spans`]: when it did what, where somebody wants a timeline
//! - [`results`]: result records and the replies that carry them
//! - [`handles`]: what the guest's numbers of streams and events stand for
//! - [`launches`]: launches that were seen before
//! - [`loops`]: templates and their iterations
//!
//! Errors, as tape.md has them:
//! - a deferred operation's error is kept until it is reported: by the next STATUS or DATA result, else with the group;
//! - an operation that yields a result reports its own error there; that error is not reported again;
//! - a sticky error fails every later operation of its context until `DEVICE_RESET`. Uploads of images, templates and payloads go on: they
//!   are the host's, not the context's. A group has records of one context, so that a deferred error needs no context of its own.
//!
//! Source: protos/tape.md.

pub mod control;
pub mod counts;
pub mod errors;
pub mod handles;
pub mod launches;
pub mod loops;
mod making;
pub mod payloads;
mod placing;
pub mod results;
pub mod saving;
pub mod spans;
mod walk;
mod work;

use crate::call::Gone;
use crate::device::direct::Direct;
use crate::device::objects::monotonic;
use crate::device::ranges::Rows;
use control::{Control, End, GroupEnd};
use counts::Counts;
use errors::{Errors, Standing};
use handles::Table;
use launches::Launches;
use loops::{Loops, Prices};
use parking_lot::Mutex;
use payloads::Payloads;
use placing::Placed;
use results::{Closing, Results};
use spans::{Kind, Spans};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use walk::Walk;

/// Results of so many bytes leave at once.
pub const CHUNK_BYTES: usize = 64 << 10;
/// The most bytes of printed text in one reply.
const OUTPUT_PIECE: usize = 1 << 20;
/// Set in an address that is relative to a variable.
const RELATIVE: u64 = 1 << 63;

/// Takes replies. Each is given in parts, which are one message.
pub trait Sink {
    /// # Errors
    /// The guest takes no replies any more.
    fn send(&mut self, parts: &[&[u8]], last: bool) -> Result<(), Gone>;
}

/// What a session may send.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Records of one message.
    pub message_bytes: usize,
    /// Of one group.
    pub credit_bytes: usize,
}

/// What a session has, which the replay shares with the control plane.
#[derive(Clone)]
pub struct Shared {
    pub direct: Arc<Direct>,
    pub standing: Arc<Standing>,
    pub payloads: Arc<Payloads>,
    pub streams: Arc<Table>,
    pub events: Arc<Table>,
}

/// The replay of one session. One thread at a time.
pub struct Replay<L, H> {
    version: u32,
    bounds: Bounds,
    direct: Arc<Direct>,
    standing: Arc<Standing>,
    errors: Errors,
    launches: Launches<L>,
    loops: Loops<H>,
    payloads: Arc<Payloads>,
    streams: Arc<Table>,
    events: Arc<Table>,
    results: Results,
    counts: Arc<Counts>,
    spans: Option<Arc<Mutex<Spans>>>,
    /// The group has had results that were sent before its end.
    answered: bool,
    group: u64,
    group_bytes: usize,
    /// How the message that comes next has begun.
    placed: Option<Placed>,
    /// The control plane has done something since the last group ended.
    asked: bool,
    /// For how long it has let the device work.
    nanoseconds: u64,
}

impl<L, H> Replay<L, H> {
    #[must_use]
    /// `spans`: it keeps when it did what.
    pub fn new(version: u32, bounds: Bounds, prices: Prices, shared: Shared, spans: bool) -> Self {
        let Shared { direct, standing, payloads, streams, events } = shared;
        Self {
            version,
            bounds,
            direct,
            errors: Errors::new(standing.clone()),
            launches: Launches::new(standing.clone()),
            loops: Loops::new(prices),
            payloads,
            streams,
            events,
            standing,
            results: Results::default(),
            counts: Arc::default(),
            spans: spans.then(Arc::default),
            answered: false,
            group: 1,
            group_bytes: 0,
            placed: None,
            asked: true,
            nanoseconds: 0,
        }
    }

    /// Launches that are remembered.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.launches.len()
    }

    /// The guest has sent nothing that is not done.
    pub fn rest(&self) {
        if let Some(place) = self.direct.gate.place() {
            place.rest();
        }
    }

    /// What metrics show.
    #[must_use]
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// When it did what, if that was to be kept.
    #[must_use]
    pub fn spans(&self) -> Option<&Arc<Mutex<Spans>>> {
        self.spans.as_ref()
    }

    /// When something begins, if that is to be kept.
    fn begin_span(&self) -> Option<u64> {
        self.spans.as_ref().map(|_| monotonic())
    }

    /// Something has ended that may have begun.
    fn end_span(&mut self, kind: Kind, number: u64, began: Option<u64>) {
        if let (Some(spans), Some(began)) = (&self.spans, began) {
            spans.lock().add(kind, number, began);
        }
    }

    /// The plans of a template.
    pub fn plans(&self, template: u32) -> impl Iterator<Item = &H> {
        self.loops.plans.of(template)
    }

    /// Replays one message of a group and gives the replies to `sink`.
    ///
    /// # Errors
    /// What ends the session; everything before it has been replayed.
    pub fn submit<C: Control<Launch = L, Plan = H>>(
        &mut self,
        control: &mut C,
        sink: &mut dyn Sink,
        group: u64,
        records: &[u8],
        last: bool,
    ) -> Result<(), End<C::Abort>> {
        if group != self.group {
            return Err(End::Broken(format!("group {group} where group {} was due", self.group)));
        }
        if records.len() > self.bounds.message_bytes {
            let (size, limit) = (records.len(), self.bounds.message_bytes);
            return Err(End::Broken(format!("a message of {size} bytes of records; at most {limit} are allowed")));
        }
        let placed = self.placed.take();
        if let Some(placed) = &placed {
            self.counts.records.add(1);
            self.counts.bytes_in.add(placed.bytes as u64);
            self.group_bytes += placed.bytes;
        }
        let begins_group = self.group_bytes == 0;
        self.group_bytes += records.len();
        if self.group_bytes > self.bounds.credit_bytes {
            return Err(End::Broken(format!(
                "group {group} has more than the {} bytes that may be sent without an acknowledgement",
                self.bounds.credit_bytes
            )));
        }
        self.counts.bytes_in.add(records.len() as u64);
        self.direct.enter();
        let span = self.begin_span();
        let mut walk = Walk { replay: self, control, sink };
        if let Some(placed) = placed {
            walk.arrived(&placed)?;
        }
        walk.records(records, begins_group)?;
        if !last {
            self.end_span(Kind::Group, group, span);
            return self.pass_on(sink);
        }
        self.group += 1;
        self.group_bytes = 0;
        self.end_group(control, sink, group, span)
    }

    /// Whether the address is one, and no refused allocation could be meant.
    fn plain(&self, rows: &Rows) -> bool {
        rows.address & RELATIVE == 0 && !self.standing.poisoned.load(Ordering::Relaxed)
    }

    /// Sends results that are enough for a reply.
    fn pass_on<A>(&mut self, sink: &mut dyn Sink) -> Result<(), End<A>> {
        if self.results.len() < CHUNK_BYTES {
            return Ok(());
        }
        self.send_results(sink)
    }

    /// Sends what there is of results.
    fn send_results<A>(&mut self, sink: &mut dyn Sink) -> Result<(), End<A>> {
        if self.results.len() == 0 {
            return Ok(());
        }
        self.answered = true;
        self.reply(self.group, None, sink)
    }

    fn reply<A>(&mut self, group: u64, closing: Option<&Closing>, sink: &mut dyn Sink) -> Result<(), End<A>> {
        let bytes = self.results.reply(&self.direct, group, closing, sink).map_err(|Gone| End::Gone)?;
        self.counts.bytes_out.add(bytes as u64);
        Ok(())
    }

    fn end_group<C: Control<Launch = L, Plan = H>>(
        &mut self,
        control: &mut C,
        sink: &mut dyn Sink,
        group: u64,
        span: Option<u64>,
    ) -> Result<(), End<C::Abort>> {
        let mut said = GroupEnd::default();
        if self.direct.take_spoken() | self.asked {
            said = control.end_group().map_err(End::Abort)?;
            self.asked = false;
            self.nanoseconds = said.nanoseconds;
        }
        let longest = said.printed.len().max(said.complaints.len());
        if longest > OUTPUT_PIECE {
            for at in (0..longest).step_by(OUTPUT_PIECE) {
                let piece = |text: &[u8]| text.get(at..text.len().min(at + OUTPUT_PIECE)).unwrap_or_default().to_vec();
                results::output(group, &piece(&said.printed), &piece(&said.complaints), sink)
                    .map_err(|Gone| End::Gone)?;
            }
            said = GroupEnd::default();
        }
        let (error, delivered) = (self.errors.take(), self.errors.take_delivered());
        let closing = Closing {
            error: error.as_ref().map_or(0, |error| error.code),
            sticky: error.as_ref().is_some_and(|error| error.sticky),
            message: error.map(|error| error.message).filter(|message| !message.is_empty()).unwrap_or(delivered),
            nanoseconds: self.nanoseconds + self.direct.nanoseconds(),
            printed: said.printed,
            complaints: said.complaints,
        };
        self.end_span(Kind::Group, group, span); // the guest goes on with the reply
        self.counts.groups.add(1);
        if std::mem::take(&mut self.answered) || self.results.len() > 0 {
            self.counts.round_trips.add(1);
        }
        self.reply(group, Some(&closing), sink)
    }
}

#[cfg(test)]
mod tests;
