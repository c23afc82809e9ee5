//! The stack of launch configurations between `<<<...>>>` and the kernel's stub, one per thread.
//!
//! The compiler pushes at the launch and pops in the stub it calls next, on the same thread; kernels launched while
//! arguments are evaluated nest.

use std::cell::{Cell, RefCell};

use abi::{cudaStream_t, dim3};
use session::thread_state::{Slot, Use};

/// What stands between the angle brackets.
#[derive(Clone, Copy)]
pub struct Configuration {
    pub grid: dim3,
    pub block: dim3,
    pub shared_bytes: usize,
    pub stream: cudaStream_t,
    /// Where in the program it was pushed (`frame::site`).
    pub site: usize,
}

/// Deeper than any program nests; a program that pushes without end is stopped here.
const DEEPEST: usize = 1 << 16;

/// A thread's configurations. Nearly always there is one at most; the top one lies apart, a field at a time, so that it
/// is copied once.
#[derive(Default)]
pub struct Stack {
    depth: Cell<usize>,
    top: Top,
    others: RefCell<Vec<Configuration>>,
}

struct Top {
    grid: Cell<dim3>,
    block: Cell<dim3>,
    shared_bytes: Cell<usize>,
    stream: Cell<cudaStream_t>,
    site: Cell<usize>,
}

impl Default for Top {
    fn default() -> Self {
        let none = dim3 { x: 0, y: 0, z: 0 };
        let (grid, block, stream) = (Cell::new(none), Cell::new(none), Cell::new(std::ptr::null_mut()));
        Self { grid, block, shared_bytes: Cell::default(), stream, site: Cell::default() }
    }
}

impl Top {
    #[inline]
    fn set(&self, configuration: Configuration) {
        self.grid.set(configuration.grid);
        self.block.set(configuration.block);
        self.shared_bytes.set(configuration.shared_bytes);
        self.stream.set(configuration.stream);
        self.site.set(configuration.site);
    }

    #[inline]
    fn get(&self) -> Configuration {
        Configuration {
            grid: self.grid.get(),
            block: self.block.get(),
            shared_bytes: self.shared_bytes.get(),
            stream: self.stream.get(),
            site: self.site.get(),
        }
    }
}

impl Stack {
    #[inline]
    fn push(&self, configuration: Configuration) -> bool {
        let depth = self.depth.get();
        if depth > 0 && !self.bury(depth) {
            return false;
        }
        self.top.set(configuration);
        self.depth.set(depth + 1);
        true
    }

    #[inline]
    fn pop<T>(&self, take: impl FnOnce(Configuration) -> T) -> Option<T> {
        let depth = self.depth.get();
        self.depth.set(depth.checked_sub(1)?);
        let taken = take(self.top.get());
        if depth > 1 {
            self.unearth();
        }
        Some(taken)
    }

    #[cold]
    fn bury(&self, depth: usize) -> bool {
        let room = depth < DEEPEST;
        if room {
            self.others.borrow_mut().push(self.top.get());
        }
        room
    }

    #[cold]
    fn unearth(&self) {
        if let Some(configuration) = self.others.borrow_mut().pop() {
            self.top.set(configuration);
        }
    }
}

static CONFIGURATIONS: Slot<Stack> = Slot::new(Use::Configurations);

/// False when there is no room.
#[inline]
pub fn push(configuration: Configuration) -> bool {
    CONFIGURATIONS.with(|stack| stack.push(configuration)).unwrap_or(false)
}

/// What `take` makes of the last one; `None` when there is none.
#[inline]
pub fn pop<T>(take: impl FnOnce(Configuration) -> T) -> Option<T> {
    CONFIGURATIONS.with(|stack| stack.pop(take)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_grid(x: u32) -> Configuration {
        let one = dim3 { x: 1, y: 1, z: 1 };
        Configuration { grid: dim3 { x, ..one }, block: one, shared_bytes: 0, stream: std::ptr::null_mut(), site: 0 }
    }

    #[test]
    fn last_in_first_out_on_each_thread() {
        assert!(push(with_grid(1)) && push(with_grid(2)));
        let popped = || pop(|found| found.grid.x);
        std::thread::spawn(move || assert!(popped().is_none())).join().unwrap();
        assert_eq!((popped(), popped(), popped()), (Some(2), Some(1), None));
        assert!(push(with_grid(3)));
        assert_eq!(popped(), Some(3));
    }

    #[test]
    fn there_is_an_end_to_it() {
        let stack = Stack::default();
        let configuration = |x| with_grid(x as u32);
        assert!((0..DEEPEST).all(|x| stack.push(configuration(x))));
        assert!(!stack.push(configuration(0)));
        assert!((0..DEEPEST).rev().all(|x| stack.pop(|found| found.grid.x) == Some(x as u32)));
        assert!(stack.pop(|_| ()).is_none());
    }
}
