//! What the plane does by itself for one context.
//!
//! Python opens contexts, decides what is allocated where, compiles kernels and lays their launches out; what it has laid out is done here
//! without it. Everything that is not plain (a range that no allocation holds, a launch that was laid out before something changed) is left
//! to Python, which does it, or finds the words for what is wrong with it.
//!
//! One thread works at a time; `interrupt` and the switches may be used by any. The code that gives the memory back holds the [`Gate`] first.

use super::counters::Counters;
use super::gate::Gate;
use super::host::Code;
use super::launch::{Entry, Launch, Ran};
use super::objects::{Event, Stream};
use super::ranges::Ranges;
use super::room::Room;
use super::work::{Awaited, Fault, Timed, Tried, Work};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;
use std::time::Instant;

mod rows;

/// After so long Python learns of a kernel's use.
const ACCOUNT: u64 = 1_000_000;
/// A launch that takes so long may run on another thread: to wake that takes little beside it.
const LONG: u64 = 200_000;

#[derive(Default)]
struct Running {
    interrupted: bool,
    /// The word that ends the kernel that runs now; 0: there is none.
    abort: usize,
}

/// See the module's page.
pub struct Direct {
    ranges: Arc<Ranges>,
    work: Box<dyn Work>,
    room: Option<Arc<Room>>,
    timed: Timed,
    enabled: AtomicBool,
    epoch: AtomicU64,
    launches: AtomicU64,
    nanoseconds: AtomicU64,
    spoken: AtomicBool,
    printing: AtomicBool,
    running: Mutex<Running>,
    counters: Counters,
    pub gate: Arc<Gate>,
}

impl Direct {
    #[must_use]
    pub fn new(ranges: Arc<Ranges>, work: Box<dyn Work>, room: Option<Arc<Room>>) -> Self {
        Self {
            ranges,
            timed: work.timed(),
            work,
            room,
            enabled: AtomicBool::new(true),
            epoch: AtomicU64::new(0),
            launches: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            spoken: AtomicBool::new(false),
            printing: AtomicBool::new(false),
            running: Mutex::default(),
            counters: Counters::default(),
            gate: Arc::default(),
        }
    }

    /// From now on everything is Python's.
    pub fn disable(&self) {
        self.enabled.store(false, Ordering::Release);
    }

