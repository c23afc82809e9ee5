//! The tape being written: appends, cut into groups and messages, handed to the carrier.
//!
//! Everything here happens under the outbox's one lock, which therefore decides the order of the tape. The hot path (an
//! append to a tape that is not full) makes no system call, no allocation and no wake-up; the first append after the
//! timer ran out arms it again. A thread that waits for credit keeps the lock: the others could not send either.

use crate::connection::age::AgeTimer;
use crate::generated_farlane_v1::{guest_message::Kind, Goodbye};
use crate::incoming::awaited::Awaited;
use crate::incoming::ledger::{Entry, Ledger, Patience};
use crate::outgoing::buffers::{Buffers, FEW_BYTES};
use crate::outgoing::carrier::Carrier;
use crate::outgoing::following::Following;
use crate::outgoing::lead::Leads;
use crate::outgoing::loops::Loops;
use crate::outgoing::reads::Reads;
use crate::report::counters::Counters;
use recorder::{Origin, PredictedLaunch, Reason};
use std::sync::Arc;
use std::time::Duration;
use tape::operations::code;
use tape::{operations, whole_records, WriteHead, Writer};

/// Groups on their way that make an old tape wait for more records: the host is busy, nothing is won by sending less.
/// With one alone the host would wait between a group and the next, for as long as a message takes there and back.
const BUSY_GROUPS: usize = 2;

/// How long a tape waits behind which nothing follows soon: a program that waits for it within that time, as most do,
/// sends one group and not two. A group costs guest and host together more than this.
const SOON: Duration = Duration::from_micros(20);

/// What does not change over a session.
#[derive(Debug)]
pub(crate) struct Limits {
    /// A tape of this many bytes is sent.
    pub(crate) group_bytes: usize,
    /// The most bytes of one message.
    pub(crate) message_bytes: usize,
    /// Zero: no age timer.
    pub(crate) age: Duration,
    /// Loops become templates.
    pub(crate) record_loops: bool,
}

#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) writer: Writer,
    /// What holds the records of loops; `None` where loops are not recorded.
    pub(crate) loops: Option<Loops>,
    /// The loop that the host leads, and all that it was told of such.
    pub(crate) following: Option<Box<Following>>,
    pub(crate) leads: Leads,
    limits: Limits,
    next_group: u64,
    /// What the records on the tape are of; `None`: the next group names it.
    context: Option<u32>,
    last_slot: u32,
    /// Reads on the tape that no thread waits for.
    pub(crate) reads: Reads,
    /// The group for whose first record the age timer runs.
    timer: Option<u64>,
    carrier: Option<Carrier>,
    buffers: Arc<Buffers>,
}

/// A WRITE that is not on the tape.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bulk<'a> {
    pub(crate) head: WriteHead,
    pub(crate) bytes: &'a [u8; WriteHead::BYTES],
    pub(crate) data: &'a [u8],
}

/// What became of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sent {
    Yes,
    NoCredit,
    Closed,
}

/// What the timer's expiry asks for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aged {
    /// Nothing is old (any more).
    No,
    /// What was old is on its way.
    Sent,
    /// Look again when the host has acknowledged something.
    Later,
}

impl Outbox {
    pub(crate) fn new(limits: Limits, carrier: Carrier) -> Self {
        let capacity = limits.group_bytes + 4096;
        Self {
            writer: Writer::with_capacity(capacity),
            loops: limits.record_loops.then(Loops::default),
            buffers: Arc::new(Buffers::new(capacity)),
            following: None,
            leads: Leads::default(),
            limits,
            next_group: 1,
            context: Some(0),
            last_slot: 0,
            reads: Reads::default(),
            timer: None,
            carrier: Some(carrier),
        }
    }

    /// Slots are 1, 2, 3, ... and begin again only after all of u32.
    pub(crate) fn mint_slot(&mut self) -> u32 {
        self.mint_slots(1)
    }

    /// The first of so many slots that follow each other.
    pub(crate) fn mint_slots(&mut self, count: usize) -> u32 {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let first = self.last_slot.checked_add(count).map_or(1, |_| self.last_slot + 1);
        self.last_slot = first + (count - 1);
        first
    }

    pub(crate) fn is_full(&self) -> bool {
        self.writer.len() >= self.limits.group_bytes || self.reads.is_full()
    }

    /// Nothing waits to be sent.
    fn is_idle(&self) -> bool {
        self.writer.is_empty() && !self.holds_loops()
    }

    /// A loop holds records that are not on the tape.
    pub(crate) fn holds_loops(&self) -> bool {
        self.loops.as_ref().is_some_and(Loops::holds)
    }

