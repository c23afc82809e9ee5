//! The pages of the simulated device's window: what is there, and what the system has given for it.
//!
//! Kernels and copies are checked against the flags, a byte for each page of 4 KiB. Protection is a second net, by
//! granules of 2 MiB, for the system limits the number of mappings. A granule with no page in use is not accessible,
//! but for those of freed pages that are kept.
//!
//! A few small runs of freed pages keep their memory, so that a program that allocates and frees makes no system calls.
//! Their flags forbid them like any other free page. They are cleared when they come into use again, and given back
//! once there are too many. Where the window is a file of another process's, which counts what the file holds, none is kept.
//!
//! Source: docs/explanation/systems.md, S2 points 1 and 4; the design in docs/explanation/simulated-device/README.md.

use parking_lot::Mutex;
use std::ops::Range;

pub const PAGE: u64 = 4096;
const GRANULE: u64 = 2 << 20;
/// Pages of a granule.
const EACH: usize = (GRANULE / PAGE) as usize;
/// The largest run of freed pages that is kept: clearing it costs no more than the system calls.
const KEPT_RUN: usize = 16;
/// Kept runs, and the pages of all of them.
const KEPT_RUNS: usize = 32;
const KEPT_PAGES: usize = 256;

struct State {
    /// Pages in use, by granule.
    used: Box<[u16]>,
    /// Granules that this process may touch.
    open: Box<[bool]>,
    /// Granules that the system may back with a huge page.
    huge: Box<[bool]>,
    /// Free pages whose memory is kept; disjoint, each within a granule.
    kept: Vec<Range<usize>>,
}

/// The pages of a window.
pub struct Pages {
    base: u64,
    /// A byte for each page.
    flags: *mut u8,
    /// What the window maps, from its beginning on; none: memory of this process's own.
    file: Option<i32>,
    state: Mutex<State>,
}

// SAFETY: the flags are written by one thread at a time, the session's, and the addresses stay as long as the window.
unsafe impl Send for Pages {}
// SAFETY: the same.
unsafe impl Sync for Pages {}

/// The system's error number.
pub type Refused = i32;

impl Pages {
    /// # Safety
    /// `[base, base + size)` is reserved for this, in whole granules, and `flags` has a byte of zero for each page of it. Neither is
    /// used after their end. `file` is a descriptor that stays open, of what is mapped there as shared memory.
    #[must_use]
    pub unsafe fn new(base: u64, size: u64, flags: *mut u8, file: Option<i32>) -> Self {
        let granules = (size / GRANULE) as usize;
        let state = State {
            used: vec![0; granules].into(),
            open: vec![false; granules].into(),
            huge: vec![false; granules].into(),
            kept: Vec::with_capacity(KEPT_RUNS + 1),
        };
        Self { base, flags, file, state: Mutex::new(state) }
    }

    /// Where the numbers of pages in use lie, of each granule.
    #[must_use]
    pub fn used_address(&self) -> usize {
        self.state.lock().used.as_ptr() as usize
    }

    /// Makes pages accessible; those that were not in use read as zero. `huge`: the system may use huge pages.
    ///
    /// # Errors
    /// The system's; then no page has come into use.
    pub fn map(&self, start: u64, end: u64, flags: u8, huge: bool) -> Result<(), Refused> {
        let pages = self.pages(start, end);
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut opened = Runs::default();
        for granule in granules(&pages) {
            if !state.open[granule] {
                if let Some(run) = opened.add(granule) {
                    self.protect(&run, libc::PROT_READ | libc::PROT_WRITE)?;
                }
            }
        }
        if let Some(run) = opened.last() {
            self.protect(&run, libc::PROT_READ | libc::PROT_WRITE)?;
        }
        state.open[granules(&pages)].fill(true);
        self.reuse(&mut state.kept, &pages);
        for granule in granules(&pages) {
            let part = within(&pages, granule);
            let size = part.len();
            let bytes = self.flags(part);
            let taken = if state.used[granule] == 0 { 0 } else { bytes.iter().filter(|&&flag| flag != 0).count() };
            bytes.fill(flags);
            state.used[granule] += (size - taken) as u16;
        }
        if huge {
            let whole = pages.start.div_ceil(EACH)..pages.end / EACH;
            self.advise_granules(whole.filter(|&granule| !state.huge[granule]), libc::MADV_HUGEPAGE);
            for granule in pages.start.div_ceil(EACH)..pages.end / EACH {
                state.huge[granule] = true;
            }
        }
        Ok(())
    }

