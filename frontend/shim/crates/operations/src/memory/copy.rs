//! What every copy does, whichever function asked for it.
//!
//! Owns the directions: to the device (deferred: the source is captured before the call returns, in pieces of at most 1
//! MiB, see `payloads`), within the device (deferred, COPY), to the guest (READ, one for each row set; the call waits
//! for the last one only: one round trip), within the guest (here and now). An asynchronous copy to pageable memory of
//! the guest returns when the data is there, as CUDA's does; one to pinned memory is deferred (`work::read_deferred`).
//!
//! Where a pointer lies decides, as it does in CUDA since unified addressing; the declared kind must not contradict it:
//! what is declared device memory must be. Device ranges must lie in one live allocation or variable.
//!
//! Source: CUDA runtime API, "Memory Management", "API synchronization behavior"; protos/tape.md, "Records",
//! "Addresses".

use super::payloads::{self, Target};
use super::shape::{parts, pieces, Extent, Layout, Part};
use crate::graph::{capture, Work};
use crate::memory::addresses;
use crate::stream::held;
use crate::testing;
use crate::types::CopyKind;
use crate::{hostmem, managed, module};
use client::Destination;
use session::call::{Error, Outcome};
use session::work::order::Stream;
use session::work::{self};
use session::{lazy_readback, permission};
use std::ffi::c_void;
use std::sync::Arc;
use tape::generated_operations as operation;
use tape::{Writer, MAX_TAIL_BYTES};

/// Bit 63 of an address operand: relative to a variable.
const VARIABLE_RELATIVE: u64 = 1 << 63;
const VARIABLE_SHIFT: u32 = 32;

/// Where the program says that memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Host,
    Device,
    /// cudaMemcpyDefault.
    Anywhere,
}

/// Destination and source of a kind of copy.
pub fn places(kind: CopyKind) -> Outcome<(Place, Place)> {
    match kind {
        crate::types::MEMCPY_HOST_TO_HOST => Ok((Place::Host, Place::Host)),
        crate::types::MEMCPY_HOST_TO_DEVICE => Ok((Place::Device, Place::Host)),
        crate::types::MEMCPY_DEVICE_TO_HOST => Ok((Place::Host, Place::Device)),
        crate::types::MEMCPY_DEVICE_TO_DEVICE => Ok((Place::Device, Place::Device)),
        crate::types::MEMCPY_DEFAULT => Ok((Place::Anywhere, Place::Anywhere)),
        _ => Err(Error::INVALID_MEMCPY_DIRECTION),
    }
}

/// Where memory is.
#[derive(Debug, Clone, Copy)]
enum Start {
    Host(*mut u8),
    /// An operand of the tape: a device address, or one relative to a variable.
    Device(u64),
}

/// One end of a copy.
#[derive(Debug, Clone, Copy)]
pub struct End {
    start: Start,
    layout: Layout,
}

impl End {
    /// Memory at a pointer of the program, in rows as `layout` says.
    pub fn at(pointer: *const c_void, place: Place, layout: Layout, extent: &Extent) -> Outcome<Self> {
        if layout.pitch < extent.width {
            return Err(Error::INVALID_PITCH_VALUE);
        }
        let span = layout.span(extent).ok_or(Error::INVALID_VALUE)?;
        let (addresses, address) = (addresses()?, pointer as u64);
        let start = if addresses.is_device(address) {
            if !addresses.holds(address, span) {
                return Err(Error::INVALID_VALUE);
            }
            Start::Device(address)
        } else {
            // Pinned memory is memory of the device too, to CUDA.
            let contradicted = place == Place::Device && hostmem::find(pointer as usize).is_none();
            if pointer.is_null() || contradicted || address.checked_add(span).is_none() {
                return Err(Error::INVALID_VALUE);
            }
            Start::Host(pointer.cast_mut().cast())
        };
        Ok(Self { start, layout })
    }

