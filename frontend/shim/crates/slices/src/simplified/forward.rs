//! Operands become constants, and the oldest registers that hold the same; comparisons lose what compilers put around them.
//!
//! What is known at the end of a block holds at the beginning of one to which no other way leads.

use super::{successors, ways, New};
use crate::form::{Block, Code, End, Operation, Place, Slice, Spot};

/// What is known at one place.
#[derive(Clone, Default)]
struct Known {
    /// Registers, and an older one that holds the same.
    same: Vec<(u16, u16)>,
    /// Registers, and what has made their values, of registers that hold what they held then.
    made: Vec<(u16, Operation)>,
}

impl Known {
    fn oldest(&self, register: u16) -> u16 {
        self.same.iter().find(|(copy, _)| *copy == register).map_or(register, |(_, older)| *older)
    }

    fn forget(&mut self, register: u16) {
        self.same.retain(|(copy, older)| *copy != register && *older != register);
        self.made.retain(|(made, by)| *made != register && !by.operands[..by.code.shape().0].contains(&register));
    }

    fn made(&self, register: u16) -> Option<&Operation> {
        self.made.iter().find(|(made, _)| *made == register).map(|(_, by)| by)
    }
}

pub(super) fn forward(slice: &Slice, blocks: &mut [Block], cells: &[(u16, Place)], new: &mut New) {
    let sizes = sizes(slice, blocks, cells, new);
    let ways = ways(blocks);
    let mut work = vec![(0, Known::default())];
    let mut done = vec![false; blocks.len()];
    while let Some((index, known)) = work.pop() {
        if std::mem::replace(&mut done[index], true) {
            continue;
        }
        let known = block(&mut blocks[index], known, &sizes, new);
        for next in successors(blocks[index].end) {
            let alone = ways[next] == 1 && next != 0;
            work.push((next, if alone { known.clone() } else { Known::default() }));
        }
    }
}

/// How many low bytes the value of each register has at most.
fn sizes(slice: &Slice, blocks: &[Block], cells: &[(u16, Place)], new: &New) -> Vec<u8> {
    let mut sizes = vec![1; usize::from(new.next)];
    for input in &slice.inputs {
        if let Spot::Register { number, .. } = input.to {
            sizes[usize::from(number)] = 8;
        }
    }
    for (register, place) in cells {
        sizes[usize::from(*register)] = place.size as u8;
    }
    loop {
        let mut changed = false;
        for operation in blocks.iter().flat_map(|block| &block.operations) {
            let Some(target) = operation.target else { continue };
            let size = match operation.code {
                Code::Constant => size_of(operation.immediate),
                Code::Copy => operation.width.min(sizes[usize::from(operation.operands[0])]),
                Code::Insert | Code::Sign | Code::Widen | Code::To8 | Code::Nearest8 => 8,
                Code::Narrow | Code::To4 | Code::Nearest4 => 4,
                code if is_comparison(code) => 1,
                _ => operation.width,
            };
            let known = &mut sizes[usize::from(target)];
            changed |= *known < size;
            *known = size.max(*known);
        }
        if !changed {
            return sizes;
        }
    }
}

fn size_of(value: u64) -> u8 {
    match value {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        0x1_0000..=0xFFFF_FFFF => 4,
        _ => 8,
    }
}

fn is_comparison(code: Code) -> bool {
    use Code::{Below, BelowEqual, Equal, FEqual, FLess, FLessEqual, FUnordered, Less, LessEqual};
    matches!(code, Equal | Below | BelowEqual | Less | LessEqual | FEqual | FLess | FLessEqual | FUnordered)
}

fn block(block: &mut Block, mut known: Known, sizes: &[u8], new: &mut New) -> Known {
    let mut operations = Vec::with_capacity(block.operations.len());
    for mut operation in block.operations.iter().copied() {
        for operand in &mut operation.operands[..operation.code.shape().0] {
            *operand = known.oldest(*operand);
        }
        if operation.code == Code::Select {
            let (condition, same) = condition(operation.operands[2], &known, sizes, new, &mut operations);
            operation.operands[2] = condition;
            if !same {
                operation.operands.swap(0, 1);
            }
        }
        let Operation { code, width, target, operands: [first, second, _], immediate } = operation;
        if code == Code::And && first == second {
            (operation.code, operation.operands) = (Code::Copy, [first, 0, 0]);
        }
        operations.push(operation);
        let Some(target) = target else { continue };
        known.forget(target);
        if code == Code::Constant {
            if let Some(register) = new.constant(immediate) {
                known.same.push((target, register));
            }
        } else if operation.code == Code::Copy {
            let fits = new.value(first).map(size_of).or(sizes.get(usize::from(first)).copied());
            if first != target && fits.is_some_and(|size| size <= width) {
                known.same.push((target, first));
            }
        } else if !operation.operands[..code.shape().0].contains(&target) {
            known.made.push((target, operation));
        }
    }
    if let End::Branch { register, then, other } = block.end {
        let (register, same) = condition(known.oldest(register), &known, sizes, new, &mut operations);
        let (then, other) = if same { (then, other) } else { (other, then) };
        block.end = End::Branch { register, then, other };
    }
    block.operations = operations;
    known
}

/// A register that is 0 where this one is, or (false) where it is not.
fn condition(
    mut register: u16,
    known: &Known,
    sizes: &[u8],
    new: &mut New,
    operations: &mut Vec<Operation>,
) -> (u16, bool) {
    let mut same = true;
    while let Some(made) = known.made(register) {
        let [first, second, _] = made.operands;
        let size = sizes.get(usize::from(first)).copied().unwrap_or(8);
        match made.code {
            Code::Equal if new.value(second) == Some(0) && size <= made.width => (register, same) = (first, !same),
            Code::Or => {
                if let Some(less) = is_not_less(known.made(first), known.made(second)) {
                    if let Some(target) = new.register() {
                        operations.push(Operation { target: Some(target), ..less });
                        (register, same) = (target, !same);
                    }
                }
                break;
            }
            _ => break,
        }
    }
    (register, same)
}

/// Of a <= b or unordered: b < a, which is its opposite.
fn is_not_less(first: Option<&Operation>, second: Option<&Operation>) -> Option<Operation> {
    let (first, second) = (first?, second?);
    let (less, unordered) = if first.code == Code::FUnordered { (second, first) } else { (first, second) };
    let ([a, b, _], [c, d, _]) = (less.operands, unordered.operands);
    let code = match less.code {
        Code::FLessEqual => Code::FLess,
        Code::FLess => Code::FLessEqual,
        _ => return None,
    };
    let fits =
        unordered.code == Code::FUnordered && less.width == unordered.width && ((a, b) == (c, d) || (a, b) == (d, c));
    fits.then_some(Operation { code, operands: [b, a, 0], ..*less })
}
