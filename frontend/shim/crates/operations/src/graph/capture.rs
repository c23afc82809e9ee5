//! Stream capture: calls that become nodes instead of work.
//!
//! Owns which streams are being captured into which graph, and what the next node of each waits for. Every call that
//! gives work to a stream looks at `Stream::capture` (one load) and comes here when it is not 0. Streams join a capture
//! by waiting for an event that was recorded in it. What CUDA forbids meanwhile is refused as CUDA does, and ends the
//! capture's usefulness: it is *invalidated*.
//!
//! Locking: one mutex; `state`'s is taken while it is held.
//! Source: CUDA programming guide, "Creating a Graph Using Stream Capture"; CUDA runtime API,
//! cudaThreadExchangeStreamCaptureMode.

use super::allocations::memory_for;
use super::node::Work;
use super::state::{graph_handle, node_handle, state, Id, State};
use crate::types::{
    GraphEdgeData, GraphHandle, GraphNodeHandle, StreamCaptureMode, STREAM_CAPTURE_MODE_GLOBAL,
    STREAM_CAPTURE_MODE_RELAXED, STREAM_CAPTURE_MODE_THREAD_LOCAL,
};
use session::call::{Error, Outcome};
use session::function::Operation;
use session::work::order::{Kind, Stream};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

thread_local! {
    static MODE: Cell<StreamCaptureMode> = const { Cell::new(STREAM_CAPTURE_MODE_GLOBAL) };
}

/// One stream's part in a capture.
#[derive(Debug)]
struct Member {
    stream: Arc<Stream>,
    /// What its next node waits for.
    tips: Vec<Id>,
    /// What the program said of the edges from some of them.
    edges: BTreeMap<Id, GraphEdgeData>,
}

impl Member {
    fn new(stream: &Arc<Stream>, tips: Vec<Id>, edges: BTreeMap<Id, GraphEdgeData>) -> Self {
        Self { stream: stream.clone(), tips, edges }
    }

    /// A new node of the graph waits for what the next one was to wait for, and the next one for it.
    fn add(&mut self, state: &mut State, graph: Id, work: Work) -> Outcome<Id> {
        let id = state.add(graph, work, self.tips.clone())?;
        let edges: Vec<(Id, GraphEdgeData)> = self.edges.iter().map(|(from, data)| (*from, *data)).collect();
        state.describe_new(id, &edges)?;
        self.edges.clear();
        self.tips = vec![id];
        Ok(id)
    }
}

/// What the program says of edges from nodes of the graph, where it is not the plain one.
fn said(state: &State, graph: Id, nodes: &[(Id, GraphEdgeData)]) -> Outcome<BTreeMap<Id, GraphEdgeData>> {
    for (node, data) in nodes {
        if state.node(*node)?.graph != graph {
            return Err(Error::INVALID_VALUE);
        }
        state.check_edge(*node, *node, data)?;
    }
    Ok(nodes.iter().filter(|(_, data)| *data != GraphEdgeData::default()).copied().collect())
}

#[derive(Debug)]
struct Capture {
    graph: Id,
    /// The graph is the program's: it was there before.
    given: bool,
    mode: StreamCaptureMode,
    thread: u64,
    /// The stream it began in.
    origin: u32,
    invalid: bool,
    members: BTreeMap<u32, Member>,
    /// The dependencies that were reported to the program: pointers into these were given to it.
    reported: Vec<GraphNodeHandle>,
    edges: Vec<GraphEdgeData>,
}

// SAFETY: the handles in it are opaque numbers.
unsafe impl Send for Capture {}

/// What cudaStreamGetCaptureInfo answers.
#[derive(Debug, Clone, Copy)]
pub struct Info {
    pub id: u32,
    pub invalid: bool,
    pub graph: GraphHandle,
    pub dependencies: *const GraphNodeHandle,
    pub edges: *const GraphEdgeData,
    pub count: usize,
}

static ACTIVE: AtomicUsize = AtomicUsize::new(0);
static NEXT: AtomicU32 = AtomicU32::new(1);
static CAPTURES: Mutex<BTreeMap<u32, Capture>> = Mutex::new(BTreeMap::new());

