//! What records do without the control plane: launches that were seen before, and the copies, sets and synchronizations of a device that
//! [`Direct`](crate::device::direct::Direct) works on.

use super::control::{Control, End};
use super::errors::CudaError;
use super::launches::FIXED;
use super::walk::Walk;
use crate::device::direct::PIECE;
use crate::device::laid::Ran;
use crate::device::moment::Moment;
use crate::device::ranges::Rows;
use std::sync::Arc;
use tape::operations::code;
use tape::Record;

type Done = Option<Result<(), CudaError>>;

impl<C: Control> Walk<'_, C> {
    /// A launch that was seen before; gives the length of its record. `None`: it is another record, or it was not.
    pub(super) fn launch_again(&mut self, records: &[u8]) -> Result<Option<usize>, End<C::Abort>> {
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
        let done = match record.row.code {
            code::DEVICE_SYNCHRONIZE => return Ok(Some(self.answer(record, 0))),
            code::STREAM_SYNCHRONIZE | code::STREAM_QUERY => {
                let stream = self.stream(record.u32(8))?;
                return Ok(Some(stream.and_then(|()| self.answer(record, 0))));
            }
            code::EVENT_SYNCHRONIZE | code::EVENT_QUERY => {
                let event = self.event(record.u32(8))?;
                return Ok(Some(event.and_then(|_| self.answer(record, 0))));
            }
            code::STREAM_WAIT_EVENT => self.ordered(record.u32(8))? && self.event(record.u32(12))?.is_ok(),
            code::EVENT_RECORD => {
                let event = self.event(record.u32(8))?;
                let plain = record.u32(16) == 0 && self.ordered(record.u32(12))?;
                event.is_ok_and(|event| {
                    if plain {
                        event.record();
                    }
                    plain
                })
            }
            code::MEMSET => {
                let (rows, value, element) = (rows(8, 16, 24), record.u32(40), record.u32(44));
                self.replay.plain(&rows)
                    && self.ordered(record.u32(48))?
                    && self.replay.direct.set(&rows, value, element)
            }
            code::WRITE => {
                let rows = rows(8, 16, 24);
                record.flags == 0
                    && self.replay.plain(&rows)
                    && self.ordered(record.u32(40))?
                    && self.replay.direct.write(&rows, record.tail())
            }
            code::WRITE_KEPT => {
                let rows = rows(8, 16, 24);
                let kept = self.replay.payloads.get(record.u32(44)).map_err(End::Broken)?;
                self.replay.plain(&rows) && self.ordered(record.u32(40))? && self.replay.direct.write(&rows, &kept)
            }
            code::COPY => {
                let (to, from) = (rows(8, 16, 40), rows(24, 32, 40));
                self.replay.plain(&to)
                    && self.replay.plain(&from)
                    && self.ordered(record.u32(56))?
                    && self.replay.direct.copy(&to, &from)
            }
            code::READ => {
                let rows = rows(8, 16, 24);
                self.replay.plain(&rows) && self.ordered(record.u32(40))? && self.show(record, &rows, ends_message)?
            }
            _ => false,
        };
        Ok(done.then_some(Ok(())))
    }

    /// Whether the stream is there; what is wrong with another one is the control plane's to say.
    fn ordered(&mut self, number: u32) -> Result<bool, End<C::Abort>> {
        Ok(self.stream(number)?.is_ok())
    }

    fn stream(&mut self, number: u32) -> Result<Result<(), CudaError>, End<C::Abort>> {
        if self.replay.launches.has_stream(number) {
            return Ok(Ok(()));
        }
        let found = self.control.stream(number).map_err(End::Abort)?;
        if found.is_ok() {
            self.replay.launches.remember_stream(number);
        }
        Ok(found)
    }

    fn event(&mut self, number: u32) -> Result<Result<Arc<Moment>, CudaError>, End<C::Abort>> {
        if let Some(moment) = self.replay.launches.event(number) {
            return Ok(Ok(moment));
        }
        let found = self.control.event(number).map_err(End::Abort)?;
        if let Ok(moment) = &found {
            self.replay.launches.remember_event(number, moment.clone());
        }
        Ok(found)
    }

    /// DATA for a READ of memory that can be shown. What ends the message stays for the reply that ends the group.
    fn show(&mut self, record: &Record<'_>, rows: &Rows, ends_message: bool) -> Result<bool, End<C::Abort>> {
        if !self.replay.direct.may_read(rows) {
            return Ok(false);
        }
        let total = rows.size().unwrap_or_default();
        let slot = record.slot().unwrap_or_default();
        for from in (0..total).step_by(PIECE) {
            let size = usize::try_from((total - from).min(PIECE as u64)).unwrap_or(PIECE);
            let replay = &mut *self.replay;
            if !replay.results.show(&replay.direct, slot, rows, from, size) {
                return Ok(false);
            }
            if !(ends_message && from + size as u64 == total) {
                replay.pass_on(self.sink)?;
            }
        }
        Ok(true)
    }
}
