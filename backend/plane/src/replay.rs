//! A session's tape, replayed: the walk over the records of its messages, their results, and deferred and sticky errors.
//!
//! What is hot is done here: the header and rules of every record, launches that were laid out before, copies, sets and synchronizations of a
//! device that [`Direct`] works on, results and replies. Everything else is the control plane's (`Control`, Python): it makes and ends
//! objects, compiles kernels, and does what a device has no short way for.
//!
//! - `replay` (this page): groups, the walk, and what each record does
//! - [`errors`]: deferred and sticky errors, and the contexts that are lost
//! - [`placing`]: large copies that go to their place as they arrive
//! - [`results`]: result records and the replies that carry them
//! - [`launches`]: launches that were seen before
//!
//! Errors, as tape.md has them:
//! - a deferred operation's error is kept until it is reported: by the next STATUS or DATA result, else with the group;
//! - an operation that yields a result reports its own error there; that error is not reported again;
//! - a sticky error fails every later operation of its context until `DEVICE_RESET`. Uploads of images, templates and payloads go on: they
//!   are the host's, not the context's. A group has records of one context, so that a deferred error needs no context of its own.
//!
//! Source: protos/tape.md.

pub mod errors;
pub mod launches;
mod placing;
pub mod results;
#[cfg(test)]
mod tests;
mod work;

use crate::call::Gone;
use crate::device::direct::{Direct, Entry};
use crate::device::moment::Moment;
use errors::{CudaError, Errors, Standing};
use launches::Launches;
use results::{Closing, Results};
use std::sync::Arc;
use tape::operations::code;
use tape::{Answer, Record};

/// Results of so many bytes leave at once.
pub const CHUNK_BYTES: usize = 64 << 10;
/// The most bytes of printed text in one reply.
const OUTPUT_PIECE: usize = 1 << 20;

/// Why a session ends.
#[derive(Debug)]
pub enum End<A> {
    /// The guest broke this rule of tape.md or of the session.
    Broken(String),
    /// The guest takes no replies any more.
    Gone,
    /// The control plane ends it.
    Abort(A),
}

/// What a step of the control plane gives: a value, a CUDA result that is not success, or the session's end.
pub type Attempt<T, A> = Result<Result<T, CudaError>, A>;

/// What a record has done that the control plane has taken.
pub enum Outcome<C: Control + ?Sized> {
    Done,
    /// Its result: a cudaError_t, or a value.
    Number(u64),
    /// A READ that has begun, of so many bytes.
    Reading(u64, C::Pieces),
    /// A launch, done; the next ones like it go by this.
    Launched(C::Launch),
    /// Records and results that it stands for.
    Steps(C::Steps),
}

/// What a loop or a condition stands for, one after the other.
pub enum Step {
    /// Records to replay.
    Records(Vec<u8>),
    /// Result records.
    Results(Vec<u8>),
    /// This record has failed.
    Failed(Vec<u8>, CudaError),
    Over,
}

/// What the control plane says at the end of a group.
#[derive(Debug, Default)]
pub struct GroupEnd {
    pub printed: Vec<u8>,
    pub complaints: Vec<u8>,
    /// For how long it has let the device work, so far.
    pub nanoseconds: u64,
}

/// The control plane of a session.
pub trait Control {
    /// What ends a session.
    type Abort;
    /// The pieces of a READ.
    type Pieces;
    /// A launch that was resolved and checked.
    type Launch;
    /// What a loop stands for.
    type Steps;

