//! Where in the program a CUDA call comes from: its return address, and the registers as they are at the call
//! instruction.
//!
//! The thin libraries' entries save the registers into a block of thread-local storage and then jump here
//! (thin_libraries.py; the layout below is theirs). The layer above opens every call with [`begin`], which decides what
//! the call's *site* is: its return address, but for a launch that takes a pushed configuration the return address of
//! the push, which is in the program's own code at every level of optimization.
//!
//! Valid from `begin` until the same thread makes its next CUDA call. The shim's own use of its functions does not go
//! through the thin libraries and changes nothing. A callback of the program that calls CUDA changes it: who needs it
//! afterwards reads it before. CUDA may not be called from signal handlers. On other architectures than x86-64, and
//! before the thin libraries are initialized, there is no site (0), no register and no frame, and nothing else changes.

use std::cell::Cell;
use std::sync::atomic::{AtomicIsize, Ordering::Relaxed};

use crate::function::Operation;
use crate::thread_state::ThreadState;

/// What the thin libraries write, and behind it what belongs to the core.
#[repr(C)]
struct Block {
    registers: Registers,
    /// Site of the call under way.
    site: Cell<usize>,
    /// Site of the push whose configuration was popped by the stub that is about to launch.
    popped: Cell<usize>,
    /// What the thread has for itself; null until it has made a call.
    state: Cell<*const ThreadState>,
}

const _: () = assert!(size_of::<Block>() == 128, "as much as the thin libraries reserve");

/// The registers on entry that the ABI preserves or passes arguments in.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// On entry: the return address lies there. At the call instruction rsp is 8 more.
    entry_rsp: u64,
    pub rbx: u64,
    pub rbp: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    /// rdi, rsi, rdx, rcx, r8, r9; where they are saved (`save_arguments`).
    pub arguments: [u64; 6],
}

impl Registers {
    /// As it is at the call instruction.
    pub fn rsp(&self) -> u64 {
        self.entry_rsp.wrapping_add(8)
    }

    /// By its number in machine code, which is the manifest's; none but those that a call preserves.
    pub fn numbered(&self, number: u8) -> Option<u64> {
        Some(match number {
            3 => self.rbx,
            4 => self.rsp(),
            5 => self.rbp,
            12 => self.r12,
            13 => self.r13,
            14 => self.r14,
            15 => self.r15,
            _ => return None,
        })
    }

    /// The same, and those that arguments are passed in, where these are saved.
    pub fn passed(&self, number: u8) -> Option<u64> {
        const ARGUMENTS: [u8; 6] = [7, 6, 2, 1, 8, 9];
        let argument = ARGUMENTS.iter().position(|&of| of == number).map(|index| self.arguments[index]);
        argument.or_else(|| self.numbered(number))
    }

    /// `size` bytes at rsp + `offset`; `None` when they are not all in the thread's stack.
    pub fn frame(&self, offset: u64, size: usize) -> Option<&[u8]> {
        let start = self.rsp().checked_add(offset)?;
        let end = start.checked_add(size as u64)?;
        let stack = stack()?;
        if start < stack.0 || end > stack.1 {
            return None;
        }
        // SAFETY: of this thread's stack, above the frames of this library; nothing but this thread's callers write to
        // it.
        Some(unsafe { std::slice::from_raw_parts(start as *const u8, size) })
    }

    /// How many bytes of stack there are from rsp on.
    pub fn frame_size(&self) -> usize {
        let rsp = self.rsp();
        stack().filter(|(low, high)| (*low..*high).contains(&rsp)).map_or(0, |(_, high)| (high - rsp) as usize)
    }
}

/// Offset of the block from the thread pointer; it is negative, and a multiple of 64. The thin libraries set it when
/// they are initialized, which is after this library was. Bit 0: the arguments are saved, too.
#[no_mangle]
#[allow(non_upper_case_globals)] // a name of the C ABI
pub static farlane_frame_offset: AtomicIsize = AtomicIsize::new(0);

