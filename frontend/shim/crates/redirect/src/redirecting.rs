//! Redirecting one object: reads its file, plans, writes the jumps, and tells the core about it.
//!
//! Nothing is written before everything is known to fit. The pages of code are writable and not executable while the
//! jumps are written; no thread executes them, because the object's constructors have not run.

use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::file::ObjectFile;
use crate::loaded::{Farlane, LinkMap};
use crate::message;
use crate::patch::{Patch, LONGEST};
use crate::plan::{Function, Plan};
use crate::symbols::Symbols;
use crate::system::{self, Mapping, EXECUTE, PAGE, READ, WRITE};

/// The core keeps the biases of redirected objects here, zero where there is none.
const REDIRECTED: &[u8] = b"farlane_redirected";
pub const MOST_REDIRECTED: usize = 256;
/// The core's function for names that its libraries do not have: it takes the name.
const UNSUPPORTED: &[u8] = b"farlane_unsupported_runtime";
/// `lea name(%rip), %rdi; jmp *handler(%rip)`, the handler's address, the name.
const STUB: usize = 16;

/// What became of an object.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It has no runtime of its own, or none that could be seen.
    Nothing,
    Redirected,
    /// It has one, which is left alone; the user was told why.
    LeftAlone,
}

/// Redirects an object whose constructors have not run.
pub fn redirect(map: &LinkMap, farlane: &Farlane) -> Outcome {
    let name = map.name().to_bytes();
    if !name.is_empty() && !name.contains(&b'/') {
        return Outcome::Nothing; // the kernel's own object
    }
    if is_redirected(map, farlane) {
        return Outcome::Redirected;
    }
    let Some(file) = ObjectFile::open(map) else { return Outcome::Nothing };
    let Some(bytes) = file.symbols() else { return Outcome::Nothing };
    let Some(scratch) = Mapping::fresh(size_of::<Plan>()) else { return Outcome::Nothing };
    let plan = scratch.address() as *mut Plan;
    // SAFETY: fresh pages, as large and aligned as a plan; zeros are a plan, but not by any promise of the language.
    let plan = unsafe {
        Plan::empty(plan);
        &mut *plan
    };
    let symbols = bytes.symbols();
    let shown = if name.is_empty() { b"this program".as_slice() } else { name };
    match plan.make(symbols, farlane) {
        Ok(None) => Outcome::Nothing,
        Ok(Some(_)) => {
            let written =
                !map.has_text_relocations() && write(map, &file, symbols, plan.functions(), farlane).is_some();
            if !written {
                message::warn(shown, message::MEMORY);
                return Outcome::LeftAlone;
            }
            note(map, farlane);
            Outcome::Redirected
        }
        Err(refusal) => {
            message::warn(shown, message::of(refusal));
            Outcome::LeftAlone
        }
    }
}

fn biases(farlane: &Farlane) -> &'static [AtomicUsize] {
    let Some(table) = farlane.core().and_then(|core| core.symbol(REDIRECTED)) else { return &[] };
    // SAFETY: the core's array of that length, which is never unmapped.
    unsafe { core::slice::from_raw_parts(table as *const AtomicUsize, MOST_REDIRECTED) }
}

/// The other way of this library may have come first.
fn is_redirected(map: &LinkMap, farlane: &Farlane) -> bool {
    biases(farlane).iter().any(|bias| bias.load(Relaxed) == key(map))
}

fn note(map: &LinkMap, farlane: &Farlane) {
    if let Some(free) = biases(farlane).iter().find(|bias| bias.load(Relaxed) == 0) {
        free.store(key(map), Relaxed);
    }
}

/// The object is unloaded: another one may be loaded in its place.
pub fn forget(map: &LinkMap, farlane: &Farlane) {
    for bias in biases(farlane).iter().filter(|bias| bias.load(Relaxed) == key(map)) {
        bias.store(0, Relaxed);
    }
}

/// A bias is a multiple of the page size, and may be zero.
fn key(map: &LinkMap) -> usize {
    map.bias | 1
}

