//! What is redirected: all public functions of an embedded runtime, or none.
//!
//! An embedded runtime is recognised by the names of its own functions (`libcudart_static_<hash>`). Of the functions
//! named like the runtime's, those that Farlane's library exports are public ones of the runtime: the linker allows no
//! second definition. What else is named so may be the program's own (`cudaCheck`): a function counts as the runtime's
//! when the nearest functions before and behind it are, as the runtime is one piece of code.

use crate::patch;
use crate::symbols::{Symbol, Symbols};

/// Names of the embedded runtime's own functions begin so.
const INTERNAL: &[u8] = b"libcudart_static_";
/// Every runtime has these, with or without kernels in the program.
const REQUIRED: [&[u8]; 7] = [
    b"__cudaRegisterFatBinary",
    b"__cudaRegisterFunction",
    b"__cudaUnregisterFatBinary",
    b"__cudaPushCallConfiguration",
    b"cudaGetLastError",
    b"cudaLaunchKernel",
    b"cudaMalloc",
];
/// CUDA 12 has it and 13 does not.
const ONLY_12: &[u8] = b"cudaLaunchCooperativeKernelMultiDevice";
/// CUDA 11 has it and 12 does not.
const ONLY_11: &[u8] = b"cudaBindTexture";
/// More than any runtime has.
pub const MOST: usize = 1024;

/// Why an embedded runtime is left alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Symbols are missing that every runtime has: the file was stripped in part.
    Incomplete,
    /// It is older than CUDA 12.
    Old,
    /// Farlane's library of that version is not in the process.
    NoLibrary(Major),
    /// Two functions have one name, or a function is too short for a jump, or there are too many.
    Unexpected,
}

/// The version of an embedded runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Major {
    Twelve,
    Thirteen,
}

/// Where functions lead.
pub trait Library {
    /// Whether the library is there.
    fn present(&self, major: Major) -> bool;
    /// The number (below `MOST`) and the address of the function of that name.
    fn find(&self, major: Major, name: &[u8]) -> Option<(usize, usize)>;
}

/// One function to redirect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Function {
    pub symbol: Symbol,
    /// The address it leads to; `None` where the library does not have it.
    pub target: Option<usize>,
}

/// The functions to redirect. Large: it is kept in a mapping or on the heap.
#[derive(Debug)]
pub struct Plan {
    functions: [Function; MOST],
    count: usize,
    nearby: [Nearby; MOST],
}

impl Default for Plan {
    fn default() -> Plan {
        Plan { functions: [Function::default(); MOST], count: 0, nearby: [Nearby::default(); MOST] }
    }
}

impl Plan {
    /// Makes an empty plan of fresh pages.
    ///
    /// # Safety
    /// The memory is large and aligned enough for a plan, writable, and filled with zeros.
    pub unsafe fn empty(plan: *mut Plan) {
        // SAFETY: the caller's promise. Elements beyond the count are never read before they are written.
        unsafe { (&raw mut (*plan).count).write(0) };
    }

    pub fn functions(&self) -> &[Function] {
        self.functions.get(..self.count).unwrap_or_default()
    }

    fn push(&mut self, function: Function) -> Result<(), Refusal> {
        *self.functions.get_mut(self.count).ok_or(Refusal::Unexpected)? = function;
        self.count += 1;
        Ok(())
    }

    /// Finds the runtime that is embedded in a file; `Ok(None)` when there is none.
    ///
    /// # Errors
    /// There is one, and it must be left alone.
    pub fn make(&mut self, symbols: Symbols<'_>, library: &dyn Library) -> Result<Option<Major>, Refusal> {
        self.count = 0;
        let (mut internal, mut hidden, mut too_many) = (false, false, false);
        for symbol in symbols.functions() {
            if symbols.begins(symbol.name, b"cuda") || symbols.begins(symbol.name, b"__cuda") {
                hidden |= symbol.hidden;
                too_many |= self.push(Function { symbol, target: None }).is_err();
            } else if !internal && symbols.begins(symbol.name, INTERNAL) {
                internal = true;
            }
        }
        if !internal {
            // Without local symbols a hidden function of such a name is what is left of a runtime.
            let left = hidden && self.has(symbols, b"cudaGetExportTable");
            return if left { Err(Refusal::Incomplete) } else { Ok(None) };
        }
        if too_many {
            return Err(Refusal::Unexpected);
        }
        if self.has(symbols, ONLY_11) {
            return Err(Refusal::Old);
        }
        if !REQUIRED.iter().all(|name| self.has(symbols, name)) {
            return Err(Refusal::Incomplete);
        }
        let major = if self.has(symbols, ONLY_12) { Major::Twelve } else { Major::Thirteen };
        if !library.present(major) {
            return Err(Refusal::NoLibrary(major));
        }
        self.resolve(symbols, major, library)?;
        self.examine(symbols)?;
        Ok(Some(major))
    }

