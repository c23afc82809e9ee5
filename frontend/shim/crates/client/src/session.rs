//! The session as the rest of the shim sees it: append, ask, read, flush, finish.
//!
//! Threads: any number of the program's threads call in; one background thread owns the connection (`transport`).
//! Locking order: outbox, ledger, waiter; the counters, the errors and the status are atomics and need none.
//! A session that has ended, died or was left behind by a fork is told by its status, which is looked at before any lock,
//! so that the child of a fork never touches a lock that a vanished thread may hold.

use crate::age::AgeTimer;
use crate::counters::Counters;
use crate::ledger::{Awaited, Ledger, Patience};
use crate::outbox::{Outbox, Sent};
use crate::report::{self, CallSummary};
use crate::waiter::{Answer, Destination, Waiter};
use crate::{log, transport, Config, Failure, Mode, OpenError, Welcome};
use parking_lot::{Mutex, MutexGuard};
use std::os::fd::{AsRawFd, RawFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicI32, AtomicU8, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tape::{operations, Writer};

/// At exit: how long to wait while the host acknowledges nothing, or another thread does not get on with sending.
const FINISH_STALL: Duration = if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(10) };
/// At exit: how long to wait for the host to end the stream after the goodbye.
const GOODBYE_WAIT: Duration = Duration::from_secs(1);

const CUDA_ERROR_CUDART_UNLOADING: i32 = 4;
const CUDA_ERROR_UNKNOWN: i32 = 999;
/// cudaErrorInvalidValue: no memory is of that shape.
const UNUSABLE_DESTINATION: Failure = Failure::Cuda { code: 1, sticky: false };

/// What the guest says first.
#[derive(Debug, Clone)]
pub struct HelloInfo {
    /// Base name of the executable.
    pub program: String,
    pub pid: u32,
    /// BLAKE2b-256 of every image registered so far.
    pub module_digests: Vec<[u8; 32]>,
    pub mode: Mode,
}

/// One open session. Shared by all threads of the program.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    welcome: Welcome,
    mode: Mode,
    report: Option<PathBuf>,
    opened: Instant,
}

/// What the program's threads and the background thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) endpoint: String,
    pub(crate) status: Status,
    pub(crate) outbox: Mutex<Outbox>,
    pub(crate) ledger: Ledger,
    pub(crate) errors: Errors,
    pub(crate) counters: Counters,
    pub(crate) timer: AgeTimer,
    /// The connection, for the child of a fork only.
    pub(crate) socket: RawFd,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    Running,
    Finishing,
    Finished,
    Dead,
    /// The child of a fork.
    Abandoned,
}

#[derive(Debug)]
pub(crate) struct Status(AtomicU8);

impl Status {
    pub(crate) fn running() -> Self {
        Self(AtomicU8::new(Phase::Running as u8))
    }

    #[inline]
    pub(crate) fn get(&self) -> Phase {
        const PHASES: [Phase; 5] = [Phase::Running, Phase::Finishing, Phase::Finished, Phase::Dead, Phase::Abandoned];
        PHASES[usize::from(self.0.load(Ordering::Acquire)) % PHASES.len()]
    }

