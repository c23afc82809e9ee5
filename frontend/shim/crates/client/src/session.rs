//! The session as the rest of the shim sees it: append, ask, read, flush, finish.
//!
//! Threads: any number of the program's threads call in; those that wait for the host read its replies, a background
//! thread does what is left (`incoming/reading.rs`). Locking: see `shared`. A session that has ended, died or stayed in
//! a fork's parent is known by its phase, which is looked at before any lock: a vanished thread may hold one.

mod hello;
mod led;

pub use hello::HelloInfo;

use crate::connection::objects::Upload;
use crate::connection::transport;
use crate::incoming::awaited::Awaited;
use crate::incoming::destination::Destination;
use crate::incoming::output::Output;
use crate::incoming::waiter::{Answer, Waiter};
use crate::outgoing::append::Append;
use crate::report::counters::Counters;
use crate::report::{self, remote, CallSummary};
use crate::shared::Shared;
use crate::{log, Config, Decided, Failure, Mode, OpenError, Welcome};
use recorder::{Origin, PredictedLaunch};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tape::{operations, WriteHead, Writer};

/// cudaErrorInvalidValue: no memory is of that shape.
const UNUSABLE_DESTINATION: Failure = Failure::Cuda { code: 1, sticky: false };

/// One open session. Shared by all threads of the program.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    welcome: Welcome,
    mode: Mode,
    decided: Decided,
    lead_time: Duration,
    report: Option<PathBuf>,
    local: bool,
    payloads: bool,
    opened: Instant,
    upload: Arc<Upload>,
    /// The host's clock beside ours, as the session opened. A leaf.
    clocks: Mutex<Option<Vec<remote::Comparison>>>,
}

impl Session {
    /// Connects and shakes hands: one round trip, and another one where a gateway leads elsewhere. `hello` is asked on this thread while another one connects.
    ///
    /// # Errors
    /// [`OpenError`] says what is wrong and what to do.
    pub fn open(config: &Config, hello: impl FnOnce() -> HelloInfo) -> Result<Self, OpenError> {
        Self::open_while(config, hello, || {})
    }

    /// As `open`; `meanwhile` runs on this thread while the host answers.
    ///
    /// # Errors
    /// As for `open`.
    pub fn open_while(
        config: &Config,
        hello: impl FnOnce() -> HelloInfo,
        meanwhile: impl FnOnce(),
    ) -> Result<Self, OpenError> {
        let opened = Instant::now();
        let (shared, welcome, endpoint) = transport::open(config, hello, meanwhile)?;
        shared.counters.round_trips.add(1);
        log::info(format_args!("session {} with {}, mode {}", welcome.session, shared.endpoint, config.mode.as_str()));
        let session = Self {
            shared,
            welcome,
            mode: config.mode,
            decided: config.decided,
            lead_time: config.lead_time,
            report: config.report.clone(),
            local: endpoint.is_local(),
            payloads: config.payloads,
            opened,
            upload: Arc::default(),
            clocks: Mutex::default(),
        };
        if session.welcome.timeline {
            // A session that is over says so at its first call.
            let clocks = remote::compare(&session).unwrap_or_default();
            *session.clocks.lock().unwrap_or_else(PoisonError::into_inner) = Some(clocks);
        }
        Ok(session)
    }

    /// How to tell where in the program the call under way comes from; asked at every append in mode loops. Once.
    pub fn set_origin(&self, origin: fn() -> Origin) {
        let _ = self.shared.origin.set(origin);
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

    /// Whether appends wait for nothing (mode none: they do).
    #[must_use]
    #[inline]
    pub fn defers(&self) -> bool {
        self.mode != Mode::None
    }

    /// Whether the host is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.local
    }

    /// Bytes of payloads that the host keeps for this session (tape.md, "Payloads"); 0 when none are to be kept.
    #[must_use]
    pub fn payload_budget(&self) -> u64 {
        if self.payloads && self.mode != Mode::None {
            self.welcome.payload_cache_bytes
        } else {
            0
        }
    }

