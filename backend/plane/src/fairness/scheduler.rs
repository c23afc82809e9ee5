//! The listener's side of fair sharing: reads the slots, charges service, gives and takes places.
//!
//! It looks when a session calls (`Place`), and every millisecond while one waits. A session is charged for the longer of two times: what
//! it says that it has worked, and, where it is a process, the processor time that the system says it has used. A process that
//! works on without a place is stopped by SIGSTOP, and goes on when its turn comes.
//!
//! Locking: one lock around the members, held for bookkeeping alone.

use super::policy::{self, Has, Standing, PRIORITIES};
use super::slot::{self, Bell, Page, Place};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use std::{io, mem, thread};

/// Between two looks while sessions wait; while none does, but shares are bounded; while processes might do so.
const CROWDED: Duration = Duration::from_millis(1);
const BOUNDED: Duration = Duration::from_millis(5);
const PROCESSES: Duration = Duration::from_millis(50);
/// Between two looks at processes' processor time.
const CLOCKS: Duration = Duration::from_millis(5);
/// A session that is so long between two operations gives way as an idle one.
const LINGERS: Duration = Duration::from_millis(1);
/// What a bounded share saves up at most.
const BURST: f64 = 50e6;
/// Processor time that a process without a place may use: at once, and as a part of the time that passes.
const OVERRUN: f64 = 50e6;
const BACKGROUND: f64 = 0.05;

/// What a session is to have of the device.
#[derive(Clone, Debug)]
pub struct Terms {
    pub priority: u8,
    pub weight: f64,
    /// The part of the time that all sessions of `owner` may use together.
    pub share: Option<f64>,
    pub owner: String,
}

/// What a session has had.
#[derive(Clone, Copy, Debug, Default)]
pub struct Served {
    /// Nanoseconds on the device, and of waiting for it.
    pub service: u64,
    pub waited: u64,
    /// How often its process was stopped.
    pub stopped: u64,
    pub waits: bool,
}

struct Process {
    id: libc::pid_t,
    clock: libc::clockid_t,
    used: u64,
    looked: Instant,
    /// What it was charged in the meantime.
    charged: i64,
    overrun: f64,
    stopped: bool,
}

struct Member {
    number: u64,
    page: Arc<Page>,
    terms: Terms,
    process: Option<Process>,
    virtual_time: f64,
    granted: bool,
    active: bool,
    state: u32,
    used: u64,
    /// Charged for an operation that has not ended.
    ahead: u64,
    waits_since: Option<Instant>,
    /// Between two operations since then, as far as was seen; for long.
    ready_since: Option<Instant>,
    lingers: bool,
    served: Served,
}

impl Member {
    fn is_stopped(&self) -> bool {
        self.process.as_ref().is_some_and(|process| process.stopped)
    }

    fn waits(&self) -> bool {
        !self.granted && (self.state == slot::WAITS || self.is_stopped())
    }

    fn has(&self) -> Has {
        match (self.granted, self.state) {
            (true, slot::IDLE) => Has::Idle,
            (true, slot::READY) if self.lingers => Has::Idle,
            (true, _) => Has::Works,
            (false, slot::WORKS) if !self.is_stopped() => Has::Leaves,
            (false, _) => Has::Nothing,
        }
    }

    /// The nanoseconds that are to be charged, where `elapsed` have passed since the last time. Less than 0: what was charged for an
    /// operation before it ended was too much.
    fn cost(&mut self, now: Instant, elapsed: u64) -> i64 {
        let slot = self.page.slot();
        self.state = slot.state.load(Ordering::SeqCst);
        let used = slot.used.load(Ordering::Relaxed);
        let said = used.saturating_sub(self.used);
        self.used = used;
        let mut cost = 0;
        if said > 0 {
            cost = signed(said) - signed(mem::take(&mut self.ahead));
        }
        let works = self.state == slot::WORKS || (self.state == slot::WAITS && self.granted);
        if works && said == 0 && !self.is_stopped() {
            cost = signed(elapsed);
            self.ahead += elapsed;
        }
        self.ready_since = (self.state == slot::READY && said == 0).then(|| self.ready_since.unwrap_or(now));
        self.lingers = self.ready_since.is_some_and(|since| now.duration_since(since) >= LINGERS);
        let granted = self.granted;
        if let Some(process) = &mut self.process {
            process.charged += cost;
            if now.duration_since(process.looked) >= CLOCKS {
                cost += signed(process.look(now, granted));
            }
        }
        cost
    }

