//! Handle tables: what the guest's numbers stand for, one table for each kind of object.
//!
//! A record that mints a handle claims it. Then the table holds the object that was made, or the error of making it
//! (the handle is poisoned), and whatever uses the handle fails with that error. Streams and events are the plane's own
//! objects; the control plane gives others, which only it looks at. Does not own what an object stands for: the
//! context does.
//!
//! An unknown handle is a CUDA result: a program that uses a destroyed stream gets it from CUDA too. A handle outside
//! the guest's range, or one that is minted while it lives, breaks the tape's rules.
//!
//! Locking: a lock of each table, never held while anything else is called.
//! Source: protos/tape.md, "Handles".

use super::errors::CudaError;
use super::launches::Hashed;
use crate::device::objects::{Event, Stream};
use parking_lot::Mutex;
use std::any::Any;
use std::collections::HashMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

/// Handles of one kind that are alive at once: bounds what a guest can make the host remember.
pub const LIVE_LIMIT: usize = 1 << 20;
/// What a guest may mint.
const MINTED: RangeInclusive<u32> = 16..=(1 << 31) - 1;
const MEMORY_ALLOCATION: i32 = 2;
const INVALID_RESOURCE_HANDLE: i32 = 400;

/// What the plane knows of an object.
#[derive(Debug, Clone)]
pub enum Known {
    Nothing,
    Stream(Arc<Stream>),
    Event(Arc<Event>),
}

/// An object.
pub struct Object {
    pub known: Known,
    /// As the control plane has it; `None`: the plane has made it, and the control plane has not asked for it.
    pub control: Option<Box<dyn Any + Send + Sync>>,
}

enum Entry {
    Made(Object),
    Poisoned(CudaError),
}

/// Why a handle cannot be minted.
#[derive(Debug)]
pub enum Refused {
    /// The guest broke a rule.
    Broken(String),
    Failed(CudaError),
}

/// The handles of one kind. Permanent ones (below those that a guest may mint) cannot be released.
pub struct Table {
    kind: String,
    entries: Mutex<HashMap<u32, Entry, Hashed>>,
}

impl Table {
    #[must_use]
    pub fn new(kind: &str) -> Self {
        Self { kind: kind.to_owned(), entries: Mutex::default() }
    }

    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Checks that a handle may be minted now.
    ///
    /// # Errors
    /// It may not.
    pub fn claim(&self, handle: u32) -> Result<(), Refused> {
        let kind = &self.kind;
        if !MINTED.contains(&handle) {
            return Err(Refused::Broken(format!("{kind} {handle} is outside the range that a guest may mint")));
        }
        let entries = self.entries.lock();
        if entries.contains_key(&handle) {
            return Err(Refused::Broken(format!("{kind} {handle} is minted a second time")));
        }
        if entries.len() >= LIVE_LIMIT {
            let message = format!("the session holds {LIVE_LIMIT} handles of kind {kind}");
            return Err(Refused::Failed(failure(MEMORY_ALLOCATION, message)));
        }
        Ok(())
    }

    /// The handle stands for this object.
    pub fn fill(&self, handle: u32, object: Object) {
        let before = self.entries.lock().insert(handle, Entry::Made(object));
        drop(before); // without the lock: it may be the control plane's
    }

    /// Making the object has failed.
    pub fn poison(&self, handle: u32, error: CudaError) {
        let before = self.entries.lock().insert(handle, Entry::Poisoned(error));
        drop(before);
    }

    /// Shows an object.
    ///
    /// # Errors
    /// The handle is unknown, or poisoned.
    pub fn look<T>(&self, handle: u32, look: impl FnOnce(&Object) -> T) -> Result<T, CudaError> {
        match self.entries.lock().get(&handle) {
            Some(Entry::Made(object)) => Ok(look(object)),
            Some(Entry::Poisoned(error)) => {
                let message = format!("{} {handle} could not be made: {}", self.kind, error.message);
                Err(failure(error.code, message))
            }
            None => Err(self.unknown(handle)),
        }
    }

    /// The stream, where the plane knows it.
    #[must_use]
    pub fn stream(&self, handle: u32) -> Option<Arc<Stream>> {
        match self.entries.lock().get(&handle)? {
            Entry::Made(Object { known: Known::Stream(stream), .. }) => Some(stream.clone()),
            _ => None,
        }
    }

    /// The event, where the plane knows it.
    #[must_use]
    pub fn event(&self, handle: u32) -> Option<Arc<Event>> {
        match self.entries.lock().get(&handle)? {
            Entry::Made(Object { known: Known::Event(event), .. }) => Some(event.clone()),
            _ => None,
        }
    }

