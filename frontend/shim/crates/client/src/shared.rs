//! What the program's threads and the background thread share.
//!
//! Every entry looks at the phase (`status`) before it takes a lock. Locking order: outbox, ledger, waiter; the
//! counters, the errors and the status are atomics and need none.

use crate::connection::{age::AgeTimer, signals, thread::Uncancelled};
use crate::incoming::awaited::{Awaited, Run};
use crate::incoming::contexts::Contexts;
use crate::incoming::destination::Destination;
use crate::incoming::ledger::{Ledger, Patience};
use crate::incoming::output::Held;
use crate::incoming::reading::Reading;
use crate::incoming::waiter::{Answer, Waiter};
use crate::leading::Written;
use crate::outgoing::append::{refuse, Append, Whole};
use crate::outgoing::outbox::{Bulk, Outbox, Sent};
use crate::report::counters::Counters;
use crate::report::Section;
use crate::status::{Phase, Status};
use crate::{log, Failure};
use parking_lot::{Condvar, Mutex, MutexGuard};
use recorder::{Origin, PredictedLaunch, Reason};
use std::os::fd::AsRawFd;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tape::{WriteHead, Writer};

/// At exit: how long to wait while the host acknowledges nothing, or another thread does not get on with sending.
const FINISH_STALL: Duration = if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(10) };
/// At exit: how long to wait for the host to end the stream after the goodbye.
const GOODBYE_WAIT: Duration = Duration::from_secs(1);

/// cudaErrorCudartUnloading.
const UNLOADING: Failure = Failure::Cuda { code: 4, sticky: false };
/// cudaErrorUnknown: a mistake of ours.
pub(crate) const UNKNOWN: Failure = Failure::Cuda { code: 999, sticky: false };

/// What the program's threads and the background thread share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) endpoint: String,
    pub(crate) status: Status,
    pub(crate) outbox: Mutex<Outbox>,
    pub(crate) ledger: Ledger,
    /// The errors that no result has delivered, by context.
    pub(crate) contexts: Contexts,
    pub(crate) counters: Counters,
    pub(crate) output: Held,
    pub(crate) timer: AgeTimer,
    /// Tells where in the program the call under way comes from.
    pub(crate) origin: OnceLock<fn() -> Origin>,
    /// A tape is old, but must wait for an acknowledgement.
    pub(crate) overdue: AtomicBool,
    /// Replies that come by the gRPC stream.
    pub(crate) stream: Reading,
    /// Where messages go through shared memory: the stream says the session's end only.
    pub(crate) rings: Option<Reading>,
    /// The host leads a loop (`leading`); and it does not any more.
    pub(crate) led: AtomicBool,
    pub(crate) led_ended: Condvar,
}

