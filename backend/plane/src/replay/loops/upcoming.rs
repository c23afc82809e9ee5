//! What launches will come, as far as the tape says: for devices that reuse memory (`Control::looks_ahead`).
//!
//! Parameters are read out of records that have not been replayed yet: a message's, up to its first loop, and those of
//! the iterations of a loop. A deferred group or loop is thus known in advance. Nothing is checked or resolved here,
//! and nothing depends on it but what stays in memory: a record that makes no sense is the walk's to find, and ends the
//! look ahead.
//!
//! Source: docs/explanation/systems.md, S4 point 1 (the order of accesses), S1 points 4 and 8.

use super::store;
use super::template::Template;
use super::turns::Turns;
use crate::replay::launches::FIXED;
use tape::operations::code;
use tape::HEADER_BYTES;

/// Launches that are looked at.
pub const MOST: usize = 256;

/// The parameters of the launches in `records`, up to the first loop.
pub(crate) fn of_message(records: &[u8]) -> Vec<Vec<u8>> {
    let mut found = vec![];
    let mut at = 0;
    while let Some(header) = records[at..].first_chunk::<HEADER_BYTES>() {
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let operation = u16::from_le_bytes([header[4], header[5]]);
        let whole = length >= HEADER_BYTES && length <= records.len() - at;
        if !whole || matches!(operation, code::REPEAT | code::WHILE) || found.len() >= MOST {
            break;
        }
        if operation == code::LAUNCH {
            found.extend(parameters(&records[at..at + length]));
        }
        at += length;
    }
    found
}

/// The parameters of the launches of iterations, in order, as many as are looked at, and how many iterations they are:
/// none, where one alone has too many.
pub(crate) fn of_loop(turns: &Turns) -> (Vec<Vec<u8>>, u64) {
    let mut found = vec![];
    let mut turns = turns.clone();
    let mut body = turns.template.body.clone();
    let first = turns.left;
    while turns.left > 0 {
        let known = found.len();
        turns.fill(&mut body);
        if !iteration(&turns.template, &body, &mut found, MOST) || found.len() == known {
            found.truncate(known);
            break;
        }
        turns.advance(1);
    }
    (found, first - turns.left)
}

/// The same of a loop whose values are not known before, as if they were those of `body` again and again; and after how many iterations it is
/// worth looking again.
pub(crate) fn of_body(template: &Template, body: &[u8]) -> (Vec<Vec<u8>>, u64) {
    let mut found = vec![];
    if !iteration(template, body, &mut found, MOST) || found.is_empty() {
        return (vec![], u64::MAX);
    }
    let times = MOST / found.len();
    (vec![found; times].concat(), (times as u64 / 2).max(1))
}

/// Adds an iteration's launches. `false`: they are too many, or do not make sense.
fn iteration(template: &Template, body: &[u8], found: &mut Vec<Vec<u8>>, most: usize) -> bool {
    for part in &template.parts {
        let bytes = &body[part.offset..part.offset + part.length];
        if part.row.code == code::LAUNCH {
            found.extend(parameters(bytes));
        } else if let Some(inner) = part.inner.as_ref().filter(|inner| inner.template.launches) {
            let Ok(mut turns) = store::inner(inner, bytes) else {
                return false;
            };
            let mut body = turns.template.body.clone();
            while turns.left > 0 {
                turns.fill(&mut body);
                if !iteration(&turns.template, &body, found, most) {
                    return false;
                }
                turns.advance(1);
            }
        }
        if found.len() > most {
            return false;
        }
    }
    true
}

fn parameters(launch: &[u8]) -> Option<Vec<u8>> {
    let size = u32::from_le_bytes(launch.get(FIXED - 4..FIXED)?.try_into().ok()?) as usize;
    launch.get(FIXED..)?.get(..size).map(<[u8]>::to_vec)
}