    fn leave(&mut self) {
        self.page.slot().stop.store(1, Ordering::SeqCst);
        self.granted = false;
    }

    fn enter(&mut self, now: Instant) {
        if let Some(process) = &mut self.process {
            process.overrun = 0.0;
            process.go_on();
        }
        if let Some(since) = self.waits_since.take() {
            self.served.waited += nanoseconds(now.duration_since(since));
        }
        self.granted = true;
        self.page.give();
    }
}

impl Process {
    fn new(id: libc::pid_t) -> io::Result<Self> {
        let mut clock = 0;
        // SAFETY: the clock is written there.
        let failed = unsafe { libc::clock_getcpuclockid(id, &raw mut clock) };
        if failed != 0 {
            return Err(io::Error::from_raw_os_error(failed));
        }
        let (used, looked) = (processor_time(clock), Instant::now());
        Ok(Self { id, clock, used, looked, charged: 0, overrun: 0.0, stopped: false })
    }

    /// Nanoseconds that it has worked beyond what it said.
    fn look(&mut self, now: Instant, granted: bool) -> u64 {
        let passed = nanoseconds(now.duration_since(mem::replace(&mut self.looked, now)));
        let used = processor_time(self.clock);
        let worked = used.saturating_sub(mem::replace(&mut self.used, used));
        if !granted {
            self.overrun = (self.overrun + worked as f64 - BACKGROUND * passed as f64).max(0.0);
        }
        worked.saturating_sub(mem::take(&mut self.charged).max(0).unsigned_abs())
    }

    fn stop(&mut self) {
        self.stopped = true;
        self.signal(libc::SIGSTOP);
    }

    fn go_on(&mut self) {
        if mem::take(&mut self.stopped) {
            self.signal(libc::SIGCONT);
        }
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: a plain call; the process is a child that was not waited for.
        unsafe { libc::kill(self.id, signal) };
    }
}

struct Bound {
    share: f64,
    left: f64,
}

struct State {
    places: usize,
    members: Vec<Member>,
    next: u64,
    bounds: HashMap<String, Bound>,
    /// The least virtual time of the active sessions, by priority. Never falls.
    least: [f64; PRIORITIES],
    crowded: bool,
    looked: Instant,
}

impl State {
    fn look(&mut self, now: Instant) {
        let elapsed = nanoseconds(now.duration_since(mem::replace(&mut self.looked, now)));
        self.charge(now, elapsed);
        self.stop();
        self.follow();
        // One that was between two operations has left with being asked: once more, for who waits.
        for _ in 0..3 {
            if !self.decide(now) {
                break;
            }
        }
        let waiting = self.members.iter().any(Member::waits);
        if waiting != mem::replace(&mut self.crowded, waiting) {
            self.members.iter().for_each(|each| each.page.slot().crowded.store(waiting.into(), Ordering::Relaxed));
        }
        for member in &mut self.members {
            if member.waits() && member.waits_since.is_none() {
                member.waits_since = Some(now);
            }
        }
    }

    /// Stops processes that work on without a place: they wait for one from now on.
    fn stop(&mut self) {
        for member in self.members.iter_mut().filter(|member| !member.granted) {
            if let Some(process) = &mut member.process {
                if !process.stopped && process.overrun > OVERRUN {
                    process.stop();
                    member.served.stopped += 1;
                }
            }
        }
    }

