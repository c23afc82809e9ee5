//! What the replay asks the control plane for, and what that answers.

use super::errors::CudaError;
use super::loops::columns::Columns;
use super::loops::plans::Plan;
use super::loops::template::Template;
use crate::device::launch::Entry;
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
    /// The guest is gone, which was seen in the middle of a loop.
    Interrupted,
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
    /// A CONDITIONAL, which chooses templates.
    Condition(C::Condition),
}

/// How far a device has got with a loop.
#[derive(Debug)]
pub struct Stop {
    /// Done completely.
    pub iterations: u64,
    /// The step of the next iteration at which it stopped; those before it are done.
    pub step: Option<usize>,
    /// What that step has failed with; else it is to be done here.
    pub error: Option<CudaError>,
    /// The device is worth asking for more.
    pub again: bool,
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
    /// A CONDITIONAL that was resolved.
    type Condition;
    /// A template as the device can repeat it.
    type Plan;

    /// Replays a record.
    ///
    /// # Errors
    /// What ends the session.
    fn operate(&mut self, record: &Record<'_>) -> Attempt<Outcome<Self>, Self::Abort>;

    /// Adds the next piece of a READ to `out`; `None`: there are no more.
    ///
    /// # Errors
    /// What ends the session.
    fn piece(&mut self, pieces: &mut Self::Pieces, out: &mut Vec<u8>) -> Attempt<Option<usize>, Self::Abort>;

    /// Launches again, with the parameters `record[start..end]`. What may be launched without the control plane from
    /// now on has an entry.
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

    /// How the device can repeat a template, with these values (hole, value) in some holes of every iteration. `None`:
    /// it cannot.
    ///
    /// # Errors
    /// What ends the session.
    fn plan(
        &mut self,
        template: &Arc<Template>,
        constants: &[(usize, u64)],
    ) -> Result<Option<Plan<Self::Plan>>, Self::Abort>;

    /// Has the device do some of the next `left` iterations, from `first` on, and adds their results. `fresh`: a REPEAT
    /// begins. `None`: the device does not do this, as things are.
    ///
    /// # Errors
    /// What ends the session.
    fn repeat(
        &mut self,
        plan: &Self::Plan,
        columns: &Arc<Columns>,
        first: u64,
        left: u64,
        fresh: bool,
        results: &mut Vec<u8>,
    ) -> Attempt<Option<Stop>, Self::Abort>;

    /// The template that a CONDITIONAL chooses now; `None`: there is nothing to do.
    ///
    /// # Errors
    /// What ends the session.
    fn choose(&mut self, condition: &Self::Condition) -> Attempt<Option<u32>, Self::Abort>;

    /// The parameters of launches that come next, for devices that want to know (`looks_ahead`).
    ///
    /// # Errors
    /// What ends the session.
    fn expect(&mut self, launches: &[Vec<u8>]) -> Result<(), Self::Abort>;

    /// Whether `expect` is of use.
    fn looks_ahead(&self) -> bool;

    /// What is to be said at the end of a group.
    ///
    /// # Errors
    /// What ends the session.
    fn end_group(&mut self) -> Result<GroupEnd, Self::Abort>;

    /// An operation has failed. Its error is sticky (lost), or deferred: a later result reports it.
    fn note(&mut self, operation: &str, error: &CudaError, lost: bool);
}
