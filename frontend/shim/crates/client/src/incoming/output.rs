//! What kernels have printed (tape.md, "Output"): kept from its arrival until the program makes a call at which CUDA
//! shows it.
//!
//! The thread that reads replies adds, before it wakes the waiter of the reply's group; the program's threads take.
//! Locking: the text's lock is a leaf.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Text in the order in which it was printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// For standard output.
    pub printed: Vec<u8>,
    /// The messages of failed assertions, for standard error.
    pub complaints: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Held {
    bytes: AtomicUsize,
    text: Mutex<Output>,
}

impl Held {
    pub(crate) fn add(&self, printed: &[u8], complaints: &[u8]) {
        if printed.is_empty() && complaints.is_empty() {
            return;
        }
        let mut text = self.text.lock();
        text.printed.extend_from_slice(printed);
        text.complaints.extend_from_slice(complaints);
        self.bytes.store(text.printed.len() + text.complaints.len(), Ordering::Release);
    }

    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }

    pub(crate) fn take(&self) -> Option<Output> {
        if self.bytes() == 0 {
            return None;
        }
        let mut text = self.text.lock();
        self.bytes.store(0, Ordering::Release);
        Some(std::mem::take(&mut *text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_taken_once_and_in_order() {
        let held = Held::default();
        held.add(b"", b"");
        assert_eq!(held.take(), None);
        held.add(b"one ", b"");
        held.add(b"two", b"three");
        assert_eq!(held.bytes(), 12);
        assert_eq!(held.take(), Some(Output { printed: b"one two".to_vec(), complaints: b"three".to_vec() }));
        assert_eq!(held.take(), None);
    }
}
