//! The memory that a session and the listener share, one page each, and the session's side of it.
//!
//! `stop` is the listener's word: 0 says that the session has a place. It is what compiled kernels look at between two blocks. The rest is
//! what the session says; a session's process may be taken over, so the listener believes none of it that its own clocks contradict.
//!
//! A session says that it works before it looks at `stop`, and the listener looks at that after it has set `stop`: one
//! of them sees the other.

use super::pace::{thread_time, Background, MachineCode, Pace};
use super::scheduler::Scheduler;
use parking_lot::Mutex;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};
use std::{io, ptr};

const PAGE: usize = 4096;
/// For so long a session sleeps at most before it looks again.
const NAP: Duration = Duration::from_millis(100);

/// Nothing to do; nothing is said either.
pub const IDLE: u32 = 0;
/// Between two operations.
pub const READY: u32 = 1;
/// In an operation.
pub const WORKS: u32 = 2;
/// Waits for a place.
pub const WAITS: u32 = 3;

#[repr(C)]
pub struct Slot {
    /// The listener's: not 0: the session has no place, or is to leave it.
    pub stop: AtomicU32,
    /// The listener's: others wait.
    pub crowded: AtomicU32,
    /// The session's: one of the states above.
    pub state: AtomicU32,
    /// The session's: not 0: it works, on a thread that gives way to all others of the machine.
    pub yields: AtomicU32,
    /// The session's: nanoseconds in operations that have ended.
    pub used: AtomicU64,
}

/// Memory that holds a slot. Of a session in a process of its own it is a file, which both map.
pub struct Page {
    at: NonNull<Slot>,
    file: Option<OwnedFd>,
}

// SAFETY: all that is in the page is atomic.
unsafe impl Send for Page {}
// SAFETY: the same.
unsafe impl Sync for Page {}

impl Page {
    /// A new one, of a session of this process: it has no place, and no descriptor.
    ///
    /// # Errors
    /// The system's.
    pub fn create() -> io::Result<Self> {
        Self::begin(Self::mapped(libc::MAP_SHARED | libc::MAP_ANONYMOUS, None)?)
    }

    /// A new one, for another process to map: its session has no place.
    ///
    /// # Errors
    /// The system's.
    pub fn create_file() -> io::Result<Self> {
        // SAFETY: a call with a constant name.
        let raw = unsafe { libc::memfd_create(c"farlane-slot".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING) };
        if raw < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new.
        let file = unsafe { OwnedFd::from_raw_fd(raw) };
        let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
        // SAFETY: plain calls on an open descriptor.
        if unsafe { libc::ftruncate(raw, PAGE as libc::off_t) < 0 || libc::fcntl(raw, libc::F_ADD_SEALS, seals) < 0 } {
            return Err(io::Error::last_os_error());
        }
        Self::begin(Self::map(file)?)
    }

    fn begin(page: Self) -> io::Result<Self> {
        page.slot().stop.store(1, Ordering::SeqCst);
        Ok(page)
    }

    /// # Errors
    /// The system's.
    pub fn map(file: OwnedFd) -> io::Result<Self> {
        Self::mapped(libc::MAP_SHARED, Some(file))
    }