/// Writes all jumps; `None` when nothing was written.
fn write(
    map: &LinkMap,
    file: &ObjectFile,
    symbols: Symbols<'_>,
    functions: &[Function],
    farlane: &Farlane,
) -> Option<()> {
    let start = functions.iter().map(|function| function.symbol.address).min()?;
    let last = functions.iter().map(|function| function.symbol.address).max()?;
    let end = last.checked_add(LONGEST as u64)?.min(file.code_ends(last)?);
    let original = file.code(start, end)?;
    let stubs = Stubs::new(symbols, functions, farlane)?;
    let at = |function: &Function| (function.symbol.address - start) as usize;
    let memory = map.bias.checked_add(usize::try_from(start).ok()?)?;
    // SAFETY: the loader has mapped this part of the file there, readable as all code is.
    let present = unsafe { core::slice::from_raw_parts(memory as *const u8, original.bytes().len()) };
    let patch = |function: &Function, target: usize| {
        let length = if function.symbol.size < LONGEST as u64 { crate::patch::SHORTEST } else { LONGEST };
        let original = original.bytes().get(at(function)..)?;
        Patch::new(original.get(..length)?, present.get(at(function)..)?, target)
    };
    let mut stub = 0;
    let mut target = |function: &Function| {
        function.target.unwrap_or_else(|| {
            stub += 1;
            stubs.address(stub - 1)
        })
    };
    for function in functions {
        patch(function, 0)?;
    }
    let pages = (memory & !(PAGE - 1), (memory + present.len()).next_multiple_of(PAGE));
    // SAFETY: nothing executes this object before its constructors, and this library is another one.
    unsafe { system::protect(pages.0, pages.1, READ | WRITE) }.ok()?;
    for function in functions {
        let Some(patch) = patch(function, target(function)) else { continue }; // it was there a moment ago
        for (offset, byte) in patch.bytes().iter().enumerate() {
            // SAFETY: within the pages that can be written now; a jump has room.
            unsafe { ((memory + at(function) + offset) as *mut u8).write_volatile(*byte) };
        }
    }
    // SAFETY: what they were before.
    if unsafe { system::protect(pages.0, pages.1, READ | EXECUTE) }.is_err() {
        message::warn(
            map.name().to_bytes(),
            b"the system forbids changed code (SELinux: execmod); link it with nvcc -cudart shared",
        );
        system::exit(127);
    }
    stubs.keep();
    Some(())
}

/// Pieces of code that report functions which Farlane's library does not have.
struct Stubs {
    pages: Option<Mapping>,
    each: usize,
}

impl Stubs {
    fn new(symbols: Symbols<'_>, functions: &[Function], farlane: &Farlane) -> Option<Stubs> {
        let unknown = || functions.iter().filter(|function| function.target.is_none());
        let each = STUB + 8 + 128;
        if unknown().next().is_none() {
            return Some(Stubs { pages: None, each });
        }
        let handler = farlane.core()?.symbol(UNSUPPORTED)?;
        let size = (unknown().count() * each).next_multiple_of(PAGE);
        let pages = Mapping::fresh(size)?;
        for (index, function) in unknown().enumerate() {
            let start = pages.address() + index * each;
            let code: [u8; STUB] = [0x48, 0x8d, 0x3d, 17, 0, 0, 0, 0xff, 0x25, 3, 0, 0, 0, 0xcc, 0xcc, 0xcc];
            let name = symbols.name(function.symbol.name)?;
            for (offset, byte) in code.iter().chain(&handler.to_le_bytes()).chain(name).enumerate() {
                // SAFETY: within fresh pages: names are shorter than 128 bytes.
                unsafe { ((start + offset) as *mut u8).write(*byte) };
            }
        }
        // SAFETY: pages of this function's own.
        unsafe { system::protect(pages.address(), pages.address() + size, READ | EXECUTE) }.ok()?;
        Some(Stubs { pages: Some(pages), each })
    }

    fn address(&self, index: usize) -> usize {
        self.pages.as_ref().map_or(0, |pages| pages.address() + index * self.each)
    }

    fn keep(self) {
        if let Some(pages) = self.pages {
            pages.keep();
        }
    }
}
