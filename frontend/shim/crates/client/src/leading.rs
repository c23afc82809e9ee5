//! Loops that the host leads, as the program's threads meet them: the start, each record and result, the end.
//!
//! One thread follows (`outgoing/following`). Another that comes with a record waits until it does not any more: the
//! host is then asked no further than to the end of the iteration under way. That ends, because a slice holds no host
//! code that waits for another thread.
//!
//! Locking: the outbox's lock, which is given up while results are waited for.

use crate::incoming::awaited::Awaited;
use crate::incoming::waiter::{Next, Piece, Waiter};
use crate::outgoing::following::{Following, Taken};
use crate::outgoing::lead::Lead;
use crate::outgoing::outbox::Outbox;
use crate::shared::{Shared, UNKNOWN};
use crate::{log, Failure};
use parking_lot::MutexGuard;
use recorder::Reason;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;
use tape::{operations, ResultRecord};

/// Why a WHILE stopped, the low 8 bits of its VALUE (tape.md, "Slices").
const BOUND: u64 = 0;

/// What a write has put on the tape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Nothing,
    OnTape,
    /// Nothing: the host makes it by itself.
    Led,
    /// So it does, and its result comes from the stream.
    Question,
    /// It is on the tape, and its result is the slice's, too.
    Compared,
}

impl Shared {
    /// Has the host lead a loop at whose entry the calling thread is, or compares the loop's calls with its slice. False: neither.
    pub(crate) fn lead(&self, lead: Lead, verify: bool, time: Duration) -> Result<bool, Failure> {
        let mut outbox = self.lock_to_append()?;
        if outbox.following.is_some() {
            return Ok(false);
        }
        let mut number = 0;
        if !verify {
            outbox.close_loops(Reason::Sync);
            let Outbox { leads, writer, .. } = &mut *outbox;
            let Some(defined) = leads.define(&lead, writer) else { return Ok(false) };
            number = defined;
        }
        let Some(mut following) = Following::new(lead, number, verify, time) else { return Ok(false) };
        let first = following.bounds();
        outbox.following = Some(Box::new(following));
        if !verify {
            self.counters.round_trips.add(1);
            self.post_while(&mut outbox, false, first)?;
        }
        self.led.store(true, Ordering::Release);
        Ok(true)
    }

    /// Sends a WHILE of the loop that is followed; its results come as a stream.
    fn post_while(&self, outbox: &mut Outbox, continued: bool, bounds: (u64, u32)) -> Result<(), Failure> {
        let (slot, waiter) = (outbox.mint_slot(), Arc::new(Waiter::for_stream()));
        let Some(following) = &mut outbox.following else { return Err(UNKNOWN) };
        let inputs = if continued { Vec::new() } else { following.inputs() };
        let ((iterations, microseconds), number) = (bounds, following.number);
        operations::while_(&mut outbox.writer, number, slot, iterations, microseconds, continued, &inputs);
        following.streams.push_back(waiter.clone());
        self.send(outbox, Some(Awaited::streamed(slot, waiter)))
    }

    /// Whether the host leads.
    #[inline]
    pub(crate) fn is_led(&self) -> bool {
        self.led.load(Ordering::Relaxed)
    }

    /// The calling thread is at the entry of a loop: whether it is in one that the host leads.
    pub(crate) fn is_followed(&self) -> bool {
        if !self.is_led() {
            return false;
        }
        let Ok(mut outbox) = self.lock_running() else { return false };
        if outbox.following.as_mut().is_some_and(|following| following.goes_on()) {
            return true;
        }
        let _ = self.end_led(&mut outbox);
        false
    }

    /// Whether a loop is not led any more, as its slice is stuck each time.
    pub(crate) fn gives_up(&self, key: u64) -> bool {
        self.lock_running().is_ok_and(|outbox| outbox.leads.gives_up(key))
    }

    /// Whether a loop has come to its end in its first iteration the last times.
    pub(crate) fn is_short(&self, key: u64) -> bool {
        self.lock_running().is_ok_and(|outbox| outbox.leads.is_short(key))
    }

