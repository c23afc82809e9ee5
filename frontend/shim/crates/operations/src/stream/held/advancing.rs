//! How held work is done: what a goal needs of the queue, in its order, and the wait for words that others set.

use super::{any, doing, holds, note, ordered, queue, Entry, Goal, Task, ADVANCING, DOING};
use crate::testing;
use session::call::{Error, Outcome};
use session::work::order::{Kind, Stream};
use session::{contexts, log};
use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks at words that do not hold, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LAST_PAUSE: Duration = Duration::from_millis(5);
/// After so long a message says what the program waits for.
const LONG: Duration = Duration::from_secs(10);

/// The work of the entry at that place, if nothing before holds it back.
fn take(queue: &mut VecDeque<Entry>, at: usize) -> Option<(Arc<Stream>, u32, Task)> {
    let stream = queue[at].stream.clone();
    if queue.iter().take(at).any(|before| ordered(&before.stream, &stream)) {
        return None;
    }
    let entry = &mut queue[at];
    Some((stream, entry.context, std::mem::replace(&mut entry.task, Task::UnderWay)))
}

/// Does what is held back no longer. What fails fails behind its call: the first error is the result.
pub fn advance() -> Outcome {
    if !any() || testing::late() {
        return Ok(());
    }
    advance_to(None)
}

/// What has to be done for the goal: everything, unless streams run late. One entry for each of the queue's.
fn needed(queue: &VecDeque<Entry>, goal: Option<Goal<'_>>) -> Vec<bool> {
    let Some(goal) = goal.filter(|_| testing::late()) else { return vec![true; queue.len()] };
    let (mut streams, mut events) = (HashSet::new(), HashSet::<u32>::new());
    let (mut legacy, mut blocking) = (false, false);
    let mut wanted = vec![false; queue.len()];
    for (entry, wanted) in queue.iter().zip(&mut wanted).rev() {
        *wanted = goal.is(entry)
            || streams.contains(&entry.stream.number)
            || entry.records.iter().any(|event| events.contains(&event.number))
            || legacy && entry.stream.kind == Kind::Legacy
            || blocking && entry.stream.kind == Kind::Blocking;
        if *wanted {
            streams.insert(entry.stream.number);
            events.extend(&entry.waits);
            legacy |= entry.stream.kind == Kind::Blocking;
            blocking |= entry.stream.kind == Kind::Legacy;
        }
    }
    wanted
}

/// Does what the goal needs of what is held back no longer.
pub(super) fn advance_to(goal: Option<Goal<'_>>) -> Outcome {
    if doing().is_some() {
        return Ok(());
    }
    let _advancing = ADVANCING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut first_error = Ok(());
    let mut at = 0;
    let wanted = needed(&queue(), goal);
    // What is added meanwhile is behind these.
    for wanted in wanted {
        let taken = {
            let mut queue = queue();
            if at >= queue.len() {
                break;
            }
            if wanted {
                take(&mut queue, at)
            } else {
                None
            }
        };
        let Some((stream, context, task)) = taken else {
            at += 1;
            continue;
        };
        let (left, done) = perform(&stream, context, task, at);
        first_error = first_error.and(done);
        let mut queue = queue();
        match left {
            Some(task) => {
                queue[at].task = task;
                at += 1;
            }
            None => drop(queue.remove(at)),
        }
        note(&queue);
    }
    first_error
}

/// What is left of the entry at that place.
fn perform(stream: &Arc<Stream>, context: u32, task: Task, at: usize) -> (Option<Task>, Outcome) {
    let _acting = contexts::act_for(context);
    DOING.set(Some(at));
    let result = match task {
        // SAFETY: the program's promise when it made the call: the memory is there until the stream is synchronized.
        Task::Launch(mut exec, position) => match unsafe { exec.launch_from(stream, position) } {
            Ok(Some(position)) => (Some(Task::Launch(exec, position)), Ok(())),
            Ok(None) => (None, Ok(())),
            Err(error) => (None, Err(error)),
        },
        Task::Call(call) => (None, (call.0)()),
        Task::UnderWay => (None, Err(Error::UNKNOWN)),
    };
    DOING.set(None);
    result
}

/// Waits until nothing that the goal needs is held.
pub(super) fn wait_for(goal: Goal<'_>) -> Outcome {
    if !any() || doing().is_some() {
        return Ok(());
    }
    let (start, mut pause, mut reported) = (Instant::now(), FIRST_PAUSE, false);
    loop {
        advance_to(Some(goal))?;
        if testing::late() && holds(goal) {
            advance_to(None)?; // it waits for a word, which other work may set
        }
        if !holds(goal) {
            return Ok(());
        }
        if !reported && start.elapsed() > LONG {
            reported = true;
            tell_words();
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

#[cold]
fn tell_words() {
    for entry in queue().iter() {
        if let Task::Launch(exec, position) = &entry.task {
            if let Some(address) = exec.awaited(*position) {
                log::error(format_args!(
                    "a stream has waited {} s for the word at {address:#x} (cuStreamWaitValue)",
                    LONG.as_secs()
                ));
            }
        }
    }
}
