//! Records that are being appended: the tape is locked until they are. What a panic left unfinished is taken back.

use crate::leading::Written;
use crate::outgoing::outbox::Outbox;
use crate::shared::{Shared, UNKNOWN};
use crate::{log, Failure};
use parking_lot::MutexGuard;
use tape::Writer;

/// See the module's comment.
#[derive(Debug)]
pub struct Append<'a> {
    shared: &'a Shared,
    outbox: MutexGuard<'a, Outbox>,
    mark: usize,
}

impl<'a> Append<'a> {
    #[inline(always)]
    pub(crate) fn new(shared: &'a Shared, outbox: MutexGuard<'a, Outbox>, mark: usize) -> Self {
        Self { shared, outbox, mark }
    }

    #[inline(always)]
    pub fn writer(&mut self) -> &mut Writer {
        &mut self.outbox.writer
    }

    /// What was written is whole records or, when something is wrong with one of them, nothing. Sends the tape when it
    /// is full.
    ///
    /// # Errors
    /// As `Session::defer_part`.
    #[inline(always)]
    pub fn finish(mut self) -> Result<(), Failure> {
        let (shared, mark) = (self.shared, self.mark);
        if let Some(oversized) = self.outbox.writer.take_oversized() {
            return Err(refuse(&mut self.outbox.writer, mark, oversized));
        }
        let appended = shared.appended(&mut self.outbox, mark)? == Written::OnTape;
        if self.outbox.is_full() {
            return shared.send(&mut self.outbox, None);
        }
        if appended {
            self.outbox.begin_aging(&shared.timer);
        }
        Ok(())
    }
}

impl Drop for Append<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if !self.outbox.writer.is_between_records() {
            self.outbox.writer.truncate(self.mark);
        }
    }
}

/// Takes back what was written behind the mark: a mistake of ours.
#[cold]
pub(crate) fn refuse(writer: &mut Writer, mark: usize, oversized: tape::Oversized) -> Failure {
    writer.truncate(mark);
    log::error(format_args!("{oversized}"));
    UNKNOWN
}

/// Takes back what a panic (or an encoder that forgot its `end`) left unfinished.
pub(crate) struct Whole<'a> {
    pub(crate) writer: &'a mut Writer,
    pub(crate) mark: usize,
}

impl Drop for Whole<'_> {
    #[inline]
    fn drop(&mut self) {
        if !self.writer.is_between_records() {
            self.writer.truncate(self.mark);
        }
    }
}
