//! A slice as it is executed: each operation with the function that executes it, specialized by what it computes and by its width.
//!
//! Registers and memory have a fixed number of places, more than any slice names, and each number is cut to it: so no access needs a check, and
//! none leaves them, whatever the numbers are.

use crate::arithmetic::compute;
use crate::form::{Block, Code, End, Operation, MAXIMUM_MEMORY};

/// Registers of a slice and constants behind them.
pub(crate) const REGISTERS: usize = 2048;
/// The last element may begin at the last byte.
pub(crate) const MEMORY: usize = MAXIMUM_MEMORY + 8;

pub(crate) type Registers = [u64; REGISTERS];
pub(crate) type Memory = [u8; MEMORY];
/// Executes an instruction. False: it has no result.
pub(crate) type Run = fn(&mut Registers, &mut Memory, &Instruction) -> bool;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Instruction {
    run: Run,
    /// A constant; in the memory, the place of a load or store, or an array's start and where its last element begins.
    immediate: u64,
    target: u16,
    operands: [u16; 3],
}

#[derive(Debug)]
pub(crate) struct LoweredBlock {
    instructions: Box<[Instruction]>,
    pub(crate) end: End,
    /// Operations and blocks of the slice that it stands for.
    pub(crate) count: usize,
}

impl Instruction {
    fn of(operation: &Operation) -> Self {
        let Operation { code, width, target, operands, .. } = *operation;
        let immediate = if matches!(code, Code::LoadAt | Code::StoreAt) {
            let array = operation.array();
            u64::from(array.offset) | u64::from(array.size - u16::from(width)) << 16
        } else {
            operation.immediate
        };
        Self { run: code.run(width), immediate, target: target.unwrap_or(0), operands }
    }
}

impl LoweredBlock {
    pub(crate) fn of(block: &Block, count: usize) -> Self {
        Self { instructions: block.operations.iter().map(Instruction::of).collect(), end: block.end, count }
    }

    /// False: an operation has no result.
    #[inline]
    pub(crate) fn run(&self, registers: &mut Registers, memory: &mut Memory) -> bool {
        self.instructions.iter().all(|instruction| (instruction.run)(registers, memory, instruction))
    }
}

/// One operation.
pub(crate) fn execute<const CODE: u8, const WIDTH: u8>(
    registers: &mut Registers,
    memory: &mut Memory,
    instruction: &Instruction,
) -> bool {
    let code = const { Code::of(CODE).expect("a code") };
    let operand = |index: usize| registers[usize::from(instruction.operands[index]) % REGISTERS];
    let place = instruction.immediate as usize % MAXIMUM_MEMORY;
    let element = |at: u64| {
        let (start, last) = (instruction.immediate & 0xFFFF, instruction.immediate >> 16);
        (at <= last).then(|| (start + at) as usize % MAXIMUM_MEMORY)
    };
    let result = match code {
        Code::Constant => Some(instruction.immediate),
        Code::Load => Some(load::<WIDTH>(memory, place)),
        Code::LoadAt => element(operand(0)).map(|place| load::<WIDTH>(memory, place)),
        Code::Store => {
            store::<WIDTH>(memory, place, operand(0));
            return true;
        }
        Code::StoreAt => {
            let place = element(operand(1));
            if let Some(place) = place {
                store::<WIDTH>(memory, place, operand(0));
            }
            return place.is_some();
        }
        code => compute(code, [operand(0), operand(1), operand(2)], WIDTH),
    };
    if let Some(result) = result {
        registers[usize::from(instruction.target) % REGISTERS] = result;
    }
    result.is_some()
}

fn load<const WIDTH: u8>(memory: &Memory, at: usize) -> u64 {
    let mut bytes = [0; 8];
    let width = const { WIDTH as usize };
    bytes[..width].copy_from_slice(&memory[at..at + width]);
    u64::from_le_bytes(bytes)
}

fn store<const WIDTH: u8>(memory: &mut Memory, at: usize, value: u64) {
    let width = const { WIDTH as usize };
    memory[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
}