fn captures() -> MutexGuard<'static, BTreeMap<u32, Capture>> {
    CAPTURES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn thread() -> u64 {
    // SAFETY: it has no preconditions.
    unsafe { libc::pthread_self() }
}

/// Whether any stream of the process is being captured.
#[inline]
pub fn any() -> bool {
    ACTIVE.load(Relaxed) != 0
}

/// Whether the stream is being captured.
#[inline]
pub fn of(stream: &Stream) -> bool {
    stream.capture.load(Relaxed) != 0
}

pub fn exchange_mode(mode: StreamCaptureMode) -> StreamCaptureMode {
    MODE.try_with(|kept| kept.replace(mode)).unwrap_or(STREAM_CAPTURE_MODE_GLOBAL)
}

/// Begins to capture the stream, into a new graph or behind nodes of one.
pub fn begin(stream: &Arc<Stream>, mode: StreamCaptureMode, into: Option<(Id, Vec<(Id, GraphEdgeData)>)>) -> Outcome {
    if stream.kind == Kind::Legacy {
        return Err(Error::STREAM_CAPTURE_UNSUPPORTED);
    }
    if !(STREAM_CAPTURE_MODE_GLOBAL..=STREAM_CAPTURE_MODE_RELAXED).contains(&mode) {
        return Err(Error::INVALID_VALUE);
    }
    let mut captures = captures();
    if of(stream) {
        return Err(Error::ILLEGAL_STATE);
    }
    let given = into.is_some();
    let (graph, tips, said) = match into {
        Some((graph, tips)) => {
            let state = state();
            state.graph(graph)?;
            let said = said(&state, graph, &tips)?;
            (graph, tips.into_iter().map(|(tip, _)| tip).collect(), said)
        }
        None => (state().create(false), Vec::new(), BTreeMap::new()),
    };
    let id = NEXT.fetch_add(1, Relaxed);
    let members = BTreeMap::from([(stream.number, Member::new(stream, tips, said))]);
    let (origin, thread) = (stream.number, thread());
    let (invalid, reported, edges) = Default::default();
    captures.insert(id, Capture { graph, given, mode, thread, origin, invalid, members, reported, edges });
    stream.capture.store(id, Relaxed);
    ACTIVE.fetch_add(1, Relaxed);
    Ok(())
}

/// Ends the capture that began in the stream: its graph. `reported`: the program learns which; of a graph that it has
/// given itself it need not be.
pub fn end(stream: &Stream, reported: bool) -> Outcome<GraphHandle> {
    let mut captures = captures();
    let id = stream.capture.load(Relaxed);
    let capture = captures.get(&id).ok_or(Error::ILLEGAL_STATE)?;
    if capture.origin != stream.number {
        return Err(Error::STREAM_CAPTURE_UNMATCHED);
    }
    let elsewhere = capture.mode != STREAM_CAPTURE_MODE_RELAXED && capture.thread != thread();
    if !elsewhere && !reported && !capture.given {
        return Err(Error::INVALID_VALUE);
    }
    let Some(capture) = captures.remove(&id) else { return Err(Error::ILLEGAL_STATE) };
    ACTIVE.fetch_sub(1, Relaxed);
    for member in capture.members.values() {
        member.stream.capture.store(0, Relaxed);
    }
    let mut state = state();
    let tips = |number: u32| capture.members.get(&number).map_or(&[][..], |member| &member.tips[..]);
    let joined = capture.members.keys().all(|other| state.reach(tips(stream.number), tips(*other)));
    let error = match (capture.invalid, joined) {
        _ if elsewhere => Error::STREAM_CAPTURE_WRONG_THREAD, // which ends the capture, too
        (true, _) => Error::STREAM_CAPTURE_INVALIDATED,
        (false, false) => Error::STREAM_CAPTURE_UNJOINED,
        (false, true) => return Ok(graph_handle(capture.graph)),
    };
    if !capture.given {
        state.destroy(capture.graph)?;
    }
    Err(error)
}