    /// Gives pages' memory back to the system. They read as zero afterwards.
    ///
    /// # Errors
    /// The system's.
    pub fn discard(&self, start: u64, size: u64) -> Result<(), Refused> {
        let Some(file) = self.file else { return self.advise(start, size, libc::MADV_DONTNEED) };
        let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (offset, size) = ((start - self.base) as libc::off_t, size as libc::off_t);
        // SAFETY: no memory of ours.
        checked(unsafe { libc::fallocate(file, punch, offset, size) })
    }

    /// Takes pages out of use.
    ///
    /// # Errors
    /// The system's.
    pub fn unmap(&self, start: u64, end: u64) -> Result<(), Refused> {
        let pages = self.pages(start, end);
        let mut state = self.state.lock();
        let state = &mut *state;
        let mut ended = 0;
        for granule in granules(&pages) {
            let bytes = self.flags(within(&pages, granule));
            let count = bytes.iter().filter(|&&flag| flag != 0).count();
            state.used[granule] -= count as u16;
            ended += count;
            bytes.fill(0);
        }
        if ended == 0 {
            return Ok(());
        }
        let first = pages.start / EACH;
        if self.file.is_none() && pages.len() <= KEPT_RUN && granules(&pages).len() == 1 && !state.huge[first] {
            self.keep(state, pages);
            return Ok(());
        }
        self.advise_granules(granules(&pages).filter(|&granule| state.huge[granule]), libc::MADV_NOHUGEPAGE);
        state.huge[granules(&pages)].fill(false);
        let (low, high) = (granules(&pages).start * EACH, granules(&pages).end * EACH);
        self.give_back(state, |run| low <= run.start && run.start < high);
        self.discard(start, end - start)?;
        let emptied: Vec<usize> = granules(&pages).filter(|&granule| state.used[granule] == 0).collect();
        self.close(&mut state.open, &emptied);
        Ok(())
    }

    /// Gives the memory of freed pages in whole granules back; something else comes there.
    pub fn settle(&self, start: u64, end: u64) {
        let pages = self.pages(start, end);
        self.give_back(&mut self.state.lock(), |run| pages.start <= run.start && run.start < pages.end);
    }

    /// Whole granules are all in use and may be touched, or not at all.
    pub fn set_used(&self, start: u64, end: u64, used: bool) {
        let whole = granules(&self.pages(start, end));
        let mut state = self.state.lock();
        state.used[whole.clone()].fill(if used { EACH as u16 } else { 0 });
        state.open[whole].fill(used);
    }

    /// Clears bytes of pages that are in use.
    pub fn clear(&self, start: u64, size: u64) {
        // SAFETY: the caller's allocation holds them; nothing else uses it meanwhile.
        unsafe { (start as *mut u8).write_bytes(0, size as usize) };
    }

    fn pages(&self, start: u64, end: u64) -> Range<usize> {
        ((start - self.base) / PAGE) as usize..((end - self.base) / PAGE) as usize
    }

    #[allow(clippy::mut_from_ref)]
    fn flags(&self, pages: Range<usize>) -> &mut [u8] {
        // SAFETY: there is a byte for each page of the window, and one thread at a time changes them, under the lock.
        unsafe { std::slice::from_raw_parts_mut(self.flags.add(pages.start), pages.len()) }
    }

    /// Keeps the memory of freed pages, and gives others' back where that is too much.
    fn keep(&self, state: &mut State, mut pages: Range<usize>) {
        let granule = pages.start / EACH;
        if let Some(at) = state
            .kept
            .iter()
            .position(|run| run.start / EACH == granule && (run.end == pages.start || pages.end == run.start))
        {
            let run = state.kept.swap_remove(at);
            pages = run.start.min(pages.start)..run.end.max(pages.end);
        }
        state.kept.push(pages);
        let total: usize = state.kept.iter().map(Range::len).sum();
        if state.kept.len() > KEPT_RUNS || total > KEPT_PAGES {
            self.give_back(state, |_| true);
        }
    }

