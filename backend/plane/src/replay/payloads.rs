//! What a session's guest names instead of sending it again.
//!
//! The guest decides what is kept and dropped. What compressed data expands to is the control plane's to find; here are
//! the books and their bounds.
//!
//! Source: protos/tape.md, "Payloads"; docs/explanation/systems.md, S1 point 9.

use limits::PAYLOAD_BYTES;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

const MAX_NUMBER: u32 = limits::PAYLOAD_NUMBERS as u32 - 1;

#[derive(Debug, Default)]
struct Books {
    kept: HashMap<u32, Arc<[u8]>>,
    bytes: usize,
}

/// See the module's page. Never held while anything else is done.
#[derive(Debug)]
pub struct Payloads {
    capacity: usize,
    books: Mutex<Books>,
}

impl Payloads {
    /// Of so many raw bytes at most.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self { capacity, books: Mutex::default() }
    }

    /// Whether so many raw bytes may be kept under a number.
    ///
    /// # Errors
    /// The rule of tape.md that this breaks.
    pub fn check(&self, number: u32, raw: usize) -> Result<(), String> {
        let books = self.books.lock();
        if number > MAX_NUMBER || books.kept.contains_key(&number) {
            return Err(format!("payload {number} is taken, or over {MAX_NUMBER}"));
        }
        if raw == 0 || raw > PAYLOAD_BYTES {
            return Err(format!("payload {number} of {raw} bytes"));
        }
        if books.bytes + raw > self.capacity {
            return Err(format!("payload {number}: more than {} bytes are kept", self.capacity));
        }
        Ok(())
    }

    /// Keeps bytes of which `raw` were announced.
    ///
    /// # Errors
    /// The rule of tape.md that this breaks.
    pub fn keep(&self, number: u32, raw: usize, data: &[u8]) -> Result<(), String> {
        self.check(number, raw)?;
        if data.len() != raw {
            return Err(format!("{} bytes of data where {raw} were announced", data.len()));
        }
        let mut books = self.books.lock();
        books.bytes += raw;
        books.kept.insert(number, data.into());
        Ok(())
    }

    /// # Errors
    /// It is not kept.
    pub fn drop_one(&self, number: u32) -> Result<(), String> {
        let mut books = self.books.lock();
        let kept = books.kept.remove(&number).ok_or_else(|| missing(number))?;
        books.bytes -= kept.len();
        Ok(())
    }

    /// # Errors
    /// It is not kept.
    pub fn get(&self, number: u32) -> Result<Arc<[u8]>, String> {
        self.books.lock().kept.get(&number).cloned().ok_or_else(|| missing(number))
    }

    /// Where these lie, and how many bytes each has; `None`: it is not kept. Valid until one is dropped.
    pub fn places(&self, numbers: impl Iterator<Item = u64>, mut put: impl FnMut(Option<(u64, u64)>)) {
        let books = self.books.lock();
        for number in numbers {
            let kept = u32::try_from(number).ok().and_then(|number| books.kept.get(&number));
            put(kept.map(|bytes| (bytes.as_ptr() as u64, bytes.len() as u64)));
        }
    }

    /// The numbers that something is kept under, in order.
    #[must_use]
    pub fn numbers(&self) -> Vec<u32> {
        let mut found: Vec<_> = self.books.lock().kept.keys().copied().collect();
        found.sort_unstable();
        found
    }

    pub fn clear(&self) {
        *self.books.lock() = Books::default();
    }

    /// How many there are, and of how many bytes.
    #[must_use]
    pub fn kept(&self) -> (usize, usize) {
        let books = self.books.lock();
        (books.kept.len(), books.bytes)
    }
}

fn missing(number: u32) -> String {
    format!("payload {number} is not kept")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_can_be_dropped() {
        let payloads = Payloads::new(4);
        payloads.keep(0, 3, b"abc").unwrap();
        assert_eq!(payloads.keep(1, 2, b"de").unwrap_err(), "payload 1: more than 4 bytes are kept");
        assert_eq!(payloads.keep(0, 1, b"d").unwrap_err(), "payload 0 is taken, or over 65535");
        payloads.drop_one(0).unwrap();
        assert_eq!(payloads.drop_one(0).unwrap_err(), "payload 0 is not kept");
        assert_eq!(payloads.keep(1, 4, b"def").unwrap_err(), "3 bytes of data where 4 were announced");
        payloads.keep(1, 4, b"defg").unwrap();
        assert_eq!((&*payloads.get(1).unwrap(), payloads.kept()), (&b"defg"[..], (1, 4)));
        assert_eq!(payloads.keep(65536, 1, b"a").unwrap_err(), "payload 65536 is taken, or over 65535");
        let mut places = vec![];
        payloads.places([1, 2, 1 << 40].into_iter(), |place| places.push(place.map(|(_, size)| size)));
        assert_eq!(places, [Some(4), None, None]);
        payloads.clear();
        assert_eq!(payloads.kept(), (0, 0));
    }
}
