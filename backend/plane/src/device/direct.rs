//! Copies, sets and launches that need nothing but the host's memory and processor.
//!
//! Python opens contexts, decides what is allocated where, compiles kernels and lays their launches out; what it has laid out is done here
//! without it. Everything that is not plain (a range that no allocation holds, a launch that was laid out before something changed) is left
//! to Python, which does it, or finds the words for what is wrong with it.
//!
//! One thread works at a time; `interrupt` and the switches may be used by any. Whoever gives the memory back holds the [`Gate`] first.

use super::gate::Gate;
use super::laid::{Entry, Laid, Ran};
use super::ranges::{Ranges, Rows};
use parking_lot::Mutex;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// What reading memory that holds nothing shows.
static ZEROS: LazyLock<Vec<u8>> = LazyLock::new(|| vec![0; PIECE]);
/// The most bytes that one result holds.
pub const PIECE: usize = 1 << 20;
/// After so long a kernel's use is told to Python.
const ACCOUNT: u64 = 1_000_000;

#[derive(Default)]
struct Running {
    interrupted: bool,
    /// The word that ends the kernel that runs now; 0: there is none.
    abort: usize,
}

/// See the module's page.
pub struct Direct {
    ranges: Arc<Ranges>,
    /// Whether addresses are memory; else nothing is there, and reads show zeros.
    backed: bool,
    enabled: AtomicBool,
    epoch: AtomicU64,
    launches: AtomicU64,
    nanoseconds: AtomicU64,
    spoken: AtomicBool,
    running: Mutex<Running>,
    pub gate: Arc<Gate>,
}

impl Direct {
    #[must_use]
    pub fn new(ranges: Arc<Ranges>, backed: bool) -> Self {
        Self {
            ranges,
            backed,
            enabled: AtomicBool::new(true),
            epoch: AtomicU64::new(0),
            launches: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            spoken: AtomicBool::new(false),
            running: Mutex::default(),
            gate: Arc::default(),
        }
    }

    /// From now on everything is Python's.
    pub fn disable(&self) {
        self.enabled.store(false, Ordering::Release);
    }

    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// What was laid out is so no longer.
    pub fn changed(&self) {
        self.epoch.fetch_add(1, Ordering::AcqRel);
    }

    /// Launches so far, by the plane and by Python.
    #[must_use]
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    pub fn set_launches(&self, number: u64) {
        self.launches.store(number, Ordering::Relaxed);
    }

    /// How long the plane itself has worked here.
    #[must_use]
    pub fn nanoseconds(&self) -> u64 {
        self.nanoseconds.load(Ordering::Relaxed)
    }

    /// There is output to be fetched.
    pub fn speak(&self) {
        self.spoken.store(true, Ordering::Relaxed);
    }

    /// Whether there is, since the last time that this was asked.
    pub fn take_spoken(&self) -> bool {
        self.spoken.load(Ordering::Relaxed) && self.spoken.swap(false, Ordering::Relaxed)
    }

    /// Ends the kernel that runs, and leaves all later ones to Python. From any thread.
    pub fn interrupt(&self) {
        let mut running = self.running.lock();
        running.interrupted = true;
        if running.abort != 0 {
            // SAFETY: the kernel runs, so its launch is there.
            unsafe { (*(running.abort as *const AtomicU32)).store(1, Ordering::Release) };
        }
    }

    /// A launch, as it is laid out now.
    #[must_use]
    pub fn entry(&self, laid: Option<Laid>) -> Entry {
        Entry { laid, epoch: self.epoch.load(Ordering::Acquire), spent: AtomicU64::new(0) }
    }

    pub fn launch(&self, entry: &Entry, parameters: &[u8]) -> Ran {
        if !self.is_enabled() || entry.epoch != self.epoch.load(Ordering::Acquire) {
            return Ran::Stale;
        }
        let Some(laid) = &entry.laid else {
            self.launches.fetch_add(1, Ordering::Relaxed);
            return Ran::Done;
        };
        if parameters.len() != laid.size {
            return Ran::Stale;
        }
        let _held = self.gate.hold();
        {
            let mut running = self.running.lock();
            if running.interrupted {
                return Ran::Stale;
            }
            running.abort = laid.launch as usize + laid.abort;
        }
        let number = self.launches.fetch_add(1, Ordering::Relaxed) + 1;
        let started = Instant::now();
        // SAFETY: Python has laid it out, for this thread; `size` bytes of parameters have a place.
        let status = unsafe {
            parameters.as_ptr().copy_to_nonoverlapping(laid.parameters, laid.size);
            laid.launch.add(laid.grid_id).cast::<u64>().write(number);
            laid.launch.add(laid.next_block).cast::<u64>().write(0);
            (laid.run)(laid.launch, laid.worker)
        };
        let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.running.lock().abort = 0;
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        if status != 0 {
            return Ran::Failed;
        }
        let long = nanoseconds > laid.limit;
        if laid.provisional || long {
            let spent = entry.spent.fetch_add(nanoseconds, Ordering::Relaxed) + nanoseconds;
            if spent >= ACCOUNT || long {
                entry.spent.store(0, Ordering::Relaxed);
                return Ran::Account { nanoseconds: spent, long };
            }
        }
        Ran::Done
    }

