//! Device-side printf and the messages of assertions: when the program's own streams get what kernels have printed.
//!
//! CUDA shows it at calls that synchronize. The host sends it with whatever reply comes next, so it is held (crate
//! `client`) until such a call ends. A call that the shim answers itself would show less than the program has asked
//! for: while a launch that may print has not been answered for, such a call waits for the host (a fence), and no
//! permission of a manifest is used (`expected`). So the output, and its place among the host's own, is the same in
//! every mode. Programs whose images have no printing code pay one comparison for each such call.
//!
//! What is written goes through the C library's `stdout` and `stderr`, in the program's own buffers, and keeps its
//! place in them.
//!
//! Source: CUDA programming guide, "Formatted Output", "Limitations" (when the buffer is flushed).

use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use crate::function::Operation;
use crate::{log, process, work};

/// How each line of a check's report starts (docs/howto/check-kernels.md).
const REPORT: &[u8] = b"=========";

/// More than this is shown before the program asks for it.
const MOST_HELD: usize = 64 << 20;

/// Launches of kernels that may print, and how many of them the host has answered for.
static LAUNCHED: AtomicU64 = AtomicU64::new(0);
static ANSWERED: AtomicU64 = AtomicU64::new(0);

static PRINTING: AtomicBool = AtomicBool::new(false);

extern "C" {
    static mut stdout: *mut libc::FILE;
    static mut stderr: *mut libc::FILE;
}

/// Kernels are checked: any of them may have something to say.
static CHECKED: AtomicBool = AtomicBool::new(false);

/// The session is open.
pub fn opened(checked: bool) {
    CHECKED.store(checked, Relaxed);
}

/// Whether a kernel, whose image has printing code or not, may print.
#[inline]
pub fn may_print(prints: bool) -> bool {
    prints || CHECKED.load(Relaxed)
}

/// A kernel that may print is to be launched, now or in a graph.
#[inline]
pub fn found_printing() {
    PRINTING.store(true, Relaxed);
}

/// Work of a graph was put on the tape: it may print when anything has ever been found that does.
pub fn graph_launched() {
    if PRINTING.load(Relaxed) {
        launched();
    }
}

/// A kernel that may print was put on the tape.
pub fn launched() {
    LAUNCHED.fetch_add(1, Release);
    if process::opened_session().is_some_and(|session| session.held_output() > MOST_HELD) {
        show();
    }
}

/// What an answer asked for now will stand for: to be passed to `answered` when it is there.
#[inline]
pub fn asked() -> u64 {
    LAUNCHED.load(Acquire)
}

/// The host has answered what was asked after the first `launches` launches.
#[inline]
pub fn answered(launches: u64) {
    if launches != 0 {
        ANSWERED.fetch_max(launches, Release);
    }
}

/// Whether work that may print has not been answered for.
#[inline]
pub fn expected() -> bool {
    let launched = LAUNCHED.load(Acquire);
    launched != 0 && ANSWERED.load(Acquire) < launched
}

/// A call of the program ends.
#[inline]
pub fn after(operation: Operation) {
    if shows(operation) {
        synchronized();
    }
}

/// The program has synchronized: everything that was launched before is shown.
#[inline]
pub fn synchronized() {
    if expected() {
        work::fence();
    }
    if process::opened_session().is_some_and(|session| session.held_output() > 0) {
        show();
    }
}

/// Writes what is held.
#[cold]
pub fn show() {
    let Some(output) = process::any_session().and_then(client::Session::take_output) else { return };
    // SAFETY: the C library's own streams, which live as long as the process.
    unsafe {
        write(stdout, &output.printed);
        write(stderr, &without_logged(output.complaints));
    }
}

/// With `FARLANE_CHECK_LOG` the reports of checks go to that file; returns what is for standard error.
fn without_logged(complaints: Vec<u8>) -> Vec<u8> {
    let Some(path) = std::env::var_os("FARLANE_CHECK_LOG").filter(|path| !path.is_empty() && !complaints.is_empty())
    else {
        return complaints;
    };
    let lines = complaints.split_inclusive(|byte| *byte == b'\n');
    let (reports, others): (Vec<&[u8]>, Vec<&[u8]>) = lines.partition(|line| line.starts_with(REPORT));
    let file = OpenOptions::new().append(true).create(true).open(&path);
    match file.and_then(|mut file| file.write_all(&reports.concat())) {
        Ok(()) => others.concat(),
        Err(error) => {
            log::error(format_args!("cannot write to {} (FARLANE_CHECK_LOG): {error}", Path::new(&path).display()));
            complaints
        }
    }
}

/// # Safety
/// The stream is null or open.
unsafe fn write(stream: *mut libc::FILE, text: &[u8]) {
    if !stream.is_null() && !text.is_empty() {
        // SAFETY: the caller's promise. A stream that takes no more is the program's affair, as with CUDA.
        let _ = unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), stream) };
    }
}

/// Calls at which CUDA shows what was printed.
#[inline]
fn shows(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::DeviceSynchronize
            | Operation::StreamSynchronize
            | Operation::EventSynchronize
            | Operation::DeviceReset
            | Operation::Memcpy
            | Operation::Memcpy2D
            | Operation::Memcpy3D
            | Operation::MemcpyPeer
            | Operation::Memcpy3DPeer
            | Operation::MemcpyToSymbol
            | Operation::MemcpyFromSymbol
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_stands_for_the_launches_before_it_was_asked_for() {
        let before = asked();
        launched();
        let asked_between = asked();
        launched();
        assert!(asked_between > before && expected());
        answered(asked_between);
        assert!(expected());
        answered(asked());
        assert!(!expected());
        answered(before);
        assert!(!expected());
    }
}