    /// The records behind `mark` were appended. What is not sent next begins to age.
    #[inline(never)]
    pub(crate) fn appended(&mut self, mark: usize, origin: fn() -> Origin) {
        if let Some(loops) = &mut self.loops {
            loops.recorder.appended(&mut self.writer, mark, origin());
        }
    }

    /// A loop begins with the thread's next record, as a manifest predicts it: the host learns it in a moment.
    pub(crate) fn predict(&mut self, timer: &AgeTimer, thread: u64, iterations: u64, records: &[PredictedLaunch]) {
        let Some(loops) = &mut self.loops else { return };
        if loops.recorder.predict(&mut self.writer, thread, iterations, records) {
            self.send_soon(timer);
        }
    }

    /// Whether what is appended next has to be preceded by the name of its context.
    #[inline(always)]
    pub(crate) fn is_of_other(&self, context: u32) -> bool {
        self.context != Some(context)
    }

    /// The tape was sent, and no loop holds anything: what follows is of this context (tape.md, "Contexts").
    pub(crate) fn enter_context(&mut self, context: u32, anew: bool, origin: fn() -> Origin) {
        let mark = self.writer.len();
        operations::context(&mut self.writer, context, anew);
        self.context = Some(context);
        self.appended(mark, origin);
    }

    /// Takes what loops hold onto the tape: nothing is behind the calls made so far.
    pub(crate) fn close_loops(&mut self, reason: Reason) {
        if let Some(loops) = &mut self.loops {
            loops.close(&mut self.writer, reason);
        }
    }

    /// After an append, if nothing is sent: the tape has begun to age.
    #[inline]
    pub(crate) fn begin_aging(&mut self, timer: &AgeTimer) {
        if self.timer.is_none() {
            self.arm(timer);
        }
    }

    #[inline(never)]
    fn arm(&mut self, timer: &AgeTimer) {
        if !self.limits.age.is_zero() {
            self.timer = Some(self.next_group);
            timer.arm(self.limits.age);
        }
    }

    /// Has the timer send the tape in a moment. False: there is no timer.
    pub(crate) fn send_soon(&mut self, timer: &AgeTimer) -> bool {
        if self.limits.age.is_zero() {
            return false;
        }
        if !self.writer.is_empty() {
            self.timer = Some(self.next_group);
            timer.arm(SOON.min(self.limits.age));
        }
        true
    }

    /// The timer ran out. Sends the tape when it is as old as the timer and the host has nothing else to do.
    pub(crate) fn expire(&mut self, timer: &AgeTimer, ledger: &Ledger, counters: &Counters) -> Aged {
        let armed_for = self.timer.take();
        if self.is_idle() {
            return Aged::No;
        }
        let young = armed_for != Some(self.next_group); // its first record is younger than the timer
        if let Some(loops) = self.loops.as_mut().filter(|loops| loops.holds()) {
            loops.tick();
            self.begin_aging(timer); // a loop may go on without ever appending to the tape
            if young && !self.writer.is_empty() {
                return Aged::No;
            }
        } else if young {
            self.begin_aging(timer);
            return Aged::No;
        }
        self.send_aged(ledger, counters)
    }

    /// Sends a tape that is old enough, unless the host is busy or there is no credit.
    pub(crate) fn send_aged(&mut self, ledger: &Ledger, counters: &Counters) -> Aged {
        if self.is_idle() {
            return Aged::No;
        }
        let (groups, bytes) = ledger.in_flight();
        if groups >= BUSY_GROUPS || bytes + self.writer.len() as u64 > ledger.credit_bytes() {
            return Aged::Later;
        }
        if let Some(loops) = self.loops.as_mut().filter(|loops| loops.holds()) {
            let reads = !self.reads.is_empty();
            loops.age(&mut self.writer, reads, ledger.pace());
            if reads && loops.recorder.holds_operation(code::READ, false) {
                return Aged::No; // what is awaited is sent with it
            }
        }
        self.transmit(None, None, Patience::None, ledger, counters);
        Aged::Sent
    }

    /// Sends the tape as one group, or more where it is larger than all of the credit. What is awaited belongs to its
    /// last record. Without credit (or connection) what is left is dropped: only a session that ends has no patience.
    pub(crate) fn send(
        &mut self,
        awaited: Option<Awaited>,
        patience: Patience,
        ledger: &Ledger,
        counters: &Counters,
    ) -> Sent {
        if !self.reads.is_empty() {
            self.close_loops(Reason::Size); // what is awaited is in what is sent
        }
        self.transmit(awaited, None, patience, ledger, counters)
    }