    /// What is behind `mark` was appended.
    #[inline]
    pub(crate) fn appended(&self, outbox: &mut Outbox, mark: usize) -> Result<Written, Failure> {
        if outbox.writer.len() == mark {
            return Ok(Written::Nothing);
        }
        if self.is_led() {
            let written = self.follow(outbox, mark)?;
            if matches!(written, Written::OnTape | Written::Compared) {
                outbox.appended(mark, self.origin());
            }
            return Ok(written);
        }
        outbox.appended(mark, self.origin());
        Ok(Written::OnTape)
    }

    /// A call of the program has failed and made no record.
    #[cold]
    pub(crate) fn call_failed(&self) {
        if let Ok(mut outbox) = self.lock_running() {
            if let Some(following) = &mut outbox.following {
                following.failed();
            }
        }
    }

    /// Waits until no other thread follows.
    #[cold]
    pub(crate) fn join<'a>(&'a self, mut outbox: MutexGuard<'a, Outbox>) -> Result<MutexGuard<'a, Outbox>, Failure> {
        let thread = (self.origin())().thread;
        while let Some(following) = outbox.following.as_mut().filter(|following| following.thread() != thread) {
            following.wanted = true;
            if !self.status.is_running() {
                return Err(self.over());
            }
            self.led_ended.wait(&mut outbox);
        }
        Ok(outbox)
    }

    /// What was written behind `mark`, while the host leads.
    #[cold]
    pub(crate) fn follow(&self, outbox: &mut Outbox, mark: usize) -> Result<Written, Failure> {
        let site = (self.origin())().site;
        let Outbox { writer, following: Some(following), .. } = outbox else { return Ok(Written::OnTape) };
        let verifies = following.verifies;
        let mut written = if verifies { Written::OnTape } else { Written::Led };
        let records = &writer.as_slice()[mark..];
        let mut at = 0;
        while let Some(length) = tape::record_length(&records[at..]) {
            match following.take(&records[at..at + length], site) {
                Taken::Yes => {}
                Taken::Question => written = if verifies { Written::Compared } else { Written::Question },
                Taken::Over if at == 0 => {
                    let records = records.to_vec();
                    outbox.writer.truncate(mark);
                    self.end_led(outbox)?;
                    outbox.writer.records(&records);
                    return Ok(Written::OnTape);
                }
                Taken::Over => return Err(self.break_off("a loop ends in the middle of a call")),
                Taken::Broken(why) => return Err(self.break_off(&why)),
            }
            at += length;
        }
        if !verifies {
            outbox.writer.truncate(mark);
        }
        Ok(written)
    }

    /// The slice learns what has come for a question that the program has asked by itself.
    pub(crate) fn compare(&self, question: &Waiter) -> Result<(), Failure> {
        let Some(answer) = self.wait(question) else { return Err(self.over()) };
        let mut outbox = self.lock_running()?;
        if answer.error != 0 {
            return self.end_led(&mut outbox);
        }
        // SAFETY: what was asked is there, and the thread that asked has not returned to the program.
        let bytes = unsafe { question.copied() };
        self.hand_over(&mut outbox, &bytes)
    }

    /// The slice is given what a copy to the host has brought.
    fn hand_over(&self, outbox: &mut Outbox, bytes: &[u8]) -> Result<(), Failure> {
        if outbox.following.as_mut().is_none_or(|following| following.arrived(bytes)) {
            return Ok(());
        }
        Err(self.break_off("a copy of a loop has another size than its slice says"))
    }

    /// The program has left the loop, or the host leads no further. What the host has still to do of it, it does.
    pub(crate) fn end_led(&self, outbox: &mut Outbox) -> Result<(), Failure> {
        let Some(following) = &mut outbox.following else { return Ok(()) };
        following.count(&mut outbox.leads.counts);
        outbox.leads.ended(following.key(), following.was_in_vain(), following.was_short());
        let more = !following.verifies && !following.over && following.may_stop_early();
        let told = if more { self.post_while(outbox, true, (0, 0)) } else { Ok(()) };
        outbox.following = None;
        self.led.store(false, Ordering::Release);
        self.led_ended.notify_all();
        told
    }

