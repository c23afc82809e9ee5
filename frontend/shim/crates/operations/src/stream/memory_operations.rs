//! Memory operations of streams: writes of a word, and waits until a word compares with a value.
//!
//! A write is a copy of 4 or 8 bytes in the stream's order. A wait reads the word behind all work that precedes it:
//! where the word compares, the wait is over. Where it does not, the wait and what comes behind it are held in the
//! guest until it does (`held`).
//!
//! Source: CUDA driver API, "Stream Memory Operations".

use std::any::Any;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use crate::graph::{self, Exec, Work};
use crate::memory::{self, addresses, End, Extent, Layout, Place, Wait};
use crate::stream::held;
use crate::{hostmem, managed};
use session::call::{Error, Outcome};
use session::work::order::Stream;
use session::work::{self};

/// How a word is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compare {
    /// The difference, as a signed number, is not negative.
    GreaterOrEqual,
    Equal,
    /// They have a bit in common.
    And,
    /// There is a bit that neither has.
    Nor,
}

/// A word of 4 or 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    pub address: u64,
    pub size: usize,
}

/// One operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Wait(Word, u64, Compare),
    Write(Word, u64),
    /// Earlier work of the stream is visible to later work, as always here.
    Barrier,
    /// So are writes of other devices, which there are none of.
    Flush,
}

/// The operations of a graph's node.
#[derive(Debug)]
pub struct Batch {
    pub operations: Vec<Operation>,
    /// Their description for the program, made when it first asks, for as long as the node lives.
    described: OnceLock<Box<dyn Any + Send + Sync>>,
}

impl Batch {
    pub fn new(operations: Vec<Operation>) -> Arc<Self> {
        Arc::new(Self { operations, described: OnceLock::new() })
    }

    /// The description that `make` gives, which is made once; `None` where another face has made one of its own.
    pub fn described<T: Send + Sync + 'static>(&self, make: impl FnOnce(&[Operation]) -> T) -> Option<&T> {
        self.described.get_or_init(|| Box::new(make(&self.operations))).downcast_ref()
    }
}

impl Compare {
    fn holds(self, found: u64, value: u64, size: usize) -> bool {
        if size == 4 {
            let (found, value) = (found as u32, value as u32);
            return match self {
                Self::GreaterOrEqual => found.wrapping_sub(value).cast_signed() >= 0,
                Self::Equal => found == value,
                Self::And => found & value != 0,
                Self::Nor => !(found | value) != 0,
            };
        }
        match self {
            Self::GreaterOrEqual => found.wrapping_sub(value).cast_signed() >= 0,
            Self::Equal => found == value,
            Self::And => found & value != 0,
            Self::Nor => !(found | value) != 0,
        }
    }
}

impl Word {
    fn extent(self) -> Extent {
        Extent::line(self.size as u64)
    }

    /// # Errors
    /// cudaErrorInvalidValue for an address that is not aligned, or is neither the device's nor pinned memory.
    fn end(self) -> Outcome<End> {
        let start = self.address as usize;
        let known = || hostmem::find(start).is_some() || managed::kind(start).is_some();
        if !self.address.is_multiple_of(self.size as u64) || !(addresses()?.is_device(self.address) || known()) {
            return Err(Error::INVALID_VALUE);
        }
        End::at(start as *const c_void, Place::Anywhere, Layout::plane(self.size as u64), &self.extent())
    }

    /// Where the value of a variable of ours lies, as the other end of a copy.
    fn local(self, value: &mut u64) -> Outcome<End> {
        let place = std::ptr::from_mut(value).cast::<c_void>().cast_const();
        End::at(place, Place::Host, Layout::plane(self.size as u64), &self.extent())
    }

    /// What it holds when all earlier work of the stream is done.
    fn read(self, stream: &Arc<Stream>) -> Outcome<u64> {
        let (from, mut value) = (self.end()?, 0);
        work::synchronize_stream(stream)?;
        let to = self.local(&mut value)?;
        // SAFETY: the word was checked, and the destination is a variable of 8 bytes that lives until the copy is done.
        unsafe { memory::copy(stream, to, from, self.extent(), Wait::Always) }?;
        Ok(value)
    }

    fn write(self, stream: &Arc<Stream>, mut value: u64) -> Outcome {
        let to = self.end()?;
        if !addresses()?.is_device(self.address) {
            // Memory of the program is written here and now.
            work::synchronize_stream(stream)?;
        }
        let from = self.local(&mut value)?;
        // SAFETY: the word was checked; the source is captured before the call returns.
        unsafe { memory::copy(stream, to, from, self.extent(), Wait::Pageable) }
    }
}

impl Operation {
    /// Whether its operands are what CUDA takes.
    ///
    /// # Errors
    /// cudaErrorInvalidValue.
    pub fn check(&self) -> Outcome {
        match self {
            Self::Wait(word, ..) | Self::Write(word, _) => word.end().map(drop),
            Self::Barrier | Self::Flush => Ok(()),
        }
    }

    /// The address of the word that it waits for.
    pub fn awaited(&self) -> Option<u64> {
        if let Self::Wait(word, ..) = self {
            Some(word.address)
        } else {
            None
        }
    }

    /// Whether it is done; false for a wait that is not over.
    fn run(&self, stream: &Arc<Stream>) -> Outcome<bool> {
        match *self {
            Self::Write(word, value) => word.write(stream, value).map(|()| true),
            Self::Barrier | Self::Flush => Ok(true),
            Self::Wait(word, value, compare) => Ok(compare.holds(word.read(stream)?, value, word.size)),
        }
    }
}

/// Does the operations in the order of the stream, or makes them a node of its capture.
pub fn submit(stream: &Arc<Stream>, operations: Vec<Operation>) -> Outcome {
    operations.iter().try_for_each(Operation::check)?;
    let work = Work::MemoryOperations(Batch::new(operations));
    if graph::diverts(stream) {
        return graph::divert(stream, work);
    }
    // SAFETY: operations on words, which were checked, use no other memory of the program.
    unsafe { Exec::of(work).launch(stream) }?;
    held::advance()
}

/// Does the operations from the first one on in the order of a stream that is not being captured, up to a wait that is
/// not over: its place.
pub fn run(stream: &Arc<Stream>, operations: &[Operation], first: usize) -> Outcome<Option<usize>> {
    for (at, operation) in operations.iter().enumerate().skip(first) {
        if !operation.run(stream)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_compare_as_cuda_documents() {
        use Compare::{And, Equal, GreaterOrEqual, Nor};
        let cases = [
            (GreaterOrEqual, 5, 5, true),
            (GreaterOrEqual, 4, 5, false),
            // A counter that has wrapped around is ahead of one that has not.
            (GreaterOrEqual, 1, 0xFFFF_FFFF, true),
            (GreaterOrEqual, 0xFFFF_FFFF, 1, false),
            (Equal, 7, 7, true),
            (Equal, 7, 6, false),
            (And, 6, 2, true),
            (And, 4, 2, false),
            (Nor, 0xFFFF_FFF0, 0x0F, false),
            (Nor, 0xFFFF_FFF0, 0x07, true),
        ];
        for (compare, found, value, holds) in cases {
            assert_eq!(compare.holds(found, value, 4), holds, "{compare:?} {found:#x} {value:#x}");
        }
        assert!(!GreaterOrEqual.holds(1, 0xFFFF_FFFF, 8));
        assert!(GreaterOrEqual.holds(1, u64::MAX, 8));
        assert!(Nor.holds(0xFFFF_FFF0, 0x0F, 8));
    }
}
