//! `FARLANE_TEST=WORDS`: what tests ask of the driver; never set otherwise. Read once, here; without it the driver
//! costs one load a call.
//!
//! - `late`: streams run as late as CUDA allows, and in no order but the one it promises (`stream::held`).
//! - `patient`: a query of a stream or event lets nothing run, however often it is made. Otherwise the second one does.
//!   `impatient` ends it.
//! - `windows-stay`: reservations, physical memory and mappings outlive a reset of the primary context. Whether
//!   NVIDIA's driver ends them is not known.
//! - `fail NAME CODE...`: the next calls of that function end with these codes and do nothing else; 0 lets one pass.
//!
//! Commands are separated by semicolons. A test in the process itself gives more of them through `farlane_test`, which
//! answers three questions as well: `calls NAME` (how many there were), `held` (the work that streams hold), `counts`
//! (what was not given back, what was ended early, and asynchronous copies of pageable memory). Functions go by their
//! documented names, without versions and suffixes of the per-thread default stream. The counts are in the report of a
//! run, too, in the section `test`.
//!
//! Ended early is what the program ended while work was pending that may use it, without waiting for that work:
//! mappings, modules, pinned memory, arrays, texture and surface objects. The driver then waits, so that the program
//! goes on.
//!
//! Late work is done as launches of graphs are. What the program sees of managed and mapped memory, of pools and
//! graphs' memory, of contexts that end and of words that streams wait for is not late, or differs: programs of these
//! are not for `late`.
//!
//! Locking: one mutex, a leaf.

use std::collections::{HashMap, VecDeque};
use std::ffi::{c_char, c_int, CStr};
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::stream::held;
use crate::{event, graph, hostmem, memory, module, texture};
use session::call::{Error, Outcome};
use session::function::Function;
use session::log;
use session::work::tracking;

const UNKNOWN: u8 = 0;
const OFF: u8 = 1;
const ON: u8 = 2;
const LATE: u8 = 3;
static STATE: AtomicU8 = AtomicU8::new(UNKNOWN);
static EARLY: AtomicU64 = AtomicU64::new(0);
static PAGEABLE: AtomicU64 = AtomicU64::new(0);

#[derive(Default)]
struct Book {
    calls: HashMap<&'static str, u64>,
    failures: HashMap<String, VecDeque<c_int>>,
    patient: bool,
    windows_stay: bool,
}

static BOOK: Mutex<Option<Book>> = Mutex::new(None);

