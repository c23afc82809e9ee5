//! Loops that the host is to lead: where one begins, and whether it may (manifest.md, "Slices").
//!
//! A slice begins at a call, its entry. When the program comes to it and is not yet in the loop, [`begin`] takes what
//! the slice needs from the registers, the frame and the object's variables. The layer above makes the records of the
//! slice's calls, and the session has the host lead (crate `client`, `leading`).
//!
//! A loop is left to the program, with a reason for the report, where somebody could see what the host does before the
//! program has come to it: another thread that uses CUDA, memory that the device shares with the program, kernels that
//! print. What is proven holds while no call has failed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use client::Section;
use slices::form::{Origin, Spot};
use slices::invariant::Invariants;
use slices::Slice;

use super::{of_thread, Thread};
use crate::above::device_may_write_host_memory;
use crate::frame::{self, Registers};
use crate::manifests::{self, Site, Used};
use crate::thread_state::counters;
use crate::{contexts, lazy_readback, mappings, output, process, work};

/// Some thread stands at the entry of a slice.
static WAITING: AtomicBool = AtomicBool::new(false);

macro_rules! reasons {
    ($($name:ident: $text:literal),+ $(,)?) => {
        /// Why a loop that has a slice is not led.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Refusal { $($name),+ }

        static REFUSED: [AtomicU64; [$(Refusal::$name),+].len()] =
            [const { AtomicU64::new(0) }; [$(Refusal::$name),+].len()];
        const NAMES: [&str; [$(Refusal::$name),+].len()] = [$($text),+];
    };
}

reasons! {
    Threads: "other_threads",
    Memory: "shared_memory",
    Printing: "printing",
    Captures: "captures",
    Contexts: "contexts",
    Arithmetic: "control_word",
    Call: "call",
    Size: "size",
    Stuck: "stuck",
    Short: "short",
}

/// The inputs of an execution, and what follows from them.
type Begun = (Vec<Vec<u8>>, Arc<Invariants>);

/// A slice of a manifest in use.
#[derive(Debug)]
pub struct Sliced {
    pub slice: Arc<Slice>,
    pub bytes: &'static [u8],
    pub in_loop: u32,
    /// Dense over all manifests.
    pub number: u64,
    name: OnceLock<String>,
    /// What it has begun with last, and its invariants. A leaf.
    begun: Mutex<Option<Begun>>,
}

impl Sliced {
    pub fn new(slice: Arc<Slice>, bytes: &'static [u8], in_loop: u32, number: u64) -> Self {
        Self { slice, bytes, in_loop, number, name: OnceLock::new(), begun: Mutex::new(None) }
    }

    /// What it passes to its calls in all iterations alike. `None`: the inputs are not its own.
    pub fn invariants(&self, inputs: &[Vec<u8>]) -> Option<Arc<Invariants>> {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, invariants)) = begun.as_ref().filter(|(with, _)| with == inputs) {
            return Some(invariants.clone());
        }
        let each: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let found = Arc::new(Invariants::of(&self.slice, &each)?);
        *begun = Some((inputs.to_vec(), found.clone()));
        Some(found)
    }
}

/// A slice at whose entry the program stands.
#[derive(Debug)]
pub struct Beginning {
    pub sliced: &'static Sliced,
    pub used: &'static Used,
    pub inputs: Vec<Vec<u8>>,
    /// The program has made an iteration by itself.
    pub again: bool,
}

impl Beginning {
    /// For messages: where the loop is.
    pub fn name(&self) -> &'static str {
        self.sliced.name.get_or_init(|| self.found_name())
    }

    fn found_name(&self) -> String {
        let Used { manifest, object, .. } = self.used;
        let each = manifest.loop_at(self.sliced.in_loop);
        let (function, line) = each.map_or(("?", 0), |each| (manifest.function_of(&each), each.line));
        let identity = object.identity().map(|identity| identity.hex()).unwrap_or_default();
        let place = if line == 0 { String::new() } else { format!(" (line {line})") };
        format!("the loop of {function}{place} in {} (build {identity})", object.shown())
    }

    /// The kernel of a launch at a site of the object: its host symbol.
    pub fn kernel_at(&self, site: u64) -> Option<&'static str> {
        manifests::find(self.address(site)).map(|site| site.used.manifest.name_of(&site.entry))
    }

    /// A call's site in the process; 0: it is not known.
    pub fn site(&self, link_time: u64) -> u64 {
        if link_time == 0 {
            0
        } else {
            self.address(link_time) as u64
        }
    }

    /// Where a place of the object is in the process.
    pub fn address(&self, link_time: u64) -> usize {
        self.used.object.bias.wrapping_add(link_time as usize)
    }
}

/// A loop is left to the program.
#[cold]
pub fn refuse(why: Refusal) {
    REFUSED[why as usize].fetch_add(1, Relaxed);
}

/// For the report.
pub fn section() -> Option<Section> {
    let counts: Vec<_> = NAMES
        .into_iter()
        .zip(&REFUSED)
        .map(|(name, count)| (name, count.load(Relaxed)))
        .filter(|(_, n)| *n > 0)
        .collect();
    (!counts.is_empty()).then_some(Section { name: "undecided", counts })
}

/// Whether a slice may begin with the call under way.
#[inline(always)]
pub fn waits() -> bool {
    WAITING.load(Relaxed)
}

/// The program has come to a site that begins a slice. `again`: its call before was of the same loop.
#[cold]
pub(super) fn arrive(thread: &Thread, again: bool) {
    thread.again.set(again);
    WAITING.store(true, Relaxed);
}