    /// The session ends: a proof is broken.
    #[cold]
    pub(crate) fn break_off(&self, why: &str) -> Failure {
        log::error(format_args!("{why}"));
        self.fail("the guest has ended the session");
        self.led_ended.notify_all();
        self.over()
    }

    /// Gives what is asked its result, from the stream. The question is not on the tape. False: the host does not lead
    /// any more, and the question, a record, is to be asked.
    pub(crate) fn answer_from_stream<'a>(
        &'a self,
        mut outbox: MutexGuard<'a, Outbox>,
        slot: u32,
        question: &Waiter,
    ) -> Result<(MutexGuard<'a, Outbox>, bool), Failure> {
        let mut bytes = Vec::new();
        loop {
            let Some(following) = &mut outbox.following else { return Err(UNKNOWN) };
            let Some(stream) = following.streams.front().cloned() else {
                if following.over {
                    let why = "a loop that the host leads has ended there, and not here";
                    return Err(self.break_off(why));
                }
                // Nothing is under way: the program waits for what is asked now.
                self.counters.round_trips.add(1);
                let bounds = if following.wanted { following.last_bounds() } else { following.bounds() };
                self.post_while(&mut outbox, true, bounds)?;
                continue;
            };
            match stream.next() {
                Next::Piece(piece) => {
                    if following.wants_more() {
                        following.fresh = false;
                        let bounds = following.bounds();
                        self.post_while(&mut outbox, true, bounds)?;
                    }
                    let Some(following) = &mut outbox.following else { return Err(UNKNOWN) };
                    if following.skipped > 0 && piece.data.is_none() && piece.error == 0 {
                        following.skipped -= 1;
                        continue;
                    }
                    let error = piece.error;
                    if error != 0 {
                        let again = following.unsure;
                        outbox = self.finish_stream(outbox, &stream)?;
                        self.end_led(&mut outbox)?;
                        if again {
                            return Ok((outbox, false));
                        }
                    }
                    let done = give(question, slot, &piece, &mut bytes).map_err(|why| self.break_off(why))?;
                    if error != 0 {
                        return Ok((outbox, true));
                    }
                    if done {
                        self.hand_over(&mut outbox, &bytes)?;
                        return Ok((outbox, true));
                    }
                }
                Next::Over(answer) => {
                    following.streams.pop_front();
                    following.fresh = true;
                    following.begun = answer.value >> 8;
                    following.over = answer.value & 0xFF != BOUND || answer.error != 0;
                }
                Next::Later => {
                    drop(outbox);
                    self.wait_for_next(&stream);
                    outbox = self.lock_running()?;
                }
                Next::Dead => return Err(self.over()),
            }
        }
    }

    /// Waits for the end of a WHILE that has met an error: what becomes of the context is known then.
    fn finish_stream<'a>(
        &'a self,
        mut outbox: MutexGuard<'a, Outbox>,
        stream: &Arc<Waiter>,
    ) -> Result<MutexGuard<'a, Outbox>, Failure> {
        loop {
            match stream.next() {
                Next::Piece(_) => {}
                Next::Over(_) => {
                    if let Some(following) = &mut outbox.following {
                        following.over = true;
                    }
                    return Ok(outbox);
                }
                Next::Later => {
                    drop(outbox);
                    self.wait_for_next(stream);
                    outbox = self.lock_running()?;
                }
                Next::Dead => return Err(self.over()),
            }
        }
    }
}

/// Gives a question a piece of its result. Whether it has all of it.
fn give(question: &Waiter, slot: u32, piece: &Piece, bytes: &mut Vec<u8>) -> Result<bool, &'static str> {
    const STRANGE: &str = "a loop that the host leads brings another result than its slice says";
    let record = match &piece.data {
        None => ResultRecord::Status { slot, error: piece.error },
        Some((offset, data)) => {
            bytes.extend_from_slice(data);
            ResultRecord::Data { slot, error: piece.error, offset: *offset, data }
        }
    };
    question.fill(&record).map_err(|_| STRANGE)?;
    Ok(question.complete())
}