    /// As it is now: pinned memory may have become the device's, too, since the end was named (in a node of a graph,
    /// say).
    pub fn now(mut self, extent: &Extent) -> Self {
        if let Start::Host(pointer) = self.start {
            let span = self.layout.span(extent).map_or(usize::MAX, |span| span as usize);
            let start = pointer as usize;
            if hostmem::near_placed(start) && managed::kind(start).is_some() {
                self.start = Start::Device(pointer as u64);
            } else if managed::meets_mirror(start, start.saturating_add(span)) {
                match managed::device_address(start).filter(|_| hostmem::holds(start, span)) {
                    Some(address) => self.start = Start::Device(address as u64),
                    // More than is registered: the program's memory, all of which can be touched.
                    None => managed::touch(start, span, true),
                }
            }
        }
        self
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// What the tape calls it; `None` for host memory.
    pub fn operand(&self) -> Option<u64> {
        match self.start {
            Start::Device(operand) => Some(operand),
            Start::Host(_) => None,
        }
    }

    /// The device address; 0 for host memory and variables.
    fn device(&self) -> u64 {
        match self.start {
            Start::Device(address) if address & VARIABLE_RELATIVE == 0 => address,
            _ => 0,
        }
    }

    /// The program's pointer; null for a variable.
    pub fn pointer(&self) -> *mut c_void {
        match self.start {
            Start::Host(pointer) => pointer.cast(),
            Start::Device(address) if address & VARIABLE_RELATIVE != 0 => std::ptr::null_mut(),
            Start::Device(address) => address as *mut c_void,
        }
    }

    /// `count` bytes of a variable, from `offset` on.
    pub fn variable(symbol: *const c_void, offset: usize, count: usize) -> Outcome<Self> {
        let (variable, size) = match module::variable_of(symbol) {
            // The program names a managed variable by the address that it shares with the device.
            Err(Error::INVALID_SYMBOL) if managed::kind(symbol as usize) == Some(managed::Kind::Variable) => {
                let start = (symbol as usize).checked_add(offset).ok_or(Error::INVALID_VALUE)?;
                if !managed::holds(start, count) {
                    return Err(Error::INVALID_VALUE);
                }
                return Ok(Self { start: Start::Device(start as u64), layout: Layout::plane(count as u64) });
            }
            found => found?,
        };
        let offset = u32::try_from(offset).map_err(|_| Error::INVALID_VALUE)?;
        if (offset as usize).checked_add(count).is_none_or(|end| end > size) {
            return Err(Error::INVALID_VALUE);
        }
        let operand = VARIABLE_RELATIVE | u64::from(variable) << VARIABLE_SHIFT | u64::from(offset);
        Ok(Self { start: Start::Device(operand), layout: Layout::plane(count as u64) })
    }
}

/// Whether a call returns before its copy is done, where the memory allows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Always,
    /// The Async functions.
    Pageable,
    /// Copies of a graph: the program looks at the memory when it has synchronized.
    Never,
}

/// Copies a box. Nothing is done, and the ends need not be valid, when it is empty: callers check that first.
///
/// # Safety
/// Ends that are host memory are readable (the source) and writable (the destination) for the box.
pub unsafe fn copy(stream: &Arc<Stream>, to: End, from: End, extent: Extent, wait: Wait) -> Outcome {
    if capture::of(stream) {
        return match wait {
            Wait::Always => Err(capture::refuse(stream)),
            _ => capture::add(stream, Work::captured_copy(to, from, extent)).map(drop),
        };
    }
    if held::blocks(stream) {
        // SAFETY: the caller's promise.
        if wait != Wait::Always && unsafe { hold(stream, to, from, extent) } {
            return Ok(());
        }
        held::complete(stream)?;
    }
    let _inside = lazy_readback::enter();
    if hostmem::any_placed() {
        // SAFETY: the caller's promise.
        unsafe { reach_copied(to, from, extent) }?;
    }
    let kept = hostmem::keep();
    let (to, from) = if kept.is_some() { (to.now(&extent), from.now(&extent)) } else { (to, from) };
    if to.device() != 0 && !addresses()?.may_write(to.device()) {
        return Err(Error::INVALID_VALUE);
    }
    let held = managed::hand_over_for(&[to.device(), from.device()])?;
    // A read waits for its answer: what it reads is on the device by then, and no other stream's work is kept waiting.
    let _held = held.filter(|_| matches!(to.start, Start::Device(_)));
    if matches!(to.start, Start::Device(_)) {
        permission::not_to_host();
    }
    let (to_pitch, from_pitch) = (to.layout.pitch, from.layout.pitch);
    let mut parts = parts(extent, to.layout, from.layout).peekable();
    while let Some(part) = parts.next() {
        let last = parts.peek().is_none();
        match (to.start, from.start) {
            (Start::Device(to), Start::Host(from)) => {
                // SAFETY: the caller's promise; the part lies in the box.
                unsafe { upload(stream, (to, to_pitch), (from, from_pitch), part, last) }?
            }
            (Start::Device(to), Start::Device(from)) => work::defer_piece(stream, last, |w| {
                let (to, from) = (to + part.to, from + part.from);
                operation::copy(w, to, to_pitch, from, from_pitch, part.width, part.height, stream.number);
            })?,
            (Start::Host(to), Start::Device(from)) => {
                // SAFETY: the caller's promise; the part lies in the box.
                unsafe { download(stream, (to, to_pitch), (from, from_pitch), part, wait, last) }?;
            }
            // SAFETY: the caller's promise.
            (Start::Host(to), Start::Host(from)) => unsafe { move_rows(to, to_pitch, from, from_pitch, part) }?,
        }
    }
    Ok(())
}