    /// Copies packed rows there. False: it is Python's.
    pub fn write(&self, rows: &Rows, data: &[u8]) -> bool {
        rows.size() == Some(data.len() as u64)
            && self.work(&[*rows], |[to]| {
                if rows.contiguous() {
                    // SAFETY: one allocation holds all of it (work); `data` is no device memory.
                    unsafe { data.as_ptr().copy_to_nonoverlapping(to, data.len()) };
                } else {
                    for (number, row) in data.chunks_exact(narrow(rows.width)).enumerate() {
                        // SAFETY: the same.
                        unsafe { row.as_ptr().copy_to_nonoverlapping(to.add(number * narrow(rows.pitch)), row.len()) };
                    }
                }
            })
    }

    /// Where rows may be written that follow each other without a gap, as long as the gate is held; `None`: nowhere.
    #[must_use]
    pub fn place(&self, rows: &Rows) -> Option<*mut u8> {
        (self.backed && self.may_read(rows)).then_some(rows.address as *mut u8)
    }

    /// Copies rows to rows. False: it is Python's.
    pub fn copy(&self, to: &Rows, from: &Rows) -> bool {
        let (Some(to_span), Some(from_span), Some(size)) = (to.span(), from.span(), from.size()) else {
            return false;
        };
        let plain = to.contiguous() && from.contiguous();
        let apart =
            to.address.saturating_add(to_span) <= from.address || from.address.saturating_add(from_span) <= to.address;
        (plain || apart)
            && self.work(&[*to, *from], |[target, source]| {
                if plain {
                    // SAFETY: allocations hold all of both (work).
                    unsafe { source.cast_const().copy_to(target, narrow(size)) };
                } else {
                    for row in 0..narrow(to.height) {
                        // SAFETY: the same; they do not overlap.
                        unsafe {
                            source
                                .add(row * narrow(from.pitch))
                                .copy_to_nonoverlapping(target.add(row * narrow(to.pitch)), narrow(to.width));
                        }
                    }
                }
            })
    }

    /// Sets rows to the low bytes of a value. False: it is Python's.
    pub fn set(&self, rows: &Rows, value: u32, element: u32) -> bool {
        let wide = u64::from(element);
        if !matches!(element, 1 | 2 | 4)
            || !rows.width.is_multiple_of(wide)
            || !rows.address.is_multiple_of(wide)
            || !rows.pitch.is_multiple_of(wide)
        {
            return false;
        }
        let bytes = value.to_le_bytes();
        let pattern = &bytes[..element as usize];
        self.work(&[*rows], |[to]| {
            let (width, count) = match rows.size() {
                Some(size) if rows.contiguous() => (narrow(size), 1),
                _ => (narrow(rows.width), narrow(rows.height)),
            };
            for row in 0..count {
                // SAFETY: one allocation holds all of it (work); nothing else uses it meanwhile.
                let row = unsafe { std::slice::from_raw_parts_mut(to.add(row * narrow(rows.pitch)), width) };
                fill(row, pattern);
            }
        })
    }

    /// Whether these rows may be read here: one after the other without a gap, in one allocation.
    #[must_use]
    pub fn may_read(&self, rows: &Rows) -> bool {
        rows.contiguous() && rows.span().is_some_and(|span| self.is_enabled() && self.ranges.holds(rows.address, span))
    }

    /// Gives those bytes of rows that may be read, at most [`PIECE`] of them; `None` where they may be no longer.
    pub fn show<T>(&self, rows: &Rows, part: Range<u64>, look: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let size = narrow(part.end - part.start).min(PIECE);
        let _held = self.gate.hold();
        if !self.may_read(rows) {
            return None;
        }
        Some(if self.backed {
            let first = (rows.address + part.start) as *const u8;
            // SAFETY: one allocation holds all of it. Kernels run on this thread alone, and so does what ends allocations.
            look(unsafe { std::slice::from_raw_parts(first, size) })
        } else {
            look(&ZEROS[..size])
        })
    }

    /// Does something with rows that allocations hold, one each, given where each of them begins. False: some are not held, or nothing is
    /// done here.
    fn work<const N: usize>(&self, rows: &[Rows; N], work: impl FnOnce([*mut u8; N])) -> bool {
        let _held = self.gate.hold();
        let held = |rows: &Rows| rows.span().is_some_and(|span| self.ranges.holds(rows.address, span));
        if !self.is_enabled() || !rows.iter().all(held) {
            return false;
        }
        if self.backed {
            let started = Instant::now();
            work(rows.map(|rows| rows.address as *mut u8));
            self.worked(started);
        }
        true
    }

    fn worked(&self, started: Instant) {
        let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

/// Numbers of bytes that an allocation of this process holds.
const fn narrow(bytes: u64) -> usize {
    bytes as usize // x86-64 and AArch64: as wide
}

fn fill(row: &mut [u8], pattern: &[u8]) {
    if pattern.iter().all(|&byte| byte == pattern[0]) {
        row.fill(pattern[0]);
        return;
    }
    for place in row.chunks_exact_mut(pattern.len()) {
        place.copy_from_slice(pattern);
    }
}

#[cfg(test)]
mod tests;
