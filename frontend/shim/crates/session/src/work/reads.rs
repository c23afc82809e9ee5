//! Copies to pinned memory that were recorded but not waited for: which host memory will still be written.
//!
//! Their data arrives with the reply to their group, hence before any later synchronization is answered, and a program
//! may look at it only then. Before the memory is released, or read by a copy to the device (which captures its source
//! at the call, where CUDA would read it later, in the stream's order), the copies to it are waited for.
//!
//! Locking: one mutex, a leaf; skipped while there are none.

use super::order::{Order, Point};
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, PoisonError};

#[derive(Debug)]
struct Read {
    start: usize,
    end: usize,
    point: Point,
}

#[derive(Debug, Default)]
pub struct Reads {
    any: AtomicBool,
    pending: Mutex<Vec<Read>>,
}

impl Reads {
    /// A copy to `[start, start + length)` was recorded.
    pub fn add(&self, order: &Order, start: usize, length: usize, point: Point) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        // Adding is when the finished ones are forgotten: a program that copies for ever keeps a short list.
        pending.retain(|read| order.point_pending(&read.point));
        pending.push(Read { start, end: start.saturating_add(length), point });
        self.any.store(true, Release);
    }

    /// Whether a copy to any of `[start, start + length)` may not have arrived.
    pub fn touch(&self, order: &Order, start: usize, length: usize) -> bool {
        if !self.any.load(Acquire) {
            return false;
        }
        let end = start.saturating_add(length);
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        pending.retain(|read| order.point_pending(&read.point));
        if pending.is_empty() {
            self.any.store(false, Release);
        }
        pending.iter().any(|read| read.start < end && start < read.end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_touched_until_the_stream_is_synchronized() {
        let (order, reads) = (Order::default(), Reads::default());
        let legacy = order.legacy.clone();
        let copy = |start, length| {
            let mark = order.mark(&mut tape::Writer::new(), &legacy);
            reads.add(&order, start, length, Point::new(&legacy, mark));
        };
        assert!(!reads.touch(&order, 0, usize::MAX));
        copy(100, 10);
        copy(200, 10);
        for (start, length, touched) in
            [(0, 100, false), (0, 101, true), (109, 1, true), (110, 90, false), (205, 1, true)]
        {
            assert_eq!(reads.touch(&order, start, length), touched, "{start} {length}");
        }
        order.device_synchronized(order.position());
        assert!(!reads.touch(&order, 0, usize::MAX) && !reads.any.load(Acquire));
        copy(300, 1);
        assert!(reads.touch(&order, 300, 1) && !reads.touch(&order, 100, 10));
    }
}
