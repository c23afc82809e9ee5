//! One execution of a loop by its slice.
//!
//! The caller gives the inputs, asks for the calls one after the other, and gives the bytes that a copy to the host has brought before it
//! asks for the next one. An iteration need not make a call, so its end is an event, too. From one event to the next there are at most
//! [`MAXIMUM_STEPS`] operations and blocks.

use crate::arithmetic::{compute, low};
use crate::form::{Code, End, Operation, Place, Slice, Spot, MAXIMUM_STEPS};
use std::fmt;
use std::sync::Arc;

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

/// See the module's page.
#[derive(Debug)]
pub struct Evaluation {
    slice: Arc<Slice>,
    registers: Vec<u64>,
    memory: Vec<u8>,
    block: usize,
    iterations: u64,
    left: Option<u64>,
}

impl Evaluation {
    /// Takes what the program holds at the entry: for each input so many bytes as it has. `None`: they are others.
    #[must_use]
    pub fn begin(slice: Arc<Slice>, inputs: &[&[u8]]) -> Option<Self> {
        let (mut registers, mut memory) = (vec![0; slice.registers], vec![0; slice.memory]);
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
        Some(Self { slice, registers, memory, block: 0, iterations: 1, left: None })
    }

    #[must_use]
    pub fn slice(&self) -> &Arc<Slice> {
        &self.slice
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
        let Self { slice, registers, memory, block: at, iterations, left } = self;
        let mut steps = 0;
        loop {
            let block = &slice.blocks[*at];
            steps += 1 + block.operations.len();
            if steps > MAXIMUM_STEPS {
                return Err(Stuck);
            }
            for operation in &block.operations {
                let [a, b, c] = operation.operands.map(|operand| registers.get(usize::from(operand)).copied());
                let operands = [a.unwrap_or(0), b.unwrap_or(0), c.unwrap_or(0)]; // there are as many as the operation has
                                                                                 // Of LOAD and STORE a place in the memory (check); else it is not used.
                let place = Place { offset: operation.immediate as u16, size: operation.width.into() };
                let result = match operation.code {
                    Code::Constant => operation.immediate,
                    Code::Load => {
                        let mut value = [0; 8];
                        value[..usize::from(place.size)].copy_from_slice(&memory[range(place)]);
                        u64::from_le_bytes(value)
                    }
                    Code::Store => {
                        let value = &operands[0].to_le_bytes()[..usize::from(place.size)];
                        memory[range(place)].copy_from_slice(value);
                        continue;
                    }
                    Code::LoadAt => {
                        let mut value = [0; 8];
                        let element = element(operation, operands[0]).ok_or(Stuck)?;
                        value[..element.len()].copy_from_slice(&memory[element]);
                        u64::from_le_bytes(value)
                    }
                    Code::StoreAt => {
                        let element = element(operation, operands[1]).ok_or(Stuck)?;
                        let value = &operands[0].to_le_bytes()[..element.len()];
                        memory[element].copy_from_slice(value);
                        continue;
                    }
                    code => compute(code, operands, operation.width).ok_or(Stuck)?,
                };
                if let Some(target) = operation.target {
                    registers[usize::from(target)] = result;
                }
            }
            *at = match block.end {
                End::Jump(next) => next.into(),
                End::Branch { register, then, other } => {
                    if registers[usize::from(register)] == 0 { other } else { then }.into()
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

    /// Appends the bytes of an argument.
    pub fn put(&self, value: Spot, out: &mut Vec<u8>) {
        match value {
            Spot::Register { number, width } => {
                let value = self.registers[usize::from(number)].to_le_bytes();
                out.extend_from_slice(&value[..usize::from(width).min(8)]);
            }
            Spot::Memory(place) => out.extend_from_slice(self.bytes(place)),
        }
    }

    /// An argument of at most 8 bytes as a number.
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

/// The element of an operation's array that begins so many bytes behind its start.
fn element(operation: &Operation, at: u64) -> Option<std::ops::Range<usize>> {
    let (array, width) = (operation.array(), usize::from(operation.width));
    let at = usize::try_from(at).ok().filter(|&at| at <= usize::from(array.size) - width)?;
    let low = usize::from(array.offset) + at;
    Some(low..low + width)
}
