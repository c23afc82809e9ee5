//! `__managed__` variables: the program reaches them through a pointer, without a call.
//!
//! The shim asks the host where a module's variables lie on the device, and maps memory of the guest at the same
//! addresses (`crate::managed`).
//!
//! Registered modules: the compiler's code calls __cudaInitModule before the program first touches a variable, and the
//! shim sets the program's pointers. Where the mapping fails, the variables get memory of the guest alone, so an access
//! is no fault; the shim prints an error and refuses the module's kernels from then on. Loaded modules: the program
//! asks for an address, and that call fails.
//!
//! Each context that has a module open has memory of its own for the variables; it ends when the module is closed
//! there.

use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::code::Module;
use crate::managed;
use session::call::{Error, Outcome};
use session::log;

/// Addresses and sizes of variables.
type Ranges = Vec<(usize, usize)>;

/// The managed variables of one module.
#[derive(Debug, Default)]
pub struct Managed {
    variables: Mutex<Vec<Declared>>,
    failed: AtomicBool,
    /// The addresses and sizes that are memory of both sides, by the module's handle on the tape.
    shared: Mutex<Vec<(u32, Ranges)>>,
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
        let mut variables = lock(&self.variables);
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
        let mut variables = lock(&self.variables);
        if variables.iter().all(|variable| variable.backed) {
            return;
        }
        if let Err(error) = self.set_pointers(&variables, module) {
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

    fn set_pointers(&self, variables: &[Declared], module: &'static Module) -> Outcome {
        let missing = || variables.iter().filter(|variable| !variable.backed && variable.place != 0);
        let named = missing().map(|variable| (variable.name.as_str(), variable.size));
        let ranges = self.share(module, named)?;
        for (variable, (address, _)) in missing().zip(ranges) {
            // SAFETY: the program registered the place as that of its pointer.
            unsafe { (variable.place as *mut usize).write(address) };
        }
        Ok(())
    }

    /// Gives the variables of a loaded module memory, in the context that the calling thread works for.
    ///
    /// # Errors
    /// cudaErrorNotSupported when the program and the kernels would not see the same, and why the host cannot be asked.
    pub fn share_loaded(&self, module: &'static Module) -> Outcome {
        // Held throughout: another thread that asks waits here.
        let _alone = lock(&self.variables);
        if module.opened().is_some_and(|handle| lock(&self.shared).iter().any(|(of, _)| *of == handle)) {
            return Ok(());
        }
        let contents = module.contents()?;
        let managed = contents.variables.iter().filter(|(_, known)| known.managed);
        self.share(module, managed.map(|(name, known)| (name.as_str(), known.size as usize))).map(drop)
    }

    /// Where these variables lie, which are memory of both sides from then on.
    fn share<'a>(&self, module: &'static Module, variables: impl Iterator<Item = (&'a str, usize)>) -> Outcome<Ranges> {
        let place = |(name, size)| Ok((module.variable(name, size).address()? as usize, size));
        let ranges: Ranges = variables.map(place).collect::<Outcome<_>>()?;
        managed::add_variables(&ranges).map_err(|error| {
            log::info(format_args!("managed variables cannot be shared with the device (CUDA error {})", error.0));
            Error::NOT_SUPPORTED
        })?;
        if let Some(handle) = module.opened() {
            lock(&self.shared).push((handle, ranges.clone()));
        }
        Ok(ranges)
    }

    /// The module ends that has this handle on the tape.
    pub fn end(&self, handle: u32) {
        lock(&self.shared).retain(|(of, ranges)| {
            if *of == handle {
                managed::end_variables(ranges);
            }
            *of != handle
        });
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
