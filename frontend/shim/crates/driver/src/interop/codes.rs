//! The codes of launches as an embedded runtime expects them.
//!
//! A runtime hands a launch's code to the program as it is, and asks nothing further: of the driver it expects its own
//! codes, 9 for a shape that no launch can have and 98 for a function that is none, where a program of the driver API
//! reads 1 and 400. An object of which code has fetched an export table has a runtime in it. A program that has one,
//! and calls the driver API itself, reads the runtime's codes for its own launches, too.

use std::sync::{Mutex, PoisonError};

use session::frame;
use session::function::Function;

/// Where the objects with a runtime are loaded.
static RUNTIMES: Mutex<Vec<usize>> = Mutex::new(Vec::new());

/// The call under way fetches an export table: the object that it comes from has a runtime in it.
pub fn fetches_a_table() {
    if let Some(object) = object_of(frame::site()) {
        let mut runtimes = RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner);
        if !runtimes.contains(&object) {
            runtimes.push(object);
        }
    }
}

/// Whether the call under way, which fails, is a launch of an object with a runtime in it.
pub fn are_the_runtimes(function: Function) -> bool {
    let launches = matches!(
        function,
        Function::cuLaunchKernel
            | Function::cuLaunchKernelEx
            | Function::cuLaunchCooperativeKernel
            | Function::cuKernelGetFunction
    );
    launches && object_of(frame::site()).is_some_and(knows)
}

fn knows(object: usize) -> bool {
    RUNTIMES.lock().unwrap_or_else(PoisonError::into_inner).contains(&object)
}

/// The address at which the object with that code is loaded.
fn object_of(address: usize) -> Option<usize> {
    // SAFETY: dladdr only looks the address up.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        (libc::dladdr(address as *const _, &mut info) != 0).then_some(info.dli_fbase as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_of_the_object_that_it_lies_in() {
        let own = object_of(object_of as *const () as usize);
        assert!(own.is_some() && own == object_of(knows as *const () as usize));
        assert_eq!(object_of(0), None);
        assert_ne!(own, object_of(libc::malloc as *const () as usize));
    }

    #[test]
    fn without_a_table_nobody_is_a_runtime() {
        assert!(!are_the_runtimes(Function::cuLaunchKernel));
        assert!(!knows(object_of(knows as *const () as usize).unwrap()));
    }
}
