//! The listener's side of fair sharing: reads the slots, charges service, gives and takes places.
//!
//! It looks when a session calls (`Place`), and every millisecond while one waits. A session is charged for the longer of two times: what
//! it says that it has worked, and, where it is a process, the processor time that the system says it has used. A process that
//! works on without a place is stopped by SIGSTOP, and goes on when its turn comes.
//!
//! Locking: one lock around the members, held for bookkeeping alone. Sessions are woken behind it: one that wakes up takes the processor of a
//! thread that gives way to all others, and would wait for the lock that this one holds.

use super::member::{nanoseconds, Member, Served, Terms};
use super::policy::{self, Has, Standing, PRIORITIES};
use super::slot::{self, Bell, Page, Place};
use parking_lot::{Mutex, MutexGuard};
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
/// What a bounded share saves up at most.
const BURST: f64 = 50e6;

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
    /// Of sessions that have got places and are to be woken.
    entered: Vec<Arc<Page>>,
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
        self.members.iter_mut().for_each(Member::stop_overrun);
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
        for &at in &decision.stay {
            self.entered.push(self.members[at].enter(now));
        }
        for at in decision.leave {
            let member = &mut self.members[at];
            member.leave();
            let works = member.works();
            taken += usize::from(works && standings[at].has == Has::Idle); // it has just begun: its place is not free
            again |= !works && standings[at].has == Has::Works;
        }
        let count = decision.enter.len().saturating_sub(taken);
        for &at in &decision.enter[..count] {
            self.entered.push(self.members[at].enter(now));
        }
        again
    }

    fn standing(&self, member: &Member) -> Standing {
        Standing {
            priority: member.terms.priority,
            virtual_time: member.virtual_time,
            waits: member.waits(),
            has: member.has(),
            yields: member.yields,
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

/// Looks, unlocks, and wakes who has got a place. For how long nothing may happen by itself.
fn look(mut state: MutexGuard<'_, State>) -> Option<Duration> {
    state.look(Instant::now());
    let (entered, pause) = (mem::take(&mut state.entered), state.pause());
    drop(state);
    entered.iter().for_each(|page| page.wake());
    pause
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
            entered: Vec::new(),
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
        let mut state = self.state.lock();
        state.next += 1;
        let number = state.next;
        let member = Member::new(number, page.clone(), terms.clone(), process)?;
        if let Some(share) = terms.share {
            state.bounds.entry(terms.owner.clone()).or_insert(Bound { share, left: BURST }).share = share;
        }
        page.slot().crowded.store(state.crowded.into(), Ordering::Relaxed);
        state.members.push(member);
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
        let page = member.enter(Instant::now());
        state.entered.push(page);
        if !state.members.iter().any(|each| each.terms.owner == member.terms.owner) {
            state.bounds.remove(&member.terms.owner);
        }
        look(state);
    }

    #[must_use]
    pub fn served(&self, number: u64) -> Option<Served> {
        look(self.state.lock());
        let state = self.state.lock();
        let member = state.members.iter().find(|each| each.number == number)?;
        let since = member.waits_since.map_or(0, |since| nanoseconds(since.elapsed()));
        Some(Served { waits: member.waits(), waited: member.served.waited + since, ..member.served })
    }

    /// A session has called.
    pub fn look(&self) {
        let state = self.state.lock();
        let before = state.pause();
        let after = look(state);
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
            let pause = look(self.state.lock());
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
