//! `FARLANE_TIMELINE=FILE`: when each call of the program, each wait and each group began and ended
//! (docs/howto/record-a-timeline.md).
//!
//! For a timeline of one run. Off, it costs one load for each call. `%p` in the name stands for the process's number.
//! Times are nanoseconds of CLOCK_MONOTONIC, which all processes of a machine share. Spans beyond a bound are
//! counted, not kept. The child of a fork keeps none.
//!
//! Locking: one mutex around the spans, a leaf.

use super::log;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use std::{env, fs, process};

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
/// Spans of one process.
const MOST: usize = 200_000;

static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static RECORDER: OnceLock<Recorder> = OnceLock::new();

enum Span {
    /// A call of the program: its name, its thread.
    Call(&'static str, i64),
    /// A thread waits for the host.
    Wait(i64),
    /// A group, from its sending to the host's last answer: its number and bytes.
    Group(u64, u64),
}

struct Recorder {
    file: String,
    process: u32,
    /// One moment by both clocks.
    anchor: (Instant, u64),
    spans: Mutex<Vec<(Span, u64, u64)>>,
    dropped: AtomicU64,
}

/// When a span begins; `None`: none are kept.
#[inline]
#[must_use]
pub fn begin() -> Option<Instant> {
    match STATE.load(Relaxed) {
        OFF => None,
        ON => Some(Instant::now()),
        _ => open(),
    }
}

#[cold]
fn open() -> Option<Instant> {
    let named = env::var("FARLANE_TIMELINE").ok().filter(|name| !name.is_empty());
    let Some(file) = named else {
        STATE.store(OFF, Relaxed);
        return None;
    };
    let process = process::id();
    RECORDER.get_or_init(|| Recorder {
        file: file.replace("%p", &process.to_string()),
        process,
        anchor: anchor(),
        spans: Mutex::default(),
        dropped: AtomicU64::new(0),
    });
    STATE.store(ON, Relaxed);
    Some(Instant::now())
}

/// Whether there is a timeline to be made.
pub(crate) fn wanted() -> bool {
    begin().is_some()
}

/// Where the spans go.
pub(super) fn file() -> Option<&'static str> {
    RECORDER.get().filter(|recorder| recorder.process == process::id()).map(|recorder| recorder.file.as_str())
}

/// What happens from now on is none of the program's.
pub(super) fn stop() {
    STATE.store(OFF, Relaxed);
}

/// One moment by both clocks: of some pairs that are read right after each other, the one that was read the fastest.
fn anchor() -> (Instant, u64) {
    let pair = |_| {
        let (before, now, after) = (Instant::now(), monotonic(), Instant::now());
        let gap = after.saturating_duration_since(before);
        (gap, (before + gap / 2, now))
    };
    (0..16).map(pair).min_by_key(|(gap, _)| *gap).map_or_else(|| (Instant::now(), monotonic()), |(_, pair)| pair)
}

/// The system's own answer: programs' clocks may be made to wait.
pub(super) fn monotonic() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel writes the time there.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

fn thread() -> i64 {
    // SAFETY: no argument, no failure.
    i64::from(unsafe { libc::gettid() })
}

/// A call of the program has ended.
#[cold]
pub fn call(name: &'static str, began: Instant) {
    add(Span::Call(name, thread()), began, Instant::now());
}

/// A wait has ended.
#[cold]
pub(crate) fn wait(began: Instant) {
    add(Span::Wait(thread()), began, Instant::now());
}

/// The host has answered a group that was sent so long ago.
#[inline]
pub(crate) fn group(number: u64, bytes: u64, took: Duration) {
    if let Some(now) = begin() {
        add(Span::Group(number, bytes), now.checked_sub(took).unwrap_or(now), now);
    }
}

fn add(span: Span, began: Instant, ended: Instant) {
    let Some(recorder) = RECORDER.get().filter(|recorder| recorder.process == process::id()) else { return };
    let (anchor, nanoseconds) = recorder.anchor;
    let at = |moment: Instant| {
        let since = |later: Instant, earlier: Instant| later.saturating_duration_since(earlier).as_nanos() as u64;
        (nanoseconds + since(moment, anchor)).saturating_sub(since(anchor, moment))
    };
    let mut spans = recorder.spans.lock().unwrap_or_else(PoisonError::into_inner);
    if spans.len() < MOST {
        spans.push((span, at(began), at(ended)));
    } else {
        recorder.dropped.fetch_add(1, Relaxed);
    }
}

/// Writes the file. Later spans are lost.
pub fn finish(program: &str) {
    let Some(recorder) = RECORDER.get().filter(|recorder| recorder.process == process::id()) else { return };
    stop();
    let spans = std::mem::take(&mut *recorder.spans.lock().unwrap_or_else(PoisonError::into_inner));
    let mut text = String::with_capacity(64 * spans.len() + 128);
    text.push_str("{\"program\":");
    super::push_string(&mut text, program);
    // Writing into a String cannot fail.
    let _ = writeln!(text, ",\"process\":{},\"dropped\":{}}}", recorder.process, recorder.dropped.load(Relaxed));
    for (span, began, ended) in &spans {
        let _ = match span {
            Span::Call(name, thread) => writeln!(text, "[\"call\",{began},{ended},{thread},\"{name}\"]"),
            Span::Wait(thread) => writeln!(text, "[\"wait\",{began},{ended},{thread}]"),
            Span::Group(number, bytes) => writeln!(text, "[\"group\",{began},{ended},{number},{bytes}]"),
        };
    }
    if let Err(error) = fs::write(&recorder.file, text) {
        log::error(format_args!("cannot write {} (FARLANE_TIMELINE): {error}", recorder.file));
    }
}