    /// Pages come into use: clears those that were kept.
    fn reuse(&self, kept: &mut Vec<Range<usize>>, pages: &Range<usize>) {
        let mut at = 0;
        while at < kept.len() {
            let run = kept[at].clone();
            let common = run.start.max(pages.start)..run.end.min(pages.end);
            if common.is_empty() {
                at += 1;
                continue;
            }
            let address = self.base + common.start as u64 * PAGE;
            self.clear(address, common.len() as u64 * PAGE);
            kept.swap_remove(at);
            for rest in [run.start..common.start, common.end..run.end] {
                if !rest.is_empty() {
                    kept.push(rest); // behind `at`, and looked at again: it has nothing in common
                }
            }
        }
    }

    /// Gives the memory of some kept pages back, and closes granules of which nothing is left.
    fn give_back(&self, state: &mut State, which: impl Fn(&Range<usize>) -> bool) {
        let mut ended: Vec<Range<usize>> = Vec::new();
        state.kept.retain(|run| {
            let gone = which(run);
            if gone {
                ended.push(run.clone());
            }
            !gone
        });
        ended.sort_unstable_by_key(|run| run.start);
        for run in &ended {
            // A failure leaves memory that the flags forbid.
            let _ = self.discard(self.base + run.start as u64 * PAGE, run.len() as u64 * PAGE);
        }
        let mut emptied: Vec<usize> = ended.iter().map(|run| run.start / EACH).collect();
        emptied.dedup();
        let left = |granule: usize| state.kept.iter().any(|run| run.start / EACH == granule);
        emptied.retain(|&granule| state.used[granule] == 0 && !left(granule));
        self.close(&mut state.open, &emptied);
    }

    /// Forbids granules. At the limit on mappings one stays accessible to us, and forbidden by its flags.
    fn close(&self, open: &mut [bool], granules: &[usize]) {
        let mut runs = Runs::default();
        let mut close = |run: Range<usize>| {
            if self.protect(&run, libc::PROT_NONE).is_ok() {
                open[run].fill(false);
            }
        };
        for &granule in granules {
            if let Some(run) = runs.add(granule) {
                close(run);
            }
        }
        if let Some(run) = runs.last() {
            close(run);
        }
    }

    fn protect(&self, granules: &Range<usize>, protection: i32) -> Result<(), Refused> {
        let start = self.base + granules.start as u64 * GRANULE;
        // SAFETY: these granules are the window's.
        let done = unsafe { libc::mprotect(start as *mut libc::c_void, granules.len() * GRANULE as usize, protection) };
        checked(done)
    }

    /// Advice that may be refused.
    fn advise_granules(&self, granules: impl Iterator<Item = usize>, advice: i32) {
        let mut runs = Runs::default();
        let say = |run: Range<usize>| {
            let _ = self.advise(self.base + run.start as u64 * GRANULE, run.len() as u64 * GRANULE, advice);
        };
        for granule in granules {
            if let Some(run) = runs.add(granule) {
                say(run);
            }
        }
        if let Some(run) = runs.last() {
            say(run);
        }
    }

    fn advise(&self, start: u64, size: u64, advice: i32) -> Result<(), Refused> {
        // SAFETY: the range is the window's.
        checked(unsafe { libc::madvise(start as *mut libc::c_void, size as usize, advice) })
    }
}

/// Collects numbers in ascending order into runs.
#[derive(Default)]
struct Runs(Option<Range<usize>>);

impl Runs {
    /// The run that has ended with this number, if one has.
    fn add(&mut self, number: usize) -> Option<Range<usize>> {
        match &mut self.0 {
            Some(run) if run.end == number => {
                run.end += 1;
                None
            }
            run => run.replace(number..number + 1),
        }
    }

    fn last(self) -> Option<Range<usize>> {
        self.0
    }
}

fn granules(pages: &Range<usize>) -> Range<usize> {
    pages.start / EACH..pages.end.div_ceil(EACH)
}

fn within(pages: &Range<usize>, granule: usize) -> Range<usize> {
    pages.start.max(granule * EACH)..pages.end.min((granule + 1) * EACH)
}

fn checked(done: i32) -> Result<(), Refused> {
    if done == 0 {
        return Ok(());
    }
    Err(std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOMEM))
}
