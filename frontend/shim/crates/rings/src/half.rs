//! One side's end of one ring: its own index, the peer's index as it was last seen and checked, and waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{Error, Violation};
use crate::futex::{self, Awake};
use crate::layout::{Bell, Ring};
use crate::peer::Peer;
use crate::processors;
use crate::spin::{Counters, Spin, Waiting};

/// At most this long passes between two looks at the socket while a half waits.
const LOOK: Duration = Duration::from_millis(50);
/// Spins between two looks at the clock.
const ROUND: u32 = 32;
/// Wake-ups without progress in one wait, after which each costs a pause.
const USELESS: u32 = 16;
const PAUSE: Duration = Duration::from_millis(1);
/// Waits that begin so shortly one after the other are what a session takes its time for. Otherwise it computes, and goes nowhere.
const OFTEN: Duration = Duration::from_micros(200);
/// A message's bytes are published in pieces of at most this size, so that both sides copy at the same time.
const PIECE: u64 = 16 << 10;

/// The length's bytes in front of each message.
pub(crate) const LENGTH_BYTES: u64 = 8;
/// No message is longer: sums of lengths cannot overflow.
pub(crate) const LONGEST: u64 = 1 << 62;

/// The padding behind a message of that length.
#[inline]
pub(crate) fn padding(length: u64) -> u64 {
    length.wrapping_neg() & 7
}

/// `SENDS`: it owns `head` and sees `tail`; else the other way round.
pub(crate) struct Half<const SENDS: bool> {
    pub ring: Ring,
    /// This side's index, with what is not published yet.
    pub own: u64,
    published: u64,
    /// The peer's index, checked.
    pub seen: u64,
    broken: Option<Violation>,
    peer: Arc<Peer>,
    looked: Instant,
    spin: Spin,
    /// Whether this side leaves a processor on which both wait.
    moves: bool,
    /// When the last wait began, and whether the one before had begun shortly before it.
    waited: Instant,
    often: bool,
    pub counters: Counters,
}

impl<const SENDS: bool> Half<SENDS> {
    pub fn new(ring: Ring, peer: Arc<Peer>, waiting: Waiting, moves: bool) -> Self {
        Half {
            ring,
            own: 0,
            published: 0,
            seen: 0,
            broken: None,
            peer,
            looked: Instant::now(),
            spin: Spin::new(waiting),
            moves,
            waited: Instant::now(),
            often: false,
            counters: Counters::default(),
        }
    }

    /// The most bytes that move between two publications: less than half a ring.
    #[inline]
    pub fn piece(&self) -> u64 {
        PIECE.min(self.ring.capacity() / 4)
    }

    /// The first line of each public function: whether the ring may be touched.
    #[inline]
    pub fn enter(&self) -> Result<(), Error> {
        if !self.ring.memory.is_here() {
            return Err(Error::Forked);
        }
        self.broken.map_or(Ok(()), |violation| Err(violation.into()))
    }

    /// From now on each call returns this error.
    #[cold]
    pub fn violated(&mut self, violation: Violation) -> Error {
        self.broken = Some(violation);
        violation.into()
    }

    #[inline]
    fn indices(&self) -> (&AtomicU64, &AtomicU64) {
        let control = self.ring.control();
        if SENDS {
            (&control.head.0, &control.tail.0)
        } else {
            (&control.tail.0, &control.head.0)
        }
    }

    #[inline]
    fn bells(&self) -> (&Bell, &Bell) {
        let control = self.ring.control();
        if SENDS {
            (&control.sender.0, &control.receiver.0)
        } else {
            (&control.receiver.0, &control.sender.0)
        }
    }

    /// Reads the peer's index once and checks it.
    #[inline]
    pub fn look(&mut self) -> Result<u64, Error> {
        let now = self.indices().1.load(Ordering::SeqCst);
        if now < self.seen {
            return Err(self.violated(Violation::IndexBackwards { seen: self.seen, now }));
        }
        let ahead = if SENDS { 0 } else { self.ring.capacity() };
        let limit = self.published.saturating_add(ahead);
        if now > limit {
            return Err(self.violated(Violation::IndexTooFar { limit, now }));
        }
        self.seen = now;
        Ok(now)
    }

    /// Shows the peer how far this side is, and wakes it if it sleeps and waits for that.
    #[inline]
    pub fn publish(&mut self) {
        if self.published == self.own {
            return;
        }
        self.published = self.own;
        self.indices().0.store(self.own, Ordering::SeqCst);
        let bell = self.bells().1;
        if bell.flag.load(Ordering::SeqCst) != 0 && self.own >= bell.wanted.load(Ordering::Relaxed) {
            self.ring_bell();
        }
    }

