//! What records do without the control plane: launches that were seen before, and the copies, sets and synchronizations of a device that
//! [`Direct`](crate::device::direct::Direct) works on.

use super::control::{Control, End};
use super::errors::CudaError;
use super::launches::FIXED;
use super::spans::Kind;
use super::walk::Walk;
use crate::device::launch::Ran;
use crate::device::objects::Stream;
use crate::device::ranges::Rows;
use crate::device::work::{Awaited, Fault, Tried, PIECE};
use std::sync::atomic::Ordering;
use tape::operations::code;
use tape::Record;

/// The handle of a LAUNCH's function.
pub(super) fn function_of(record: &[u8]) -> u64 {
    record.get(8..12).and_then(|bytes| bytes.try_into().ok()).map_or(0, |bytes| u32::from_le_bytes(bytes).into())
}

pub(super) type Done = Option<Result<(), CudaError>>;

impl<C: Control> Walk<'_, C> {
    /// A launch that was seen before; gives the length of its record. `None`: it is another record, or it was not.
    pub(super) fn launch_again(&mut self, records: &[u8]) -> Result<Option<usize>, End<C::Abort>> {
        let span = self.replay.begin_span();
        let length = self.launch_known(records)?;
        if length.is_some() {
            self.replay.end_span(Kind::Launch, function_of(records), span);
        }
        Ok(length)
    }

    fn launch_known(&mut self, records: &[u8]) -> Result<Option<usize>, End<C::Abort>> {
        let Some(fixed) = records.first_chunk::<FIXED>() else {
            return Ok(None);
        };
        if fixed[4..6] != code::LAUNCH.to_le_bytes() {
            return Ok(None);
        }
        let Some(known) = self.replay.launches.find(fixed) else {
            return Ok(None);
        };
        let (length, end) = (known.length, known.end);
        if length > records.len() {
            return Err(End::Broken(format!("a record of {length} bytes where {} are left", records.len())));
        }
        if let Some(entry) = &known.entry {
            match self.replay.direct.launch(entry, &records[FIXED..end]) {
                Ran::Done => return Ok(Some(length)),
                Ran::Stale => known.entry = None,
                Ran::Failed => {
                    let entry = entry.clone();
                    self.replay.asked = true;
                    let error = self.control.failure(&entry).map_err(End::Abort)?;
                    self.failed_launch(records, error)?;
                    return Ok(Some(length));
                }
                Ran::Fault(fault) => {
                    if let Err(error) = self.fault(fault)? {
                        self.failed_launch(records, error)?;
                    }
                    return Ok(Some(length));
                }
                Ran::Account { nanoseconds, long } => {
                    let entry = entry.clone();
                    if long {
                        known.entry = None;
                    }
                    self.replay.asked = true;
                    self.control.account(&entry, nanoseconds).map_err(End::Abort)?;
                    return Ok(Some(length));
                }
            }
        }
        let launch = known.launch.clone();
        self.replay.asked = true;
        match self.control.launch(&launch, &records[..length], FIXED, end).map_err(End::Abort)? {
            Ok(entry) => {
                if let Some(known) = self.replay.launches.find(fixed) {
                    known.entry = entry;
                }
            }
            Err(error) => self.failed_launch(records, error)?,
        }
        Ok(Some(length))
    }

    fn failed_launch(&mut self, records: &[u8], error: CudaError) -> Result<(), End<C::Abort>> {
        let record = Record::read(records, 0, self.replay.version).map_err(End::Broken)?;
        self.failed(&record, error);
        Ok(())
    }

    /// Does a record here, if it can be done here. `None`: it is the control plane's.
    pub(super) fn by_itself(&mut self, record: &Record<'_>, ends_message: bool) -> Result<Done, End<C::Abort>> {
        match record.row.code {
            code::FENCE => return Ok(Some(self.answer(record, 0))),
            code::PAYLOAD_KEEP if record.flags == 0 => {
                let (number, raw) = (record.u32(8), record.u32(12) as usize);
                self.replay.payloads.keep(number, raw, record.tail()).map_err(End::Broken)?;
                return Ok(Some(Ok(())));
            }
            code::PAYLOAD_DROP => {
                self.replay.payloads.drop_one(record.u32(8)).map_err(End::Broken)?;
                return Ok(Some(Ok(())));
            }
            _ => {}
        }
        if !self.replay.direct.is_enabled() {
            return Ok(None);
        }
        let rows = |at: usize, pitch: usize, width: usize| Rows {
            address: record.u64(at),
            pitch: record.u64(pitch),
            width: record.u64(width),
            height: record.u64(width + 8),
        };
        let tried = match record.row.code {
            code::DEVICE_SYNCHRONIZE => self.replay.direct.synchronize(Awaited::Device),
            code::STREAM_SYNCHRONIZE | code::STREAM_QUERY => match self.stream(record.u32(8)) {
                Some(stream) => return self.complete(record, Awaited::Stream(&stream)),
                None => return Ok(self.replay.streams.look(record.u32(8), |_| ()).err().map(Err)),
            },
            code::EVENT_SYNCHRONIZE | code::EVENT_QUERY => match self.event(record.u32(8)) {
                Some(event) => return self.complete(record, Awaited::Event(&event)),
                None => return Ok(self.replay.events.look(record.u32(8), |_| ()).err().map(Err)),
            },
            code::EVENT_ELAPSED => match (self.event(record.u32(8)), self.event(record.u32(12))) {
                (Some(start), Some(end)) => match self.replay.direct.elapsed(&start, &end) {
                    Ok(None) => Ok(false),
                    Ok(Some(time)) => return Ok(Some(self.answer(record, u64::from(time.to_bits())))),
                    Err(fault) => Err(fault),
                },
                _ => Ok(false),
            },
            code::STREAM_WAIT_EVENT => match (self.stream(record.u32(8)), self.event(record.u32(12))) {
                (Some(stream), Some(event)) => self.replay.direct.wait(&stream, &event),
                _ => Ok(false),
            },
            code::EVENT_RECORD => match (self.event(record.u32(8)), self.stream(record.u32(12))) {
                (Some(event), Some(stream)) if record.u32(16) == 0 => self.replay.direct.record(&event, &stream),
                _ => Ok(false),
            },
            code::ALLOCATE => Ok(self.replay.direct.allocate(record.u64(8), record.u64(16))),
            code::FREE if !self.replay.standing.poisoned.load(Ordering::Relaxed) => {
                Ok(self.replay.direct.free(record.u64(8)))
            }
            code::STREAM_CREATE | code::STREAM_DESTROY | code::EVENT_CREATE | code::EVENT_DESTROY => {
                return self.make_object(record)
            }
            code::MEMSET => {
                let (rows, value, element) = (rows(8, 16, 24), record.u32(40), record.u32(44));
                match self.stream(record.u32(48)) {
                    Some(stream) if self.replay.plain(&rows) => self.replay.direct.set(&rows, value, element, &stream),
                    _ => Ok(false),
                }
            }
            code::WRITE => {
                let rows = rows(8, 16, 24);
                match self.stream(record.u32(40)) {
                    Some(stream) if record.flags == 0 && self.replay.plain(&rows) => {
                        self.replay.direct.write(&rows, record.tail(), &stream)
                    }
                    _ => Ok(false),
                }
            }
            code::WRITE_KEPT => {
                let rows = rows(8, 16, 24);
                let kept = self.replay.payloads.get(record.u32(44)).map_err(End::Broken)?;
                match self.stream(record.u32(40)) {
                    Some(stream) if self.replay.plain(&rows) => self.replay.direct.write(&rows, &kept, &stream),
                    _ => Ok(false),
                }
            }
            code::COPY => {
                let (to, from) = (rows(8, 16, 40), rows(24, 32, 40));
                match self.stream(record.u32(56)) {
                    Some(stream) if self.replay.plain(&to) && self.replay.plain(&from) => {
                        self.replay.direct.copy(&to, &from, &stream)
                    }
                    _ => Ok(false),
                }
            }
            code::READ => {
                let rows = rows(8, 16, 24);
                match self.stream(record.u32(40)) {
                    Some(stream) if self.replay.plain(&rows) => self.show(record, &rows, &stream, ends_message)?,
                    _ => Ok(false),
                }
            }
            _ => Ok(false),
        };
        match tried {
            Ok(true) if record.row.code == code::DEVICE_SYNCHRONIZE => Ok(Some(self.answer(record, 0))),
            Ok(done) => Ok(done.then_some(Ok(()))),
            Err(fault) => self.fault(fault).map(Some),
        }
    }

    /// A synchronization or a query.
    fn complete(&mut self, record: &Record<'_>, what: Awaited<'_>) -> Result<Done, End<C::Abort>> {
        const NOT_READY: u64 = 600;
        let direct = &self.replay.direct;
        let tried = if matches!(record.row.code, code::STREAM_QUERY | code::EVENT_QUERY) {
            direct.is_done(what).map(|done| Some(if done { 0 } else { NOT_READY }))
        } else {
            direct.synchronize(what).map(|done| done.then_some(0))
        };
        match tried {
            Ok(number) => Ok(number.map(|number| self.answer(record, number))),
            Err(fault) => self.fault(fault).map(Some),
        }
    }

    /// The driver has failed.
    pub(super) fn fault(&mut self, fault: Fault) -> Result<Result<(), CudaError>, End<C::Abort>> {
        self.replay.asked = true;
        Ok(Err(self.control.fault(fault).map_err(End::Abort)?))
    }

    /// DATA for a READ of memory that can be shown. What ends the message stays for the reply that ends the group.
    fn show(
        &mut self,
        record: &Record<'_>,
        rows: &Rows,
        stream: &Stream,
        ends_message: bool,
    ) -> Result<Tried, End<C::Abort>> {
        if !self.replay.direct.may_read(rows) {
            return Ok(Ok(false));
        }
        let total = rows.size().unwrap_or_default();
        let slot = record.slot().unwrap_or_default();
        for from in (0..total).step_by(PIECE) {
            let size = usize::try_from((total - from).min(PIECE as u64)).unwrap_or(PIECE);
            let replay = &mut *self.replay;
            match replay.direct.fetch(rows, from, stream) {
                Ok(true) if replay.results.show(&replay.direct, slot, rows, from, size) => {}
                Ok(_) => return Ok(Ok(false)),
                Err(fault) => return Ok(Err(fault)),
            }
            if !(ends_message && from + size as u64 == total) {
                replay.pass_on(self.sink)?;
            }
        }
        Ok(Ok(true))
    }
}