/// Copies behind held work. False, and nothing is held, where CUDA waits for the copy: one to pageable memory of the
/// program, or within it.
///
/// # Safety
/// As for `copy`; pinned memory, until the copy is done.
unsafe fn hold(stream: &Arc<Stream>, to: End, from: End, extent: Extent) -> bool {
    let pageable = |end: &End| match (end.start, end.layout.span(&extent)) {
        (Start::Host(start), Some(span)) if !hostmem::holds(start as usize, span as usize) => Some((start, span)),
        _ => None,
    };
    if pageable(&to).is_some() || pageable(&from).is_some() {
        testing::copies_pageable();
    }
    if pageable(&to).is_some() {
        return false;
    }
    let Some((start, span)) = pageable(&from) else {
        held::add(stream, Work::captured_copy(to, from, extent));
        return true;
    };
    // SAFETY: the caller's promise.
    let bytes = unsafe { std::slice::from_raw_parts(start.cast_const(), span as usize) }.to_vec();
    let (stream, layout) = (stream.clone(), from.layout);
    held::add_call(&stream.clone(), move || {
        let kept = End { start: Start::Host(bytes.as_ptr().cast_mut()), layout };
        // SAFETY: the source is `bytes`, as it was when the call was made.
        unsafe { copy(&stream, to, kept, extent, Wait::Never) }
    });
    true
}

/// Kernels may follow addresses of pinned memory that are copied to the device.
///
/// # Safety
/// The source is readable.
unsafe fn reach_copied(to: End, from: End, extent: Extent) -> Outcome {
    let (Start::Device(start), Start::Host(source)) = (to.now(&extent).start, from.now(&extent).start) else {
        return Ok(());
    };
    for part in parts(extent, to.layout, from.layout) {
        let (first, pitch) = (source as usize + part.from as usize, from.layout.pitch);
        work::complete_copies(first, (pitch * (part.height - 1) + part.width) as usize)?;
        for row in 0..part.height {
            let row_start = (first + (row * pitch) as usize) as *const u8;
            // SAFETY: the caller's promise; the row lies in the box.
            let bytes = unsafe { std::slice::from_raw_parts(row_start, part.width as usize) };
            hostmem::reach_found(bytes, start + part.to + row * to.layout.pitch)?;
        }
    }
    Ok(())
}

/// Makes pinned memory at a copy's ends the device's, too, so that the copy is one within the device.
///
/// # Errors
/// cudaErrorNotSupported when an end is other memory of the program.
pub fn reach_ends(to: End, from: End) -> Outcome {
    for end in [to, from] {
        if let Start::Host(pointer) = end.start {
            if hostmem::device_pointer(pointer as usize)?.is_none() {
                session::log::error(format_args!(
                    "a copy in a conditional node's graph has memory at {pointer:p}, which kernels do not reach"
                ));
                return Err(Error::NOT_SUPPORTED);
            }
        }
    }
    Ok(())
}

/// The records of a copy within the device. False, and nothing is written, for any other.
pub fn write_copy(w: &mut Writer, to: End, from: End, extent: Extent, stream: u32) -> bool {
    let (Start::Device(start), Start::Device(source)) = (to.start, from.start) else { return false };
    for part in parts(extent, to.layout, from.layout) {
        let (address, other) = (start + part.to, source + part.from);
        let (to_pitch, from_pitch) = (to.layout.pitch, from.layout.pitch);
        operation::copy(w, address, to_pitch, other, from_pitch, part.width, part.height, stream);
    }
    true
}