    /// Replays a record. `inside`: of a loop's body.
    ///
    /// # Errors
    /// What ends the session.
    fn operate(&mut self, record: &Record<'_>, inside: bool) -> Attempt<Outcome<Self>, Self::Abort>;

    /// Adds the next piece of a READ to `out`; `None`: there are no more.
    ///
    /// # Errors
    /// What ends the session.
    fn piece(&mut self, pieces: &mut Self::Pieces, out: &mut Vec<u8>) -> Attempt<Option<usize>, Self::Abort>;

    /// Launches again, with the parameters `record[start..end]`. What may be launched without the control plane from now on has an entry.
    ///
    /// # Errors
    /// What ends the session.
    fn launch(
        &mut self,
        launch: &Self::Launch,
        record: &[u8],
        start: usize,
        end: usize,
    ) -> Attempt<Option<Arc<Entry>>, Self::Abort>;

    /// A launch of this entry did not come to its end: why.
    ///
    /// # Errors
    /// What ends the session.
    fn failure(&mut self, entry: &Entry) -> Result<CudaError, Self::Abort>;

    /// The entry's kernel has run for so long.
    ///
    /// # Errors
    /// What ends the session.
    fn account(&mut self, entry: &Entry, nanoseconds: u64) -> Result<(), Self::Abort>;

    /// Whether there is such a stream.
    ///
    /// # Errors
    /// What ends the session.
    fn stream(&mut self, number: u32) -> Attempt<(), Self::Abort>;

    /// When the event was recorded.
    ///
    /// # Errors
    /// What ends the session.
    fn event(&mut self, number: u32) -> Attempt<Arc<Moment>, Self::Abort>;

    /// The next step of a loop.
    ///
    /// # Errors
    /// What ends the session.
    fn step(&mut self, steps: &mut Self::Steps) -> Attempt<Step, Self::Abort>;

    /// Records that come next, for devices that want to know (`LOOKS_AHEAD`). `at`: where they begin in `message`.
    ///
    /// # Errors
    /// What ends the session.
    fn look_ahead(&mut self, message: &[u8], at: usize) -> Result<(), Self::Abort>;

    /// Whether `look_ahead` is of use.
    fn looks_ahead(&self) -> bool;

    /// What is to be said at the end of a group.
    ///
    /// # Errors
    /// What ends the session.
    fn end_group(&mut self) -> Result<GroupEnd, Self::Abort>;

    /// An operation has failed with an error that is told later, or (lost) with one that stays.
    fn note(&mut self, operation: &str, error: &CudaError, lost: bool);
}

/// Takes replies. Each is given in parts, which are one message.
pub trait Sink {
    /// # Errors
    /// Nobody takes it.
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

/// The replay of one session. One thread at a time.
pub struct Replay<L> {
    version: u32,
    bounds: Bounds,
    direct: Arc<Direct>,
    standing: Arc<Standing>,
    errors: Errors,
    launches: Launches<L>,
    results: Results,
    group: u64,
    group_bytes: usize,
    /// Of the message that comes next, what has been replayed already.
    placed: usize,
    /// The control plane has done something since the last group ended.
    asked: bool,
    /// For how long it has let the device work.
    nanoseconds: u64,
}

/// Where a walk is.
#[derive(Clone, Copy)]
struct Place {
    /// Of a loop's body, not of a message.
    inside: bool,
    /// The first record is the group's first.
    begins_group: bool,
}

impl<L> Replay<L> {
    #[must_use]
    pub fn new(version: u32, bounds: Bounds, direct: Arc<Direct>, standing: Arc<Standing>) -> Self {
        Self {
            version,
            bounds,
            direct,
            errors: Errors::new(standing.clone()),
            launches: Launches::new(standing.clone()),
            standing,
            results: Results::default(),
            group: 1,
            group_bytes: 0,
            placed: 0,
            asked: true,
            nanoseconds: 0,
        }
    }

    /// Launches that are remembered.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.launches.len()
    }

    /// Replays one message of a group and gives the replies to `sink`.
    ///
    /// # Errors
    /// What ends the session; everything before it has been replayed.
    pub fn submit<C: Control<Launch = L>>(
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
        self.group_bytes += std::mem::take(&mut self.placed);
        let begins_group = self.group_bytes == 0;
        self.group_bytes += records.len();
        if self.group_bytes > self.bounds.credit_bytes {
            return Err(End::Broken(format!(
                "group {group} has more than the {} bytes that may be sent without an acknowledgement",
                self.bounds.credit_bytes
            )));
        }
        Walk { replay: self, control, sink }.records(records, Place { inside: false, begins_group })?;
        if !last {
            return self.pass_on(sink);
        }
        self.group += 1;
        self.group_bytes = 0;
        self.end_group(control, sink, group)
    }

