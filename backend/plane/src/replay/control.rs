//! What the replay asks the control plane for, and what that answers.

use super::errors::CudaError;
use crate::device::launch::Entry;
use crate::device::objects::{Moment, Stream};
use crate::device::work::Fault;
use std::sync::Arc;
use tape::Record;

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

    /// The device's driver has failed: the error that this is.
    ///
    /// # Errors
    /// What ends the session.
    fn fault(&mut self, fault: Fault) -> Result<CudaError, Self::Abort>;

    /// The entry's kernel has run for so long.
    ///
    /// # Errors
    /// What ends the session.
    fn account(&mut self, entry: &Entry, nanoseconds: u64) -> Result<(), Self::Abort>;

    /// The stream with that number.
    ///
    /// # Errors
    /// What ends the session.
    fn stream(&mut self, number: u32) -> Attempt<Arc<Stream>, Self::Abort>;

    /// The event with that number.
    ///
    /// # Errors
    /// What ends the session.
    fn event(&mut self, number: u32) -> Attempt<Arc<Moment>, Self::Abort>;

    /// The next step of a loop.
    ///
    /// # Errors
    /// What ends the session.
    fn step(&mut self, steps: &mut Self::Steps) -> Attempt<Step, Self::Abort>;

    /// Records that come next, up to a loop, for devices that want to know (`looks_ahead`).
    ///
    /// # Errors
    /// What ends the session.
    fn look_ahead(&mut self, records: &[u8]) -> Result<(), Self::Abort>;

    /// Whether `look_ahead` is of use.
    fn looks_ahead(&self) -> bool;

    /// What is to be said at the end of a group.
    ///
    /// # Errors
    /// What ends the session.
    fn end_group(&mut self) -> Result<GroupEnd, Self::Abort>;

    /// An operation has failed. Its error is sticky (lost), or deferred: a later result reports it.
    fn note(&mut self, operation: &str, error: &CudaError, lost: bool);
}