/// # Safety
/// The rows are writable; when they are pinned and nothing waits, until the stream is synchronized.
unsafe fn download(
    stream: &Arc<Stream>,
    (to, to_pitch): (*mut u8, u64),
    (from, from_pitch): (u64, u64),
    part: Part,
    wait: Wait,
    last: bool,
) -> Outcome {
    let (width, height, pitch) = (part.width as usize, part.height as usize, to_pitch as usize);
    // SAFETY: the caller's promise.
    let destination = Destination { ptr: unsafe { to.add(part.to as usize) }, pitch, width, height };
    let write = |w: &mut Writer, slot| {
        operation::read(w, from + part.from, from_pitch, part.width, part.height, stream.number, slot);
    };
    let length = pitch * (height - 1) + width;
    let copy = permission::copy_to_host(destination.ptr as usize, length);
    let pinned = || wait == Wait::Pageable && hostmem::holds(destination.ptr as usize, length);
    if lazy_readback::active() {
        let may_wait = copy == permission::Copy::Plain && wait != Wait::Never && !pinned();
        if let Some(held) = may_wait.then(|| lazy_readback::hold(destination.ptr as usize, length)).flatten() {
            let stored = Destination { ptr: held.place as *mut u8, ..destination };
            // SAFETY: as many bytes of the readback's store, whose pages are those of the caller's destination.
            return unsafe { work::record_lazily(stream, stored, &held, write) };
        }
        lazy_readback::clear(destination.ptr as usize, length);
    }
    if copy == permission::Copy::Later {
        // SAFETY: the caller's promise; the program leaves the memory alone until the copy is complete
        // (protos/manifest.md).
        return unsafe { work::record_read(stream, destination, length, write) };
    }
    // What is not last arrives before the answer to what is.
    if !last || copy == permission::Copy::Plain && (wait == Wait::Never || pinned()) {
        // SAFETY: the caller's promise; pinned memory is not released before the copy is done (`hostmem`).
        unsafe { work::read_deferred(stream, destination, write) }
    } else {
        // SAFETY: the caller's promise.
        unsafe { work::read(stream, destination, write) }
    }
}

/// # Safety
/// The rows are readable.
unsafe fn upload(
    stream: &Stream,
    (to, to_pitch): (u64, u64),
    (from, from_pitch): (*mut u8, u64),
    part: Part,
    last: bool,
) -> Outcome {
    let first = from as usize + part.from as usize;
    work::complete_copies(first, (from_pitch * (part.height - 1) + part.width) as usize)?;
    let mut pieces = pieces(part, to_pitch, from_pitch, MAX_TAIL_BYTES as u64).peekable();
    while let Some(piece) = pieces.next() {
        let last = last && pieces.peek().is_none();
        let width = piece.width as usize;
        let target = Target { address: to + piece.to, pitch: to_pitch, width: piece.width, height: piece.height };
        let row = |row: usize| {
            let offset = piece.from as usize + row * from_pitch as usize;
            // SAFETY: the caller's promise; the piece lies in the part.
            unsafe { std::slice::from_raw_parts(from.add(offset).cast_const(), width) }
        };
        payloads::write(stream, target, last, row)?;
    }
    Ok(())
}

/// # Safety
/// The rows are readable and writable.
unsafe fn move_rows(to: *mut u8, to_pitch: u64, from: *mut u8, from_pitch: u64, part: Part) -> Outcome {
    for (start, offset, pitch) in [(to, part.to, to_pitch), (from, part.from, from_pitch)] {
        work::complete_copies(start as usize + offset as usize, (pitch * (part.height - 1) + part.width) as usize)?;
    }
    for row in 0..part.height {
        let (to_offset, from_offset) = (part.to + row * to_pitch, part.from + row * from_pitch);
        // SAFETY: the caller's promise; `copy` allows overlap.
        unsafe {
            let from = from.add(from_offset as usize);
            std::ptr::copy(from, to.add(to_offset as usize), part.width as usize);
        }
    }
    Ok(())
}
