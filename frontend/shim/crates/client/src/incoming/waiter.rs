//! One awaited result: a thread waits, the thread that reads replies fills it: often the same
//! one (`reading`).
//!
//! The filler writes DATA straight into the waiting thread's destination, checked against what that thread asked for.
//! It does so only before `complete`, and the waiting thread leaves only after it, so the destination outlives every
//! write.
//! Locking: the state's lock is a leaf, nothing else is locked under it. A waiting thread sleeps at once: it has spun
//! before, where that is reasonable (`reading`). It sleeps by the standard library's condition, which keeps no list of
//! those that sleep: a signal's handler may leave it by longjmp.

use crate::incoming::destination::Destination;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use tape::ResultRecord;

/// The host's answer to one awaited operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The `cudaError_t` of the operation (0: success).
    pub error: i32,
    /// The VALUE; 0 for operations that answer with a status.
    pub value: u64,
}

#[derive(Debug)]
pub(crate) struct Waiter {
    state: Mutex<State>,
    /// Whether `State::end` is there.
    over: AtomicBool,
    /// A thread sleeps, or did: written under the state's lock.
    sleeps: AtomicBool,
    wake: Condvar,
}

#[derive(Debug)]
struct State {
    target: Target,
    outcome: Option<Answer>,
    end: Option<End>,
    /// Counts the waiting thread as long as nothing has ended this.
    relying: Option<Arc<AtomicUsize>>,
}

impl State {
    /// Whether there is something to take: an end, or a piece of a stream.
    fn has_come(&self) -> bool {
        self.end.is_some() || matches!(&self.target, Target::Stream(pieces) if !pieces.is_empty())
    }

    /// The waiting thread has what it relied on others for.
    fn leave(&mut self) {
        if let Some(count) = self.relying.take() {
            count.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Why nothing more comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Complete,
    Dead,
}

#[derive(Debug)]
enum Target {
    /// STATUS or VALUE.
    Answer,
    /// So many of them, in order.
    Answers {
        answers: Vec<Answer>,
        wanted: usize,
    },
    Rows {
        destination: Destination,
        total: u64,
        received: u64,
    },
    /// Any number of STATUS and DATA, then a VALUE.
    Stream(VecDeque<Piece>),
}

/// A result, or a part of one, of a stream of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) error: i32,
    /// `None`: a STATUS.
    pub(crate) data: Option<(u64, Vec<u8>)>,
}

/// What comes of a stream of results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    Piece(Piece),
    /// Nothing more: the VALUE.
    Over(Answer),
    /// Not yet.
    Later,
    /// The session ended first.
    Dead,
}

// SAFETY: the destination's pointer is used by the thread that reads only, while the thread that handed it in waits
// (see the module's comment); the contract of `Session::read` makes its rows writable for that time.
unsafe impl Send for State {}

/// Why a result does not belong to what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unexpected(pub(crate) &'static str);

impl Waiter {
    pub(crate) fn for_answer() -> Self {
        Self::new(Target::Answer, None)
    }

    /// At least one.
    pub(crate) fn for_answers(wanted: usize) -> Self {
        Self::new(Target::Answers { answers: Vec::with_capacity(wanted), wanted }, None)
    }

    /// What has come, of a read of one row.
    ///
    /// # Safety
    /// The destination may still be read.
    pub(crate) unsafe fn copied(&self) -> Vec<u8> {
        match &self.lock().target {
            Target::Rows { destination, total, .. } if destination.height == 1 => {
                // SAFETY: the caller's promise; the row has so many bytes.
                unsafe { std::slice::from_raw_parts(destination.ptr, *total as usize) }.to_vec()
            }
            _ => Vec::new(),
        }
    }

    /// A stream of results, which `next` takes.
    pub(crate) fn for_stream() -> Self {
        Self::new(Target::Stream(VecDeque::new()), None)
    }