    /// True for the one caller that makes this step.
    pub(crate) fn step(&self, from: Phase, to: Phase) -> bool {
        self.0.compare_exchange(from as u8, to as u8, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    fn force(&self, to: Phase) {
        self.0.store(to as u8, Ordering::Release);
    }
}

/// The errors that no result has delivered. 0: none.
#[derive(Debug, Default)]
pub(crate) struct Errors {
    deferred: AtomicI32,
    sticky: AtomicI32,
}

impl Errors {
    /// The first one wins.
    pub(crate) fn defer(&self, code: i32) {
        let _ = self.deferred.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The first one wins.
    pub(crate) fn stick(&self, code: i32) {
        let _ = self.sticky.compare_exchange(0, code, Ordering::AcqRel, Ordering::Acquire);
    }
}

impl Session {
    /// Connects and shakes hands: one round trip.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong and what to do.
    pub fn open(config: &Config, hello: HelloInfo) -> Result<Self, OpenError> {
        let opened = Instant::now();
        let mode = hello.mode;
        let (shared, welcome) = transport::open(config, hello)?;
        shared.counters.round_trips.add(1);
        log::info(format_args!("session {} with {}, mode {}", welcome.session, shared.endpoint, mode.as_str()));
        Ok(Self { shared, welcome, mode, report: config.report.clone(), opened })
    }

    /// What the host said about itself, the window, the quota and the devices.
    #[must_use]
    pub fn welcome(&self) -> &Welcome {
        &self.welcome
    }

    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Appends records atomically; the order of appends is the order of the tape. May send a full group and then wait
    /// for credit. In mode none: waits until the host has replayed it, and returns the call's own error.
    ///
    /// # Errors
    /// [`Failure::Dead`]; in mode none the error of the call.
    #[inline]
    pub fn defer(&self, write: impl FnOnce(&mut Writer)) -> Result<(), Failure> {
        if self.mode == Mode::None {
            return self.defer_fenced(write);
        }
        self.defer_part(write)
    }

    /// As `defer`, for records behind which the same call appends more: in mode none the wait is the last append's.
    ///
    /// # Errors
    /// [`Failure::Dead`].
    #[inline]
    pub fn defer_part(&self, write: impl FnOnce(&mut Writer)) -> Result<(), Failure> {
        let mut outbox = self.shared.lock_running()?;
        append(&mut outbox, &self.shared.timer, write)?;
        if outbox.is_full() {
            self.shared.send(&mut outbox, None)?;
        }
        Ok(())
    }

    fn defer_fenced(&self, write: impl FnOnce(&mut Writer)) -> Result<(), Failure> {
        let answer = self.request(|writer, slot| {
            write(writer);
            operations::fence(writer, slot);
        })?;
        let code = match answer.error {
            0 => self.take_deferred_error().unwrap_or(0),
            code => code,
        };
        self.shared.result(code)
    }

    /// Appends records, of which the last (and only the last) answers into the slot, sends everything and waits: one round
    /// trip. The answer's own error is in the answer.
    ///
    /// # Errors
    /// [`Failure::Dead`].
    pub fn request(&self, write: impl FnOnce(&mut Writer, u32)) -> Result<Answer, Failure> {
        self.shared.ask(Waiter::for_answer(), write)
    }

    /// As `request` for a READ: the data is written into the destination as it arrives. One round trip.
    ///
    /// # Safety
    /// Every row of `destination` must be writable, and accessed by nobody else, until this returns.
    ///
    /// # Errors
    /// The error of the read, or [`Failure::Dead`]; then the destination may be partly written.
    pub unsafe fn read(&self, destination: Destination, write: impl FnOnce(&mut Writer, u32)) -> Result<(), Failure> {
        let waiter = Waiter::for_rows(destination).ok_or(UNUSABLE_DESTINATION)?;
        let answer = self.shared.ask(waiter, write)?;
        self.shared.result(answer.error)
    }

    /// As `read`, but does not wait: sends everything and returns. The data is in the destination once any `request` or
    /// `read` that was made later is answered; an error of the read is one of a deferred call. In mode none: as `read`.
    ///
    /// # Safety
    /// Every row of `destination` must be writable, and accessed by nobody else, until a later request is answered
    /// or fails because the session is over.
    ///
    /// # Errors
    /// [`Failure::Dead`]; in mode none the error of the read.
    pub unsafe fn read_deferred(
        &self,
        destination: Destination,
        write: impl FnOnce(&mut Writer, u32),
    ) -> Result<(), Failure> {
        if self.mode == Mode::None {
            // SAFETY: the caller promises more.
            return unsafe { self.read(destination, write) };
        }
        let waiter = Waiter::for_rows(destination).ok_or(UNUSABLE_DESTINATION)?;
        self.shared.post(write, |slot| Awaited::unwatched(slot, Arc::new(waiter)))
    }

    /// Sends what is recorded, without waiting for an answer (but perhaps for credit).
    pub fn flush(&self) {
        if let Ok(mut outbox) = self.shared.lock_running() {
            // A dead connection is told by the calls that need it.
            let _ = self.shared.send(&mut outbox, None);
        }
    }

    /// Ends the session: sends what is recorded, waits (as long as the host makes progress) until it was replayed, says
    /// goodbye and writes the report. Later calls fail with cudaErrorCudartUnloading (4). Idempotent; may be called at exit.
    pub fn finish(&self, calls: &CallSummary) {
        let shared = &self.shared;
        let alive = shared.status.step(Phase::Running, Phase::Finishing);
        if alive {
            shared.finish();
        } else if !shared.status.step(Phase::Dead, Phase::Finished) {
            return; // finished before, or not ours to finish
        }
        if let Some(path) = &self.report {
            let text = report::render(self.mode, self.counters(), calls, self.opened.elapsed());
            if let Err(error) = report::write(path, &text) {
                log::error(format_args!("cannot write the report to {}: {error}", path.display()));
            }
        }
    }

    /// For the child of a fork: from now on this session answers [`Failure::Dead`] without touching a lock, and the
    /// child's copy of the connection is closed without a word to the host. Async-signal-safe.
    pub fn abandon_after_fork(&self) {
        if self.shared.status.get() == Phase::Abandoned {
            return;
        }
        self.shared.status.force(Phase::Abandoned);
        // SAFETY: plain system calls on descriptors that this process inherited; the thread that uses them exists in the
        // parent only, and nothing here uses them after this. Closing the child's copies does not end the connection.
        unsafe {
            libc::close(self.shared.socket);
            libc::close(self.shared.timer.as_raw_fd());
        }
    }

    /// The error that ruined the context, if one did.
    #[must_use]
    #[inline]
    pub fn sticky(&self) -> Option<i32> {
        let code = self.shared.errors.sticky.load(Ordering::Acquire);
        (code != 0).then_some(code)
    }

    /// The first error of a deferred call that nobody has been told yet; telling it is the caller's job now.
    #[must_use]
    #[inline]
    pub fn take_deferred_error(&self) -> Option<i32> {
        let deferred = &self.shared.errors.deferred;
        if deferred.load(Ordering::Acquire) == 0 {
            return None;
        }
        let code = deferred.swap(0, Ordering::AcqRel);
        (code != 0).then_some(code)
    }

    /// Forgets sticky and deferred errors: after a DEVICE_RESET that succeeded.
    pub fn clear_errors(&self) {
        self.shared.errors.sticky.store(0, Ordering::Release);
        self.shared.errors.deferred.store(0, Ordering::Release);
    }

    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}

impl Drop for Session {
    /// The connection ends without waiting for anything; `finish` is the way to end well.
    fn drop(&mut self) {
        let shared = &self.shared;
        if shared.status.get() != Phase::Abandoned && shared.status.step(Phase::Running, Phase::Finished) {
            shared.outbox.lock().close(true, &shared.counters);
        }
    }
}

impl Shared {
    #[inline]
    fn lock_running(&self) -> Result<MutexGuard<'_, Outbox>, Failure> {
        match self.status.get() {
            Phase::Running => Ok(self.outbox.lock()),
            Phase::Dead | Phase::Abandoned => Err(Failure::Dead),
            Phase::Finishing | Phase::Finished => {
                Err(Failure::Cuda { code: CUDA_ERROR_CUDART_UNLOADING, sticky: false })
            }
        }
    }

    fn send(&self, outbox: &mut Outbox, awaited: Option<Awaited>) -> Result<(), Failure> {
        match outbox.send(awaited, Patience::Unlimited, &self.ledger, &self.counters) {
            Sent::Yes => Ok(()),
            Sent::NoCredit | Sent::Closed => Err(Failure::Dead),
        }
    }

    fn ask(&self, waiter: Waiter, write: impl FnOnce(&mut Writer, u32)) -> Result<Answer, Failure> {
        let waiter = Arc::new(waiter);
        self.post(write, |slot| Awaited::new(slot, waiter.clone()))?;
        self.counters.round_trips.add(1);
        waiter.wait().ok_or(Failure::Dead)
    }

    /// Appends records, of which the last answers into the slot, and sends everything.
    fn post(&self, write: impl FnOnce(&mut Writer, u32), awaited: impl FnOnce(u32) -> Awaited) -> Result<(), Failure> {
        let mut outbox = self.lock_running()?;
        let slot = outbox.mint_slot();
        let mark = outbox.writer.len();
        append(&mut outbox, &self.timer, |writer| write(writer, slot))?;
        if outbox.writer.len() == mark {
            // Nothing was asked.
            return Err(Failure::Cuda { code: CUDA_ERROR_UNKNOWN, sticky: false });
        }
        self.send(&mut outbox, Some(awaited(slot)))
    }

    fn result(&self, code: i32) -> Result<(), Failure> {
        if code == 0 {
            return Ok(());
        }
        let sticky = self.errors.sticky.load(Ordering::Acquire) == code;
        Err(Failure::Cuda { code, sticky })
    }

    fn finish(&self) {
        let deadline = Instant::now() + FINISH_STALL;
        // The lock may be held by a thread that waits for credit, or by this one, interrupted by a signal whose handler exits.
        let sent = self.outbox.try_lock_until(deadline).is_some_and(|mut outbox| {
            outbox.send(None, Patience::Until(deadline), &self.ledger, &self.counters) == Sent::Yes
        });
        let done = sent && self.ledger.drain(FINISH_STALL);
        if !done && self.status.get() == Phase::Finishing {
            log::error(format_args!(
                "the host at {} has not finished the last work: leaving it after {} s without progress",
                self.endpoint,
                FINISH_STALL.as_secs()
            ));
        }
        if let Some(mut outbox) = self.outbox.try_lock_until(deadline) {
            outbox.close(done, &self.counters);
        }
        let _ = self.status.step(Phase::Finishing, Phase::Finished) || self.status.step(Phase::Dead, Phase::Finished);
        if done {
            self.ledger.wait_closed(GOODBYE_WAIT);
        }
    }

    /// The connection is of no use any more: everybody who waits is released, later calls fail. Tells the user once,
    /// unless the session was over anyway.
    pub(crate) fn fail(&self, why: &str) {
        let died = self.status.step(Phase::Running, Phase::Dead) || self.status.step(Phase::Finishing, Phase::Dead);
        if died {
            log::error(format_args!("connection to {} lost: {why}", self.endpoint));
        }
        self.ledger.close();
    }
}

/// Runs `write` on the tape; what it leaves is whole records or, when something is wrong with one of them, nothing.
#[inline]
fn append(outbox: &mut Outbox, timer: &AgeTimer, write: impl FnOnce(&mut Writer)) -> Result<(), Failure> {
    let mark = outbox.writer.len();
    {
        let guard = Whole { writer: &mut outbox.writer, mark };
        write(guard.writer);
    }
    if let Some(oversized) = outbox.writer.take_oversized() {
        outbox.writer.truncate(mark);
        log::error(format_args!("{oversized}"));
        return Err(Failure::Cuda { code: CUDA_ERROR_UNKNOWN, sticky: false });
    }
    if mark == 0 {
        outbox.begin_aging(timer);
    }
    Ok(())
}

/// Takes back what a panic (or an encoder that forgot its `end`) left unfinished.
struct Whole<'a> {
    writer: &'a mut Writer,
    mark: usize,
}

impl Drop for Whole<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.writer.is_between_records() {
            self.writer.truncate(self.mark);
        }
    }
}
