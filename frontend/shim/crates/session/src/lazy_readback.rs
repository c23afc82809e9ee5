//! Lazy readbacks: a copy to the host whose destination is not proven unread waits all the same, until that is first
//! touched.
//!
//! An option (`FARLANE_GUARDS=on`, mode loops), off by default. A copy in a loop into a block that allows it (`place`)
//! is recorded like deferred work, into the readback's *store*, where the block's pages are (`userfault`). A
//! thread that touches the block, in the program or in a system call, sleeps until a thread of this module has asked the host for
//! everything that is outstanding and put the pages back. The calls of this library that look at the program's memory
//! do the same first ([`clear`]), and so do `fork` and the end of the process.
//!
//! The call has returned success by then: the next call that waits reports an error of the copy, and the memory has its
//! old bytes. As for a synchronization that a manifest permits, clock functions and queries of completion wait first
//! (`permission::owe_synchronization`).
//!
//! Places in the program where lazy readbacks do not pay, or whose memory is refused, are given up (`table`): the copy
//! is made at once, as without.
//!
//! Locking: one mutex, under which only the lists of outstanding copies are looked at; nothing is touched under it that
//! could wait for a readback. Never touch memory of the program with a lock of the session held: a touch needs the
//! session. Calls that read or write such memory are counted (`inside`), and no readback is set while another of them
//! is under way, so that the client's thread never waits for itself.
//! Source: docs/explanation/loops/lazy-readbacks.md, "Lazy readbacks".

mod place;
mod table;
mod userfault;

use crate::above::device_may_write_host_memory;
use crate::call::{Error, Outcome};
use crate::{frame, lifecycle, log, manifests, output, permission, work};
use client::{Mode, Section};
use place::Block;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, Ordering::SeqCst,
};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use table::{State, Table, Verdict};
use userfault::Userfault;

/// Why a copy is made at once; counted by this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Stack,
    Heap,
    Global,
    Shared,
    /// Of a block that is not a mapping of malloc's own, or whose beginning is not known.
    Part,
    /// The program has a malloc of its own.
    Allocator,
    /// The kernel does not give what is needed, or not for this memory.
    Kernel,
    /// Something is under way that must be done first: other calls, copies, output; or there are too many readbacks.
    Busy,
}

const REFUSALS: [&str; 8] = [
    "refused_stack",
    "refused_heap",
    "refused_global",
    "refused_shared",
    "refused_part",
    "refused_allocator",
    "refused_kernel",
    "refused_busy",
];

static ACTIVE: AtomicBool = AtomicBool::new(false);
/// It ever was, for the report.
static ASKED: AtomicBool = AtomicBool::new(false);
/// Readbacks that are not free.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Forks under way, and the end of the process: no new readbacks.
static BLOCKED: AtomicUsize = AtomicUsize::new(0);
static TABLE: Mutex<Table> = Mutex::new(Table::new());
/// A readback has changed its state, or has no users any more.
static CHANGED: Condvar = Condvar::new();
/// Copies that were recorded, and how many of these have arrived.
static RECORDED: AtomicU64 = AtomicU64::new(0);
static ARRIVED: AtomicU64 = AtomicU64::new(0);

static SET: AtomicU64 = AtomicU64::new(0);
static TOUCHES: AtomicU64 = AtomicU64::new(0);
static ENDED_BY_CALLS: AtomicU64 = AtomicU64::new(0);
static GIVEN_UP: AtomicU64 = AtomicU64::new(0);
static REFUSED: [AtomicU64; REFUSALS.len()] = [const { AtomicU64::new(0) }; REFUSALS.len()];

fn table() -> MutexGuard<'static, Table> {
    TABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether lazy readbacks are on.
#[inline]
pub fn active() -> bool {
    ACTIVE.load(Relaxed)
}

/// Before the session opens.
///
/// # Errors
/// A setting that is none.
pub fn configure(mode: Mode) -> Outcome {
    match std::env::var("FARLANE_GUARDS").as_deref() {
        Ok("" | "off") | Err(_) => Ok(()),
        Ok("on") => {
            ACTIVE.store(mode == Mode::Loops, Relaxed);
            ASKED.store(mode == Mode::Loops, Relaxed);
            Ok(())
        }
        Ok(other) => {
            log::error(format_args!("FARLANE_GUARDS is \"{other}\": it must be on or off"));
            Err(Error::NO_DEVICE)
        }
    }
}