/// What begins with the call under way. `None`: nothing, or the program is in the loop already.
#[cold]
pub fn begin() -> Option<Beginning> {
    WAITING.store(false, Relaxed);
    let (site, again) = of_thread(|thread| (thread.site.get(), thread.again.get()))?;
    let site: &'static Site = site?;
    let sliced = site.sliced()?;
    let session = process::opened_session().filter(|session| session.can_lead())?;
    if session.is_followed() {
        return None;
    }
    if session.gives_up(sliced.number) {
        refuse(Refusal::Stuck);
        return None;
    }
    if !again && session.is_short(sliced.number) {
        refuse(Refusal::Short);
        return None;
    }
    if let Err(why) = admit(sliced) {
        refuse(why);
        return None;
    }
    let registers = frame::registers()?;
    let inputs: Option<Vec<Vec<u8>>> =
        sliced.slice.inputs.iter().map(|input| taken(input, &registers, site.used)).collect();
    Some(Beginning { sliced, used: site.used, inputs: inputs?, again })
}

/// Whether the host may lead a loop, as things are.
fn admit(sliced: &Sliced) -> Result<(), Refusal> {
    if !counters::is_alone() {
        return Err(Refusal::Threads);
    }
    let shares = manifests::any_managed() || device_may_write_host_memory() || work::reads_pending();
    if shares || lazy_readback::active() {
        return Err(Refusal::Memory);
    }
    if output::expected() {
        return Err(Refusal::Printing);
    }
    if contexts::acting() != contexts::PRIMARY {
        return Err(Refusal::Contexts);
    }
    if sliced.slice.floating && !rounds_as_usual() {
        return Err(Refusal::Arithmetic);
    }
    Ok(())
}

/// Whether SSE's control word is the standard one: exceptions masked, rounding to nearest, denormals kept.
#[cfg(target_arch = "x86_64")]
fn rounds_as_usual() -> bool {
    const CONTROL: u32 = 0xFFC0;
    const STANDARD: u32 = 0x1F80;
    let mut word = 0_u32;
    // SAFETY: writes four bytes to `word`.
    unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut word, options(nostack, preserves_flags)) };
    word & CONTROL == STANDARD
}

#[cfg(not(target_arch = "x86_64"))]
fn rounds_as_usual() -> bool {
    false
}

/// What an input is, as the program stands at the entry. `None`: it cannot be reached.
fn taken(input: &slices::form::Input, registers: &Registers, used: &Used) -> Option<Vec<u8>> {
    let size = match input.to {
        Spot::Register { .. } => 8,
        Spot::Memory(place) => usize::from(place.size),
    };
    match input.origin {
        Origin::Register(number) => {
            let value = registers.passed(u8::try_from(number).ok()?)?;
            value.to_le_bytes().get(..size).map(<[u8]>::to_vec)
        }
        Origin::BehindRegister { number, behind } => {
            behind_address(registers.passed(u8::try_from(number).ok()?)?, behind, size)
        }
        Origin::BehindFrame { offset, behind } => {
            behind_address(u64::from_le_bytes(registers.frame(offset, 8)?.try_into().ok()?), behind, size)
        }
        Origin::Bias => (used.object.bias as u64).to_le_bytes().get(..size).map(<[u8]>::to_vec),
        Origin::Frame(offset) => {
            let bytes = registers.frame(offset, size)?.to_vec();
            Some(bytes)
        }
        Origin::Global(address) => {
            if !used.object.holds(address, size as u64) {
                return None;
            }
            let start = used.object.bias.wrapping_add(address as usize) as *const u8;
            // SAFETY: inside a readable segment of an object that is never unloaded. No other thread writes it (the slice's
            // proof); volatile all the same, since it is the program's.
            Some((0..size).map(|index| unsafe { start.wrapping_add(index).read_volatile() }).collect())
        }
    }
}

/// `size` bytes of a heap block. Which address the block has is a guess of the analyzer's (a wrong one leads to no wrong
/// decision, but to none), so there may be no memory at all.
fn behind_address(address: u64, behind: u64, size: usize) -> Option<Vec<u8>> {
    let mut held = vec![0; size];
    let start = usize::try_from(address.checked_add(behind)?).ok()?;
    mappings::read(start, &mut held).then_some(held)
}

#[cfg(test)]
mod tests {
    use super::*;
    use slices::form::{Block, Call, End, Input};

    /// One call, which is passed what a register held.
    fn sliced() -> Sliced {
        let value = Spot::Register { number: 0, width: 8 };
        let arguments = vec![slices::form::Argument { number: 0, value }];
        let call = Call { site: 1, name: "cudaMemset".to_owned(), arguments, source: None, fills: None };
        let block = Block { operations: Vec::new(), end: End::Called { call: 0, block: 0 } };
        let inputs = vec![Input { origin: Origin::Register(3), to: value }];
        let slice = Slice {
            entry: 1,
            registers: 1,
            memory: 0,
            inputs,
            blocks: vec![block],
            calls: vec![call],
            floating: false,
        };
        Sliced::new(Arc::new(slice), &[], 0, 0)
    }

    #[test]
    fn invariants_are_found_once_for_equal_inputs() {
        let (sliced, value) = (sliced(), Spot::Register { number: 0, width: 8 });
        let with = |number: u64| sliced.invariants(&[number.to_le_bytes().to_vec()]).expect("its inputs");
        let first = with(7);
        assert!(Arc::ptr_eq(&first, &with(7)));
        let other = with(8);
        assert!(!Arc::ptr_eq(&first, &other));
        assert_eq!((first.number(0, value), other.number(0, value)), (Some(7), Some(8)));
        assert!(sliced.invariants(&[]).is_none());
    }
}