/// The library's constructor: the first call's arguments are to be in the trace as well.
extern "C" fn prepare() {
    if std::env::var_os("FARLANE_TRACE").is_some_and(|name| !name.is_empty()) {
        farlane_frame_offset.store(1, Relaxed);
    }
}

/// From the next call on the registers that arguments are passed in are saved, too.
#[cold]
pub fn save_arguments() {
    farlane_frame_offset.fetch_or(1, Relaxed);
}

/// Whether they are: of the call under way only where that was so when it began.
#[inline]
pub fn saves_arguments() -> bool {
    farlane_frame_offset.load(Relaxed) & 1 != 0
}

#[used]
#[link_section = ".init_array"]
static PREPARE: extern "C" fn() = prepare;

#[cfg(target_arch = "x86_64")]
#[inline]
fn block() -> Option<*const Block> {
    let offset = farlane_frame_offset.load(Relaxed) & !1;
    if offset == 0 {
        return None;
    }
    let pointer: *const u8;
    // SAFETY: the first word of a thread's control block is its own address (System V ABI, thread-local storage).
    unsafe {
        std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(pure, readonly, nostack, preserves_flags));
    }
    Some(pointer.wrapping_offset(offset).cast())
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn block() -> Option<*const Block> {
    None
}

/// How a function stands to the launch protocol of the compilers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A call by itself.
    Whole,
    /// The configuration of a launch is pushed: the launch's site.
    Push,
    /// Between push and launch, in the compiler's stub.
    Stub,
    Launch,
    /// Start-up code of the compiler.
    Registration,
}

impl Part {
    #[inline]
    pub const fn of(operation: Operation) -> Part {
        match operation {
            Operation::PushCallConfiguration => Part::Push,
            Operation::PopCallConfiguration | Operation::GetKernel => Part::Stub,
            Operation::LaunchKernel | Operation::LaunchKernelExC | Operation::LaunchCooperativeKernel => Part::Launch,
            Operation::RegisterFatBinary
            | Operation::RegisterFatBinaryEnd
            | Operation::UnregisterFatBinary
            | Operation::RegisterFunction
            | Operation::RegisterVar
            | Operation::RegisterManagedVar
            | Operation::InitModule => Part::Registration,
            _ => Part::Whole,
        }
    }
}

/// Begins a call of the program.
#[inline]
pub fn begin(part: Part) {
    let Some(block) = block() else { return };
    // SAFETY: this thread's block, which lives as long as the thread; only this thread uses it.
    let Block { registers, site, popped, .. } = unsafe { &*block };
    let own = || match registers.entry_rsp {
        0 => 0, // a thread that has not come through the thin libraries
        // SAFETY: on entry rsp pointed to the return address, which stays there until the call returns.
        rsp => unsafe { (rsp as *const usize).read() },
    };
    match part {
        Part::Stub => return, // neither ends nor begins anything
        Part::Launch if popped.get() != 0 => site.set(popped.get()),
        _ => site.set(own()),
    }
    popped.set(0);
}

/// What this thread has for itself; null: not known.
#[inline]
pub fn state() -> *const ThreadState {
    // SAFETY: as in `begin`.
    block().map_or(std::ptr::null(), |block| unsafe { (*block).state.get() })
}

/// Whether the thread has something for itself; `None`: that is not known here.
pub fn has_state() -> Option<bool> {
    block().map(|_| !state().is_null())
}

/// From now on this is what the thread has for itself.
pub fn set_state(state: *const ThreadState) {
    if let Some(block) = block() {
        // SAFETY: as in `begin`.
        unsafe { (*block).state.set(state) };
    }
}

/// The configuration that was pushed at `site` was popped.
#[inline]
pub fn popped(site: usize) {
    if let Some(block) = block() {
        // SAFETY: as in `begin`.
        unsafe { (*block).popped.set(site) };
    }
}