    /// What comes next of a stream of results.
    pub(crate) fn next(&self) -> Next {
        let mut state = self.lock();
        let State { target: Target::Stream(pieces), end, outcome, .. } = &mut *state else { return Next::Dead };
        match (pieces.pop_front(), end) {
            (Some(piece), _) => Next::Piece(piece),
            (None, Some(End::Complete)) => outcome.map_or(Next::Dead, Next::Over),
            (None, Some(End::Dead)) => Next::Dead,
            (None, None) => Next::Later,
        }
    }

    /// Whether `next` has something to give.
    pub(crate) fn has_come(&self) -> bool {
        self.lock().has_come()
    }

    /// Waits until `next` has something to give.
    pub(crate) fn wait_for_next(&self) {
        let mut state = self.lock();
        while !state.has_come() {
            state = self.sleep(state);
        }
    }

    /// The answers that have come.
    pub(crate) fn take_answers(&self) -> Vec<Answer> {
        match &mut self.lock().target {
            Target::Answers { answers, .. } => std::mem::take(answers),
            _ => Vec::new(),
        }
    }

    /// None when the destination's size overflows: no memory has such a size.
    pub(crate) fn for_rows(destination: Destination) -> Option<Self> {
        let total = (destination.width as u64).checked_mul(destination.height as u64)?;
        if destination.height > 1 {
            if destination.pitch < destination.width {
                return None;
            }
            destination.pitch.checked_mul(destination.height)?;
        }
        // Nothing to read: the host may well answer without a record.
        let outcome = (total == 0).then_some(Answer { error: 0, value: 0 });
        Some(Self::new(Target::Rows { destination, total, received: 0 }, outcome))
    }

