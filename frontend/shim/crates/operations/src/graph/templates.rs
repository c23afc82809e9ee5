//! Segments of a graph's records, which are sent once as a template and repeated by its number (`protos/tape.md`,
//! "Loops").
//!
//! Owns the template numbers of graphs: 3072 to 4095; the recorder of loops has those below (`recorder::templates`).
//! The first launch sends plain records: a graph that is changed before every launch costs no templates, and in mode
//! `loops` the recorder finds what changes. From the second launch of the same records on, a launch is one REPEAT of 24
//! bytes.

use crate::managed;
use session::call::{Error, Outcome};
use session::work::order::Stream;
use session::{process, work};
use std::sync::{Mutex, PoisonError};
use tape::generated_operations as operation;
use tape::{Writer, MAX_BODY_BYTES};

const FIRST: u16 = 3072;
const LAST: u16 = 4095;
/// What of the tape's limits (16 MiB for all templates) is the graphs'.
const MAX_CONTENT: usize = 8 << 20;
/// Shorter records cost less than the template.
const LEAST: usize = 96;
/// The first version of the tape with templates.
const SINCE: u32 = 2;

#[derive(Debug)]
struct Numbers {
    free: Vec<u16>,
    next: u16,
    content: usize,
}

static NUMBERS: Mutex<Numbers> = Mutex::new(Numbers { free: Vec::new(), next: FIRST, content: 0 });

/// A template's number, given back when it is dropped: from then on nothing repeats it.
#[derive(Debug)]
struct Number {
    value: u16,
    bytes: usize,
}

impl Number {
    fn take(bytes: usize) -> Option<Self> {
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        if numbers.content + bytes > MAX_CONTENT {
            return None;
        }
        let value = match numbers.free.pop() {
            Some(value) => value,
            None if numbers.next <= LAST => {
                numbers.next += 1;
                numbers.next - 1
            }
            None => return None,
        };
        numbers.content += bytes;
        Some(Self { value, bytes })
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        let mut numbers = NUMBERS.lock().unwrap_or_else(PoisonError::into_inner);
        numbers.free.push(self.value);
        numbers.content -= self.bytes;
    }
}

/// Whole records of one stream.
#[derive(Debug)]
pub struct Records {
    bytes: Vec<u8>,
    sent: bool,
    number: Option<Number>,
}

impl Records {
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, sent: false, number: None }
    }

    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    pub fn append(&mut self, records: &[u8]) {
        self.bytes.extend_from_slice(records);
    }

    /// Puts the records on the tape, in one way or another.
    pub fn send(&mut self, stream: &Stream) -> Outcome {
        let _held = managed::hand_over()?;
        if let Some(number) = &self.number {
            return work::defer(stream, |w| operation::repeat(w, number.value.into(), 1, false, &[]));
        }
        let again = std::mem::replace(&mut self.sent, true);
        if again && self.bytes.len() >= LEAST && process::session()?.welcome().tape_version >= SINCE {
            if let Some(number) = Number::take(self.bytes.len()) {
                let template = u32::from(number.value);
                let sent = work::defer(stream, |w| {
                    operation::template(w, template, 0, &self.bytes);
                    operation::repeat(w, template, 1, false, &[]);
                });
                self.number = Some(number);
                return sent;
            }
        }
        work::defer(stream, |w| w.records(&self.bytes))
    }
}

/// A template that stands for itself: others and CONDITIONALs name it.
#[derive(Debug)]
pub struct Body {
    bytes: Vec<u8>,
    number: Number,
    sent: bool,
}

impl Body {
    /// # Errors
    /// cudaErrorMemoryAllocation when all numbers, or what the host keeps of templates, are taken;
    /// cudaErrorNotSupported when there are none.
    pub fn new(bytes: Vec<u8>) -> Outcome<Self> {
        if bytes.len() > MAX_BODY_BYTES || process::session()?.welcome().tape_version < SINCE {
            return Err(Error::NOT_SUPPORTED);
        }
        let number = Number::take(bytes.len()).ok_or(Error::MEMORY_ALLOCATION)?;
        Ok(Self { bytes, number, sent: false })
    }

    pub fn number(&self) -> u32 {
        self.number.value.into()
    }

    /// Puts it on the tape, where it is not there yet.
    pub fn give(&mut self, w: &mut Writer) {
        if !std::mem::replace(&mut self.sent, true) {
            operation::template(w, self.number(), 0, &self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_graphs_own_and_come_back() {
        let first = Number::take(100).unwrap();
        assert!((FIRST..=LAST).contains(&first.value));
        let value = first.value;
        assert!(Number::take(MAX_CONTENT).is_none());
        drop(first);
        assert_eq!(Number::take(1).map(|number| number.value), Some(value));
        let all: Vec<Number> = std::iter::from_fn(|| Number::take(1)).collect();
        assert_eq!(all.len(), usize::from(LAST - FIRST) + 1);
    }
}