    fn has(&self, symbols: Symbols<'_>, name: &[u8]) -> bool {
        self.functions().iter().any(|function| symbols.name(function.symbol.name) == Some(name))
    }

    fn resolve(&mut self, symbols: Symbols<'_>, major: Major, library: &dyn Library) -> Result<(), Refusal> {
        let mut seen = [false; MOST];
        for function in self.functions.iter_mut().take(self.count) {
            let name = symbols.name(function.symbol.name).unwrap_or_default();
            let Some((number, address)) = library.find(major, name) else { continue };
            let again = seen.get_mut(number).is_none_or(|seen| core::mem::replace(seen, true));
            if again || function.symbol.indirect {
                return Err(Refusal::Unexpected);
            }
            function.target = Some(address);
        }
        Ok(())
    }

    /// Drops the program's own functions, and sees to it that each jump has room.
    fn examine(&mut self, symbols: Symbols<'_>) -> Result<(), Refusal> {
        let doubtful = |function: &Function| function.target.is_none() || function.symbol.size < patch::LONGEST as u64;
        let mut count = 0;
        for function in self.functions.iter().take(self.count).filter(|function| doubtful(function)) {
            *self.nearby.get_mut(count).ok_or(Refusal::Unexpected)? = Nearby::new(function.symbol.address);
            count += 1;
        }
        let (nearby, _) = self.nearby.split_at_mut_checked(count).ok_or(Refusal::Unexpected)?;
        nearby.sort_unstable_by_key(|nearby| nearby.address);
        for symbol in symbols.functions() {
            let next = nearby.partition_point(|nearby| nearby.address < symbol.address);
            if let Some(before) = next.checked_sub(1).and_then(|index| nearby.get_mut(index)) {
                before.is_followed_by(symbol);
            }
            // Past the one at this very address.
            let same = nearby.get(next).is_some_and(|nearby| nearby.address == symbol.address);
            if let Some(behind) = nearby.get_mut(next + usize::from(same)) {
                behind.follows(symbol);
            }
        }
        let mut kept = 0;
        for index in 0..self.count {
            let Some(function) = self.functions.get(index).copied() else { continue };
            if doubtful(&function) {
                let place = self.nearby.get(..count).unwrap_or_default();
                let found = place.iter().find(|nearby| nearby.address == function.symbol.address);
                let nearby = found.copied().unwrap_or_default();
                if function.target.is_none() && !nearby.both(|symbol| self.is_of_the_runtime(symbols, symbol)) {
                    continue;
                }
                if nearby.room(function.symbol) < patch::SHORTEST as u64 {
                    return Err(Refusal::Unexpected);
                }
            }
            if let Some(place) = self.functions.get_mut(kept) {
                *place = function;
            }
            kept += 1;
        }
        self.count = kept;
        Ok(())
    }

    fn is_of_the_runtime(&self, symbols: Symbols<'_>, symbol: Symbol) -> bool {
        symbols.begins(symbol.name, INTERNAL)
            || self.functions().iter().any(|function| function.target.is_some() && function.symbol == symbol)
    }
}

/// The nearest functions before and behind an address.
#[derive(Clone, Copy, Debug, Default)]
struct Nearby {
    address: u64,
    before: Option<Symbol>,
    behind: Option<Symbol>,
}

impl Nearby {
    fn new(address: u64) -> Nearby {
        Nearby { address, ..Nearby::default() }
    }

    fn follows(&mut self, symbol: Symbol) {
        if self.before.is_none_or(|nearest| nearest.address < symbol.address) {
            self.before = Some(symbol);
        }
    }

    fn is_followed_by(&mut self, symbol: Symbol) {
        if self.behind.is_none_or(|nearest| symbol.address < nearest.address) {
            self.behind = Some(symbol);
        }
    }

    fn both(&self, is: impl Fn(Symbol) -> bool) -> bool {
        self.before.is_some_and(&is) && self.behind.is_some_and(&is)
    }

    /// Bytes up to the next function: functions of the runtime begin at multiples of 16, and nothing else lies between
    /// them.
    fn room(&self, of: Symbol) -> u64 {
        let aligned = if of.address.is_multiple_of(16) { of.size.max(16) } else { of.size };
        self.behind.map_or(of.size, |behind| aligned.min(behind.address - of.address))
    }
}