    /// Whether work that was issued goes on by itself.
    #[must_use]
    pub fn works_apart(&self) -> bool {
        self.timed == Timed::Waits
    }

    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled.load(Ordering::Acquire)
    }

    /// The calling thread replays a message.
    pub fn enter(&self) {
        if self.is_enabled() {
            self.work.enter();
        }
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

    /// How long the plane itself has worked here, or waited for the device.
    #[must_use]
    pub fn nanoseconds(&self) -> u64 {
        self.nanoseconds.load(Ordering::Relaxed)
    }

    /// What the plane has done here by itself so far, by kind.
    #[must_use]
    pub fn counts(&self) -> [(&'static str, u64); 11] {
        self.counters.all()
    }

    /// There is output to be fetched.
    pub fn speak(&self) {
        self.spoken.store(true, Ordering::Relaxed);
    }

    /// Whether there is, since the last time that this was asked.
    pub fn take_spoken(&self) -> bool {
        self.spoken.load(Ordering::Relaxed) && self.spoken.swap(false, Ordering::Relaxed)
    }

    /// Whether the plane has issued launches that may print, since the last time that this was asked.
    pub fn take_printing(&self) -> bool {
        self.printing.swap(false, Ordering::Relaxed)
    }

    /// Ends the kernel that runs, where that can be, and leaves all later ones to Python. From any thread.
    pub fn interrupt(&self) {
        let mut running = self.running.lock();
        running.interrupted = true;
        if running.abort != 0 {
            // SAFETY: the kernel runs, so its launch is there.
            unsafe { (*(running.abort as *const AtomicU32)).store(1, Ordering::Release) };
        }
        self.gate.interrupt();
    }

    /// A launch, as it is laid out now.
    #[must_use]
    pub fn entry(&self, launch: Launch) -> Entry {
        Entry { launch, epoch: self.epoch.load(Ordering::Acquire), spent: AtomicU64::new(0), took: AtomicU64::new(0) }
    }

    pub fn launch(&self, entry: &Entry, parameters: &[u8]) -> Ran {
        if !self.is_enabled() || entry.epoch != self.epoch.load(Ordering::Acquire) {
            return Ran::Stale;
        }
        match &entry.launch {
            Launch::Counted => {
                self.launches.fetch_add(1, Ordering::Relaxed);
                self.counters.launches.add(1);
                Ran::Done
            }
            Launch::Code(code) if parameters.len() == code.size => self.run(entry, code, parameters),
            Launch::Kernel(kernel) if parameters.len() == kernel.size() && !self.running.lock().interrupted => {
                self.launches.fetch_add(1, Ordering::Relaxed);
                self.counters.launches.add(1);
                if kernel.prints {
                    self.printing.store(true, Ordering::Relaxed);
                    self.speak();
                }
                kernel.launch(parameters).map_or_else(Ran::Fault, |()| Ran::Done)
            }
            Launch::Code(_) | Launch::Kernel(_) => Ran::Stale,
        }
    }

    /// A graph was launched.
    pub(super) fn launched_graph(&self) {
        self.counters.graphs.add(1);
    }

    fn run(&self, entry: &Entry, code: &Code, parameters: &[u8]) -> Ran {
        let _held = self.gate.work();
        {
            let mut running = self.running.lock();
            if running.interrupted {
                return Ran::Stale;
            }
            running.abort = code.launch as usize + code.abort;
        }
        let number = self.launches.fetch_add(1, Ordering::Relaxed) + 1;
        self.counters.launches.add(1);
        code.begin(number, parameters);
        let mut nanoseconds = 0;
        let place = self.gate.place().filter(|_| !code.calls_back && entry.took.load(Ordering::Relaxed) >= LONG);
        let status = loop {
            let started = Instant::now();
            // SAFETY: Python has laid it out, for one thread at a time.
            let status = unsafe {
                match place {
                    Some(place) => place.run(code.machine_code()),
                    None => code.machine_code().call(),
                }
            };
            nanoseconds += self.since(started);
            if status != 0 || !code.has_stopped() || !self.gate.step_aside() {
                break status;
            }
        };
        self.running.lock().abort = 0;
        entry.took.store(nanoseconds, Ordering::Relaxed);
        if status != 0 {
            return Ran::Failed;
        }
        let long = nanoseconds > code.limit;
        if code.provisional || long {
            let spent = entry.spent.fetch_add(nanoseconds, Ordering::Relaxed) + nanoseconds;
            if spent >= ACCOUNT || long {
                entry.spent.store(0, Ordering::Relaxed);
                return Ran::Account { nanoseconds: spent, long };
            }
        }
        Ran::Done
    }

    /// Whether streams and events are made and ended here.
    #[must_use]
    pub fn makes_objects(&self) -> bool {
        !self.work.has_driver()
    }

    /// Whether memory was put behind an address that the guest minted; else nothing has changed.
    pub fn allocate(&self, address: u64, size: u64) -> bool {
        self.changed_room(|room| room.allocate(address, size, &room.plain()).is_ok())
    }

    /// Whether the allocation that starts there has ended; else nothing has changed.
    pub fn free(&self, address: u64) -> bool {
        self.changed_room(|room| room.free(address, &room.plain()).is_ok())
    }

    fn changed_room(&self, change: impl FnOnce(&Room) -> bool) -> bool {
        let Some(room) = &self.room else { return false };
        let _held = self.gate.hold();
        let done = self.is_enabled() && !room.is_attended() && change(room);
        if done {
            self.counters.objects.add(1);
        }
        done
    }

    /// An object was made or ended.
    pub fn count_object(&self) {
        self.counters.objects.add(1);
    }

    /// Records the event in the stream.
    ///
    /// # Errors
    /// The driver's.
    pub fn record(&self, event: &Event, stream: &Stream) -> Tried {
        self.counters.records.add(1);
        self.work.record(event, stream)
    }

    /// The stream's later work waits for the event.
    ///
    /// # Errors
    /// The driver's.
    pub fn wait(&self, stream: &Stream, event: &Event) -> Tried {
        self.counters.waits.add(1);
        self.work.wait(stream, event)
    }

    /// Waits.
    ///
    /// # Errors
    /// The driver's.
    pub fn synchronize(&self, what: Awaited<'_>) -> Tried {
        let done = self.waiting(|work| work.synchronize(what));
        if done != Ok(false) {
            self.counters.synchronizations.add(1);
        }
        done
    }

    /// Whether it is done.
    ///
    /// # Errors
    /// The driver's.
    pub fn is_done(&self, what: Awaited<'_>) -> Result<bool, Fault> {
        self.counters.queries.add(1);
        self.work.is_done(what)
    }

    /// Milliseconds between two events.
    ///
    /// # Errors
    /// The driver's.
    pub fn elapsed(&self, start: &Event, end: &Event) -> Result<Option<f32>, Fault> {
        let found = self.work.elapsed(start, end);
        if found != Ok(None) {
            self.counters.queries.add(1);
        }
        found
    }

    /// Calls what may wait for the device.
    fn waiting(&self, work: impl FnOnce(&dyn Work) -> Tried) -> Tried {
        if self.timed != Timed::Waits {
            return work(&*self.work);
        }
        let started = Instant::now();
        let done = work(&*self.work);
        self.since(started);
        done
    }

    /// Counts the time since then.
    fn since(&self, started: Instant) -> u64 {
        let nanoseconds = u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.fetch_add(nanoseconds, Ordering::Relaxed);
        self.gate.charge(nanoseconds);
        nanoseconds
    }
}
