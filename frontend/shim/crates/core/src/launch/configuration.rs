//! The stack of launch configurations between `<<<...>>>` and the kernel's stub, one per thread.
//!
//! The compiler pushes at the launch and pops in the stub it calls next, on the same thread; kernels launched while
//! arguments are evaluated nest.

use std::cell::RefCell;

use abi::{cudaStream_t, dim3};

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

thread_local! {
    static STACK: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

/// False when there is no room.
pub fn push(configuration: Configuration) -> bool {
    let pushed = STACK.try_with(|stack| {
        let mut stack = stack.borrow_mut();
        let room = stack.len() < DEEPEST;
        if room {
            stack.push(configuration);
        }
        room
    });
    pushed.unwrap_or(false)
}

pub fn pop() -> Option<Configuration> {
    STACK.try_with(|stack| stack.borrow_mut().pop()).ok().flatten()
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
        std::thread::spawn(|| assert!(pop().is_none())).join().unwrap();
        assert_eq!(pop().map(|found| found.grid.x), Some(2));
        assert_eq!(pop().map(|found| found.grid.x), Some(1));
        assert!(pop().is_none());
    }
}