impl Shared {
    #[inline(always)]
    pub(crate) fn lock_running(&self) -> Result<MutexGuard<'_, Outbox>, Failure> {
        if self.status.is_running() {
            Ok(self.outbox.lock())
        } else {
            Err(self.over())
        }
    }

    /// As `lock_running`, to append records: they are of the context that the calling thread works for.
    #[inline(always)]
    pub(crate) fn lock_to_append(&self) -> Result<MutexGuard<'_, Outbox>, Failure> {
        let mut outbox = self.lock_running()?;
        if self.is_led() {
            outbox = self.join(outbox)?;
        }
        if let Some(context) = self.contexts.acting() {
            if outbox.is_of_other(context) {
                self.enter_context(&mut outbox, context, false)?;
            }
        }
        Ok(outbox)
    }

    /// A group has records of one context: sends the tape, and names the context of what follows.
    #[cold]
    fn enter_context(&self, outbox: &mut Outbox, context: u32, anew: bool) -> Result<(), Failure> {
        outbox.close_loops(Reason::Thread);
        self.send(outbox, None)?;
        outbox.enter_context(context, anew, self.origin());
        Ok(())
    }

    /// What the context holds has ended: the host forgets its error.
    pub(crate) fn renew_context(&self, context: u32) -> Result<(), Failure> {
        let mut outbox = self.lock_running()?;
        self.enter_context(&mut outbox, context, true)?;
        outbox.begin_aging(&self.timer);
        Ok(())
    }

    /// What a call finds when the session is over.
    #[cold]
    pub(crate) fn over(&self) -> Failure {
        match self.status.get() {
            Phase::Finishing | Phase::Finished => UNLOADING,
            Phase::Running | Phase::Dead | Phase::Abandoned => Failure::Dead,
        }
    }

    /// Begins to append records.
    #[inline(always)]
    pub(crate) fn begin(&self) -> Result<Append<'_>, Failure> {
        let outbox = self.lock_to_append()?;
        let mark = outbox.writer.len();
        Ok(Append::new(self, outbox, mark))
    }

    /// Appends records, and sends the tape when it is full.
    #[inline]
    pub(crate) fn append(&self, write: impl FnOnce(&mut Writer)) -> Result<(), Failure> {
        let mut append = self.begin()?;
        write(append.writer());
        append.finish()
    }

    /// Appends records and sends them, and behind them a WRITE, whose data are taken from where they are. False: nothing was done, the
    /// WRITE has to be on the tape.
    pub(crate) fn append_bulk(
        &self,
        head: WriteHead,
        data: &[u8],
        write: impl FnOnce(&mut Writer),
    ) -> Result<bool, Failure> {
        let Some(bytes) = head.to_bytes().filter(|_| head.data_bytes == data.len()) else { return Ok(false) };
        let mut outbox = self.lock_to_append()?;
        if !outbox.takes_bulk() || self.is_led() {
            return Ok(false);
        }
        self.write(&mut outbox, write)?;
        let _whole = Uncancelled::begin();
        let bulk = Bulk { head, bytes: &bytes, data };
        match outbox.send_bulk(bulk, self.origin()(), &self.ledger, &self.counters) {
            Sent::Yes => Ok(true),
            Sent::NoCredit | Sent::Closed => Err(self.over()),
        }
    }

    /// Appends records, of which the last reads into the destination; nothing is sent unless the tape is full. `None`:
    /// no memory is of that shape.
    pub(crate) fn record_read(
        &self,
        destination: Destination,
        from: usize,
        write: impl FnOnce(&mut Writer, u32),
    ) -> Option<Result<(), Failure>> {
        let waiter = Waiter::for_rows(destination)?;
        let record = || {
            let mut outbox = self.lock_to_append()?;
            let slot = outbox.mint_slot();
            if self.write(&mut outbox, |writer| write(writer, slot))? != Written::OnTape {
                return Err(UNKNOWN); // nothing was asked; what is led is asked at once
            }
            outbox.reads.add(slot, destination, waiter, from);
            if outbox.is_full() {
                return self.send(&mut outbox, None);
            }
            outbox.begin_aging(&self.timer);
            Ok(())
        };
        Some(record())
    }

    /// Runs `write` on the tape; what it leaves is whole records or, when something is wrong with one of them, nothing.
    #[inline]
    fn write(&self, outbox: &mut Outbox, write: impl FnOnce(&mut Writer)) -> Result<Written, Failure> {
        let mark = outbox.writer.len();
        {
            let guard = Whole { writer: &mut outbox.writer, mark };
            write(guard.writer);
        }
        if let Some(oversized) = outbox.writer.take_oversized() {
            return Err(refuse(&mut outbox.writer, mark, oversized));
        }
        self.appended(outbox, mark)
    }

    #[inline]
    pub(crate) fn origin(&self) -> fn() -> Origin {
        self.origin.get().copied().unwrap_or(anywhere)
    }

    /// A loop begins with the thread's next record, as a manifest predicts it.
    pub(crate) fn predict(&self, thread: u64, iterations: u64, records: &[PredictedLaunch]) {
        if let Ok(mut outbox) = self.lock_running() {
            outbox.predict(&self.timer, thread, iterations, records);
        }
    }

    /// Sends what a loop has held: at once, or in a moment where the program may be about to wait, which sends it too.
    /// A tape on which no loop has been held back ages as any other.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        let mut outbox = self.lock_running()?;
        if outbox.loops.is_some() && !outbox.holds_loops() && outbox.reads.is_empty() {
            return Ok(());
        }
        outbox.close_loops(Reason::Hint);
        if outbox.send_soon(&self.timer) {
            return Ok(());
        }
        self.send(&mut outbox, None)
    }

    #[inline(never)]
    pub(crate) fn send(&self, outbox: &mut Outbox, awaited: Option<Awaited>) -> Result<(), Failure> {
        let _whole = Uncancelled::begin();
        signals::refuse_inside();
        match outbox.send(awaited, Patience::Unlimited, &self.ledger, &self.counters) {
            Sent::Yes => Ok(()),
            Sent::NoCredit | Sent::Closed => Err(self.over()),
        }
    }

    /// Asks and waits: one round trip.
    pub(crate) fn ask(&self, waiter: Waiter, write: impl FnOnce(&mut Writer, u32)) -> Result<Answer, Failure> {
        let waiter = Arc::new(waiter);
        let answered = self.post(1, write, |slot| Awaited::new(slot, waiter.clone()))?;
        self.outcome(&waiter, answered)
    }

    /// As `ask`, for so many questions (at least one), whose slots follow each other.
    pub(crate) fn ask_all(
        &self,
        questions: usize,
        write: impl FnOnce(&mut Writer, u32),
    ) -> Result<Vec<Answer>, Failure> {
        let waiter = Arc::new(Waiter::for_answers(questions));
        let run = Run { left: questions as u64 - 1, slot_step: 1, step: 0 };
        self.post(questions, write, |first| Awaited::new(first, waiter.clone()).followed_by(run))?;
        self.counters.round_trips.add(1);
        self.wait(&waiter).ok_or_else(|| self.over())?;
        Ok(waiter.take_answers())
    }

    /// As `ask`, for a read. `None`: no memory is of that shape.
    ///
    /// # Safety
    /// The rows are writable, and no other code accesses them, until this returns.
    pub(crate) unsafe fn read(
        &self,
        destination: Destination,
        write: impl FnOnce(&mut Writer, u32),
    ) -> Option<Result<Answer, Failure>> {
        Some(self.ask(Waiter::for_rows(destination)?, write))
    }

    /// Appends records, of which the last ones answer into slots that follow each other from the given one on, and
    /// sends everything. True: the host has answered already, in a loop that it leads.
    pub(crate) fn post(
        &self,
        slots: usize,
        write: impl FnOnce(&mut Writer, u32),
        awaited: impl FnOnce(u32) -> Awaited,
    ) -> Result<bool, Failure> {
        let mut outbox = self.lock_to_append()?;
        let slot = outbox.mint_slots(slots);
        let written = self.write(&mut outbox, |writer| write(writer, slot))?;
        let awaited = match written {
            Written::Nothing | Written::Led => return Err(UNKNOWN), // nothing was asked
            Written::OnTape | Written::Compared => awaited(slot),
            Written::Question => {
                let awaited = awaited(slot);
                let question = outbox.following.as_ref().map(|following| following.question.clone());
                let (locked, answered) = self.answer_from_stream(outbox, slot, &awaited.waiter)?;
                if answered {
                    return Ok(true);
                }
                outbox = locked;
                outbox.writer.records(&question.unwrap_or_default());
                awaited
            }
        };
        outbox.close_loops(Reason::Sync);
        let waiter = awaited.waiter.clone();
        self.send(&mut outbox, Some(awaited))?;
        if written == Written::Compared {
            drop(outbox);
            self.counters.round_trips.add(1);
            return self.compare(&waiter).map(|()| true);
        }
        Ok(false)
    }

    /// A CUDA result as the session's callers want it.
    pub(crate) fn result(&self, code: i32) -> Result<(), Failure> {
        if code == 0 {
            return Ok(());
        }
        let sticky = self.contexts.sticky() == code;
        Err(Failure::Cuda { code, sticky })
    }

    /// The session's good end; true for the one caller that brings it about (or finds the session dead).
    pub(crate) fn finish(&self) -> bool {
        if !self.status.step(Phase::Running, Phase::Finishing) {
            return self.status.step(Phase::Dead, Phase::Finished);
        }
        let deadline = Instant::now() + FINISH_STALL;
        // The lock may be held by a thread that waits for credit, or by this one, interrupted by a signal whose handler
        // exits.
        let sent = self.outbox.try_lock_until(deadline).is_some_and(|mut outbox| {
            if self.end_led(&mut outbox).is_err() {
                return false;
            }
            outbox.close_loops(Reason::Exit);
            outbox.send(None, Patience::Until(deadline), &self.ledger, &self.counters) == Sent::Yes
        });
        let done = sent && self.rely(|| self.ledger.drain(FINISH_STALL, || self.stream.is_resuming()));
        if !done && self.status.get() == Phase::Finishing {
            log::error(format_args!(
                "the host at {} has not finished the last work: leaving it after {} s without progress",
                self.endpoint,
                FINISH_STALL.as_secs()
            ));
        }
        // First: the host answers the goodbye by ending the stream, which is then no loss of the connection.
        let _ = self.status.step(Phase::Finishing, Phase::Finished) || self.status.step(Phase::Dead, Phase::Finished);
        if let Some(mut outbox) = self.outbox.try_lock_until(deadline) {
            outbox.close(done, &self.counters);
        }
        if done {
            self.rely(|| self.ledger.wait_closed(GOODBYE_WAIT));
        } else {
            self.rings.iter().for_each(Reading::close);
            self.ledger.close(); // nothing is written into the program's memory any more
        }
        true
    }

    /// In the child of a fork. Async-signal-safe.
    pub(crate) fn abandon(&self) {
        if self.status.get() == Phase::Abandoned {
            return;
        }
        self.status.force(Phase::Abandoned);
        // SAFETY: a plain system call on a descriptor that this process inherited; the thread that uses it exists in
        // the parent only, and nothing here uses it after this.
        unsafe {
            libc::close(self.timer.as_raw_fd());
        }
        for reading in self.readings() {
            reading.abandon();
        }
    }

    /// What the loop recorder has counted, for the report.
    pub(crate) fn loops(&self) -> Vec<Section> {
        let Some(outbox) = self.outbox.try_lock() else { return Vec::new() };
        let recorded = outbox.loops.as_ref().map(|loops| loops.section());
        recorded.into_iter().chain(outbox.leads.section()).collect()
    }

    /// Ends the connection without waiting for anything.
    pub(crate) fn leave(&self) {
        if self.status.step(Phase::Running, Phase::Finished) {
            self.outbox.lock().close(true, &self.counters);
        }
    }

    /// The connection is of no use any more: everybody who waits is released, later calls fail. Tells the user once,
    /// unless the session was over anyway.
    pub(crate) fn fail(&self, why: &str) {
        let died = self.status.step(Phase::Running, Phase::Dead) || self.status.step(Phase::Finishing, Phase::Dead);
        if died {
            log::error(format_args!("connection to {} lost: {why}", self.endpoint));
        }
        // Before the ledger's waiters are let go: who writes to their memory is interrupted.
        for reading in self.readings() {
            reading.close();
        }
        self.ledger.close();
        self.led_ended.notify_all();
    }

    fn readings(&self) -> impl Iterator<Item = &Reading> {
        [&self.stream].into_iter().chain(&self.rings)
    }
}

/// Who appends, where no layer above says how to find out.
fn anywhere() -> Origin {
    Origin::default()
}