/// The capture that the stream takes part in.
fn valid<'a>(captures: &'a mut BTreeMap<u32, Capture>, stream: &Stream) -> Outcome<&'a mut Capture> {
    let capture = captures.get_mut(&stream.capture.load(Relaxed)).ok_or(Error::ILLEGAL_STATE)?;
    if capture.invalid {
        return Err(Error::STREAM_CAPTURE_INVALIDATED);
    }
    Ok(capture)
}

/// The call is a node of the stream's capture.
pub fn add(stream: &Stream, work: Work) -> Outcome<Id> {
    let mut captures = captures();
    let capture = valid(&mut captures, stream)?;
    let member = capture.members.get_mut(&stream.number).ok_or(Error::ILLEGAL_STATE)?;
    member.add(&mut state(), capture.graph, work)
}

/// Memory that a node of the stream's capture allocates: its address.
pub fn allocate(stream: &Stream, size: usize) -> Outcome<*mut c_void> {
    let mut captures = captures();
    let capture = valid(&mut captures, stream)?;
    let member = capture.members.get_mut(&stream.number).ok_or(Error::ILLEGAL_STATE)?;
    let mut state = state();
    let memory = memory_for(&state, capture.graph, &member.tips, size)?;
    let address = memory.address();
    member.add(&mut state, capture.graph, Work::Allocate { memory, size })?;
    Ok(address)
}

/// What an event that is recorded now stands for: the capture and its nodes.
pub fn tips(stream: &Stream) -> Outcome<(u32, Vec<Id>)> {
    let mut captures = captures();
    let tips = valid(&mut captures, stream)?.members.get(&stream.number).map(|member| member.tips.clone());
    Ok((stream.capture.load(Relaxed), tips.unwrap_or_default()))
}

/// The stream waits for nodes of a capture, and takes part in it from now on.
pub fn join(stream: &Arc<Stream>, id: u32, nodes: &[Id]) -> Outcome {
    let mut captures = captures();
    let of_stream = stream.capture.load(Relaxed);
    if !captures.contains_key(&id) || of_stream != 0 && of_stream != id {
        let error = if of_stream != 0 && captures.contains_key(&id) {
            Error::STREAM_CAPTURE_MERGE
        } else {
            Error::STREAM_CAPTURE_ISOLATION
        };
        for id in [id, of_stream] {
            invalidate(&mut captures, |other, _| other == id);
        }
        return Err(error);
    }
    if stream.kind == Kind::Legacy {
        invalidate(&mut captures, |other, _| other == id);
        return Err(Error::STREAM_CAPTURE_IMPLICIT);
    }
    stream.capture.store(id, Relaxed);
    let capture = valid(&mut captures, stream)?;
    let member = capture.members.entry(stream.number);
    let member = member.or_insert_with(|| Member::new(stream, Vec::new(), BTreeMap::new()));
    member.tips.extend(nodes);
    member.tips.sort_unstable();
    member.tips.dedup();
    Ok(())
}

/// Whether a capture is still under way.
pub fn lives(id: u32) -> bool {
    any() && captures().contains_key(&id)
}

/// Sets what the stream's next node waits for, or adds to it.
pub fn set_tips(stream: &Stream, nodes: &[(Id, GraphEdgeData)], replace: bool) -> Outcome {
    let mut captures = captures();
    let capture = valid(&mut captures, stream)?;
    let state = state();
    let said = said(&state, capture.graph, nodes)?;
    let member = capture.members.get_mut(&stream.number).ok_or(Error::ILLEGAL_STATE)?;
    if replace {
        member.tips.clear();
        member.edges.clear();
    }
    member.tips.extend(nodes.iter().map(|(node, _)| *node));
    member.edges.extend(said);
    member.tips.sort_unstable();
    member.tips.dedup();
    Ok(())
}

pub fn info(stream: &Stream) -> Option<Info> {
    let id = stream.capture.load(Relaxed);
    let mut captures = captures();
    let capture = captures.get_mut(&id)?;
    let member = capture.members.get(&stream.number)?;
    capture.reported = member.tips.iter().map(|tip| node_handle(*tip)).collect();
    capture.edges = member.tips.iter().map(|tip| member.edges.get(tip).copied().unwrap_or_default()).collect();
    Some(Info {
        id,
        invalid: capture.invalid,
        graph: graph_handle(capture.graph),
        dependencies: capture.reported.as_ptr(),
        edges: capture.edges.as_ptr(),
        count: capture.reported.len(),
    })
}

