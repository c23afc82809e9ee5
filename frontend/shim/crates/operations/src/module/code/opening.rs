//! A module on the host: its image is sent where the host lacks it, checked, opened with its parts, and closed.
//!
//! Locking: `opening` is held while records that open things are appended, so that nothing is opened twice and no
//! handle is used before its record is on the tape; it may be held while waiting for the host (a query, mode `none`).

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::Mutex;

use session::call::{Error, Outcome};
use session::process::{self, HandleKind};
use session::{contexts, lifecycle, work};
use tape::generated_operations as operation;
use tape::Writer;

use super::progress::Progress;
use super::{lock, target, Module, Refused};
use crate::module::images;
use crate::module::of_context::OfContext;
use crate::module::source::Source;

/// Larger images are asked for before they are sent, when Hello could not name them.
const ASK_ABOVE: usize = 256 << 10;

/// One upload at a time, as the tape wants it.
static UPLOAD: Mutex<()> = Mutex::new(());

/// Bytes of the host's opinion of an image.
const CHECK_BYTES: usize = 1024;

/// Images that the host has accepted, whole or as units to be linked.
static VERIFIED: Mutex<Vec<([u8; 32], bool)>> = Mutex::new(Vec::new());

impl Module {
    /// Whether the host accepts the image: one round trip, unless this process has asked before. What it says is in the
    /// error.
    pub fn verify(&self, unit: bool) -> Result<(), Refused> {
        let source = self.source(Some(&target()?))?;
        let digest = source.digest;
        if lock(&VERIFIED).contains(&(digest, unit)) {
            return Ok(());
        }
        self.provide(source)?;
        let mut answer = [0u8; CHECK_BYTES];
        work::fetch(&mut answer, |w, slot| {
            operation::module_check(w, slot, CHECK_BYTES as u32, u32::from(unit), &digest)
        })?;
        let word = |at: usize| u32::from_le_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
        let code = word(0).cast_signed();
        if code == 0 {
            lock(&VERIFIED).push((digest, unit));
            return Ok(());
        }
        let text = answer[8..].get(..word(4) as usize).unwrap_or_default();
        Err(Refused { error: Error(code), message: String::from_utf8_lossy(text).into_owned() })
    }

    /// Sees to it that the host has the image.
    pub(super) fn provide(&self, source: &Source) -> Outcome {
        if images::host_has(&source.digest) {
            return Ok(());
        }
        upload(source.sent(&self.origin).map_err(|error| self.refuse(&error))?, &source.digest)
    }

    /// The handle behind `minted`. If it was not minted since the last reset, `write` puts what it stands for on the
    /// tape, given the new handle and the module's, behind what the module itself still needs.
    pub fn open_part(
        &self,
        minted: &OfContext,
        kind: HandleKind,
        write: impl FnOnce(&mut Writer, u32, u32),
    ) -> Outcome<u32> {
        let mut write = Some(write);
        self.open_parts(&[minted], kind, |w, _, handle, module| {
            if let Some(write) = write.take() {
                write(w, handle, module);
            }
        })?;
        minted.get().ok_or(Error::UNKNOWN)
    }

    /// The same for several parts, which go onto the tape together: `write` is given the index of each that was not
    /// minted.
    pub fn open_parts(
        &self,
        parts: &[&OfContext],
        kind: HandleKind,
        mut write: impl FnMut(&mut Writer, usize, u32, u32),
    ) -> Outcome {
        let _opening = lock(&self.opening);
        let missing: Vec<usize> = (0..parts.len()).filter(|index| parts[*index].get().is_none()).collect();
        if missing.is_empty() {
            return Ok(());
        }
        if self.closed.load(Acquire) {
            return Err(Error::INVALID_DEVICE_FUNCTION);
        }
        if self.context.is_some_and(|context| context != contexts::acting()) {
            return Err(Error::INVALID_RESOURCE_HANDLE);
        }
        // An image that cannot run is refused here, before anything is sent.
        self.contents()?;
        let source = self.source(None)?;
        self.provide(source)?;
        let epoch = contexts::epoch();
        let known = self.minted.get();
        let module = known.map_or_else(|| process::mint(HandleKind::Module), Ok)?;
        let handles: Vec<u32> = missing.iter().map(|_| process::mint(kind)).collect::<Outcome<_>>()?;
        work::append(|w| {
            if known.is_none() {
                operation::module_open(w, module, &source.digest);
            }
            for (index, handle) in missing.iter().zip(&handles) {
                write(w, *index, *handle, module);
            }
        })?;
        self.minted.set_in(epoch, module);
        for (index, handle) in missing.iter().zip(&handles) {
            parts[*index].set_in(epoch, *handle);
        }
        Ok(())
    }

    /// Waits until the host has opened what was asked for: what it refuses in the image is the result, with what
    /// deferred calls have left.
    pub fn confirm(&self) -> Outcome {
        let digest = self.source(None)?.digest;
        work::request(|w, slot| operation::module_query(w, slot, &digest)).map(drop)
    }

    /// Ends the module on the host, and frees what was read of the image. While the process exits the host is not told:
    /// it drops everything with the session.
    pub fn close(&self) {
        let _opening = lock(&self.opening);
        self.closed.store(true, Release);
        *lock(&self.contents) = Some(Err(Error::INVALID_DEVICE_FUNCTION));
        if lifecycle::is_exiting() || process::opened_session().is_none() {
            return;
        }
        if let Some(context) = self.context {
            let _acting = contexts::act_for(context);
            self.close_here();
        } else {
            self.close_here();
        }
    }

    /// Ends what the host has of the module in the context that the calling thread works for.
    pub fn close_here(&self) {
        if let Some(handle) = self.minted.take() {
            self.managed.end(handle);
            // A session that cannot take the record has lost the module anyway.
            let _ = work::append(|w| operation::module_close(w, handle));
        }
    }

    /// Its handle on the tape, where the host has it open.
    pub fn opened(&self) -> Option<u32> {
        self.minted.get()
    }
}

/// Sends an image, unless the host turns out to hold it.
fn upload(bytes: &[u8], digest: &[u8; 32]) -> Outcome {
    let _one = lock(&UPLOAD);
    if images::host_has(digest) {
        return Ok(());
    }
    let held = bytes.len() > ASK_ABOVE && !images::was_in_hello(digest) && {
        work::request(|w, slot| operation::module_query(w, slot, digest))? == 1
    };
    if !held {
        work::append(|w| operation::module_begin(w, bytes.len() as u64, digest))?;
        let mut progress = Progress::new(bytes.len());
        for chunk in bytes.chunks(tape::MAX_TAIL_BYTES) {
            work::append(|w| operation::module_chunk(w, chunk))?;
            progress.advance(chunk.len());
        }
        work::append(|w| operation::module_end(w, digest))?;
    }
    images::host_knows(&[*digest]);
    Ok(())
}
