//! A slice's blocks as they are evaluated: constants stand in registers of their own from the beginning, copies give way to what they copy,
//! and operations whose results nothing looks at are left out.
//!
//! The results are the same in every register that a call is passed, in the memory, and in where an evaluation is stuck.
//!
//! Source: A. Aho, M. Lam, R. Sethi, J. Ullman, Compilers: Principles, Techniques, and Tools, 9.2.5 (live variables).

use crate::form::{Block, Code, End, Operation, Slice, Spot};

#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) blocks: Vec<Block>,
    /// What each counts for.
    pub(crate) counts: Vec<usize>,
    /// The values of the registers behind the slice's own.
    pub(crate) constants: Vec<u64>,
}

impl Prepared {
    pub(crate) fn of(slice: &Slice) -> Self {
        let mut constants = Vec::new();
        let mut blocks: Vec<Block> =
            slice.blocks.iter().map(|block| forwarded(block, slice.registers, &mut constants)).collect();
        let live = Live::of(slice, &blocks);
        for block in &mut blocks {
            let mut wanted = live.behind(slice, block.end);
            let mut kept: Vec<Operation> =
                block.operations.iter().rev().filter(|operation| before(operation, &mut wanted)).copied().collect();
            kept.reverse();
            block.operations = kept;
        }
        let counts = slice.blocks.iter().map(|block| 1 + block.operations.len()).collect();
        Self { blocks, counts, constants }
    }
}

/// A block with operands that are the oldest registers holding the same.
fn forwarded(block: &Block, registers: usize, constants: &mut Vec<u64>) -> Block {
    let mut same: Vec<(u16, u16)> = Vec::new();
    let of = |same: &[(u16, u16)], register: u16| {
        same.iter().find(|(copy, _)| *copy == register).map_or(register, |(_, source)| *source)
    };
    let mut operations = Vec::with_capacity(block.operations.len());
    for operation in &block.operations {
        let (count, _) = operation.code.shape();
        let mut operands = operation.operands;
        for operand in &mut operands[..count] {
            *operand = of(&same, *operand);
        }
        let Operation { code, width, target, immediate, .. } = *operation;
        operations.push(Operation { operands, ..*operation });
        let Some(target) = target else { continue };
        same.retain(|(copy, source)| *copy != target && *source != target);
        if code == Code::Constant {
            let place = constants.iter().position(|value| *value == immediate).unwrap_or_else(|| {
                constants.push(immediate);
                constants.len() - 1
            });
            same.push((target, (registers + place) as u16)); // at most 1,024 registers and 4,096 operations
        } else if code == Code::Copy && width == 8 && operands[0] != target {
            same.push((target, operands[0]));
        }
    }
    let end = match block.end {
        End::Branch { register, then, other } => End::Branch { register: of(&same, register), then, other },
        end => end,
    };
    Block { operations, end }
}

/// What is wanted before an operation, of what is wanted behind it; whether it is itself.
fn before(operation: &Operation, wanted: &mut Set) -> bool {
    let sticks = matches!(
        operation.code,
        Code::LoadAt | Code::Divide | Code::Remainder | Code::DivideSigned | Code::RemainderSigned
    );
    let kept = operation.target.is_none_or(|target| wanted.remove(target)) || sticks;
    if kept {
        operation.operands[..operation.code.shape().0].iter().for_each(|operand| wanted.insert(*operand));
    }
    kept
}

/// A set of registers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    /// Constants, which stand behind the slice's registers, are no matter.
    fn insert(&mut self, register: u16) {
        if let Some(word) = self.0.get_mut(usize::from(register / 64)) {
            *word |= 1 << (register % 64);
        }
    }

    fn remove(&mut self, register: u16) -> bool {
        let (word, bit) = (&mut self.0[usize::from(register / 64)], 1 << (register % 64));
        let held = *word & bit != 0;
        *word &= !bit;
        held
    }

    fn extend(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(mine, its)| *mine |= its);
    }
}

/// The registers that are wanted before each block.
struct Live(Vec<Set>);

impl Live {
    fn of(slice: &Slice, blocks: &[Block]) -> Self {
        let words = slice.registers.div_ceil(64);
        let mut live = Self(vec![Set(vec![0; words]); blocks.len()]);
        loop {
            let mut changed = false;
            for (index, block) in blocks.iter().enumerate().rev() {
                let mut wanted = live.behind(slice, block.end);
                block.operations.iter().rev().for_each(|operation| {
                    before(operation, &mut wanted);
                });
                changed |= wanted != live.0[index];
                live.0[index] = wanted;
            }
            if !changed {
                return live;
            }
        }
    }

    fn behind(&self, slice: &Slice, end: End) -> Set {
        let mut wanted = Set(vec![0; self.0[0].0.len()]);
        match end {
            End::Jump(next) => wanted.extend(&self.0[usize::from(next)]),
            End::Branch { register, then, other } => {
                [then, other].into_iter().for_each(|next| wanted.extend(&self.0[usize::from(next)]));
                wanted.insert(register);
            }
            End::Called { call, block } => {
                wanted.extend(&self.0[usize::from(block)]);
                for argument in &slice.calls[usize::from(call)].arguments {
                    if let Spot::Register { number, .. } = argument.value {
                        wanted.insert(number);
                    }
                }
            }
            End::Leave(_) => {}
        }
        wanted
    }
}
