//! Loops that the host leads: the records of a slice's calls, made as the calls themselves would make them.
//!
//! The program stands at the entry of a loop that has a slice (`session::permission::deciding`). What the slice passes
//! to its calls in every iteration alike is in the records; what changes is a hole, which the host fills from the
//! slice. A call that makes other records than those here leaves the loop to the program.
//!
//! Where a hole lies is found by encoding the record twice, so that no offset stands here.
//!
//! Source: protos/tape.md, "Slices"; protos/manifest.md, "Slices" (arguments).

use std::ffi::c_void;
use std::sync::Arc;

use client::{Lead, LeadHole};
use payload::KEPT_BYTES;
use session::function::DefaultStream;
use session::permission::deciding::{self, Beginning, Refusal};
use session::{frame, log, output, process};
use slices::form::{Call, Spot};
use slices::invariant::Invariants;
use tape::generated_operations as operation;
use tape::Writer;

use crate::graph::{self, capture};
use crate::launch::clusters;
use crate::memory::copy::End;
use crate::module::table;
use crate::stream::{self, held};
use crate::types::StreamHandle;

/// Arguments of a launch, by their number in a manifest.
const SHARED: u8 = 6;
const STREAM: u8 = 7;
const PARAMETERS: u8 = 8;

/// The program may stand at the entry of a loop that the host can lead.
#[cold]
pub fn begin() {
    let Some(beginning) = deciding::begin() else { return };
    match lead(&beginning) {
        Err(why) => deciding::refuse(why),
        Ok(lead) => {
            // A session that is over is the call's own to tell.
            if let Some(Ok(false)) = process::opened_session().map(|session| session.lead(lead)) {
                deciding::refuse(Refusal::Size);
            }
        }
    }
}

fn lead(beginning: &Beginning) -> Result<Lead, Refusal> {
    if capture::any() || held::any() {
        return Err(Refusal::Captures);
    }
    let slice = &beginning.sliced.slice;
    let invariants = beginning.sliced.invariants(&beginning.inputs).ok_or(Refusal::Call)?;
    let mut records = Records { beginning, invariants, body: Vec::new(), holes: Vec::new(), result_bytes: 0 };
    let mut ranges = Vec::with_capacity(slice.calls.len());
    for (number, call) in slice.calls.iter().enumerate() {
        let start = records.body.len();
        let made = u16::try_from(number).map_err(|_| Refusal::Size).and_then(|number| records.add(number, call));
        let made = made.inspect_err(|why| {
            log::debug(format_args!("{} is not led: {why:?}, {} (call {number})", beginning.name(), call.name));
        })?;
        ranges.push(made.then_some(start..records.body.len()));
    }
    let Records { body, mut holes, result_bytes, .. } = records;
    holes.sort_unstable_by_key(|hole| hole.offset);
    let (thread, _) = frame::thread_and_site();
    Ok(Lead {
        name: beginning.name(),
        key: beginning.sliced.number,
        slice: slice.clone(),
        slice_bytes: beginning.sliced.bytes,
        sites: slice.calls.iter().map(|call| beginning.site(call.site)).collect(),
        body,
        records: ranges,
        holes,
        inputs: beginning.inputs.clone(),
        thread: thread as u64,
        result_bytes,
        again: beginning.again,
    })
}

/// The records of a slice's calls, one behind the other.
struct Records<'a> {
    beginning: &'a Beginning,
    invariants: Arc<Invariants>,
    body: Vec<u8>,
    holes: Vec<LeadHole>,
    result_bytes: u64,
}

