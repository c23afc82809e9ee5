//! Verified joins (`FARLANE_LOOPS=verify`): whether the program leaves a joined copy's destination alone until a call
//! waits.
//!
//! The copy itself is made at once. From its return to the next call, and between the calls that follow, the
//! processor's trap flag stops the thread in front of every instruction. The handler decodes it and compares what it
//! reads and writes with the destinations. So the check is of what the program does, whatever its memory is: frame,
//! heap or globals, in its own code or in a library's. A system call that is passed an address in a destination counts
//! as an access.
//!
//! Nothing here knows when a window ends: `thread` says so. The handler neither allocates nor takes a lock. Not seen:
//! gathers and scatters (AVX2, AVX-512). A program that blocks SIGTRAP in a window is ended by the kernel. On other
//! processors than x86-64 no copy is joined, and there is nothing to verify.

#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports))]

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::OnceLock;

use iced_x86::{
    Code, Decoder, DecoderOptions, InstructionInfoFactory, InstructionInfoOptions, OpAccess, Register, UsedMemory,
};
use libc::{c_int, c_void, siginfo_t, ucontext_t};

use crate::{log, objects, process};

const TRAP_FLAG: i64 = 0x100;
const LONGEST: usize = 15; // bytes of an instruction
const PAGE: usize = 4096;

/// An access to a destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Touch {
    instruction: usize,
    address: usize,
    writes: bool,
}

/// What a thread watches.
struct Steps {
    /// Changed only while the thread is not stopped at its instructions.
    places: RefCell<Vec<Range<usize>>>,
    /// Allocates once.
    information: RefCell<Option<InstructionInfoFactory>>,
    stepping: Cell<bool>,
    touch: Cell<Option<Touch>>,
}

thread_local! {
    static STEPS: Steps = const {
        Steps {
            places: RefCell::new(Vec::new()),
            information: RefCell::new(None),
            stepping: Cell::new(false),
            touch: Cell::new(None),
        }
    };
}

/// Some thread has had a place to watch. Elsewhere calls spare the look at their thread's.
static USED: AtomicBool = AtomicBool::new(false);

/// Runs `body` with what this thread watches.
#[inline]
fn of_thread(body: impl FnOnce(&Steps)) {
    if USED.load(Relaxed) {
        let _ = STEPS.try_with(body);
    }
}

/// Whether joined copies are verified in this process.
pub(super) fn is_on() -> bool {
    cfg!(target_arch = "x86_64") && process::opened_session().is_some_and(client::Session::verifies)
}

/// The copy to `[start, start + length)` under way would join.
pub(super) fn add(start: usize, length: usize) {
    USED.store(true, Relaxed);
    of_thread(|steps| steps.places.borrow_mut().push(start..start.saturating_add(length)));
}

/// The copies would be complete now.
pub(super) fn end() {
    of_thread(|steps| {
        stop(steps);
        steps.places.borrow_mut().clear();
    });
}

/// A call of the program begins. A destination that was touched ends the session.
#[inline]
pub(super) fn arrive() {
    of_thread(|steps| {
        if steps.stepping.get() {
            stop(steps);
        }
        if let Some(touch) = steps.touch.take() {
            break_off(touch);
        }
    });
}

/// A call of the program is done: from here to the next one the thread is stopped at its instructions.
#[inline]
pub(super) fn leave() {
    of_thread(|steps| {
        if !steps.places.borrow().is_empty() {
            begin(steps);
        }
    });
}