/// The return address of the current call in the program; for a launch that of its push. 0: not known.
#[inline]
pub fn site() -> usize {
    // SAFETY: as in `begin`.
    block().map_or(0, |block| unsafe { (*block).site.get() })
}

/// What tells the calling thread from others that live now, and `site`.
#[inline]
pub fn thread_and_site() -> (usize, usize) {
    match block() {
        // The block is the thread's own: its place tells threads apart.
        // SAFETY: as in `begin`.
        Some(block) => (block as usize, unsafe { (*block).site.get() }),
        // SAFETY: it has no preconditions.
        None => (unsafe { libc::pthread_self() } as usize, 0),
    }
}

/// The registers of the current call: for a launch those of the launching call, not of the push.
pub fn registers() -> Option<Registers> {
    // SAFETY: as in `begin`.
    block().map(|block| unsafe { (*block).registers }).filter(|registers| registers.entry_rsp != 0)
}

thread_local! {
    /// Bounds of this thread's stack; not asked yet, or not known.
    static STACK: Cell<Option<Option<(u64, u64)>>> = const { Cell::new(None) };
}

/// The bounds of the calling thread's stack, as the thread was created. A program that runs on a stack of its own
/// making (coroutines, signal stacks) stands outside.
pub fn stack() -> Option<(u64, u64)> {
    STACK
        .try_with(|known| match known.get() {
            Some(bounds) => bounds,
            None => {
                let bounds = ask_stack();
                known.set(Some(bounds));
                bounds
            }
        })
        .ok()
        .flatten()
}

fn ask_stack() -> Option<(u64, u64)> {
    // SAFETY: the attributes are initialized by the first call, read by the second, and released.
    unsafe {
        let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
        if libc::pthread_getattr_np(libc::pthread_self(), &raw mut attributes) != 0 {
            return None;
        }
        let (mut low, mut size) = (std::ptr::null_mut(), 0);
        let status = libc::pthread_attr_getstack(&raw const attributes, &raw mut low, &raw mut size);
        libc::pthread_attr_destroy(&raw mut attributes);
        (status == 0).then_some((low as u64, (low as u64).checked_add(size as u64)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_is_bounded_by_the_threads_own_stack() {
        let value = 0x1122_3344_5566_7788_u64;
        let here = &raw const value as u64;
        let registers = Registers { entry_rsp: here - 8, ..Registers::default() };
        assert_eq!(registers.frame(0, 8), Some(&value.to_le_bytes()[..]));
        let left = registers.frame_size();
        assert!(left > 8 && registers.frame(left as u64 - 1, 1).is_some());
        for (offset, size) in [(left as u64, 1), (0, left + 1), (u64::MAX, 1), (u64::MAX - here, 8)] {
            assert_eq!(registers.frame(offset, size), None, "{offset:#x} {size}");
        }
        let elsewhere = Registers { entry_rsp: 4096, ..Registers::default() };
        assert_eq!((elsewhere.frame(0, 1), elsewhere.frame_size()), (None, 0));
        // Another thread's stack is not this one's.
        std::thread::spawn(move || assert_eq!(registers.frame(0, 8), None)).join().unwrap();
    }

    #[test]
    fn without_the_thin_libraries_nothing_is_known() {
        begin(Part::Whole);
        popped(5);
        assert_eq!((site(), registers()), (0, None));
    }

    #[test]
    fn registers_have_the_numbers_of_machine_code() {
        let registers =
            Registers { entry_rsp: 0, rbx: 3, rbp: 5, r12: 12, r13: 13, r14: 14, r15: 15, arguments: [0; 6] };
        for number in [3, 5, 12, 13, 14, 15] {
            assert_eq!(registers.numbered(number), Some(u64::from(number)));
        }
        assert_eq!((registers.numbered(4), registers.numbered(0), registers.numbered(16)), (Some(8), None, None));
    }
}
