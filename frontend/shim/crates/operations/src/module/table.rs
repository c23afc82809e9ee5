//! What is registered, by the addresses that the program uses for it.
//!
//! Kernels are found by the address of their host stub or by their handle (`cudaKernel_t`, `cudaFunction_t`), variables
//! by the address of their host shadow. Two modules may register the same address (a template in two libraries, one
//! stub after symbol resolution): the first one counts until it is unregistered.
//!
//! Locking: one mutex, held for look-ups and bookkeeping only. Each thread keeps the kernels that it found
//! (`find_kernel`), and forgets them when anything was removed since. Kernels and variables are never freed: a few
//! hundred bytes stay behind for each one of a library that is closed.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::module::{Kernel, Module, Variable};
use session::thread_state::{Slot, Use};

#[derive(Default)]
pub struct Table {
    modules: HashMap<usize, &'static Module>,
    kernels: HashMap<usize, Vec<&'static Kernel>>,
    variables: HashMap<usize, Vec<&'static Variable>>,
}

static TABLE: Mutex<Option<Table>> = Mutex::new(None);
/// Raised whenever something is removed.
static REMOVALS: AtomicU64 = AtomicU64::new(1);

/// The table's lock, for the time of a fork.
pub struct Held(#[allow(dead_code)] MutexGuard<'static, Option<Table>>);

/// Takes the table's lock (for lifecycle).
pub fn hold() -> Held {
    Held(TABLE.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Runs `body` with the table.
pub fn with<T>(body: impl FnOnce(&mut Table) -> T) -> T {
    let mut table = TABLE.lock().unwrap_or_else(PoisonError::into_inner);
    body(table.get_or_insert_with(Table::default))
}

impl Table {
    pub fn add_module(&mut self, handle: usize, module: &'static Module) {
        self.modules.insert(handle, module);
    }

    pub fn module(&self, handle: usize) -> Option<&'static Module> {
        self.modules.get(&handle).copied()
    }

    pub fn modules(&self) -> Vec<&'static Module> {
        self.modules.values().copied().collect()
    }

    pub fn add_kernel(&mut self, key: usize, kernel: &'static Kernel) {
        self.kernels.entry(key).or_default().push(kernel);
    }

    pub fn add_variable(&mut self, key: usize, variable: &'static Variable) {
        self.variables.entry(key).or_default().push(variable);
    }

    pub fn kernel(&self, key: usize) -> Option<&'static Kernel> {
        self.kernels.get(&key).and_then(|all| all.first()).copied()
    }

    pub fn variable(&self, key: usize) -> Option<&'static Variable> {
        self.variables.get(&key).and_then(|all| all.first()).copied()
    }

    /// The kernel of that host symbol; `None` also where several modules have one. Of a static kernel the host's symbol
    /// says that it is (`_ZL` for `_Z`), the image's name does not. Clang's symbol is that of the kernel's stub.
    pub fn kernel_named(&self, symbol: &str) -> Option<&'static Kernel> {
        let of_a_stub = stubbed(symbol);
        let symbol = of_a_stub.as_deref().unwrap_or(symbol);
        let of_a_static = symbol.strip_prefix("_ZL").map(|rest| format!("_Z{rest}"));
        let is_named = |name: &str| name == symbol || Some(name) == of_a_static.as_deref();
        let named = |kernel: &&&'static Kernel| kernel.name().to_str().is_ok_and(is_named);
        let mut found = self.kernels.values().flatten().filter(named);
        let first = *found.next()?;
        found.all(|other| std::ptr::eq(*other, first)).then_some(first)
    }

    /// Removes a module and everything that belongs to it.
    pub fn remove_module(&mut self, handle: usize) -> Option<&'static Module> {
        let module = self.modules.remove(&handle)?;
        let of_module = |other: &'static Module| std::ptr::eq(other, module);
        self.kernels.retain(|_, all| {
            all.retain(|kernel| !of_module(kernel.module));
            !all.is_empty()
        });
        self.variables.retain(|_, all| {
            all.retain(|variable| !of_module(variable.module));
            !all.is_empty()
        });
        REMOVALS.fetch_add(1, Release);
        Some(module)
    }
}