    /// Sends results that are enough for a reply.
    fn pass_on<A>(&mut self, sink: &mut dyn Sink) -> Result<(), End<A>> {
        if self.results.len() < CHUNK_BYTES {
            return Ok(());
        }
        self.results.reply(&self.direct, self.group, None, sink).map_err(|Gone| End::Gone)
    }

    fn end_group<C: Control<Launch = L>>(
        &mut self,
        control: &mut C,
        sink: &mut dyn Sink,
        group: u64,
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
        self.results.reply(&self.direct, group, Some(&closing), sink).map_err(|Gone| End::Gone)
    }
}

/// A walk over records.
struct Walk<'a, C: Control> {
    replay: &'a mut Replay<C::Launch>,
    control: &'a mut C,
    sink: &'a mut dyn Sink,
}

impl<C: Control> Walk<'_, C> {
    /// Replays records: a message's, or those of iterations of a loop.
    fn records(&mut self, records: &[u8], place: Place) -> Result<(), End<C::Abort>> {
        let looks_ahead = !place.inside && self.control.looks_ahead();
        if looks_ahead {
            self.control.look_ahead(records, 0).map_err(End::Abort)?;
        }
        let mut at = 0;
        while at < records.len() {
            if let Some(length) = self.launch_again(&records[at..])? {
                at += length;
                continue;
            }
            let record = Record::read(records, at, self.replay.version).map_err(End::Broken)?;
            let end = at + record.bytes.len();
            let ends_message = end == records.len() && !place.inside;
            if let Err(error) = self.one(&record, place, at == 0, ends_message)? {
                self.failed(&record, error);
            }
            if looks_ahead && record.row.code == code::REPEAT {
                self.control.look_ahead(records, end).map_err(End::Abort)?;
            }
            at = end;
        }
        Ok(())
    }

    fn one(
        &mut self,
        record: &Record<'_>,
        place: Place,
        first: bool,
        ends_message: bool,
    ) -> Result<Result<(), CudaError>, End<C::Abort>> {
        let row = record.row;
        if let Some(error) = self.replay.errors.refusal(row) {
            return Ok(Err(error));
        }
        if row.code == code::CONTEXT {
            self.enter(record, first && place.begins_group)?;
            return Ok(Ok(()));
        }
        if row.answer == Answer::Data {
            if let Some(error) = self.replay.errors.deliver() {
                return Ok(Err(error));
            }
        }
        if let Some(done) = self.by_itself(record, ends_message)? {
            return Ok(done);
        }
        self.replay.asked = true;
        let outcome = match self.control.operate(record, place.inside).map_err(End::Abort)? {
            Ok(outcome) => outcome,
            Err(error) => return Ok(Err(error)),
        };
        match outcome {
            Outcome::Done => {}
            Outcome::Number(number) => return Ok(self.answer(record, number)),
            Outcome::Reading(total, pieces) => return self.read(record, total, pieces),
            Outcome::Launched(launch) => self.replay.launches.remember(record, launch),
            Outcome::Steps(steps) => return self.steps(steps),
        }
        Ok(Ok(()))
    }

    /// CONTEXT: what follows is of another context, or (by its flag) of one that begins again.
    fn enter(&mut self, record: &Record<'_>, first: bool) -> Result<(), End<C::Abort>> {
        const MINTED: std::ops::Range<u32> = 16..1 << 31;
        let context = record.u32(8);
        if context != 0 && !MINTED.contains(&context) {
            return Err(End::Broken(format!("context {context} is outside the range that a guest may mint")));
        }
        if !first {
            return Err(End::Broken("a CONTEXT that is not the first record of its group".into()));
        }
        self.replay.errors.enter(context, record.flags != 0).map_err(End::Broken)?;
        if self.replay.errors.is_lost() {
            self.replay.launches.clear(); // they would not be stopped
        }
        Ok(())
    }

    /// The result of a record, which tells a deferred error if there is one.
    fn answer(&mut self, record: &Record<'_>, number: u64) -> Result<(), CudaError> {
        const NOT_READY: u64 = 600;
        let slot = record.slot().unwrap_or_default();
        if record.row.answer != Answer::Status {
            self.replay.results.value(slot, 0, number);
            return Ok(());
        }
        if record.row.code == code::DEVICE_RESET {
            self.replay.errors.reset();
        }
        if number == 0 || number == NOT_READY {
            if let Some(error) = self.replay.errors.deliver() {
                return Err(error);
            }
        }
        self.replay.results.status(slot, u32::try_from(number).unwrap_or(u32::MAX).cast_signed());
        Ok(())
    }

    /// DATA for a READ, from the control plane's pieces.
    fn read(
        &mut self,
        record: &Record<'_>,
        total: u64,
        mut pieces: C::Pieces,
    ) -> Result<Result<(), CudaError>, End<C::Abort>> {
        let slot = record.slot().unwrap_or_default();
        let mut offset = 0;
        loop {
            let results = &mut self.replay.results;
            let begun = results.begin_data();
            let size = match self.control.piece(&mut pieces, results.buffer()).map_err(End::Abort)? {
                Ok(Some(size)) => size as u64,
                Ok(None) => {
                    results.drop_data(begun);
                    break;
                }
                Err(error) => {
                    results.drop_data(begun);
                    return Ok(Err(error));
                }
            };
            if size > results::DATA_LIMIT as u64 || offset + size > total {
                results.drop_data(begun);
                return Ok(Err(CudaError::ours(format!("the device yielded {size} bytes at {offset} of {total}"))));
            }
            results.end_data(begun, slot, offset);
            offset += size;
            self.replay.pass_on(self.sink)?;
        }
        Ok(if offset == total {
            Ok(())
        } else {
            Err(CudaError::ours(format!("the device yielded {offset} bytes of {total}")))
        })
    }

    /// What a loop or a condition stands for.
    fn steps(&mut self, mut steps: C::Steps) -> Result<Result<(), CudaError>, End<C::Abort>> {
        let place = Place { inside: true, begins_group: false };
        loop {
            match self.control.step(&mut steps).map_err(End::Abort)? {
                Ok(Step::Records(records)) => self.records(&records, place)?,
                Ok(Step::Results(records)) => self.replay.results.buffer().extend_from_slice(&records),
                Ok(Step::Failed(bytes, error)) => {
                    let record = Record::read(&bytes, 0, self.replay.version).map_err(End::Broken)?;
                    self.failed(&record, error);
                }
                Ok(Step::Over) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
            self.replay.asked = true;
            self.replay.pass_on(self.sink)?;
        }
    }

    /// A record has failed: its result says so, or the error is kept for later.
    fn failed(&mut self, record: &Record<'_>, error: CudaError) {
        let row = record.row;
        let CudaError { code, ref message, sticky } = error;
        let told = CudaError { code, message: format!("{}: {message}", row.name), sticky };
        if sticky && self.replay.errors.lose(&told) {
            self.replay.launches.clear();
            self.control.note(row.name, &error, true);
        }
        let Some(slot) = record.slot() else {
            if self.replay.errors.defer(told) {
                self.control.note(row.name, &error, false);
            }
            return;
        };
        self.replay.errors.drop_sticky_deferred(); // delivered here
        let results = &mut self.replay.results;
        match row.answer {
            Answer::Data => results.no_data(slot, code),
            Answer::Value => results.value(slot, code, 0),
            Answer::Status | Answer::None => results.status(slot, code),
        }
    }
}