/// The kernel's part, and the thread that sees touches; opened with the first readback.
fn kernel() -> Option<&'static Userfault> {
    static KERNEL: OnceLock<Option<Userfault>> = OnceLock::new();
    static SERVED: OnceLock<bool> = OnceLock::new();
    let kernel = KERNEL
        .get_or_init(|| {
            let kernel = Userfault::open();
            if kernel.is_none() {
                log::error(format_args!(
                    "FARLANE_GUARDS is on, but this process may not use userfaultfd for system calls: no copy waits \
                     (allow it by vm.unprivileged_userfaultfd=1, or by access to /dev/userfaultfd)"
                ));
            }
            kernel
        })
        .as_ref()?;
    SERVED.get_or_init(|| client::spawn(c"farlane-touches", move || serve(kernel)).is_ok()).then_some(kernel)
}

/// Sees touches for ever.
fn serve(kernel: &Userfault) {
    while let Some(address) = kernel.next() {
        let _ = std::panic::catch_unwind(|| end_all(address, address.saturating_add(1), Some(&TOUCHES)));
        // Also for a touch that was seen when its readback had ended: that has let go on who waited then.
        kernel.wake(address / userfault::PAGE * userfault::PAGE, userfault::PAGE);
    }
}

/// A copy that is about to be recorded into a readback's store.
#[derive(Debug)]
pub struct Held {
    index: usize,
    /// Where the copy's first byte goes instead.
    pub place: usize,
}

impl Held {
    /// The copy is on the tape.
    pub fn recorded(&self) {
        permission::owe_synchronization();
        let sequence = RECORDED.fetch_add(1, SeqCst) + 1;
        let mut table = table();
        let readback = &mut table.readbacks[self.index];
        readback.sequence = readback.sequence.max(sequence);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut table = table();
        let readback = &mut table.readbacks[self.index];
        readback.users -= 1;
        if readback.users == 0 && readback.state == State::Ending {
            CHANGED.notify_all();
        }
    }
}