    /// Whether a WRITE can be sent with its data taken from where they are.
    pub(crate) fn takes_bulk(&self) -> bool {
        self.carrier.as_ref().is_some_and(Carrier::is_rings)
    }

    /// Sends the tape and behind it, in the same group where the credit allows that, a WRITE.
    pub(crate) fn send_bulk(&mut self, bulk: Bulk<'_>, origin: Origin, ledger: &Ledger, counters: &Counters) -> Sent {
        if let Some(loops) = &mut self.loops {
            loops.recorder.interrupt(&mut self.writer, origin);
        }
        self.transmit(None, Some(bulk), Patience::Unlimited, ledger, counters)
    }

    /// As `send`; no loop holds a read that is recorded. `bulk` follows.
    fn transmit(
        &mut self,
        mut awaited: Option<Awaited>,
        mut bulk: Option<Bulk<'_>>,
        patience: Patience,
        ledger: &Ledger,
        counters: &Counters,
    ) -> Sent {
        if self.writer.is_empty() && bulk.is_none() {
            return Sent::Yes;
        }
        let work = self.loops.as_mut().map_or(0, Loops::take_work);
        let waits = awaited.as_ref().is_some_and(Awaited::is_waited_for);
        let Some(carrier) = &mut self.carrier else {
            self.writer.truncate(0);
            return Sent::Closed;
        };
        // What a ring does not copy from the writer itself.
        let lent = (self.writer.len() > FEW_BYTES || (!carrier.is_rings() && !self.writer.is_empty()))
            .then(|| self.buffers.clone().lend(self.writer.replace(self.buffers.take())));
        let mut rest = lent.as_deref().unwrap_or(self.writer.as_slice());
        let largest_group = usize::try_from(ledger.credit_bytes()).unwrap_or(usize::MAX);
        let several = awaited.take_if(|awaited| awaited.is_several());
        if !self.reads.is_empty() || several.is_some() {
            let last = self.next_group + groups(rest, largest_group).saturating_sub(1);
            ledger.expect(self.next_group, last, self.reads.take().chain(several));
        }
        let mut sent = Sent::Yes;
        while !rest.is_empty() || bulk.is_some() {
            let mut records;
            (records, rest) = rest.split_at(whole_records(rest, largest_group));
            let group = self.next_group;
            let awaited = if rest.is_empty() { awaited.take() } else { None };
            let (work, context) = (if rest.is_empty() { work } else { 0 }, self.context.unwrap_or(0));
            let room = largest_group - records.len();
            let bulk = bulk.take_if(|bulk| rest.is_empty() && bulk.head.record_bytes() <= room);
            let bytes = records.len() + bulk.map_or(0, |bulk| bulk.head.record_bytes());
            match ledger.enter(group, bytes as u64, work, awaited, patience, context) {
                Entry::Entered { waited: true } => counters.flow_waits.add(1),
                Entry::Entered { waited: false } => {}
                Entry::NoCredit => sent = Sent::NoCredit,
                Entry::Closed => sent = Sent::Closed,
            }
            if sent != Sent::Yes {
                break;
            }
            self.next_group += 1;
            counters.groups.add(1);
            while !records.is_empty() {
                let part;
                (part, records) = records.split_at(whole_records(records, self.limits.message_bytes));
                let last = records.is_empty() && bulk.is_none();
                carrier.post_tape(group, part, lent.as_ref(), last, waits && last && rest.is_empty(), counters);
            }
            if let Some(bulk) = bulk {
                carrier.post_bulk(group, bulk, counters);
            }
        }
        self.writer.truncate(0);
        sent
    }

    /// Sends a message that is no part of a group.
    pub(crate) fn post_aside(&mut self, kind: Kind, counters: &Counters) {
        if let Some(carrier) = &mut self.carrier {
            carrier.post(kind, counters);
        }
    }

    /// Nothing is sent behind this.
    pub(crate) fn close(&mut self, goodbye: bool, counters: &Counters) {
        let Some(mut carrier) = self.carrier.take() else { return };
        if goodbye {
            carrier.post(Kind::Goodbye(Goodbye {}), counters);
        }
        carrier.end();
    }
}

/// How many groups records make.
fn groups(mut records: &[u8], largest: usize) -> u64 {
    let mut count = 0;
    while !records.is_empty() {
        let length = whole_records(records, largest);
        if length == 0 {
            break;
        }
        records = &records[length..];
        count += 1;
    }
    count
}
