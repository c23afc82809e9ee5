//! The walk over records: what each of them does, and where its result or its error goes.

use super::control::{Control, End, Outcome, Step};
use super::errors::CudaError;
use super::{results, Replay, Sink};
use tape::operations::code;
use tape::{Answer, Record, HEADER_BYTES};

/// Where a walk is.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// Of a loop's body, not of a message.
    pub(super) inside: bool,
    /// The first record is the group's first.
    pub(super) begins_group: bool,
}

/// A walk over records.
pub(super) struct Walk<'a, C: Control> {
    pub(super) replay: &'a mut Replay<C::Launch>,
    pub(super) control: &'a mut C,
    pub(super) sink: &'a mut dyn Sink,
}

impl<C: Control> Walk<'_, C> {
    /// Replays records: a message's, or those of iterations of a loop.
    pub(super) fn records(&mut self, records: &[u8], place: Place) -> Result<(), End<C::Abort>> {
        let looks_ahead = !place.inside && self.control.looks_ahead();
        if looks_ahead {
            self.control.look_ahead(before_loop(records)).map_err(End::Abort)?;
        }
        let mut at = 0;
        while at < records.len() {
            if let Some(length) = self.launch_again(&records[at..])? {
                at += length;
                continue;
            }
            let record = Record::read(records, at, self.replay.version).map_err(End::Broken)?;
            let end = at + record.bytes.len();
            let ends_message = end == records.len() && !place.inside;
            if let Err(error) = self.one(&record, place, at == 0, ends_message)? {
                self.failed(&record, error);
            }
            if looks_ahead && record.row.code == code::REPEAT {
                self.control.look_ahead(before_loop(&records[end..])).map_err(End::Abort)?;
            }
            at = end;
        }
        Ok(())
    }

    fn one(
        &mut self,
        record: &Record<'_>,
        place: Place,
        first: bool,
        ends_message: bool,
    ) -> Result<Result<(), CudaError>, End<C::Abort>> {
        let row = record.row;
        if let Some(error) = self.replay.errors.refusal(row) {
            return Ok(Err(error));
        }
        if row.code == code::CONTEXT {
            self.enter(record, first && place.begins_group)?;
            return Ok(Ok(()));
        }
        if row.answer == Answer::Data {
            if let Some(error) = self.replay.errors.deliver() {
                return Ok(Err(error));
            }
        }
        if let Some(done) = self.by_itself(record, ends_message)? {
            return Ok(done);
        }
        self.replay.asked = true;
        let outcome = match self.control.operate(record, place.inside).map_err(End::Abort)? {
            Ok(outcome) => outcome,
            Err(error) => return Ok(Err(error)),
        };
        match outcome {
            Outcome::Done => {}
            Outcome::Number(number) => return Ok(self.answer(record, number)),
            Outcome::Reading(total, pieces) => return self.read(record, total, pieces),
            Outcome::Launched(launch) => self.replay.launches.remember(record, launch),
            Outcome::Steps(steps) => return self.steps(steps),
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

    /// What a loop or a condition stands for.
    fn steps(&mut self, mut steps: C::Steps) -> Result<Result<(), CudaError>, End<C::Abort>> {
        let place = Place { inside: true, begins_group: false };
        loop {
            match self.control.step(&mut steps).map_err(End::Abort)? {
                Ok(Step::Records(records)) => self.records(&records, place)?,
                Ok(Step::Results(records)) => self.replay.results.buffer().extend_from_slice(&records),
                Ok(Step::Failed(bytes, error)) => {
                    let record = Record::read(&bytes, 0, self.replay.version).map_err(End::Broken)?;
                    self.failed(&record, error);
                }
                Ok(Step::Over) => return Ok(Ok(())),
                Err(error) => return Ok(Err(error)),
            }
            self.replay.asked = true;
            self.replay.pass_on(self.sink)?;
        }
    }

    /// A record has failed: its result says so, or the error is kept for later.
    pub(super) fn failed(&mut self, record: &Record<'_>, error: CudaError) {
        let row = record.row;
        let CudaError { code, ref message, sticky } = error;
        let told = CudaError { code, message: format!("{}: {message}", row.name), sticky };
        if sticky && self.replay.errors.lose(&told) {
            self.replay.launches.clear();
            self.control.note(row.name, &error, true);
        }
        let Some(slot) = record.slot() else {
            if self.replay.errors.defer(told) {
                self.control.note(row.name, &error, false);
            }
            return;
        };
        self.replay.errors.drop_sticky_deferred(); // delivered here
        let results = &mut self.replay.results;
        match row.answer {
            Answer::Data => results.no_data(slot, code),
            Answer::Value => results.value(slot, code, 0),
            Answer::Status | Answer::None => results.status(slot, code),
        }
    }
}

/// The records up to the first REPEAT, or to one that makes no sense, which the walk finds.
fn before_loop(records: &[u8]) -> &[u8] {
    let mut end = 0;
    while let Some(header) = records[end..].first_chunk::<HEADER_BYTES>() {
        let length = u32::from_le_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let code = u16::from_le_bytes([header[4], header[5]]);
        if code == code::REPEAT || length < HEADER_BYTES || length > records.len() - end {
            break;
        }
        end += length;
    }
    &records[..end]
}