struct Locked(MutexGuard<'static, Option<Book>>);

impl Locked {
    fn book(&mut self) -> &mut Book {
        self.0.get_or_insert_with(Book::default)
    }
}

fn lock() -> Locked {
    Locked(BOOK.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Whether anything was asked for.
#[inline]
pub fn on() -> bool {
    match STATE.load(Relaxed) {
        OFF => false,
        UNKNOWN => read() != OFF,
        _ => true,
    }
}

/// Whether streams run late.
#[inline]
pub fn late() -> bool {
    on() && STATE.load(Relaxed) == LATE
}

/// Whether queries let nothing run.
pub fn is_patient() -> bool {
    lock().book().patient
}

/// Whether reservations outlive a reset.
pub fn windows_stay() -> bool {
    on() && lock().book().windows_stay
}

#[cold]
fn read() -> u8 {
    let words = std::env::var("FARLANE_TEST").unwrap_or_default();
    let state = if words.is_empty() { OFF } else { ON };
    if STATE.compare_exchange(UNKNOWN, state, Relaxed, Relaxed).is_ok() && state == ON {
        for command in words.split(';') {
            if obey(command).is_none() {
                log::error(format_args!("FARLANE_TEST: \"{command}\" is no command"));
            }
        }
    }
    STATE.load(Relaxed)
}

/// The documented name of a function.
fn plain(name: &str) -> &str {
    let name = name.strip_suffix("_ptsz").or_else(|| name.strip_suffix("_ptds")).unwrap_or(name);
    match name.rsplit_once("_v") {
        Some((start, version)) if version.bytes().all(|byte| byte.is_ascii_digit()) => start,
        _ => name,
    }
}

/// Counts a call, and ends it where a test asked for that.
#[inline]
pub fn admit(function: Function) -> Outcome {
    if on() {
        return count(plain(function.name()));
    }
    Ok(())
}

#[cold]
fn count(name: &'static str) -> Outcome {
    let mut locked = lock();
    let book = locked.book();
    *book.calls.entry(name).or_default() += 1;
    match book.failures.get_mut(name).and_then(VecDeque::pop_front) {
        None | Some(0) => Ok(()),
        Some(code) => Err(Error(code)),
    }
}

/// The program ends something that pending work may use, with a call that does not wait.
#[inline]
pub fn ends() -> Outcome {
    if late() && held::holds_work() {
        EARLY.fetch_add(1, Relaxed);
        return held::complete_all();
    }
    Ok(())
}

/// An asynchronous copy has an end in memory that is not pinned, so that CUDA does not let it run later.
pub fn copies_pageable() {
    if late() {
        PAGEABLE.fetch_add(1, Relaxed);
    }
}

/// What was not given back, by kind, what was ended early, and pageable copies. Only where tests asked for anything.
pub fn counts() -> Vec<(&'static str, u64)> {
    let Some(tracking) = on().then(|| tracking().ok()).flatten() else { return Vec::new() };
    let live = memory::addresses().map(|addresses| addresses.lock().counts()).unwrap_or_default();
    let (reservations, physical, mappings, allocations) = live;
    let (textures, surfaces) = texture::count();
    let (graphs, executables) = graph::count();
    let all = [
        ("windows", reservations),
        ("memory", physical),
        ("mappings", mappings),
        ("allocations", allocations),
        ("pinned", hostmem::count()),
        ("modules", module::loading::count()),
        ("streams", tracking.order.count()),
        ("events", event::count()),
        ("graphs", graphs),
        ("executables", executables),
        ("arrays", memory::count_arrays()),
        ("textures", textures),
        ("surfaces", surfaces),
        ("held", held::count()),
    ];
    let never = [("early", EARLY.load(Relaxed)), ("pageable", PAGEABLE.load(Relaxed))];
    let counted = all.into_iter().map(|(name, count)| (name, count as u64)).chain(never);
    counted.filter(|(_, count)| *count != 0).collect()
}

/// The counts of the report: of all calls, too.
pub fn section() -> Vec<(&'static str, u64)> {
    let calls = lock().book().calls.values().sum();
    counts().into_iter().chain([("calls", calls)]).collect()
}

/// The answer to a command; `None` for what is none.
fn obey(command: &str) -> Option<String> {
    let mut words = command.split_ascii_whitespace();
    let answer = match (words.next()?, words.next()) {
        ("late", None) => {
            if STATE.swap(LATE, Relaxed) != LATE {
                held::run_late();
            }
            String::new()
        }
        (word @ ("patient" | "impatient"), None) => {
            lock().book().patient = word == "patient";
            String::new()
        }
        ("windows-stay", None) => {
            lock().book().windows_stay = true;
            String::new()
        }
        ("fail", Some(name)) => {
            let codes: VecDeque<c_int> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
            lock().book().failures.insert(name.to_owned(), codes);
            String::new()
        }
        ("calls", Some(name)) => lock().book().calls.get(name).copied().unwrap_or(0).to_string(),
        ("held", None) => held::count().to_string(),
        ("counts", None) => counts().iter().map(|(name, count)| format!("{name} {count} ")).collect(),
        _ => return None,
    };
    Some(answer)
}

/// A command of a test in this process. Returns the length of the answer, of which `size - 1` bytes are written; -1 for
/// what is no command, and wherever FARLANE_TEST is not set.
///
/// # Safety
/// `command` is a string, and `answer` has `size` bytes.
#[no_mangle]
pub unsafe extern "C" fn farlane_test(command: *const c_char, answer: *mut c_char, size: usize) -> c_int {
    if !on() || command.is_null() {
        return -1;
    }
    // SAFETY: the caller's promise.
    let said = unsafe { CStr::from_ptr(command) }.to_str().ok().and_then(obey);
    let Some(said) = said else { return -1 };
    if size > 0 {
        let length = said.len().min(size - 1);
        // SAFETY: the caller's promise.
        unsafe {
            std::ptr::copy_nonoverlapping(said.as_ptr().cast(), answer, length);
            answer.add(length).write(0);
        }
    }
    c_int::try_from(said.len()).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_go_by_their_documented_names() {
        for (name, documented) in [
            ("cuMemAlloc_v2", "cuMemAlloc"),
            ("cuMemcpyAsync_ptsz", "cuMemcpyAsync"),
            ("cuMemcpyHtoDAsync_v2_ptsz", "cuMemcpyHtoDAsync"),
            ("cuModule_vector", "cuModule_vector"),
        ] {
            assert_eq!(plain(name), documented);
        }
    }

    #[test]
    fn calls_fail_in_the_order_that_was_asked_for() {
        assert_eq!(obey("fail cuMemCreate 0 2 1").as_deref(), Some(""));
        let ends: Vec<Outcome> = (0..4).map(|_| count("cuMemCreate")).collect();
        assert_eq!(ends, [Ok(()), Err(Error(2)), Err(Error(1)), Ok(())]);
        assert_eq!(obey("calls cuMemCreate").as_deref(), Some("4"));
        for wrong in ["", "later", "fail cuMemCreate two", "late at night"] {
            assert_eq!(obey(wrong), None, "{wrong}");
        }
    }
}