    fn charge(&mut self, now: Instant, elapsed: u64) {
        for bound in self.bounds.values_mut() {
            bound.left = (bound.left + bound.share * elapsed as f64).min(BURST);
        }
        for member in &mut self.members {
            let cost = member.cost(now, elapsed);
            member.virtual_time += cost as f64 / member.terms.weight;
            member.served.service = member.served.service.saturating_add_signed(cost);
            if let Some(bound) = self.bounds.get_mut(&member.terms.owner) {
                bound.left -= cost as f64;
            }
        }
    }

    /// Virtual times of sessions that have become active, and of all where none has waited.
    fn follow(&mut self) {
        for priority in 0..PRIORITIES {
            let of = |each: &&mut Member| usize::from(each.terms.priority) == priority;
            if !self.crowded {
                let most = self.members.iter_mut().filter(of).fold(0.0f64, |most, each| most.max(each.virtual_time));
                self.least[priority] = self.least[priority].max(most);
                let least = self.least[priority];
                let all = self.members.iter_mut().filter(of);
                all.for_each(|each| each.virtual_time = policy::arrives(each.virtual_time, least));
                continue;
            }
            let active = self.members.iter_mut().filter(of).filter(|each| each.active);
            let least = active.fold(f64::INFINITY, |least, each| least.min(each.virtual_time));
            if least.is_finite() {
                self.least[priority] = self.least[priority].max(least);
            }
            let least = self.least[priority];
            for each in self.members.iter_mut().filter(of) {
                if !each.active && each.state != slot::IDLE {
                    each.virtual_time = policy::arrives(each.virtual_time, least);
                }
            }
        }
        for each in &mut self.members {
            each.active = each.state != slot::IDLE || each.is_stopped();
        }
    }

    /// Whether a place may have become free with that.
    fn decide(&mut self, now: Instant) -> bool {
        let standings: Vec<Standing> = self.members.iter().map(|each| self.standing(each)).collect();
        let decision = policy::decide(&standings, self.places);
        let (mut taken, mut again) = (0, false);
        for at in decision.leave {
            let member = &mut self.members[at];
            member.leave();
            member.state = member.page.slot().state.load(Ordering::SeqCst);
            let works = member.state == slot::WORKS;
            taken += usize::from(works && standings[at].has == Has::Idle); // it has just begun: its place is not free
            again |= !works && standings[at].has == Has::Works;
        }
        let count = decision.enter.len().saturating_sub(taken);
        for &at in &decision.enter[..count] {
            self.members[at].enter(now);
        }
        again
    }

    fn standing(&self, member: &Member) -> Standing {
        Standing {
            priority: member.terms.priority,
            virtual_time: member.virtual_time,
            waits: member.waits(),
            has: member.has(),
            may: self.bounds.get(&member.terms.owner).is_none_or(|bound| bound.left > 0.0),
        }
    }

    /// When to look again, if no session calls.
    fn pause(&self) -> Option<Duration> {
        if self.members.iter().any(Member::waits) {
            return Some(CROWDED);
        }
        if !self.bounds.is_empty() {
            return Some(BOUNDED);
        }
        (self.members.iter().filter(|member| member.process.is_some()).count() > 1).then_some(PROCESSES)
    }
}

/// See the module's page.
pub struct Scheduler {
    own: Weak<Self>,
    state: Mutex<State>,
    bell: OwnedFd,
    closed: AtomicBool,
}

impl Scheduler {
    /// For a device with so many places. A thread looks until `close`.
    ///
    /// # Errors
    /// The system's.
    pub fn start(places: usize) -> io::Result<Arc<Self>> {
        // SAFETY: a plain call.
        let bell = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if bell < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new.
        let bell = unsafe { OwnedFd::from_raw_fd(bell) };
        let state = State {
            places,
            members: Vec::new(),
            next: 0,
            bounds: HashMap::new(),
            least: [0.0; PRIORITIES],
            crowded: false,
            looked: Instant::now(),
        };
        let closed = AtomicBool::new(false);
        let scheduler = Arc::new_cyclic(|own| Self { own: own.clone(), state: Mutex::new(state), bell, closed });
        let looks = scheduler.clone();
        thread::Builder::new().name("farlane-shares".into()).spawn(move || looks.run())?;
        Ok(scheduler)
    }