fn invalidate(captures: &mut BTreeMap<u32, Capture>, which: impl Fn(u32, &Capture) -> bool) -> bool {
    let mut found = false;
    for (id, capture) in captures.iter_mut().filter(|(id, capture)| which(**id, capture)) {
        let _ = id;
        capture.invalid = true;
        found = true;
    }
    found
}

/// A call that a captured stream does not allow.
#[cold]
pub fn refuse(stream: &Stream) -> Error {
    let id = stream.capture.load(Relaxed);
    invalidate(&mut captures(), |other, _| other == id);
    Error::STREAM_CAPTURE_UNSUPPORTED
}

/// Work for the legacy stream: it would wait for the blocking streams, captured ones included.
#[cold]
pub fn implicit() -> Outcome {
    let blocking = |capture: &Capture| {
        let origin = capture.members.get(&capture.origin);
        origin.is_some_and(|member| member.stream.kind == Kind::Blocking)
    };
    if invalidate(&mut captures(), |_, capture| blocking(capture)) {
        return Err(Error::STREAM_CAPTURE_IMPLICIT);
    }
    Ok(())
}

/// Whether a call may be made while captures are under way, which it is.
#[cold]
pub fn admit(operation: Operation) -> Outcome {
    let everywhere = matches!(operation, Operation::DeviceSynchronize | Operation::DeviceReset);
    let with_care = matches!(
        operation,
        Operation::Malloc
            | Operation::MallocPitch
            | Operation::Malloc3D
            | Operation::MallocManaged
            | Operation::MallocArray
            | Operation::Malloc3DArray
            | Operation::MallocMipmappedArray
            | Operation::MemPoolCreate
            | Operation::MemPoolTrimTo
            | Operation::StreamSynchronize
            | Operation::StreamQuery
            | Operation::Free
            | Operation::MallocHost
            | Operation::HostAlloc
            | Operation::FreeHost
            | Operation::HostRegister
            | Operation::HostUnregister
            | Operation::GraphInstantiate
            | Operation::GraphInstantiateWithFlags
            | Operation::GraphInstantiateWithParams
            | Operation::DeviceSetLimit
            | Operation::ProfilerStart
            | Operation::ProfilerStop
    );
    if everywhere || with_care {
        allow(everywhere)?;
    }
    Ok(())
}

/// Whether the modes let the thread make a call that captures under way may forbid; `never`: none of them does.
pub fn allow(never: bool) -> Outcome {
    let (mode, thread) = (MODE.try_with(Cell::get).unwrap_or(STREAM_CAPTURE_MODE_GLOBAL), thread());
    let forbids = |capture: &Capture| match (mode, capture.mode) {
        _ if never => true,
        (STREAM_CAPTURE_MODE_RELAXED, _) | (_, STREAM_CAPTURE_MODE_RELAXED) => false,
        (STREAM_CAPTURE_MODE_THREAD_LOCAL, _) | (_, STREAM_CAPTURE_MODE_THREAD_LOCAL) => capture.thread == thread,
        _ => true,
    };
    if invalidate(&mut captures(), |_, capture| forbids(capture)) {
        return Err(Error::STREAM_CAPTURE_UNSUPPORTED);
    }
    Ok(())
}

/// The device was reset, or a stream is destroyed: captures that began in it end. One that only joined stays a member:
/// it must be joined at the end.
pub fn abandon(stream: Option<u32>) {
    let mut captures = captures();
    let gone: Vec<u32> = captures
        .iter()
        .filter(|(_, capture)| stream.is_none_or(|stream| capture.origin == stream))
        .map(|(id, _)| *id)
        .collect();
    for id in gone {
        if let Some(capture) = captures.remove(&id) {
            ACTIVE.fetch_sub(1, Relaxed);
            for member in capture.members.values() {
                member.stream.capture.store(0, Relaxed);
            }
            if !capture.given {
                let _ = state().destroy(capture.graph);
            }
        }
    }
}
