//! One execution of a loop by its slice.
//!
//! The caller gives the inputs, asks for the calls one after the other, and gives the bytes that a copy to the host has brought before it
//! asks for the next one. An iteration need not make a call, so its end is an event, too. From one event to the next there are at most
//! [`MAXIMUM_STEPS`] operations and blocks.

use crate::arithmetic::low;
use crate::filling::Filling;
use crate::form::{End, Place, Slice, Spot, MAXIMUM_STEPS};
use crate::lowered::{LoweredBlock, Memory, Registers, MEMORY, REGISTERS};
use crate::simplified::Simplified;
use std::fmt;
use std::sync::{Arc, OnceLock};

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The call of this number is made.
    Called(usize),
    /// An iteration is over, and the next one begins.
    Again,
    /// The loop is left towards an address.
    Left(u64),
}

/// An operation has no result: the program would be ended by a fault here, or what it does next is not in the slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stuck;

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a division by zero, a quotient that does not fit, an element outside of its array, or no end")
    }
}

impl std::error::Error for Stuck {}

/// Iterations behind which it pays to simplify the slice.
const LONG: u64 = 64;

/// A slice that is ready for evaluations.
#[derive(Debug)]
pub struct Prepared {
    slice: Arc<Slice>,
    /// The values of each call that evaluations are asked for.
    asked: Vec<Vec<Spot>>,
    blocks: Box<[LoweredBlock]>,
    /// For loops that go on for long.
    simplified: OnceLock<Simplified>,
}

impl Prepared {
    /// For records with these fillings of each call: an evaluation is asked for nothing else.
    #[must_use]
    pub fn new(slice: Arc<Slice>, fillings: &[impl AsRef<[Filling]>]) -> Self {
        let asked = fillings.iter().map(|fillings| fillings.as_ref().iter().map(Filling::asked).collect());
        Self::asked_for(slice, asked.collect())
    }

    /// For evaluations that are asked for these values of each call: arguments, and what it copies to the device.
    #[must_use]
    pub fn asked_for(slice: Arc<Slice>, asked: Vec<Vec<Spot>>) -> Self {
        let lowered = slice.blocks.iter().map(|block| LoweredBlock::of(block, 1 + block.operations.len()));
        let blocks = lowered.collect();
        Self { slice, asked, blocks, simplified: OnceLock::new() }
    }

    /// For evaluations that are asked for all values of all calls.
    #[must_use]
    pub fn whole(slice: Arc<Slice>) -> Self {
        let asked = slice.calls.iter().map(|call| call.values().collect()).collect();
        Self::asked_for(slice, asked)
    }

    #[must_use]
    pub fn slice(&self) -> &Arc<Slice> {
        &self.slice
    }
}

/// See the module's page.
#[derive(Debug)]
pub struct Evaluation {
    prepared: Arc<Prepared>,
    /// It has come to the simplified blocks.
    simplified: bool,
    registers: Box<Registers>,
    memory: Box<Memory>,
    block: usize,
    iterations: u64,
    left: Option<u64>,
}

impl Evaluation {
    /// Takes what the program holds at the entry: for each input so many bytes as it has. `None`: they are others.
    #[must_use]
    pub fn begin(prepared: Arc<Prepared>, inputs: &[&[u8]]) -> Option<Self> {
        let slice = &prepared.slice;
        let (mut registers, mut memory) = (Box::new([0; REGISTERS]), Box::new([0; MEMORY]));
        if inputs.len() != slice.inputs.len() {
            return None;
        }
        for (input, bytes) in slice.inputs.iter().zip(inputs) {
            match input.to {
                Spot::Register { number, .. } => {
                    registers[usize::from(number)] = u64::from_le_bytes((*bytes).try_into().ok()?);
                }
                Spot::Memory(place) => {
                    memory.get_mut(range(place)).filter(|to| to.len() == bytes.len())?.copy_from_slice(bytes);
                }
            }
        }
        Some(Self { prepared, simplified: false, registers, memory, block: 0, iterations: 1, left: None })
    }

    #[must_use]
    pub fn slice(&self) -> &Arc<Slice> {
        &self.prepared.slice
    }

    /// How many have begun.
    #[must_use]
    pub fn iterations(&self) -> u64 {
        self.iterations
    }

    /// The next call, the end of an iteration, or how the loop is left: that for ever, from then on.
    ///
    /// # Errors
    /// [`Stuck`].
    pub fn step(&mut self) -> Result<Event, Stuck> {
        if let Some(address) = self.left {
            return Ok(Event::Left(address));
        }
        if self.iterations == LONG {
            self.simplify();
        }
        let Self { prepared, simplified, registers, memory, block: at, iterations, left } = self;
        let simpler = if *simplified { prepared.simplified.get() } else { None };
        let blocks = simpler.map_or(&prepared.blocks, |simpler| &simpler.blocks);
        let mut steps = 0;
        loop {
            let block = &blocks[*at];
            steps += block.count;
            if steps > MAXIMUM_STEPS || !block.run(registers, memory) {
                return Err(Stuck);
            }
            *at = match block.end {
                End::Jump(next) => next.into(),
                End::Branch { register, then, other } => {
                    if registers[usize::from(register) % REGISTERS] == 0 { other } else { then }.into()
                }
                End::Called { call, block } => {
                    *iterations += u64::from(block == 0);
                    *at = block.into();
                    return Ok(Event::Called(call.into()));
                }
                End::Leave(address) => {
                    *left = Some(address);
                    return Ok(Event::Left(address));
                }
            };
            if *at == 0 {
                *iterations += 1;
                return Ok(Event::Again);
            }
        }
    }

    /// Goes on with a simpler slice that makes the same calls, if an iteration is about to begin.
    pub fn simplify(&mut self) {
        if self.block == 0 && !self.simplified {
            let Prepared { slice, asked, simplified, .. } = &*self.prepared;
            simplified.get_or_init(|| Simplified::of(slice, asked)).take_over(&mut self.registers, &self.memory);
            self.simplified = true;
        }
    }

    /// Appends the bytes of an argument of the call that is made now.
    pub fn put(&self, value: Spot, out: &mut Vec<u8>) {
        match value {
            Spot::Register { number, width } => {
                let value = self.registers[usize::from(number)].to_le_bytes();
                out.extend_from_slice(&value[..usize::from(width).min(8)]);
            }
            Spot::Memory(place) => out.extend_from_slice(self.bytes(place)),
        }
    }

    /// An argument of the call that is made now, of at most 8 bytes, as a number.
    #[must_use]
    pub fn number(&self, value: Spot) -> Option<u64> {
        match value {
            Spot::Register { number, width } => {
                Some(low(self.registers[usize::from(number)], u8::try_from(width).ok()?))
            }
            Spot::Memory(place) if place.size <= 8 => {
                let mut number = [0; 8];
                number[..usize::from(place.size)].copy_from_slice(self.bytes(place));
                Some(u64::from_le_bytes(number))
            }
            Spot::Memory(_) => None,
        }
    }

    /// What stands at a place of the slice.
    #[must_use]
    pub fn bytes(&self, place: Place) -> &[u8] {
        &self.memory[range(place)]
    }

    /// A copy to the host has brought these bytes. False: they are not as many as the place has.
    #[must_use]
    pub fn fill(&mut self, place: Place, bytes: &[u8]) -> bool {
        let fits = bytes.len() == usize::from(place.size);
        if fits {
            self.memory[range(place)].copy_from_slice(bytes);
        }
        fits
    }
}

fn range(place: Place) -> std::ops::Range<usize> {
    usize::from(place.offset)..usize::from(place.offset) + usize::from(place.size)
}