    /// What sessions in other processes ring.
    #[must_use]
    pub fn bell(&self) -> RawFd {
        self.bell.as_raw_fd()
    }

    /// A session of this process, or of the one that has this page; gives its number.
    ///
    /// # Errors
    /// There is no such process.
    pub fn join(&self, page: Arc<Page>, terms: Terms, process: Option<libc::pid_t>) -> io::Result<u64> {
        let process = process.map(Process::new).transpose()?;
        let mut state = self.state.lock();
        state.next += 1;
        let number = state.next;
        if let Some(share) = terms.share {
            state.bounds.entry(terms.owner.clone()).or_insert(Bound { share, left: BURST }).share = share;
        }
        page.slot().crowded.store(state.crowded.into(), Ordering::Relaxed);
        let used = page.slot().used.load(Ordering::Relaxed);
        state.members.push(Member {
            number,
            page,
            terms,
            process,
            virtual_time: 0.0,
            granted: false,
            active: false,
            state: slot::IDLE,
            used,
            ahead: 0,
            waits_since: None,
            ready_since: None,
            lingers: false,
            served: Served::default(),
        });
        drop(state);
        self.ring();
        Ok(number)
    }

    /// A place for a session of this process.
    #[must_use]
    pub fn place(&self, page: Arc<Page>) -> Place {
        Place::new(page, Bell::Here(self.own.clone()))
    }

    /// The session has ended. What is left of it runs on without asking.
    pub fn leave(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(at) = state.members.iter().position(|each| each.number == number) else { return };
        let mut member = state.members.swap_remove(at);
        member.enter(Instant::now());
        if !state.members.iter().any(|each| each.terms.owner == member.terms.owner) {
            state.bounds.remove(&member.terms.owner);
        }
        state.look(Instant::now());
    }

    #[must_use]
    pub fn served(&self, number: u64) -> Option<Served> {
        let mut state = self.state.lock();
        state.look(Instant::now());
        let member = state.members.iter().find(|each| each.number == number)?;
        let since = member.waits_since.map_or(0, |since| nanoseconds(since.elapsed()));
        Some(Served { waits: member.waits(), waited: member.served.waited + since, ..member.served })
    }

    /// A session has called.
    pub fn look(&self) {
        let mut state = self.state.lock();
        let before = state.pause();
        state.look(Instant::now());
        let after = state.pause();
        drop(state);
        if before != after {
            self.ring(); // the thread sleeps too long
        }
    }

    pub fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.ring();
    }

    fn ring(&self) {
        let one = 1u64;
        // SAFETY: eight bytes.
        unsafe { libc::write(self.bell.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    fn run(&self) {
        while !self.closed.load(Ordering::SeqCst) {
            let pause = {
                let mut state = self.state.lock();
                state.look(Instant::now());
                state.pause()
            };
            let timeout = pause.map_or(-1, |pause| pause.as_millis() as libc::c_int);
            let mut waited = libc::pollfd { fd: self.bell.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let mut rung = 0u64;
            // SAFETY: one structure, and eight bytes.
            unsafe {
                if libc::poll(&raw mut waited, 1, timeout) > 0 {
                    libc::read(self.bell.as_raw_fd(), (&raw mut rung).cast(), 8);
                }
            }
        }
    }
}

fn signed(nanoseconds: u64) -> i64 {
    i64::try_from(nanoseconds).unwrap_or(i64::MAX)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

fn processor_time(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time is written there. Where the process has ended, it stays 0.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    u64::try_from(time.tv_sec * 1_000_000_000 + time.tv_nsec).unwrap_or(0)
}
