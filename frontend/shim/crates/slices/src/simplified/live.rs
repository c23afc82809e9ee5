//! Operations whose results nothing reads are left out.

use super::{may_be_stuck, successors, New};
use crate::form::{Block, End, Operation, Spot};

/// A set of registers.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Set(Vec<u64>);

impl Set {
    fn insert(&mut self, register: u16) {
        self.0[usize::from(register / 64)] |= 1 << (register % 64);
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
struct Live<'a> {
    asked: &'a [Vec<Spot>],
    before: Vec<Set>,
}

pub(super) fn keep(blocks: &mut [Block], asked: &[Vec<Spot>], new: &mut New) {
    let mut live = Live { asked, before: vec![Set(vec![0; usize::from(new.next).div_ceil(64)]); blocks.len()] };
    loop {
        let mut changed = false;
        for (index, block) in blocks.iter().enumerate().rev() {
            let mut wanted = live.behind(block.end);
            for operation in block.operations.iter().rev() {
                before(operation, &mut wanted);
            }
            changed |= wanted != live.before[index];
            live.before[index] = wanted;
        }
        if !changed {
            break;
        }
    }
    for block in blocks {
        let mut wanted = live.behind(block.end);
        let mut kept: Vec<Operation> =
            block.operations.iter().rev().filter(|operation| before(operation, &mut wanted)).copied().collect();
        kept.reverse();
        block.operations = kept;
    }
}

/// What is wanted before an operation, of what is wanted behind it; whether it is itself.
fn before(operation: &Operation, wanted: &mut Set) -> bool {
    let kept = operation.target.is_none_or(|target| wanted.remove(target)) || may_be_stuck(operation);
    if kept {
        operation.operands[..operation.code.shape().0].iter().for_each(|operand| wanted.insert(*operand));
    }
    kept
}

impl Live<'_> {
    fn behind(&self, end: End) -> Set {
        let mut wanted = Set(vec![0; self.before[0].0.len()]);
        successors(end).for_each(|next| wanted.extend(&self.before[next]));
        match end {
            End::Branch { register, .. } => wanted.insert(register),
            End::Called { call, .. } => {
                for spot in &self.asked[usize::from(call)] {
                    if let Spot::Register { number, .. } = spot {
                        wanted.insert(*number);
                    }
                }
            }
            End::Jump(_) | End::Leave(_) => {}
        }
        wanted
    }
}
