//! What of a slice is the same in all iterations of one execution: known before the first one, from the inputs alone.
//!
//! A register is, that nothing writes, or that one operation writes whose operands are. A byte of the memory is, that no
//! operation stores to and no copy fills. Who makes records of a slice's calls puts such arguments into them for good.

use crate::arithmetic::{compute, low};
use crate::form::{Code, Place, Slice, Spot};

/// See the module's page.
#[derive(Debug)]
pub struct Invariants {
    registers: Vec<Option<u64>>,
    memory: Vec<Option<u8>>,
}

impl Invariants {
    /// Takes the inputs as [`crate::Evaluation::begin`] does. `None`: they are not those of the slice.
    #[must_use]
    pub fn of(slice: &Slice, inputs: &[&[u8]]) -> Option<Self> {
        if inputs.len() != slice.inputs.len() {
            return None;
        }
        let operations = || slice.blocks.iter().flat_map(|block| &block.operations);
        let mut writers = vec![0_u32; slice.registers];
        let mut memory = vec![Some(0); slice.memory];
        for (input, bytes) in slice.inputs.iter().zip(inputs) {
            if let Spot::Memory(place) = input.to {
                let to = memory.get_mut(range(place)).filter(|to| to.len() == bytes.len())?;
                to.iter_mut().zip(*bytes).for_each(|(to, from)| *to = Some(*from));
            }
        }
        for operation in operations() {
            if let Some(target) = operation.target {
                writers[usize::from(target)] += 1;
            }
            match operation.code {
                Code::Store => memory[range(place_of(operation.immediate, operation.width))].fill(None),
                Code::StoreAt => memory[range(operation.array())].fill(None),
                _ => {}
            }
        }
        for place in slice.calls.iter().filter_map(|call| call.fills) {
            memory[range(place)].fill(None);
        }
        let mut registers: Vec<Option<u64>> = writers.iter().map(|&writers| (writers == 0).then_some(0)).collect();
        for (input, bytes) in slice.inputs.iter().zip(inputs) {
            if let Spot::Register { number, .. } = input.to {
                let number = usize::from(number);
                registers[number] = (writers[number] == 0).then_some(u64::from_le_bytes((*bytes).try_into().ok()?));
                writers[number] += 1; // an operation is not its only source
            }
        }
        let mut known = Self { registers, memory };
        loop {
            let mut found = false;
            for operation in operations() {
                let Some(target) = operation.target.map(usize::from) else { continue };
                if writers[target] == 1 && known.registers[target].is_none() {
                    known.registers[target] = known.result(operation);
                    found |= known.registers[target].is_some();
                }
            }
            if !found {
                return Some(known);
            }
        }
    }

    fn result(&self, operation: &crate::form::Operation) -> Option<u64> {
        let (count, _) = operation.code.shape();
        let mut operands = [0; 3];
        for (value, register) in operands.iter_mut().zip(&operation.operands[..count]) {
            *value = self.registers[usize::from(*register)]?;
        }
        match operation.code {
            Code::Constant => Some(operation.immediate),
            Code::Load => self.number(Spot::Memory(place_of(operation.immediate, operation.width))),
            Code::Store | Code::LoadAt | Code::StoreAt => None,
            code => compute(code, operands, operation.width),
        }
    }

    /// What a value of at most 8 bytes always is.
    #[must_use]
    pub fn number(&self, value: Spot) -> Option<u64> {
        match value {
            Spot::Register { number, width } => {
                Some(low(self.registers[usize::from(number)]?, u8::try_from(width).ok()?))
            }
            Spot::Memory(place) if place.size <= 8 => {
                let mut bytes = [0; 8];
                for (to, from) in bytes.iter_mut().zip(&self.memory[range(place)]) {
                    *to = (*from)?;
                }
                Some(u64::from_le_bytes(bytes))
            }
            Spot::Memory(_) => None,
        }
    }

    /// What `size` bytes of a value, from one on, always are.
    #[must_use]
    pub fn bytes(&self, value: Spot, offset: usize, size: usize) -> Option<Vec<u8>> {
        match value {
            Spot::Register { number, .. } => {
                Some(self.registers[usize::from(number)]?.to_le_bytes().get(offset..offset + size)?.to_vec())
            }
            Spot::Memory(place) => self.memory[range(place)].get(offset..offset + size)?.iter().copied().collect(),
        }
    }
}

fn place_of(offset: u64, width: u8) -> Place {
    Place { offset: offset as u16, size: width.into() }
}

fn range(place: Place) -> std::ops::Range<usize> {
    usize::from(place.offset)..usize::from(place.offset) + usize::from(place.size)
}