    /// Takes a handle out. `None`: it was poisoned, and its error was reported where it was made.
    ///
    /// # Errors
    /// It is unknown, or permanent.
    pub fn release(&self, handle: u32) -> Result<Option<Object>, CudaError> {
        if handle < *MINTED.start() && self.contains(handle) {
            return Err(failure(INVALID_RESOURCE_HANDLE, format!("{} {handle} cannot be destroyed", self.kind)));
        }
        let entry = self.entries.lock().remove(&handle);
        match entry {
            Some(Entry::Made(object)) => Ok(Some(object)),
            Some(Entry::Poisoned(_)) => Ok(None),
            None => Err(self.unknown(handle)),
        }
    }

    /// Takes a handle out, whether it is there or not.
    pub fn forget(&self, handle: u32) {
        let entry = self.entries.lock().remove(&handle);
        drop(entry);
    }

    #[must_use]
    pub fn contains(&self, handle: u32) -> bool {
        self.entries.lock().contains_key(&handle)
    }

    /// Those whose making has failed, in order.
    #[must_use]
    pub fn poisoned(&self) -> Vec<(u32, CudaError)> {
        let entries = self.entries.lock();
        let poisoned = entries.iter().filter_map(|(&handle, entry)| match entry {
            Entry::Poisoned(error) => Some((handle, error.clone())),
            Entry::Made(_) => None,
        });
        let mut found: Vec<_> = poisoned.collect();
        found.sort_by_key(|(handle, _)| *handle);
        found
    }

    /// The handles that the guest has minted and that are not poisoned, in order.
    #[must_use]
    pub fn live(&self) -> Vec<u32> {
        let entries = self.entries.lock();
        let made = entries.iter().filter(|(handle, entry)| MINTED.contains(handle) && matches!(entry, Entry::Made(_)));
        let mut live: Vec<u32> = made.map(|(&handle, _)| handle).collect();
        live.sort_unstable();
        live
    }

    /// Takes out what the guest has minted, and the permanent ones too where `all`.
    pub fn clear(&self, all: bool) {
        let mut entries = self.entries.lock();
        let (kept, ended) =
            std::mem::take(&mut *entries).into_iter().partition(|(handle, _)| !all && handle < MINTED.start());
        *entries = kept;
        drop(entries);
        let ended: HashMap<u32, Entry, Hashed> = ended;
        drop(ended);
    }

    fn unknown(&self, handle: u32) -> CudaError {
        failure(INVALID_RESOURCE_HANDLE, format!("there is no {} {handle}", self.kind))
    }
}

fn failure(code: i32, message: String) -> CudaError {
    CudaError { code, message, sticky: false }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Object {
        Object { known: Known::Stream(Arc::new(Stream::new(0, true))), control: None }
    }

    #[test]
    fn a_handle_is_minted_used_and_released() {
        let table = Table::new("stream");
        table.fill(1, stream());
        for broken in [0, 1, 15, 1 << 31, u32::MAX] {
            assert!(matches!(table.claim(broken), Err(Refused::Broken(_))), "{broken}");
        }
        assert!(table.claim(16).is_ok());
        table.fill(16, stream());
        assert!(matches!(table.claim(16), Err(Refused::Broken(_))), "a second time");
        assert!(table.stream(16).is_some() && table.event(16).is_none() && table.stream(17).is_none());
        assert_eq!(table.live(), [16]);
        assert!(table.release(16).unwrap().is_some());
        assert_eq!(table.release(16).map(drop).unwrap_err().message, "there is no stream 16");
        assert_eq!(table.release(1).map(drop).unwrap_err().message, "stream 1 cannot be destroyed");
        table.fill(16, stream());
        table.clear(false);
        assert!(table.contains(1) && !table.contains(16));
        table.clear(true);
        assert!(!table.contains(1));
    }

    #[test]
    fn what_could_not_be_made_fails_what_uses_it() {
        let table = Table::new("event");
        table.poison(16, CudaError { code: 2, message: "no room".into(), sticky: true });
        let error = table.look(16, |_| ()).unwrap_err();
        assert_eq!(error, failure(2, "event 16 could not be made: no room".into()));
        assert!(table.live().is_empty() && table.event(16).is_none());
        assert!(table.release(16).unwrap().is_none(), "reported where it was made");
        assert_eq!(table.look(16, |_| ()).unwrap_err().code, INVALID_RESOURCE_HANDLE);
    }

    #[test]
    fn live_handles_are_bounded() {
        let table = Table::new("event");
        for handle in 16..16 + LIVE_LIMIT as u32 {
            table.fill(handle, Object { known: Known::Nothing, control: None });
        }
        let next = 16 + LIVE_LIMIT as u32;
        assert!(matches!(table.claim(next), Err(Refused::Failed(CudaError { code: 2, .. }))));
        table.forget(16);
        assert!(table.claim(next).is_ok());
    }
}