#[cold]
fn break_off(touch: Touch) {
    let Touch { instruction, address, writes } = touch;
    let place = objects::locate(instruction).map_or_else(
        || format!("{instruction:#x}"),
        |object| format!("{:#x} in {}", instruction.wrapping_sub(object.bias), object.shown()),
    );
    let does = if writes { "writes to" } else { "reads" };
    let why = format!(
        "the instruction at {place} {does} memory at {address:#x} to which a joined copy is under way: the analysis of this \
         build is wrong (set FARLANE_MANIFESTS=off to run without, and report it)"
    );
    end();
    match process::opened_session() {
        Some(session) => session.break_off(&why),
        None => log::error(format_args!("{why}")),
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn begin(_: &Steps) {}

#[cfg(not(target_arch = "x86_64"))]
fn stop(_: &Steps) {}

#[cfg(target_arch = "x86_64")]
#[cold]
fn begin(steps: &Steps) {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    if !*INSTALLED.get_or_init(install) {
        return;
    }
    let mut information = steps.information.borrow_mut();
    if information.is_none() {
        let mut made = InstructionInfoFactory::new();
        let warm = Decoder::with_ip(64, &[0x8B, 0x07], 0, DecoderOptions::NONE).decode(); // its tables are made now
        let _ = made.info_options(&warm, InstructionInfoOptions::NO_REGISTER_USAGE);
        *information = Some(made);
    }
    drop(information);
    steps.stepping.set(true);
    // SAFETY: sets the trap flag; the handler is installed, and leaves all registers as they are.
    unsafe { std::arch::asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq") };
}

#[cfg(target_arch = "x86_64")]
fn stop(steps: &Steps) {
    if steps.stepping.get() {
        // SAFETY: clears the trap flag.
        unsafe { std::arch::asm!("pushfq", "and qword ptr [rsp], -257", "popfq") };
        steps.stepping.set(false);
    }
}

static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

#[cfg(target_arch = "x86_64")]
fn install() -> bool {
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = handle;
    // SAFETY: an all-zero value is valid; both are valid for sigaction.
    let installed = unsafe {
        let mut previous: libc::sigaction = std::mem::zeroed();
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigaction(libc::SIGTRAP, std::ptr::null(), &raw mut previous) == 0
            && PREVIOUS.set(previous).is_ok()
            && libc::sigaction(libc::SIGTRAP, &raw const action, std::ptr::null_mut()) == 0
    };
    if !installed {
        log::error(format_args!("joined copies are not verified: SIGTRAP cannot be handled"));
    }
    installed
}

#[cfg(target_arch = "x86_64")]
extern "C" fn handle(signal: c_int, _: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel's, for a handler with SA_SIGINFO.
    let Some(context) = (unsafe { context.cast::<ucontext_t>().as_mut() }) else { return };
    let registers = &mut context.uc_mcontext.gregs;
    let ours = STEPS.try_with(|steps| {
        if !steps.stepping.get() {
            return false;
        }
        if let Some(touch) = touch(steps, registers) {
            steps.touch.set(Some(touch));
            steps.stepping.set(false);
            registers[libc::REG_EFL as usize] &= !TRAP_FLAG;
        }
        true
    });
    if ours != Ok(true) {
        // The program's own trap: once more, for who was there before.
        if let Some(previous) = PREVIOUS.get() {
            // SAFETY: an action that sigaction gave; both are async-signal-safe.
            unsafe {
                libc::sigaction(signal, previous, std::ptr::null_mut());
                libc::raise(signal);
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
type Registers = [libc::greg_t; 23];

/// What the instruction that is next does to a place.
#[cfg(target_arch = "x86_64")]
fn touch(steps: &Steps, registers: &Registers) -> Option<Touch> {
    let places = steps.places.try_borrow().ok()?;
    let mut information = steps.information.try_borrow_mut().ok()?;
    let instruction = registers[libc::REG_RIP as usize] as usize;
    let decode = |length: usize| {
        // SAFETY: code that is about to be executed. Up to the page's end it can be read, and beyond where the
        // instruction goes on there.
        let bytes = unsafe { std::slice::from_raw_parts(instruction as *const u8, length) };
        Decoder::with_ip(64, bytes, instruction as u64, DecoderOptions::NONE).decode()
    };
    let in_page = LONGEST.min(PAGE - instruction % PAGE);
    let mut next = decode(in_page);
    if next.is_invalid() && in_page < LONGEST {
        next = decode(LONGEST);
    }
    let meets = |address: usize, size: usize, writes: bool| {
        let end = address.saturating_add(size.max(1));
        let met = places.iter().any(|place| place.start < end && address < place.end);
        met.then_some(Touch { instruction, address, writes })
    };
    if next.code() == Code::Syscall {
        const PASSED: [c_int; 6] =
            [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];
        let passed = PASSED.map(|number| registers[number as usize] as usize);
        let range = match registers[libc::REG_RAX as usize] {
            libc::SYS_munmap | libc::SYS_mremap | libc::SYS_madvise | libc::SYS_mprotect => {
                meets(passed[0], passed[1], true)
            }
            libc::SYS_read => meets(passed[1], passed[2], true),
            libc::SYS_write => meets(passed[1], passed[2], false),
            _ => None,
        };
        return range.or_else(|| passed.into_iter().find_map(|argument| meets(argument, 1, false)));
    }
    let used = information.as_mut()?.info_options(&next, InstructionInfoOptions::NO_REGISTER_USAGE).used_memory();
    used.iter().find_map(|memory| {
        let writes = match memory.access() {
            OpAccess::Read | OpAccess::CondRead => false,
            OpAccess::None | OpAccess::NoMemAccess => return None,
            _ => true,
        };
        meets(address(memory, registers)? as usize, memory.memory_size().size(), writes)
    })
}

#[cfg(target_arch = "x86_64")]
fn address(memory: &UsedMemory, registers: &Registers) -> Option<u64> {
    const NUMBERED: [c_int; 16] = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];
    memory.virtual_address(0, |register, _, _| match register {
        Register::FS => Some(thread_pointer()),
        segment if segment.is_segment_register() => Some(0),
        general if general.is_gpr() => {
            let value = registers[*NUMBERED.get(general.full_register().number())? as usize].cast_unsigned();
            Some(if general.is_gpr64() { value } else { value & 0xFFFF_FFFF })
        }
        _ => None,
    })
}

#[cfg(target_arch = "x86_64")]
fn thread_pointer() -> u64 {
    let pointer: u64;
    // SAFETY: the first word of a thread's control block is its own address (System V ABI, thread-local storage).
    unsafe { std::arch::asm!("mov {}, fs:[0]", out(reg) pointer, options(pure, readonly, nostack, preserves_flags)) };
    pointer
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use std::hint::black_box;

    /// What `body` does to a place, where it is stopped at its instructions.
    fn seen(place: &[u8], body: impl FnOnce()) -> Option<bool> {
        let start = place.as_ptr() as usize;
        STEPS.with(|steps| {
            steps.places.borrow_mut().push(start..start + place.len());
            begin(steps);
            body();
            stop(steps);
            steps.places.borrow_mut().clear();
            steps.touch.take().map(|touch| {
                assert!((start.saturating_sub(64)..start + place.len()).contains(&touch.address), "{touch:x?}");
                touch.writes
            })
        })
    }

    static GLOBAL: [u8; 16] = [7; 16];

    fn read<T: Copy>(at: *const T) {
        // SAFETY: the tests' own memory.
        black_box(unsafe { black_box(at).read_unaligned() });
    }

    #[test]
    fn reads_and_writes_are_told_apart_wherever_the_place_is() {
        let frame = [1_u8; 64];
        let mut heap = black_box(vec![2_u8; 64]);
        assert_eq!(seen(&frame[8..16], || read(&raw const frame[9])), Some(false));
        assert_eq!(seen(&GLOBAL, || read(&raw const GLOBAL[0])), Some(false));
        let at = &raw mut heap[20];
        // SAFETY: the test's own memory.
        assert_eq!(seen(&heap[16..24], || unsafe { black_box(at).write_volatile(3) }), Some(true));
        // A wide access that begins in front of the place.
        assert_eq!(seen(&heap[7..8], || read(heap.as_ptr().cast::<u64>())), Some(false));
    }

    #[test]
    fn what_lies_beside_a_place_is_free() {
        let bytes = black_box([1_u8; 64]);
        let beside = || {
            let sum: u32 = bytes[..16].iter().chain(&bytes[32..]).map(|byte| u32::from(black_box(*byte))).sum();
            black_box(format!("{sum}")); // a library's code, and the allocator's
        };
        assert_eq!(seen(&bytes[16..32], beside), None);
    }

    #[test]
    fn a_copy_and_a_system_call_are_seen() {
        let bytes = black_box(vec![1_u8; 4096]);
        let mut copy = vec![0_u8; 4096];
        assert_eq!(seen(&bytes[4000..], || copy.copy_from_slice(black_box(&bytes))), Some(false));
        let write = || {
            // SAFETY: no file; nothing is read.
            unsafe { libc::write(-1, black_box(bytes.as_ptr()).cast(), 8) };
        };
        assert_eq!(seen(&bytes[..8], write), Some(false));
    }
}
