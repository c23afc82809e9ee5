//! `__managed__` variables: registered, and refused where they are used.
//!
//! A program reads and writes them through a pointer, without a call. They get host memory, so that this is no fault, and
//! the program is told; the module's kernels are refused, so that no wrong result comes of it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use abi::CudaError;

use crate::call::CudaResult;
use crate::log;

/// The managed variables of one module.
#[derive(Debug, Default)]
pub struct Managed {
    variables: Mutex<Vec<Variable>>,
    told: AtomicBool,
}

#[derive(Clone, Debug)]
struct Variable {
    name: String,
    /// Address of the pointer through which the program reaches the variable.
    place: usize,
    size: usize,
}

impl Managed {
    pub fn add(&self, name: String, place: usize, size: usize) {
        self.variables.lock().unwrap_or_else(PoisonError::into_inner).push(Variable { name, place, size });
    }

    fn variables(&self) -> Vec<Variable> {
        self.variables.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives each variable memory, and tells the user; `module` names where they are.
    pub fn back(&self, module: &impl fmt::Display) {
        let variables = self.variables();
        for variable in &variables {
            let place = variable.place as *mut *mut u8;
            // SAFETY: the program registered the place as that of its pointer, which is null until it is set here.
            if place.is_null() || !unsafe { place.read() }.is_null() {
                continue;
            }
            let words = variable.size.div_ceil(16).max(1);
            let memory: &'static mut [u128] = Box::leak(vec![0u128; words].into_boxed_slice());
            // SAFETY: as above.
            unsafe { place.write(memory.as_mut_ptr().cast()) };
        }
        self.tell(&variables, module);
    }

    /// # Errors
    /// cudaErrorNotSupported when there are any.
    pub fn refuse(&self, module: &impl fmt::Display) -> CudaResult {
        let variables = self.variables();
        if variables.is_empty() {
            return Ok(());
        }
        self.tell(&variables, module);
        Err(CudaError::NOT_SUPPORTED)
    }

    fn tell(&self, variables: &[Variable], module: &impl fmt::Display) {
        let Some(first) = variables.first() else { return };
        if !self.told.swap(true, Relaxed) {
            let more = if variables.len() > 1 { format!(" and {} more", variables.len() - 1) } else { String::new() };
            log::error(format_args!(
                "{module}: __managed__ variables are not supported yet ({}{more}): kernels of this module return \
                 cudaErrorNotSupported",
                first.name
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_get_zeroed_memory_once_and_are_refused() {
        let mut pointer: *mut u8 = std::ptr::null_mut();
        let managed = Managed::default();
        assert_eq!(managed.refuse(&"a test"), Ok(()));
        managed.add("m".to_owned(), std::ptr::from_mut(&mut pointer) as usize, 20);
        managed.back(&"a test");
        let first = pointer;
        // SAFETY: `back` set it to at least 20 bytes.
        assert!(unsafe { std::slice::from_raw_parts(first, 20) }.iter().all(|byte| *byte == 0));
        managed.back(&"a test");
        assert_eq!(pointer, first);
        assert_eq!(managed.refuse(&"a test"), Err(CudaError::NOT_SUPPORTED));
    }
}
