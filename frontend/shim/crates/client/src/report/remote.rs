//! The host's side of the timeline: when it did what for this session, and how its clock stands to ours (tape.md, "Timelines").
//!
//! Owns what becomes of a session whose host keeps that (Welcome.timeline): the clocks are compared as it opens and as it ends, and
//! at its end the host's lines go to a file beside the guest's spans. frontend/timeline.py makes one timeline of both.

use super::{log, spans};
use crate::{Destination, Failure, Session};
use std::fmt::Write as _;
use std::fs;
use tape::operations;

/// Bytes of an answer: clock, length, 0.
const HEAD: usize = 16;
const PAGE: usize = 64 << 10;
/// How often clocks are compared: the fastest answer counts.
const COMPARISONS: usize = 4;
/// Bytes that are taken of a host: a session keeps a fifth of it.
const MOST: usize = 64 << 20;

/// Our clock before the question, the host's, ours behind the answer; nanoseconds.
pub(crate) type Comparison = [u64; 3];

/// Compares the clocks: some round trips.
///
/// # Errors
/// The host's, or the session is over.
pub(crate) fn compare(session: &Session) -> Result<Vec<Comparison>, Failure> {
    (0..COMPARISONS)
        .map(|_| {
            let (before, answer, after) = (spans::monotonic(), ask(session, 0, HEAD)?, spans::monotonic());
            Ok([before, number(&answer, 0), after])
        })
        .collect()
}

/// At the session's end: the host's lines, to a file. Nothing that follows is in the timeline.
pub(crate) fn fetch(session: &Session, mut comparisons: Vec<Comparison>) {
    let Some(file) = spans::file() else { return };
    let lines = session.request(operations::fence).and_then(|_| {
        spans::stop();
        comparisons.extend(compare(session)?);
        lines(session)
    });
    let lines = match lines {
        Ok(lines) => lines,
        Err(failure) => {
            log::warn(format_args!("the timeline has nothing of the host, which does not answer: {failure:?}"));
            return;
        }
    };
    let mut text = String::new();
    let _ = writeln!(text, "{{\"clocks\":{comparisons:?}}}"); // writing into a String cannot fail
    let file = format!("{file}.host");
    if let Err(error) = fs::write(&file, [text.as_bytes(), &lines].concat()) {
        log::error(format_args!("cannot write {file} (FARLANE_TIMELINE): {error}"));
    }
}

fn lines(session: &Session) -> Result<Vec<u8>, Failure> {
    let (mut all, mut first) = (Vec::new(), 0);
    while all.len() < MOST {
        let answer = ask(session, first, PAGE)?;
        let length = number(&answer, 8) & 0xFFFF_FFFF;
        let text = &answer[HEAD..];
        let text = text.get(..usize::try_from(length).unwrap_or(usize::MAX)).unwrap_or(text);
        let count = text.iter().filter(|&&byte| byte == b'\n').count() as u64;
        if count == 0 {
            return Ok(all);
        }
        all.extend_from_slice(text);
        first += count;
    }
    log::warn(format_args!("the host has more to tell for the timeline than {MOST} bytes: the rest is left out"));
    Ok(all)
}

fn ask(session: &Session, first: u64, size: usize) -> Result<Vec<u8>, Failure> {
    let read = || {
        let mut answer = vec![0u8; size];
        let destination = Destination { ptr: answer.as_mut_ptr(), pitch: size, width: size, height: 1 };
        // SAFETY: the memory lives until this returns, and no other thread knows of it.
        unsafe { session.read(destination, |w, slot| operations::timeline(w, first, slot, size as u32)) }?;
        Ok(answer)
    };
    match read() {
        Err(Failure::Cuda { .. }) => read(), // a deferred error that no call of the program has taken came in its place
        answer => answer,
    }
}

fn number(answer: &[u8], at: usize) -> u64 {
    answer.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}