/// For the copy to `[start, start + length)` under way, which the program may take for done when its call returns: a
/// place in a readback's store. `None`: it is made at once.
pub fn hold(start: usize, length: usize) -> Option<Held> {
    let site = frame::site();
    let end = start.checked_add(length)?;
    if site == 0 || BLOCKED.load(Acquire) > 0 || permission::any_failure() {
        return None;
    }
    let must_wait = must_wait();
    let candidates = {
        let mut table = table();
        let verdict = table.copy_from(site, permission::in_known_loop());
        if verdict == Verdict::First {
            table.candidates.add(start);
        }
        if verdict != Verdict::Lazy {
            return None;
        }
        // One that comes or goes: what it is then decides, however long that takes.
        while table.meeting(start, end).is_some_and(|index| table.readbacks[index].state != State::Standing) {
            table = CHANGED.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        if let Some(index) = table.standing(start, end).filter(|_| !must_wait) {
            table.goes_to(index, site);
            let readback = &table.readbacks[index];
            return Some(Held { index, place: readback.store + (start - readback.start) });
        }
        table.candidates.below(start)
    };
    let made = if must_wait {
        Err(Refusal::Busy)
    } else {
        place::find(start, end, &candidates).and_then(|block| set(block, site))
    };
    match made {
        Ok((index, store, first)) => Some(Held { index, place: store + (start - first) }),
        Err(refusal) => {
            REFUSED[refusal as usize].fetch_add(1, Relaxed);
            if refusal != Refusal::Busy {
                table().refused(site);
            }
            None
        }
    }
}

/// Whether a copy to the host is awaited for more than its own bytes: by then output is there, other copies are done,
/// and so is what kernels have written to memory of the program.
fn must_wait() -> bool {
    output::expected() || work::reads_pending() || manifests::any_managed() || device_may_write_host_memory()
}

/// Begins a readback, with its first user. Its number, its store, and the block's first byte.
fn set(block: Block, site: usize) -> Result<(usize, usize, usize), Refusal> {
    let kernel = kernel().ok_or(Refusal::Kernel)?;
    let length = block.end - block.start;
    let index = {
        let mut table = table();
        // This call is one of those inside; no other can have recorded a copy to the block that is not seen here.
        let alone = table.inside <= 1
            && BLOCKED.load(SeqCst) == 0
            && !permission::touches(block.start, length)
            && !work::reads_pending();
        let index = if alone { table.claim(block) } else { None };
        COUNT.fetch_add(usize::from(index.is_some()), SeqCst);
        index.ok_or(Refusal::Busy)?
    };
    let store = kernel.take(block.start, length);
    let mut table = table();
    CHANGED.notify_all();
    let Some(store) = store else {
        table.free(index);
        COUNT.fetch_sub(1, SeqCst);
        return Err(Refusal::Kernel);
    };
    SET.fetch_add(1, Relaxed);
    table.readbacks[index].store = store;
    table.readbacks[index].state = State::Standing;
    table.goes_to(index, site);
    Ok((index, store, block.start))
}

/// A call reads or writes memory of the program until this is dropped.
#[derive(Debug)]
pub struct Inside(());

impl Drop for Inside {
    fn drop(&mut self) {
        table().inside -= 1;
    }
}

/// Before such a call; it clears what it touches afterwards.
#[inline]
pub fn enter() -> Option<Inside> {
    active().then(|| {
        table().inside += 1;
        Inside(())
    })
}

/// Ends the readbacks of `[start, start + length)`: what was copied there is there.
#[inline]
pub fn clear(start: usize, length: usize) {
    if COUNT.load(SeqCst) > 0 {
        end_all(start, start.saturating_add(length), None);
    }
}

#[cold]
fn end_all(start: usize, end: usize, touched: Option<&AtomicU64>) {
    loop {
        let mut table = table();
        let Some(index) = table.meeting(start, end) else { return };
        if table.readbacks[index].state != State::Standing {
            drop(CHANGED.wait(table));
            continue;
        }
        table.readbacks[index].state = State::Ending;
        touched.unwrap_or(&ENDED_BY_CALLS).fetch_add(1, Relaxed);
        if table.touched(index) {
            GIVEN_UP.fetch_add(1, Relaxed);
        }
        while table.readbacks[index].users > 0 {
            table = CHANGED.wait(table).unwrap_or_else(PoisonError::into_inner);
        }
        let readback = table.readbacks[index];
        drop(table);
        if readback.sequence > ARRIVED.load(Acquire) {
            work::fence(); // a session that is over brings nothing any more
        }
        if let Some(kernel) = kernel() {
            kernel.give_back(readback.start, readback.end - readback.start, readback.store);
        }
        let mut table = self::table();
        table.free(index);
        COUNT.fetch_sub(1, SeqCst);
        CHANGED.notify_all();
    }
}

/// What an answer asked for from now on stands for: to be passed to `arrived` when it is there.
#[inline]
pub fn recorded() -> u64 {
    RECORDED.load(SeqCst)
}

/// The host has answered what was asked after so many copies were recorded.
#[inline]
pub fn arrived(copies: u64) {
    if copies != 0 {
        ARRIVED.fetch_max(copies, Release);
    }
}

/// The child has no readbacks: what would fill them is the parent's.
pub fn before_fork() {
    BLOCKED.fetch_add(1, SeqCst);
    permission::within(|| clear(0, usize::MAX));
}

pub fn after_fork_in_parent() {
    BLOCKED.fetch_sub(1, SeqCst);
}

/// Locks that other threads of the parent held stay locked here.
pub fn after_fork_in_child() {
    BLOCKED.fetch_sub(1, SeqCst);
    if lifecycle::is_forked_child() {
        ACTIVE.store(false, SeqCst);
    }
}

/// The session ends: no readbacks any more.
pub fn end() {
    BLOCKED.fetch_add(1, SeqCst);
    permission::within(|| clear(0, usize::MAX));
    ACTIVE.store(false, SeqCst);
}

/// For the report.
pub fn section() -> Option<Section> {
    if !ASKED.load(Relaxed) {
        return None;
    }
    let counts = [
        ("set", &SET),
        ("copies", &RECORDED),
        ("touches", &TOUCHES),
        ("ended_by_calls", &ENDED_BY_CALLS),
        ("given_up", &GIVEN_UP),
    ];
    let refused = REFUSALS.into_iter().zip(&REFUSED);
    let counts = counts.into_iter().chain(refused).map(|(name, count)| (name, count.load(Relaxed))).collect();
    Some(Section { name: "guards", counts })
}