static RECENT: Slot<Recent> = Slot::new(Use::Kernels);

const SLOTS: usize = 64;

/// The kernels that a thread has found.
struct Recent {
    removals: Cell<u64>,
    slots: [Cell<(usize, Option<&'static Kernel>)>; SLOTS],
}

impl Default for Recent {
    fn default() -> Self {
        Self { removals: Cell::new(0), slots: [const { Cell::new((0, None)) }; SLOTS] }
    }
}

/// The kernel that the program means with a host stub's address or a handle.
#[inline(always)]
pub fn find_kernel(key: usize) -> Option<&'static Kernel> {
    RECENT.with(|recent| recent.find(key)).unwrap_or_else(|| with(|table| table.kernel(key)))
}

#[cold]
fn look_up(key: usize, slot: &Cell<(usize, Option<&'static Kernel>)>) -> Option<&'static Kernel> {
    let kernel = with(|table| table.kernel(key))?;
    slot.set((key, Some(kernel)));
    Some(kernel)
}

impl Recent {
    #[cold]
    fn forget(&self, removals: u64) {
        self.slots.iter().for_each(|slot| slot.set((0, None)));
        self.removals.set(removals);
    }

    #[inline]
    fn find(&self, key: usize) -> Option<&'static Kernel> {
        let removals = REMOVALS.load(Acquire);
        if self.removals.get() != removals {
            self.forget(removals);
        }
        // Stubs and handles are at least 8 bytes apart.
        let slot = &self.slots[(key >> 4 ^ key >> 10) % SLOTS];
        match slot.get() {
            (found, Some(kernel)) if found == key => Some(kernel),
            _ => look_up(key, slot),
        }
    }
}

/// The kernel's name in that of the stub that clang makes for it: `_Z19__device_stub__stepPf` is `_Z4stepPf`'s.
fn stubbed(symbol: &str) -> Option<String> {
    const STUB: &str = "__device_stub__";
    let (before, name) = symbol.split_once(STUB)?;
    let mangled = before.trim_end_matches(|letter: char| letter.is_ascii_digit());
    let Ok(length) = before[mangled.len()..].parse::<usize>() else { return Some(format!("{before}{name}")) };
    Some(format!("{mangled}{}{name}", length.checked_sub(STUB.len())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module() -> &'static Module {
        Box::leak(Box::new(Module::from_bytes(Vec::new())))
    }

    fn kernel(module: &'static Module, name: &str) -> &'static Kernel {
        Box::leak(Box::new(Kernel::new(module, name.to_owned(), 0)))
    }

    #[test]
    fn the_first_registration_counts_until_it_is_gone() {
        let (first, second) = (module(), module());
        let (a, b) = (kernel(first, "k"), kernel(second, "k"));
        // Addresses no other test uses.
        let (key, handles) = (0xF00D_0010, (0xF00D_1000, 0xF00D_2000));
        with(|table| {
            table.add_module(handles.0, first);
            table.add_module(handles.1, second);
            table.add_kernel(key, a);
            table.add_kernel(key, b);
        });
        assert!(std::ptr::eq(find_kernel(key).unwrap(), a));
        assert!(std::ptr::eq(find_kernel(key).unwrap(), a));
        with(|table| table.remove_module(handles.0));
        assert!(std::ptr::eq(find_kernel(key).unwrap(), b));
        with(|table| table.remove_module(handles.1));
        assert!(find_kernel(key).is_none());
        assert!(with(|table| table.remove_module(handles.1)).is_none());
    }

    #[test]
    fn keys_that_share_a_slot_are_kept_apart() {
        let module = module();
        let (a, b) = (kernel(module, "a"), kernel(module, "b"));
        let (x, y) = (0xF10D_0000, 0xF10D_0000 + (1 << 20));
        with(|table| {
            table.add_kernel(x, a);
            table.add_kernel(y, b);
        });
        for _ in 0..3 {
            assert!(std::ptr::eq(find_kernel(x).unwrap(), a));
            assert!(std::ptr::eq(find_kernel(y).unwrap(), b));
        }
    }
}