    /// Whether payloads may travel as LZ4 blocks.
    #[must_use]
    pub fn takes_lz4(&self) -> bool {
        self.payloads && self.mode != Mode::None && self.welcome.codecs.iter().any(|codec| codec == "lz4")
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
        self.shared.append(write)
    }

    /// As `defer_part`, with a WRITE behind the records, whose data are sent from where they are. False: nothing was done, it has to be
    /// on the tape, for the host is far.
    ///
    /// # Errors
    /// [`Failure::Dead`].
    pub fn defer_bulk(&self, head: WriteHead, data: &[u8], write: impl FnOnce(&mut Writer)) -> Result<bool, Failure> {
        if self.mode == Mode::None {
            return Ok(false);
        }
        self.shared.append_bulk(head, data, write)
    }

    /// Begins what `defer_part` does as a whole: for calls that are many.
    ///
    /// # Errors
    /// As `defer_part`.
    #[inline(always)]
    pub fn begin(&self) -> Result<Append<'_>, Failure> {
        self.shared.begin()
    }

    #[inline(never)]
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

    /// Appends records, of which the last (and only the last) answers into the slot, sends everything and waits: one
    /// round trip. The answer's own error is in the answer.
    ///
    /// # Errors
    /// [`Failure::Dead`].
    pub fn request(&self, write: impl FnOnce(&mut Writer, u32)) -> Result<Answer, Failure> {
        self.shared.ask(Waiter::for_answer(), write)
    }

    /// As `request`, with so many questions (1 to 1024): `write` appends a record for each, which answers into the slot
    /// behind that of the one before, from the given one on. Still one round trip.
    ///
    /// # Errors
    /// [`Failure::Dead`].
    pub fn request_all(&self, questions: usize, write: impl FnOnce(&mut Writer, u32)) -> Result<Vec<Answer>, Failure> {
        self.shared.ask_all(questions, write)
    }

    /// As `request` for a READ: the data is written into the destination as it arrives. One round trip.
    ///
    /// # Safety
    /// Every row of `destination` must be writable, and no other code may access it, until this returns.
    ///
    /// # Errors
    /// The error of the read, or [`Failure::Dead`]; then the destination may be partly written.
    pub unsafe fn read(&self, destination: Destination, write: impl FnOnce(&mut Writer, u32)) -> Result<(), Failure> {
        // SAFETY: the caller's promise.
        let answer = unsafe { self.shared.read(destination, write) }.ok_or(UNUSABLE_DESTINATION)??;
        self.shared.result(answer.error)
    }

    /// As `read`, but does not wait: sends everything and returns. The data is in the destination once any `request` or
    /// `read` that was made later is answered; an error of the read is one of a deferred call. In mode none: as `read`.
    ///
    /// # Safety
    /// Every row of `destination` must be writable, and no other code may access it, until a later request is answered
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
        self.shared.post(1, write, |slot| Awaited::unwatched(slot, Arc::new(waiter))).map(drop)
    }

    /// As `read_deferred`, but sends nothing: for many reads that arrive together. `from` names where in the program
    /// the read comes from; reads from one place into evenly spaced destinations cost no memory each.
    ///
    /// # Safety
    /// As for `read_deferred`.
    ///
    /// # Errors
    /// As for `read_deferred`.
    pub unsafe fn record_read(
        &self,
        destination: Destination,
        from: usize,
        write: impl FnOnce(&mut Writer, u32),
    ) -> Result<(), Failure> {
        if self.mode == Mode::None {
            // SAFETY: the caller promises more.
            return unsafe { self.read(destination, write) };
        }
        self.shared.record_read(destination, from, write).unwrap_or(Err(UNUSABLE_DESTINATION))
    }

    /// A loop of so many iterations begins with the thread's next record, as a manifest predicts it: each iteration is
    /// these records. Where the loop is worth it, the host learns it within 20 us, and what of it is done by then is
    /// sent with that. Only a guess: every record is compared.
    pub fn predict(&self, thread: u64, iterations: u64, records: &[PredictedLaunch]) {
        self.shared.predict(thread, iterations, records);
    }

    /// A loop has ended: sends what of it is held within 20 us, without waiting for an answer (where there is no age
    /// timer at once, waiting perhaps for credit).
    pub fn flush(&self) {
        // The calls that need a connection report that it is dead.
        let _ = self.shared.flush();
    }

    /// Ends the session: sends what is recorded, waits (as long as the host makes progress) until it was replayed, says
    /// goodbye and writes the report. Later calls fail with cudaErrorCudartUnloading (4). Idempotent; may be called at
    /// exit.
    pub fn finish(&self, calls: &CallSummary) {
        self.upload.finish();
        let clocks = self.clocks.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(clocks) = clocks {
            remote::fetch(self, clocks);
        }
        if !self.shared.finish() {
            return; // finished before, or not ours to finish
        }
        if let Some(path) = &self.report {
            let mut calls = calls.clone();
            calls.sections.extend(self.shared.loops());
            let text = report::render(self.mode, self.counters(), &calls, self.opened.elapsed());
            if let Err(error) = report::write(path, &text) {
                log::error(format_args!("cannot write the report to {}: {error}", path.display()));
            }
        }
    }

    /// For the child of a fork: from now on this session answers [`Failure::Dead`] without touching a lock, and the
    /// child's copy of the connection is closed without a word to the host. Async-signal-safe.
    pub fn abandon_after_fork(&self) {
        self.shared.abandon();
    }

    /// From now on there are several contexts: records are of the one that `acting` says the calling thread works for.
    /// Once.
    pub fn begin_contexts(&self, acting: fn() -> u32) {
        self.shared.contexts.begin(acting);
    }

    /// Everything made in the context was ended by records before this: its errors are forgotten. The calling thread
    /// works for it. One round trip.
    ///
    /// # Errors
    /// [`Failure::Dead`].
    pub fn renew_context(&self, context: u32) -> Result<(), Failure> {
        self.shared.renew_context(context)?;
        // Replies to what is on its way may still tell of errors from before.
        self.request(operations::fence)?;
        self.shared.contexts.forget(context);
        Ok(())
    }

    /// The error that ruined the context that the calling thread works for, if one did.
    #[must_use]
    #[inline]
    pub fn sticky(&self) -> Option<i32> {
        if self.is_led() {
            return None; // the program has not come to it
        }
        let code = self.shared.contexts.sticky();
        (code != 0).then_some(code)
    }

    /// The first error of a deferred call that no call has reported yet; reporting it is the caller's job now.
    #[must_use]
    #[inline]
    pub fn take_deferred_error(&self) -> Option<i32> {
        if self.is_led() {
            return None;
        }
        let code = self.shared.contexts.take_deferred();
        (code != 0).then_some(code)
    }

    /// Bytes of printed text that have arrived and that no thread has taken.
    #[must_use]
    #[inline]
    pub fn held_output(&self) -> usize {
        self.shared.output.bytes()
    }

    /// What kernels have printed and no thread has taken: showing it is the caller's job now.
    #[must_use]
    pub fn take_output(&self) -> Option<Output> {
        self.shared.output.take()
    }

    /// Whether the host checks kernels.
    #[must_use]
    pub fn checks(&self) -> bool {
        !self.welcome.checks.is_empty()
    }

    /// The end of the checks: the number of errors. The last of their text is held as printed text is. One round trip;
    /// `None` when the session is over.
    #[must_use]
    pub fn finish_checks(&self) -> Option<u64> {
        self.request(operations::check_end).ok().map(|answer| answer.value)
    }

    /// Forgets sticky and deferred errors: after a DEVICE_RESET that succeeded.
    pub fn clear_errors(&self) {
        self.shared.contexts.clear();
    }

    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    pub(crate) fn upload(&self) -> &Arc<Upload> {
        &self.upload
    }

    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.shared.counters
    }
}

impl Drop for Session {
    /// The connection ends without waiting for anything; `finish` is the way to end well.
    fn drop(&mut self) {
        self.shared.leave();
    }
}
