//! The program's faults on protected pages: the handler of SIGSEGV, and the thread that does the work.
//!
//! The handler does only what a signal handler may: it notes the address in a slot, wakes the thread through a pipe and
//! waits. The thread fetches the page and answers. A fault that is not on a region goes to the handler that was there
//! before, or to the default. The handler runs on the alternate stack where the thread has one, so that handlers of
//! stack overflows behind it still work.
//!
//! A program that installs a handler of its own afterwards takes ours away; it must pass on what it does not know.

use super::{near, resolve};
use libc::{c_int, c_void, siginfo_t};
use session::call::{Error, Outcome};
use session::{lifecycle, log};
use std::sync::atomic::{
    AtomicI32, AtomicU32, AtomicUsize, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::OnceLock;

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const WAITING: u32 = 2;
const RESOLVED: u32 = 3;
const NOT_OURS: u32 = 4;
/// The lowest bit of an address is whether it was a write: pages are what counts.
const WRITE: usize = 1;

struct Slot {
    state: AtomicU32,
    address: AtomicUsize,
}

/// Threads that fault at the same time; more of them take turns.
const SLOTS: usize = 64;
static TABLE: [Slot; SLOTS] = [const { Slot { state: AtomicU32::new(FREE), address: AtomicUsize::new(0) } }; SLOTS];
static PIPE: AtomicI32 = AtomicI32::new(-1);
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

fn futex(word: &AtomicU32, operation: c_int, value: u32) {
    // SAFETY: a word that lives for ever; no time-out.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            std::ptr::null::<c_void>(),
        );
    }
}

/// The handler, its pipe and its thread, once.
pub fn install() -> Outcome {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    let installed = *INSTALLED.get_or_init(|| start().is_some());
    if installed {
        Ok(())
    } else {
        Err(Error::OPERATING_SYSTEM)
    }
}

fn start() -> Option<()> {
    let mut ends = [0; 2];
    // SAFETY: two places.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return None;
    }
    let [source, sink] = ends;
    if client::spawn(c"farlane-managed", move || serve(source)).is_err() {
        return None;
    }
    PIPE.store(sink, Release);
    // Writes nothing: the function is looked up now, and not in the handler.
    // SAFETY: no bytes.
    unsafe { libc::write(sink, std::ptr::null(), 0) };
    let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = handle;
    // SAFETY: an all-zero value is valid; both are valid for sigaction.
    unsafe {
        let mut previous: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGSEGV, std::ptr::null(), &mut previous) != 0 {
            return None;
        }
        // Before ours is there: it may be called at once.
        let _ = PREVIOUS.set(previous);
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        (libc::sigaction(libc::SIGSEGV, &action, std::ptr::null_mut()) == 0).then_some(())
    }
}

/// Answers faults for ever.
fn serve(source: c_int) {
    loop {
        let mut index = 0_u8;
        // SAFETY: a place for one byte.
        let got = unsafe { libc::read(source, (&raw mut index).cast(), 1) };
        if got != 1 {
            if got < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted {
                continue;
            }
            return;
        }
        let Some(slot) = TABLE.get(usize::from(index)) else { continue };
        let noted = slot.address.load(Acquire);
        let (address, write) = (noted & !WRITE, noted & WRITE != 0);
        let answer = match std::panic::catch_unwind(|| resolve(address, write)) {
            Ok(Ok(true)) => RESOLVED,
            Ok(Ok(false)) => NOT_OURS,
            Ok(Err(error)) => {
                log::error(format_args!("managed memory at {address:#x} cannot be fetched: CUDA error {}", error.0));
                NOT_OURS
            }
            Err(_) => NOT_OURS,
        };
        slot.state.store(answer, Release);
        futex(&slot.state, libc::FUTEX_WAKE, 1);
    }
}

#[cfg(target_arch = "x86_64")]
fn is_write(context: *mut c_void) -> bool {
    // SAFETY: the third argument of a handler with SA_SIGINFO. Bit 1 of the processor's error code tells writes.
    unsafe { (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_ERR as usize] & 2 != 0 }
}

/// Where the processor does not tell, every touch counts as a write: more is sent, nothing is lost.
#[cfg(not(target_arch = "x86_64"))]
fn is_write(_context: *mut c_void) -> bool {
    true
}

extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes it; errno is the thread's own.
    let (address, errno) = unsafe { ((*info).si_addr() as usize, libc::__errno_location()) };
    // SAFETY: as above.
    let kept = unsafe { errno.read() };
    let resolved = near(address) && !lifecycle::is_forked_child() && ask(address, is_write(context));
    // SAFETY: as above.
    unsafe { errno.write(kept) };
    if !resolved {
        pass_on(signal, info, context);
    }
}

/// Has the thread resolve the fault. Async-signal-safe.
fn ask(address: usize, write: bool) -> bool {
    let claim = |slot: &Slot| slot.state.compare_exchange(FREE, CLAIMED, AcqRel, Relaxed).is_ok();
    let (index, slot) = loop {
        if let Some(found) = TABLE.iter().enumerate().find(|(_, slot)| claim(slot)) {
            break found;
        }
        // SAFETY: it has no preconditions.
        unsafe { libc::sched_yield() };
    };
    slot.address.store(address & !WRITE | if write { WRITE } else { 0 }, Release);
    slot.state.store(WAITING, Release);
    let byte = index as u8;
    // SAFETY: one byte.
    let sent = unsafe { libc::write(PIPE.load(Acquire), (&raw const byte).cast(), 1) };
    if sent != 1 {
        slot.state.store(FREE, Release);
        return false;
    }
    while slot.state.load(Acquire) == WAITING {
        futex(&slot.state, libc::FUTEX_WAIT, WAITING);
    }
    slot.state.swap(FREE, AcqRel) == RESOLVED
}

/// The handler that was there before; the default ends the process when the access is tried again.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(previous) = PREVIOUS.get() else { return };
    let function = previous.sa_sigaction;
    // SAFETY: what was installed before is called as it asked to be; the default and ignoring are put back, which for a
    // fault is its end.
    unsafe {
        if function == libc::SIG_DFL || function == libc::SIG_IGN {
            let mut default: libc::sigaction = std::mem::zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            libc::sigaction(signal, &default, std::ptr::null_mut());
        } else if previous.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(function);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(function);
            handler(signal);
        }
    }
}