impl Records<'_> {
    /// The record of a call. False: it makes none.
    fn add(&mut self, number: u16, call: &Call) -> Result<bool, Refusal> {
        match call.name.as_str() {
            "launch" => self.launch(number, call)?,
            "cudaMemcpy" => self.copy(number, call, None)?,
            "cudaMemcpyAsync" => self.copy(number, call, Some(4))?,
            "cudaMemcpyFromSymbol" => self.copy_variable(number, call, None)?,
            "cudaMemcpyFromSymbolAsync" => self.copy_variable(number, call, Some(5))?,
            "cudaMemcpyToSymbol" => self.copy_variable(number, call, None)?,
            "cudaMemcpyToSymbolAsync" => self.copy_variable(number, call, Some(5))?,
            "cuMemcpyDtoH" | "cuMemcpyHtoD" | "cuMemcpyDtoD" => self.copy(number, call, None)?,
            "cudaMemset" => self.set(number, call, None)?,
            "cudaMemsetAsync" => self.set(number, call, Some(3))?,
            "cudaDeviceSynchronize" | "cuCtxSynchronize" => {
                self.record(number, &[], &|w, _| operation::device_synchronize(w, 0))?;
            }
            "cudaStreamSynchronize" | "cuStreamSynchronize" => {
                let stream = self.stream(number, call, Some(0))?;
                self.record(number, &[], &|w, _| operation::stream_synchronize(w, stream, 0))?;
            }
            "cudaGetLastError" | "cudaPeekAtLastError" => return Ok(false),
            _ => return Err(Refusal::Call),
        }
        Ok(true)
    }

    fn argument(call: &Call, number: u8) -> Option<(u8, Spot)> {
        let index = call.arguments.iter().position(|argument| argument.number == number)?;
        Some((u8::try_from(index).ok()?, call.arguments[index].value))
    }

    /// An argument that is always the same.
    fn fixed(&self, of: u16, call: &Call, number: u8) -> Result<u64, Refusal> {
        let (_, value) = Self::argument(call, number).ok_or(Refusal::Call)?;
        self.invariants.number(of.into(), value).ok_or(Refusal::Call)
    }

    fn size(&self, of: u16, call: &Call, number: u8) -> Result<u64, Refusal> {
        self.fixed(of, call, number).ok().filter(|size| *size > 0).ok_or(Refusal::Size)
    }

    /// The tape's number of a stream that is always the same.
    fn stream(&self, of: u16, call: &Call, number: Option<u8>) -> Result<u32, Refusal> {
        let handle = number.map_or(Ok(0), |number| self.fixed(of, call, number))?;
        // A slice is made of programs alone that use the legacy default stream (analyzer/slices/extract.py).
        let stream = stream::resolve(DefaultStream::Legacy, handle as StreamHandle).map_err(|_| Refusal::Call)?;
        if graph::diverts(&stream) {
            return Err(Refusal::Captures);
        }
        Ok(stream.number)
    }

    /// Writes a record; `arguments` are those of the call that stand in its fields, in the order of the values that
    /// `encode` is given.
    fn record(
        &mut self,
        number: u16,
        arguments: &[(u8, Spot)],
        encode: &dyn Fn(&mut Writer, &[u64]),
    ) -> Result<usize, Refusal> {
        let encoded = |values: &[u64]| {
            let mut writer = Writer::new();
            encode(&mut writer, values);
            writer.as_slice().to_vec()
        };
        let values: Vec<u64> =
            arguments.iter().map(|(_, spot)| self.invariants.number(number.into(), *spot).unwrap_or(0)).collect();
        let (start, record) = (self.body.len(), encoded(&values));
        for (index, (argument, spot)) in arguments.iter().enumerate() {
            if self.invariants.number(number.into(), *spot).is_some() {
                continue;
            }
            let mut other = values.clone();
            other[index] = u64::MAX;
            let (first, length) = difference(&record, &encoded(&other)).ok_or(Refusal::Call)?;
            let width = u8::try_from(length.min(width_of(*spot))).ok().filter(|width| width.is_power_of_two());
            let width = width.filter(|width| *width <= 8).ok_or(Refusal::Call)?;
            let offset = start + first;
            self.holes.push(LeadHole { offset, width, call: number, argument: Some(*argument), at: 0 });
        }
        self.body.extend_from_slice(&record);
        Ok(start)
    }

    /// Fills `size` bytes of the body from a value of the call: with what it always is, or with holes.
    fn bytes(
        &mut self,
        number: u16,
        argument: Option<u8>,
        value: Spot,
        offset: usize,
        size: usize,
    ) -> Result<(), Refusal> {
        if width_of(value) != size {
            return Err(Refusal::Size);
        }
        if let Some(bytes) = self.invariants.bytes(number.into(), value) {
            self.body[offset..offset + size].copy_from_slice(&bytes);
            return Ok(());
        }
        let mut at = 0;
        while at < size {
            let fits = |width: &usize| (offset + at).is_multiple_of(*width) && at + width <= size;
            let width = [8, 4, 2, 1].into_iter().find(fits).unwrap_or(1);
            let hole = LeadHole { offset: offset + at, width: width as u8, call: number, argument, at: at as u16 };
            self.holes.push(hole);
            at += width;
        }
        Ok(())
    }

    fn launch(&mut self, number: u16, call: &Call) -> Result<(), Refusal> {
        let symbol = self.beginning.kernel_at(call.site).ok_or(Refusal::Call)?;
        let kernel = table::with(|table| table.kernel_named(symbol)).ok_or(Refusal::Call)?;
        let image = &kernel.signature().map_err(|_| Refusal::Call)?.image;
        if output::may_print(image.prints) {
            return Err(Refusal::Printing);
        }
        let (function, stream) =
            (kernel.function().map_err(|_| Refusal::Call)?, self.stream(number, call, Some(STREAM))?);
        let cluster = clusters::number(kernel.set_cluster());
        let size = image.parameter_bytes as usize;
        let shape: Option<Vec<(u8, Spot)>> = (0..=SHARED).map(|number| Self::argument(call, number)).collect();
        let encode = |w: &mut Writer, values: &[u64], parameters: &[u8]| {
            let word = |index: usize| values[index] as u32;
            let (grid, block) = ([word(0), word(1), word(2)], [word(3), word(4), word(5)]);
            operation::launch(w, function, stream, grid, block, word(6), false, cluster, parameters);
        };
        let tail = {
            let encoded = |byte: u8| {
                let mut writer = Writer::new();
                encode(&mut writer, &[0; 7], &vec![byte; size]);
                writer.as_slice().to_vec()
            };
            difference(&encoded(0), &encoded(0xFF)).map(|(first, _)| first)
        };
        let shape = shape.ok_or(Refusal::Call)?;
        let start = self.record(number, &shape, &|w, values| encode(w, values, &vec![0; size]))?;
        if call.arguments.iter().filter(|argument| argument.number >= PARAMETERS).count() != image.parameters.len() {
            return Err(Refusal::Call);
        }
        for (index, place) in image.parameters.iter().enumerate() {
            let of = PARAMETERS.checked_add(u8::try_from(index).map_err(|_| Refusal::Size)?).ok_or(Refusal::Size)?;
            let (argument, value) = Self::argument(call, of).ok_or(Refusal::Call)?;
            let offset = start + tail.ok_or(Refusal::Call)? + place.offset as usize;
            self.bytes(number, Some(argument), value, offset, place.size as usize)?;
        }
        Ok(())
    }

    /// A copy of so many bytes; which of its ends are the device's is known by which of them are told.
    fn copy(&mut self, number: u16, call: &Call, stream: Option<u8>) -> Result<(), Refusal> {
        let size = self.size(number, call, 2)?;
        let stream = self.stream(number, call, stream)?;
        match (Self::argument(call, 0), Self::argument(call, 1)) {
            (Some(to), Some(from)) => {
                let encode = |w: &mut Writer, ends: &[u64]| {
                    operation::copy(w, ends[0], size, ends[1], size, size, 1, stream);
                };
                self.record(number, &[to, from], &encode).map(drop)
            }
            (Some(to), None) => self.write(number, call, &[to], size, &|ends| ends[0], stream),
            (None, Some(from)) => self.read(number, &[from], size, &|ends| ends[0], stream),
            (None, None) => Err(Refusal::Call),
        }
    }

    /// A copy from or to a variable of the device, whose symbol is always the same.
    fn copy_variable(&mut self, number: u16, call: &Call, stream: Option<u8>) -> Result<(), Refusal> {
        let (size, offset) = (self.size(number, call, 2)?, self.fixed(number, call, 3)?);
        let stream = self.stream(number, call, stream)?;
        let to_variable = call.name.contains("ToSymbol");
        let symbol = self.fixed(number, call, u8::from(!to_variable))? as usize;
        let (offset, bytes) = (offset as usize, size as usize);
        let operand = End::variable(symbol as *const c_void, offset, bytes).map_err(|_| Refusal::Call)?.operand();
        let operand = operand.ok_or(Refusal::Memory)?;
        if to_variable {
            self.write(number, call, &[], size, &|_| operand, stream)
        } else {
            self.read(number, &[], size, &|_| operand, stream)
        }
    }

    fn read(
        &mut self,
        number: u16,
        ends: &[(u8, Spot)],
        size: u64,
        from: &dyn Fn(&[u64]) -> u64,
        stream: u32,
    ) -> Result<(), Refusal> {
        self.result_bytes += size;
        let encode = |w: &mut Writer, ends: &[u64]| operation::read(w, from(ends), size, size, 1, stream, 0);
        self.record(number, ends, &encode).map(drop)
    }

    fn write(
        &mut self,
        number: u16,
        call: &Call,
        ends: &[(u8, Spot)],
        size: u64,
        to: &dyn Fn(&[u64]) -> u64,
        stream: u32,
    ) -> Result<(), Refusal> {
        let source = call.source.filter(|source| u64::from(source.size) == size).ok_or(Refusal::Size)?;
        let bytes = usize::from(source.size);
        if KEPT_BYTES.contains(&bytes) {
            return Err(Refusal::Size); // it may go by a name
        }
        let encode = |w: &mut Writer, ends: &[u64], data: &[u8]| {
            operation::write(w, to(ends), size, size, 1, stream, false, false, data);
        };
        let encoded = |byte: u8| {
            let mut writer = Writer::new();
            encode(&mut writer, &vec![0; ends.len()], &vec![byte; bytes]);
            writer.as_slice().to_vec()
        };
        let (tail, _) = difference(&encoded(0), &encoded(0xFF)).ok_or(Refusal::Call)?;
        let start = self.record(number, ends, &|w, ends| encode(w, ends, &vec![0; bytes]))?;
        self.bytes(number, None, Spot::Memory(source), start + tail, bytes)
    }

    fn set(&mut self, number: u16, call: &Call, stream: Option<u8>) -> Result<(), Refusal> {
        let (value, size) = (self.fixed(number, call, 1)? & 0xFF, self.size(number, call, 2)?);
        let stream = self.stream(number, call, stream)?;
        let start = Self::argument(call, 0).ok_or(Refusal::Call)?;
        let encode = |w: &mut Writer, ends: &[u64]| {
            operation::memset(w, ends[0], size, size, 1, value as u32, 1, stream);
        };
        self.record(number, &[start], &encode).map(drop)
    }
}

fn width_of(value: Spot) -> usize {
    match value {
        Spot::Register { width, .. } => width.into(),
        Spot::Memory(place) => place.size.into(),
    }
}

/// Where two records of one length differ: the first byte, and how many there are to the last one.
fn difference(left: &[u8], right: &[u8]) -> Option<(usize, usize)> {
    let differs = |(_, (left, right)): &(usize, (&u8, &u8))| left != right;
    let mut bytes = left.iter().zip(right).enumerate().filter(differs).map(|(index, _)| index);
    let first = bytes.next()?;
    Some((first, bytes.next_back().unwrap_or(first) + 1 - first))
}