    fn mapped(how: libc::c_int, file: Option<OwnedFd>) -> io::Result<Self> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let from = file.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        // SAFETY: a new mapping, of no file or of one that cannot shrink.
        let at = unsafe { libc::mmap(ptr::null_mut(), PAGE, access, how, from, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        NonNull::new(at.cast()).map(|at| Self { at, file }).ok_or_else(|| io::Error::other("mapped at 0"))
    }

    #[must_use]
    pub const fn slot(&self) -> &Slot {
        // SAFETY: mapped as long as this lives; zeros are a slot.
        unsafe { self.at.as_ref() }
    }

    /// Of its file, where it has one.
    #[must_use]
    pub fn descriptor(&self) -> Option<RawFd> {
        self.file.as_ref().map(AsRawFd::as_raw_fd)
    }

    /// Gives a place. The session that waits for it is to be woken.
    pub(super) fn give(&self) {
        self.slot().stop.store(0, Ordering::SeqCst);
    }

    pub(super) fn wake(&self) {
        // SAFETY: the word is there.
        unsafe { libc::syscall(libc::SYS_futex, self.slot().stop.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
    }

    fn sleep(&self) {
        let nap = libc::timespec { tv_sec: 0, tv_nsec: NAP.as_nanos() as libc::c_long };
        // SAFETY: the word is there, and so is the time.
        unsafe { libc::syscall(libc::SYS_futex, self.slot().stop.as_ptr(), libc::FUTEX_WAIT, 1, &raw const nap) };
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: mapped by this.
        unsafe { libc::munmap(self.at.as_ptr().cast(), PAGE) };
    }
}

/// How a session calls the listener.
pub enum Bell {
    /// It is this process.
    Here(Weak<Scheduler>),
    /// An eventfd.
    There(OwnedFd),
}

/// A session's side.
pub struct Place {
    page: Arc<Page>,
    bell: Bell,
    /// The session is going away: it waits no longer.
    ended: AtomicBool,
    waited: AtomicU64,
    /// When an operation began whose time nothing else counts.
    began: Mutex<Option<Instant>>,
    /// The thread's processor time when the operation began; 0: it is not counted.
    processor: AtomicU64,
    pace: Mutex<Pace>,
    /// For kernels of a session that works without end. `None`: the system has no such thread for it.
    background: OnceLock<Option<Background>>,
}

impl Place {
    #[must_use]
    pub fn new(page: Arc<Page>, bell: Bell) -> Self {
        Self {
            page,
            bell,
            ended: AtomicBool::new(false),
            waited: AtomicU64::new(0),
            began: Mutex::new(None),
            processor: AtomicU64::new(0),
            pace: Mutex::default(),
            background: OnceLock::new(),
        }
    }

    /// The address of the word that kernels look at.
    #[must_use]
    pub fn word(&self) -> usize {
        self.page.slot().stop.as_ptr() as usize
    }

    /// For how many nanoseconds the session has waited.
    #[must_use]
    pub fn waited(&self) -> u64 {
        self.waited.load(Ordering::Relaxed)
    }

    /// Whether other sessions wait.
    #[must_use]
    pub fn is_crowded(&self) -> bool {
        self.page.slot().crowded.load(Ordering::Relaxed) != 0
    }

    /// Whether an operation may begin at once.
    #[must_use]
    pub fn try_enter(&self) -> bool {
        let slot = self.page.slot();
        slot.state.store(WORKS, Ordering::SeqCst);
        slot.stop.load(Ordering::SeqCst) == 0
    }

    /// An operation begins: waits until it may.
    pub fn enter(&self) {
        if !self.try_enter() {
            self.wait();
        }
        self.begin();
    }

    /// While others wait, the thread's processor time counts: what else runs on this machine takes from all sessions.
    pub fn begin(&self) {
        if self.is_crowded() {
            self.processor.store(thread_time(), Ordering::Relaxed);
        }
    }

    fn end(&self) {
        let began = self.processor.swap(0, Ordering::Relaxed);
        if began != 0 {
            self.add(thread_time().saturating_sub(began));
        }
    }

    /// The operation has ended.
    pub fn leave(&self) {
        if self.processor.load(Ordering::Relaxed) != 0 {
            self.end();
        }
        let slot = self.page.slot();
        slot.state.store(READY, Ordering::Release);
        if slot.stop.load(Ordering::Relaxed) != 0 {
            self.ring();
        }
    }

    /// The session has nothing to do until its guest sends something.
    pub fn rest(&self) {
        let slot = self.page.slot();
        self.pace.lock().rest(slot.used.load(Ordering::Relaxed));
        slot.state.store(IDLE, Ordering::Release);
        if slot.crowded.load(Ordering::Relaxed) != 0 {
            self.ring();
        }
    }

    /// So many nanoseconds of an operation are over.
    pub fn charge(&self, nanoseconds: u64) {
        if self.processor.load(Ordering::Relaxed) == 0 {
            self.add(nanoseconds);
        }
    }

    /// Other threads have worked for the session for so long.
    pub fn add(&self, nanoseconds: u64) {
        let used = &self.page.slot().used;
        used.store(used.load(Ordering::Relaxed).wrapping_add(nanoseconds), Ordering::Relaxed);
    }

    /// Counts the time from now to `end_timing`.
    pub fn begin_timing(&self) {
        *self.began.lock() = Some(Instant::now());
    }

    pub fn end_timing(&self) {
        if let Some(began) = self.began.lock().take() {
            self.charge(u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
    }

    /// At a boundary inside of an operation whose time this counts: as its end and the beginning of another one.
    pub fn step_aside(&self) {
        let timed = self.began.lock().is_some();
        self.end_timing();
        self.end();
        let slot = self.page.slot();
        self.pace.lock().go_on(slot.used.load(Ordering::Relaxed));
        if slot.stop.load(Ordering::SeqCst) != 0 {
            self.wait();
        }
        self.begin();
        if timed {
            self.begin_timing();
        }
    }

    /// Runs a kernel's code in the middle of an operation: where it gives way to others, if the session works without end.
    ///
    /// # Safety
    /// As [`MachineCode::call`].
    #[must_use]
    pub unsafe fn run(&self, code: MachineCode) -> i32 {
        let endless = self.pace.lock().is_endless();
        let background = if endless { self.background.get_or_init(|| Background::start().ok()) } else { &None };
        let Some(background) = background else {
            // SAFETY: the caller's promise.
            return unsafe { code.call() };
        };
        let yields = &self.page.slot().yields;
        yields.store(1, Ordering::SeqCst);
        // SAFETY: the same.
        let ended = unsafe { background.run(code) };
        yields.store(0, Ordering::SeqCst);
        if self.processor.load(Ordering::Relaxed) != 0 {
            self.add(ended.nanoseconds);
        }
        ended.status
    }

    /// The session ends: those that wait go on, and do no more work. From any thread.
    pub fn interrupt(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.page.wake();
    }

    fn wait(&self) {
        let (slot, began) = (self.page.slot(), Instant::now());
        while !self.ended.load(Ordering::SeqCst) {
            slot.state.store(WAITS, Ordering::SeqCst);
            self.ring();
            while slot.stop.load(Ordering::SeqCst) != 0 && !self.ended.load(Ordering::SeqCst) {
                self.page.sleep();
            }
            if self.try_enter() {
                break;
            }
        }
        let waited = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waited.fetch_add(waited, Ordering::Relaxed);
    }

    fn ring(&self) {
        match &self.bell {
            Bell::Here(scheduler) => {
                if let Some(scheduler) = scheduler.upgrade() {
                    scheduler.look();
                }
            }
            Bell::There(bell) => {
                let one = 1u64;
                // SAFETY: eight bytes. Where the eventfd is full, it has been rung.
                unsafe { libc::write(bell.as_raw_fd(), (&raw const one).cast(), 8) };
            }
        }
    }
}
