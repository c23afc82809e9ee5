//! Held work: what streams were given behind a wait for a word that only later work, or the program itself, will set.
//!
//! The host does a session's records in the order of the calls, so a wait that does not hold yet stays in the guest,
//! and with it whatever comes behind it: later work of its stream, work that waits for an event recorded there, and by
//! the rules of the legacy stream the work of other streams. All of it is one list in the order of the calls;
//! `advancing` goes through it and does what nothing before it holds back. Each entry is an executable graph of one
//! node (or the graph that was launched), so that it is done as launches of graphs are: pinned memory is read and
//! written when the work is done, host functions run then.
//!
//! Words are looked at when something asks: whatever waits for held work (`complete`), asks about it or synchronizes
//! anything, and a write by `cuStreamWriteValue`. A program that looks at memory alone, without a call, sees no
//! progress.
//!
//! With the test option `late` (`testing`) all work of streams is held, whatever is before it, and done when something
//! waits for it: then only what CUDA puts in front of that is done with it (`needed`). A full list is done as a whole,
//! as a driver's queues are finite.
//!
//! Locking: `QUEUE` for moments; `ADVANCING` while entries are done, so that one thread does them; a host function may
//! take what time it likes.
//! Source: CUDA driver API, "Stream Memory Operations"; CUDA runtime API, "Stream synchronization behavior".

mod advancing;

pub use advancing::advance;

use crate::event::Event;
use crate::graph::{Exec, Position, Work};
use crate::testing;
use advancing::{advance_to, wait_for};
use session::call::{Error, Outcome};
use session::contexts;
use session::work::order::{Kind, Stream};
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What is to be done when nothing holds it back any more.
enum Task {
    /// A launch, from the position on.
    Launch(Box<Exec>, Position),
    Call(Call),
    /// A thread is doing it.
    UnderWay,
}

/// A function of ours with what it needs of the program's.
struct Call(Box<dyn FnOnce() -> Outcome>);

// SAFETY: what it holds of the program are pointers that CUDA, too, hands back on another thread.
unsafe impl Send for Call {}

struct Entry {
    stream: Arc<Stream>,
    /// The context that the call was made in.
    context: u32,
    /// Events that it records.
    records: Vec<Arc<Event>>,
    /// The numbers of events that it waits for.
    waits: Vec<u32>,
    task: Task,
}

/// What is waited for.
#[derive(Clone, Copy)]
enum Goal<'a> {
    /// That the stream can be given work which is not held.
    Stream(&'a Stream),
    /// The work that the stream was given.
    WorkOf(&'a Stream),
    Event(&'a Event),
    Context(u32),
}

impl Goal<'_> {
    fn is(self, entry: &Entry) -> bool {
        match self {
            Self::WorkOf(stream) if testing::late() => entry.stream.number == stream.number,
            Self::Stream(stream) | Self::WorkOf(stream) => ordered(&entry.stream, stream),
            Self::Event(event) => entry.records.iter().any(|other| other.number == event.number),
            Self::Context(context) => entry.context == context,
        }
    }
}

/// Not 0 where streams run late, even without work.
static HELD: AtomicUsize = AtomicUsize::new(0);
/// Late streams hold at most so much work.
const LATE_AT_MOST: usize = 1024;
static QUEUE: Mutex<VecDeque<Entry>> = Mutex::new(VecDeque::new());
static ADVANCING: Mutex<()> = Mutex::new(());

thread_local! {
    /// The place of the entry that this thread is doing: only what is before it holds it back.
    static DOING: Cell<Option<usize>> = const { Cell::new(None) };
}

fn queue() -> MutexGuard<'static, VecDeque<Entry>> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn doing() -> Option<usize> {
    DOING.get()
}

/// From now on streams run late.
pub fn run_late() {
    HELD.fetch_add(1, Relaxed);
}

fn note(queue: &VecDeque<Entry>) {
    HELD.store(queue.len() + usize::from(testing::late()), Relaxed);
}

/// How much is held.
pub fn count() -> usize {
    queue().len()
}

/// Whether work is held, and this is no part of it.
pub fn holds_work() -> bool {
    any() && doing().is_none() && count() != 0
}

/// Whether any work is, or has to be, held.
#[inline(always)]
pub fn any() -> bool {
    HELD.load(Relaxed) != 0
}

/// Whether work of one stream waits for earlier work of the other.
fn ordered(one: &Stream, other: &Stream) -> bool {
    one.number == other.number
        || matches!((one.kind, other.kind), (Kind::Legacy, Kind::Blocking) | (Kind::Blocking, Kind::Legacy))
}

