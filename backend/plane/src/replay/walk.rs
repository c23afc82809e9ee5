//! The walk over records: what each of them does, and where its result or its error goes.

use super::control::{Control, End, Outcome};
use super::errors::CudaError;
use super::loops::upcoming;
use super::placing::Placed;
use super::spans::Kind;
use super::work::function_of;
use super::{results, Replay, Sink};
use tape::operations::code;
use tape::{Answer, Plans, Record};

/// A walk over records.
pub(super) struct Walk<'a, C: Control> {
    pub(super) replay: &'a mut Replay<C::Launch, C::Plan>,
    pub(super) control: &'a mut C,
    pub(super) sink: &'a mut dyn Sink,
}

impl<C: Control> Walk<'_, C> {
    /// Replays the records of a message.
    pub(super) fn records(&mut self, records: &[u8], begins_group: bool) -> Result<(), End<C::Abort>> {
        let looks_ahead = self.control.looks_ahead();
        if looks_ahead {
            self.look_ahead(records)?;
        }
        let (mut at, mut number) = (0, 0);
        while at < records.len() {
            number += 1;
            if let Some(length) = self.launch_again(&records[at..])? {
                at += length;
                continue;
            }
            let record = Record::read(records, at, self.replay.version).map_err(End::Broken)?;
            let end = at + record.bytes.len();
            let ends_message = end == records.len();
            if let Err(error) = self.one(&record, begins_group && at == 0, ends_message)? {
                self.failed(&record, error);
            }
            if looks_ahead && matches!(record.row.code, code::REPEAT | code::WHILE) {
                self.look_ahead(&records[end..])?;
            }
            at = end;
        }
        self.replay.counts.records.add(number);
        Ok(())
    }

    /// Tells the device of the launches that come next.
    fn look_ahead(&mut self, records: &[u8]) -> Result<(), End<C::Abort>> {
        let launches = upcoming::of_message(records);
        if launches.is_empty() {
            return Ok(());
        }
        self.control.expect(&launches).map_err(End::Abort)
    }

    /// A record. `begins_group`: it is the first one of its group.
    pub(super) fn one(
        &mut self,
        record: &Record<'_>,
        begins_group: bool,
        ends_message: bool,
    ) -> Result<Result<(), CudaError>, End<C::Abort>> {
        let row = record.row;
        if let Some(error) = self.replay.errors.refusal(row) {
            if row.code == code::WHILE {
                self.replay.loops.refuse_while(record.flags);
            }
            return Ok(Err(error));
        }
        match row.code {
            code::CONTEXT => {
                self.enter(record, begins_group)?;
                return Ok(Ok(()));
            }
            code::TEMPLATE => return self.template(record),
            code::REPEAT => return self.repeat(record),
            code::SLICE => return self.slice(record),
            code::WHILE => return self.decide(record, ends_message),
            _ => {}
        }
        if row.answer == Answer::Data {
            if let Some(error) = self.replay.errors.deliver() {
                return Ok(Err(error));
            }
        }
        match row.plans {
            Plans::Keeps => {}
            Plans::Adds => self.replay.loops.plans.look_again(),
            Plans::Ends => self.replay.loops.plans.clear(),
        }
        if let Some(done) = self.by_itself(record, ends_message)? {
            return Ok(done);
        }
        self.replay.asked = true;
        let span = self.replay.begin_span();
        let operated = self.control.operate(record).map_err(End::Abort)?;
        match row.code {
            code::LAUNCH => self.replay.end_span(Kind::Launch, function_of(record.bytes), span),
            _ => self.replay.end_span(Kind::Operation, row.code.into(), span),
        }
        let outcome = match operated {
            Ok(outcome) => outcome,
            Err(error) => return Ok(Err(error)),
        };
        match outcome {
            Outcome::Done => {}
            Outcome::Number(number) => return Ok(self.answer(record, number)),
            Outcome::Reading(total, pieces) => return self.read(record, total, pieces),
            Outcome::Launched(launch) => self.replay.launches.remember(record, launch),
            Outcome::Condition(condition) => return self.conditional(record, &condition),
        }
        Ok(Ok(()))
    }

    /// CONTEXT: what follows is of another context, or (by its flag) of one that begins again.
    fn enter(&mut self, record: &Record<'_>, first: bool) -> Result<(), End<C::Abort>> {
        const MINTED: std::ops::Range<u32> = 16..1 << 31;
        let context = record.u32(8);
        if context != 0 && !MINTED.contains(&context) {
            return Err(End::Broken(format!("context {context} is outside the range that a guest may mint")));
        }
        if !first {
            return Err(End::Broken("a CONTEXT that is not the first record of its group".into()));
        }
        self.replay.errors.enter(context, record.flags != 0).map_err(End::Broken)?;
        if self.replay.errors.is_lost() {
            self.replay.launches.clear(); // they would not be stopped
        }
        Ok(())
    }

    /// The result of a record, which tells a deferred error if there is one.
    pub(super) fn answer(&mut self, record: &Record<'_>, number: u64) -> Result<(), CudaError> {
        const NOT_READY: u64 = 600;
        let slot = record.slot().unwrap_or_default();
        if record.row.answer != Answer::Status {
            self.replay.results.value(slot, 0, number);
            return Ok(());
        }
        if record.row.code == code::DEVICE_RESET {
            self.replay.errors.reset();
        }
        if number == 0 || number == NOT_READY {
            if let Some(error) = self.replay.errors.deliver() {
                return Err(error);
            }
        }
        self.replay.results.status(slot, u32::try_from(number).unwrap_or(u32::MAX).cast_signed());
        Ok(())
    }

    /// DATA for a READ, from the control plane's pieces.
    fn read(
        &mut self,
        record: &Record<'_>,
        total: u64,
        mut pieces: C::Pieces,
    ) -> Result<Result<(), CudaError>, End<C::Abort>> {
        let slot = record.slot().unwrap_or_default();
        let mut offset = 0;
        loop {
            let results = &mut self.replay.results;
            let begun = results.begin_data();
            let size = match self.control.piece(&mut pieces, results.buffer()).map_err(End::Abort)? {
                Ok(Some(size)) => size as u64,
                Ok(None) => {
                    results.drop_data(begun);
                    break;
                }
                Err(error) => {
                    results.drop_data(begun);
                    return Ok(Err(error));
                }
            };
            if size > results::DATA_LIMIT as u64 || offset + size > total {
                results.drop_data(begun);
                return Ok(Err(CudaError::ours(format!("the device yielded {size} bytes at {offset} of {total}"))));
            }
            results.end_data(begun, slot, offset);
            offset += size;
            self.replay.pass_on(self.sink)?;
        }
        Ok(if offset == total {
            Ok(())
        } else {
            Err(CudaError::ours(format!("the device yielded {offset} bytes of {total}")))
        })
    }

    /// A record has failed: its result says so, or the error is kept for later.
    pub(super) fn failed(&mut self, record: &Record<'_>, error: CudaError) {
        let row = record.row;
        let code = error.code;
        let Some(slot) = record.slot() else {
            return self.failed_later(row.name, &error);
        };
        self.lose(row.name, &error);
        self.replay.errors.drop_sticky_deferred(); // delivered here
        let results = &mut self.replay.results;
        match row.answer {
            Answer::Data => results.no_data(slot, code),
            Answer::Value => results.value(slot, code, 0),
            Answer::Status | Answer::None => results.status(slot, code),
        }
    }

    /// The operation has failed, and has no result: a later one tells.
    fn failed_later(&mut self, name: &'static str, error: &CudaError) {
        let told = self.lose(name, error);
        if self.replay.errors.defer(told) {
            self.control.note(name, error, false);
        }
    }

    /// The error as it is reported to the guest; the context is lost if it is one that stays.
    fn lose(&mut self, name: &'static str, error: &CudaError) -> CudaError {
        let told = CudaError { message: format!("{name}: {}", error.message), ..*error };
        if error.sticky && self.replay.errors.lose(&told) {
            self.replay.launches.clear();
            self.control.note(name, error, true);
        }
        told
    }

    /// The data of the WRITE that began the message are where `Direct::place` said.
    pub(super) fn arrived(&mut self, placed: &Placed) -> Result<(), End<C::Abort>> {
        if let Err(fault) = self.replay.direct.arrived(&placed.rows, &placed.stream) {
            if let Err(error) = self.fault(fault)? {
                self.failed_later("WRITE", &error);
            }
        }
        Ok(())
    }
}
