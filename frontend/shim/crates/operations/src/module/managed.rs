//! `__managed__` variables: the program reaches them through a pointer, without a call.
//!
//! The compiler's code calls __cudaInitModule before the program first touches one. The host is asked then where they lie on the device, the guest gets memory at the same addresses (`crate::managed`), and the program's pointers are set. Where that fails they get
//! memory of the guest alone, so that touching them is no fault, the user is told, and the module's kernels are refused from then on.

use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, PoisonError};

use super::code::Module;
use crate::managed;
use session::call::{Error, Outcome};
use session::log;

/// The managed variables of one module.
#[derive(Debug, Default)]
pub struct Managed {
    variables: Mutex<Vec<Declared>>,
    failed: AtomicBool,
}

#[derive(Clone, Debug)]
struct Declared {
    name: String,
    /// Address of the pointer through which the program reaches the variable.
    place: usize,
    size: usize,
    backed: bool,
}

impl Managed {
    pub fn add(&self, name: String, place: usize, size: usize) {
        let mut variables = self.variables.lock().unwrap_or_else(PoisonError::into_inner);
        variables.push(Declared { name, place, size, backed: false });
    }

    /// # Errors
    /// cudaErrorNotSupported when the program and the kernels would not see the same.
    pub fn check(&self) -> Outcome {
        if self.failed.load(Acquire) {
            return Err(Error::NOT_SUPPORTED);
        }
        Ok(())
    }

    /// Gives each variable memory.
    pub fn back(&self, module: &'static Module) {
        // Held throughout: another thread that is about to touch one waits here.
        let mut variables = self.variables.lock().unwrap_or_else(PoisonError::into_inner);
        if variables.iter().all(|variable| variable.backed) {
            return;
        }
        if let Err(error) = set_pointers(&variables, module) {
            let first = variables.first().map_or("", |variable| variable.name.as_str());
            log::error(format_args!(
                "__managed__ variables ({first}) cannot be shared with the device (CUDA error {}): kernels of their module return \
                 cudaErrorNotSupported",
                error.0
            ));
            self.failed.store(true, Release);
            give_own_memory(&variables);
        }
        for variable in variables.iter_mut() {
            variable.backed = true;
        }
    }
}

fn set_pointers(variables: &[Declared], module: &'static Module) -> Outcome {
    let mut places = Vec::new();
    for variable in variables.iter().filter(|variable| !variable.backed && variable.place != 0) {
        let on_device = module.variable(&variable.name, variable.size);
        places.push((on_device.address()? as usize, variable.size, variable.place as *mut usize));
    }
    let ranges: Vec<(usize, usize)> = places.iter().map(|(address, size, _)| (*address, *size)).collect();
    managed::add_variables(&ranges)?;
    for (address, _, pointer) in places {
        // SAFETY: the program registered the place as that of its pointer.
        unsafe { pointer.write(address) };
    }
    Ok(())
}

fn give_own_memory(variables: &[Declared]) {
    for variable in variables.iter().filter(|variable| variable.place != 0) {
        let place = variable.place as *mut *mut u128;
        // SAFETY: the program registered the place as that of its pointer, which is null until it is set.
        if unsafe { place.read() }.is_null() {
            let words = variable.size.div_ceil(16).max(1);
            let memory: &'static mut [u128] = Box::leak(vec![0u128; words].into_boxed_slice());
            // SAFETY: as above.
            unsafe { place.write(memory.as_mut_ptr()) };
        }
    }
}