    fn new(target: Target, outcome: Option<Answer>) -> Self {
        let state = State { target, outcome, end: None, relying: None };
        let (over, sleeps) = (AtomicBool::new(false), AtomicBool::new(false));
        Self { state: Mutex::new(state), over, sleeps, wake: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, state: &mut State, end: End) {
        state.end = Some(end);
        state.leave();
        self.over.store(true, Ordering::Release);
    }

    fn sleep<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.sleeps.store(true, Ordering::Relaxed);
        self.wake.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Who reads replies: the result is there; the next one of a run goes `step` bytes further on. False: it is not.
    pub(crate) fn advance(&self, step: isize) -> bool {
        let mut state = self.lock();
        let State { target, outcome, .. } = &mut *state;
        if let Target::Answers { .. } = target {
            return outcome.is_none();
        }
        let (Some(_), Target::Rows { destination, total, received }) = (*outcome, target) else { return false };
        destination.ptr = destination.ptr.wrapping_offset(step);
        *received = 0;
        *outcome = (*total == 0).then_some(Answer { error: 0, value: 0 });
        true
    }

    /// Who reads replies: one result record for this slot.
    pub(crate) fn fill(&self, record: &ResultRecord<'_>) -> Result<(), Unexpected> {
        let mut state = self.lock();
        let State { target, outcome, .. } = &mut *state;
        match (target, *record) {
            (Target::Stream(pieces), ResultRecord::Status { .. } | ResultRecord::Data { .. }) if outcome.is_none() => {
                let data = if let ResultRecord::Data { offset, data, .. } = *record {
                    Some((offset, data.to_vec()))
                } else {
                    None
                };
                pieces.push_back(Piece { error: record.error(), data });
                state.leave();
                self.wake();
            }
            (Target::Stream(_), ResultRecord::Value { error, value, .. }) if outcome.is_none() => {
                *outcome = Some(Answer { error, value });
            }
            (Target::Stream(_), _) => return Err(Unexpected("a result behind the last one")),
            (Target::Answer, ResultRecord::Status { error, .. }) if outcome.is_none() => {
                *outcome = Some(Answer { error, value: 0 });
            }
            (Target::Answer, ResultRecord::Value { error, value, .. }) if outcome.is_none() => {
                *outcome = Some(Answer { error, value });
            }
            (Target::Answers { answers, wanted }, ResultRecord::Status { .. } | ResultRecord::Value { .. })
                if outcome.is_none() =>
            {
                let value = if let ResultRecord::Value { value, .. } = *record { value } else { 0 };
                answers.push(Answer { error: record.error(), value });
                *outcome = (answers.len() == *wanted).then_some(Answer { error: 0, value: 0 });
            }
            (Target::Answer | Target::Answers { .. }, ResultRecord::Data { .. }) => {
                return Err(Unexpected("data where a status was awaited"));
            }
            (Target::Rows { total, .. }, ResultRecord::Data { error, data, .. })
                if *total == 0 && data.is_empty() && *outcome == Some(Answer { error: 0, value: 0 }) =>
            {
                *outcome = Some(Answer { error, value: 0 });
            }
            (Target::Rows { destination, total, received }, ResultRecord::Data { error, offset, data, .. })
                if outcome.is_none() =>
            {
                if error != 0 {
                    *outcome = Some(Answer { error, value: 0 });
                    return Ok(());
                }
                if offset != *received {
                    return Err(Unexpected("data out of order"));
                }
                if data.len() as u64 > *total - *received {
                    return Err(Unexpected("more data than was asked for"));
                }
                // SAFETY: [received, received + data.len()) lies inside the packed rows, as just checked.
                unsafe { destination.store(*received, data) };
                *received += data.len() as u64;
                if *received == *total {
                    *outcome = Some(Answer { error: 0, value: 0 });
                }
            }
            (Target::Rows { .. }, ResultRecord::Data { .. }) => {
                return Err(Unexpected("data after the end"));
            }
            (Target::Rows { .. }, _) => return Err(Unexpected("no data where data was awaited")),
            (Target::Answer | Target::Answers { .. }, _) => return Err(Unexpected("a second answer")),
        }
        Ok(())
    }

    /// As `fill`, for so many bytes of data that `read` writes to where they belong. `None`: they do not come next, or
    /// do not lie in one row; `fill` says what is wrong with them. The lock is held meanwhile: who abandons the waiter
    /// must have interrupted `read`.
    pub(crate) fn fill_directly<E>(
        &self,
        offset: u64,
        length: u64,
        read: impl FnOnce(*mut u8) -> Result<(), E>,
    ) -> Option<Result<(), E>> {
        let mut state = self.lock();
        let State { target, outcome, end, .. } = &mut *state;
        let Target::Rows { destination, total, received } = target else { return None };
        let fits = offset == *received && length <= *total - *received;
        if outcome.is_some() || end.is_some() || destination.height != 1 || !fits {
            return None;
        }
        #[allow(clippy::cast_possible_truncation)] // at most the width, which fits the address space
        let read = read(destination.ptr.wrapping_add(offset as usize));
        if read.is_ok() {
            *received += length;
            if *received == *total {
                *outcome = Some(Answer { error: 0, value: 0 });
            }
        }
        Some(read)
    }

    /// Who reads replies: nothing more comes, and the waiting thread is to be woken (`wake`). False when the result is not complete.
    pub(crate) fn complete(&self) -> bool {
        let mut state = self.lock();
        if state.outcome.is_none() {
            return false;
        }
        self.end(&mut state, End::Complete);
        true
    }

    /// Ends the wait for what has ended.
    pub(crate) fn wake(&self) {
        if self.sleeps.load(Ordering::Relaxed) {
            self.wake.notify_one();
        }
    }

    /// No result will come.
    pub(crate) fn abandon(&self) {
        self.end(&mut self.lock(), End::Dead);
        self.wake();
    }

    /// The thread that will wait is counted until there is nothing more to wait for. False: there is nothing.
    pub(crate) fn rely(&self, count: &Arc<AtomicUsize>) -> bool {
        let mut state = self.lock();
        if state.has_come() {
            return false;
        }
        count.fetch_add(1, Ordering::SeqCst);
        state.relying = Some(count.clone());
        true
    }

    /// Whether `wait` would not wait.
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Acquire)
    }

    /// Waits for the outcome; None when the transport died first.
    pub(crate) fn wait(&self) -> Option<Answer> {
        let mut state = self.lock();
        loop {
            match state.end {
                Some(End::Complete) => return state.outcome,
                Some(End::Dead) => return None,
                None => state = self.sleep(state),
            }
        }
    }
}

#[cfg(test)]
mod tests;