/// Whether work that the stream is given now has to wait for held work.
#[inline(always)]
pub fn blocks(stream: &Stream) -> bool {
    any() && blocks_now(stream)
}

#[cold]
fn blocks_now(stream: &Stream) -> bool {
    doing().is_none() && (testing::late() || holds(Goal::Stream(stream)))
}

fn holds(goal: Goal<'_>) -> bool {
    queue().iter().any(|entry| goal.is(entry))
}

/// Whether work is held that ends before the stream does.
pub fn is_busy(stream: &Stream) -> bool {
    any() && doing().is_none() && holds(Goal::WorkOf(stream))
}

/// Whether a record of the event, made before what this thread does, is held.
pub fn holds_record(event: &Event) -> bool {
    if !any() {
        return false;
    }
    let before = doing().unwrap_or(usize::MAX);
    queue().iter().take(before).any(|entry| entry.records.iter().any(|other| other.number == event.number))
}

/// Work for a stream that `blocks`, or that has to wait for an event whose record is held.
pub fn add(stream: &Arc<Stream>, work: Work) {
    add_launch(stream, Exec::of(work), Position::default());
}

/// The launch of a graph, whose parts up to the position are done.
pub fn add_launch(stream: &Arc<Stream>, exec: Exec, position: Position) {
    let (records, waits) = (exec.recorded(), exec.waited());
    push(stream, records, waits, Task::Launch(Box::new(exec), position));
}

/// Whatever else is done in the order of the stream.
pub fn add_call(stream: &Arc<Stream>, call: impl FnOnce() -> Outcome + 'static) {
    push(stream, Vec::new(), Vec::new(), Task::Call(Call(Box::new(call))));
}

fn push(stream: &Arc<Stream>, records: Vec<Arc<Event>>, waits: Vec<u32>, task: Task) {
    let entry = Entry { stream: stream.clone(), context: contexts::acting(), records, waits, task };
    let mut queue = queue();
    queue.push_back(entry);
    note(&queue);
    let full = testing::late() && queue.len() >= LATE_AT_MOST;
    drop(queue);
    if full {
        // What waits for it reports what fails.
        let _ = advance_to(None);
    }
}

/// Ends an event when its held records are done; false where there are none.
pub fn destroy_behind(event: &Arc<Event>, destroy: impl FnOnce() -> Outcome + 'static) -> bool {
    let mentions = |entry: &Entry| match &entry.task {
        Task::Launch(exec, _) => exec.mentions(event),
        Task::Call(_) | Task::UnderWay => entry.records.iter().any(|other| other.number == event.number),
    };
    let last =
        if any() { queue().iter().rfind(|entry| mentions(entry)).map(|entry| entry.stream.clone()) } else { None };
    last.inspect(|stream| add_call(stream, destroy)).is_some()
}

/// Waits until no held work is in the way of what the stream is given now.
pub fn complete(stream: &Stream) -> Outcome {
    wait_for(Goal::Stream(stream))
}

/// Waits until none of the work is held that the stream was given.
pub fn complete_work(stream: &Stream) -> Outcome {
    wait_for(Goal::WorkOf(stream))
}

/// Waits until none of the current context is held.
pub fn complete_all() -> Outcome {
    wait_for(Goal::Context(contexts::acting()))
}

/// Waits until no record of the event is held.
pub fn complete_event(event: &Event) -> Outcome {
    wait_for(Goal::Event(event))
}

/// The program asks whether the stream's work is done: cudaErrorNotReady while some is held.
pub fn ask(stream: &Stream) -> Outcome {
    answer(Goal::WorkOf(stream), stream.number)
}

/// As `ask`, for the event's record.
pub fn ask_event(event: &Event) -> Outcome {
    answer(Goal::Event(event), event.number)
}

/// Late work makes progress from one question to the next: the second one finds it done.
fn answer(goal: Goal<'_>, number: u32) -> Outcome {
    static ASKED: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    advance()?;
    if !any() || !holds(goal) {
        return Ok(());
    }
    if testing::late() && !testing::is_patient() {
        let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(place) = asked.iter().position(|other| *other == number) else {
            asked.push(number);
            return Err(Error::NOT_READY);
        };
        asked.swap_remove(place);
        drop(asked);
        return wait_for(goal);
    }
    Err(Error::NOT_READY)
}

/// A context ends, or all do: what it holds will not be done.
pub fn forget(context: Option<u32>) {
    if !any() || doing().is_some() {
        return;
    }
    let _advancing = ADVANCING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut queue = queue();
    queue.retain(|entry| context.is_some_and(|context| entry.context != context));
    note(&queue);
}