    #[cold]
    fn ring_bell(&mut self) {
        let bell = self.bells().1;
        if bell.flag.swap(0, Ordering::SeqCst) != 0 {
            futex::wake(&bell.flag);
            self.counters.rang += 1;
        }
    }

    /// Publishes where so much has moved that the peer can go on with it.
    #[inline]
    pub fn publish_piece(&mut self) {
        if self.own - self.published >= self.piece() {
            self.publish();
        }
    }

    /// Waits until the peer's index is at least `at_least`. A sleep asks to be woken at `wanted`, which is not less.
    pub fn wait(&mut self, at_least: u64, wanted: u64, deadline: Option<Instant>) -> Result<(), Error> {
        // The peer may wait for this side at the same time.
        self.publish();
        if self.look()? >= at_least {
            return Ok(());
        }
        let started = Instant::now();
        self.may_wait(started, at_least, deadline)?;
        self.often = started - self.waited < OFTEN;
        self.waited = started;
        self.say_processor();
        if let Some(limit) = self.spin.limit() {
            if self.spin(started, limit, at_least, deadline)? {
                return Ok(());
            }
        }
        self.sleep(at_least, wanted, deadline)
    }

    /// True: the index has come so far. False: the time for spinning is over.
    fn spin(
        &mut self,
        start: Instant,
        limit: Duration,
        at_least: u64,
        deadline: Option<Instant>,
    ) -> Result<bool, Error> {
        loop {
            for _ in 0..ROUND {
                if self.look()? >= at_least {
                    self.spin.succeeded();
                    self.counters.spun += 1;
                    return Ok(true);
                }
                std::hint::spin_loop();
            }
            let now = Instant::now();
            self.may_wait(now, at_least, deadline)?;
            if now - start >= limit {
                self.spin.failed();
                self.counters.failed += 1;
                self.leave_processor();
                return Ok(false);
            }
        }
    }

    #[inline]
    fn say_processor(&self) {
        let (said, now) = (self.ring.processor(SENDS), processors::current());
        if said.load(Ordering::Relaxed) != now {
            said.store(now, Ordering::Relaxed);
        }
    }

    /// Two threads that wait for each other on one processor run in turn, and the system leaves them there although another is
    /// idle: there is never more than one of them that could run.
    fn leave_processor(&mut self) {
        let [own, peers] = [SENDS, !SENDS].map(|sending| self.ring.processor(sending).load(Ordering::Relaxed));
        if self.moves && self.often && own == peers {
            processors::leave();
            self.counters.left += 1;
        }
    }

    fn sleep(&mut self, at_least: u64, wanted: u64, deadline: Option<Instant>) -> Result<(), Error> {
        let mut useless = 0;
        loop {
            let now = Instant::now();
            self.bells().0.wanted.store(wanted, Ordering::Relaxed);
            self.bells().0.flag.store(1, Ordering::SeqCst);
            // After the flag: a thread that moves the index or interrupts now sees it.
            let may = self.may_wait(now, at_least, deadline);
            let arrived = self.look().map(|index| index >= at_least);
            if arrived != Ok(false) || may.is_err() {
                self.bells().0.flag.store(0, Ordering::SeqCst);
                return if arrived? { Ok(()) } else { may };
            }
            let until = deadline.unwrap_or(self.looked + LOOK).min(self.looked + LOOK);
            self.counters.slept += 1;
            let awake = futex::wait(&self.bells().0.flag, 1, until.saturating_duration_since(now));
            self.bells().0.flag.store(0, Ordering::SeqCst);
            if self.look()? >= at_least {
                return Ok(());
            }
            match awake {
                Awake::Woken => useless += 1,
                Awake::Otherwise => self.spin.forget_processors(),
            }
            if useless > USELESS {
                std::thread::sleep(PAUSE);
            }
        }
    }

    /// Whether a transfer that moves less than a piece at a time goes on: a slow peer must not outlive the deadline.
    #[inline]
    pub fn may_go_on(&mut self, moved: u64, deadline: Option<Instant>) -> Result<(), Error> {
        if moved < self.piece() {
            self.publish();
            self.may_wait(Instant::now(), 0, deadline)?;
        }
        Ok(())
    }

    /// Why a wait must end although the index has not come far enough.
    fn may_wait(&mut self, now: Instant, at_least: u64, deadline: Option<Instant>) -> Result<(), Error> {
        if self.peer.is_interrupted() {
            return Err(Error::Interrupted);
        }
        if self.peer.was_gone() || now.saturating_duration_since(self.looked) >= LOOK {
            self.looked = now;
            // What the peer has written before its end counts.
            if self.peer.is_gone() && self.look()? < at_least {
                return Err(Error::PeerGone);
            }
        }
        match deadline {
            Some(deadline) if deadline <= now => Err(Error::TimedOut),
            _ => Ok(()),
        }
    }
}
