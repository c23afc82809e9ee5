//! A slice's blocks with less to do, for loops that go on for long: what no record asks for is not computed.
//!
//! In this order: blocks that follow one other block alone become part of it (`joined`); variables of the memory become registers (`cells`);
//! operands become constants and the oldest registers that hold the same, and comparisons lose what compilers put around them (`forward`); what
//! nothing reads goes (`live`). The same calls come with the same values that are asked for, and an evaluation is stuck in the same iteration.
//!
//! Source: A. Aho, M. Lam, R. Sethi, J. Ullman, Compilers: Principles, Techniques, and Tools, 8.5 and 9.2.5 (extended basic blocks, live variables).

mod cells;
mod forward;
mod live;

use crate::form::{Block, Code, End, Operation, Place, Slice, Spot};
use crate::lowered::{LoweredBlock, Memory, Registers, REGISTERS};

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Simplified {
    pub(crate) blocks: Box<[LoweredBlock]>,
    /// What registers behind the slice's own hold from the beginning on.
    constants: Vec<(u16, u64)>,
    /// The registers that have taken the place of memory.
    cells: Vec<(u16, Place)>,
}

impl Simplified {
    /// `asked`: the values of each call that are asked for.
    pub(crate) fn of(slice: &Slice, asked: &[Vec<Spot>]) -> Self {
        let mut new = New { next: slice.registers as u16, constants: Vec::new() };
        let mut blocks = slice.blocks.clone();
        let counts = joined(&mut blocks);
        let cells = cells::promote(slice, &mut blocks, asked, &mut new);
        forward::forward(slice, &mut blocks, &cells, &mut new);
        live::keep(&mut blocks, asked, &mut new);
        let lowered = blocks.iter().zip(counts).map(|(block, count)| LoweredBlock::of(block, count));
        Self { blocks: lowered.collect(), constants: new.constants, cells }
    }

    /// Goes on from where the slice itself has come to, at the beginning of an iteration.
    pub(crate) fn take_over(&self, registers: &mut Registers, memory: &Memory) {
        for &(register, value) in &self.constants {
            registers[usize::from(register)] = value;
        }
        for &(register, place) in &self.cells {
            let (at, size) = (usize::from(place.offset), usize::from(place.size));
            let mut bytes = [0; 8];
            bytes[..size].copy_from_slice(&memory[at..at + size]);
            registers[usize::from(register)] = u64::from_le_bytes(bytes);
        }
    }
}

/// Registers behind the slice's own.
struct New {
    next: u16,
    constants: Vec<(u16, u64)>,
}

impl New {
    /// `None`: there are no more.
    fn register(&mut self) -> Option<u16> {
        let register = self.next;
        (usize::from(register) < REGISTERS).then(|| {
            self.next += 1;
            register
        })
    }

    fn constant(&mut self, value: u64) -> Option<u16> {
        if let Some((register, _)) = self.constants.iter().find(|(_, other)| *other == value) {
            return Some(*register);
        }
        let register = self.register()?;
        self.constants.push((register, value));
        Some(register)
    }

    fn value(&self, register: u16) -> Option<u64> {
        self.constants.iter().find(|(other, _)| *other == register).map(|(_, value)| *value)
    }
}

fn successors(end: End) -> impl Iterator<Item = usize> {
    let (first, second) = match end {
        End::Jump(next) | End::Called { block: next, .. } => (Some(next), None),
        End::Branch { then, other, .. } => (Some(then), Some(other)),
        End::Leave(_) => (None, None),
    };
    first.into_iter().chain(second).map(usize::from)
}

/// How many ways lead to each block; to the first one, one more.
fn ways(blocks: &[Block]) -> Vec<usize> {
    let mut ways = vec![0; blocks.len()];
    ways[0] = 1;
    blocks.iter().flat_map(|block| successors(block.end)).for_each(|next| ways[next] += 1);
    ways
}

/// Puts blocks that follow one jump alone behind it; what each block counts for then.
fn joined(blocks: &mut [Block]) -> Vec<usize> {
    let mut counts: Vec<usize> = blocks.iter().map(|block| 1 + block.operations.len()).collect();
    let ways = ways(blocks);
    for index in 0..blocks.len() {
        while let End::Jump(next) = blocks[index].end {
            let next = usize::from(next);
            if next == 0 || next == index || ways[next] != 1 {
                break;
            }
            let operations = std::mem::take(&mut blocks[next].operations);
            blocks[index].operations.extend(operations);
            blocks[index].end = std::mem::replace(&mut blocks[next].end, End::Leave(0));
            counts[index] += std::mem::take(&mut counts[next]);
        }
    }
    counts
}

/// Whether an evaluation may be stuck at it.
fn may_be_stuck(operation: &Operation) -> bool {
    use Code::{Divide, DivideSigned, LoadAt, Remainder, RemainderSigned};
    matches!(operation.code, LoadAt | Divide | Remainder | DivideSigned | RemainderSigned)
}
