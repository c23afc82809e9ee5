//! Variables of the memory that become registers: each of their bytes is loaded and stored with them alone, as a whole.

use super::New;
use crate::form::{Block, Code, End, Operation, Place, Slice, Spot};

/// What is known of the accesses to a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Byte {
    Untouched,
    /// It belongs to a variable.
    Of(Place),
    /// It stays memory.
    Fixed,
}

/// The registers, and whose place they have taken.
pub(super) fn promote(slice: &Slice, blocks: &mut [Block], asked: &[Vec<Spot>], new: &mut New) -> Vec<(u16, Place)> {
    let mut bytes = vec![Byte::Untouched; slice.memory];
    let mut mark = |place: Place, byte: Byte| {
        let range = usize::from(place.offset)..usize::from(place.offset) + usize::from(place.size);
        let same = bytes[range.clone()].iter().all(|other| *other == byte || *other == Byte::Untouched);
        bytes[range].fill(if same { byte } else { Byte::Fixed });
    };
    let made =
        blocks.iter().filter_map(|block| if let End::Called { call, .. } = block.end { Some(call) } else { None });
    for call in made.map(usize::from) {
        let fixed =
            asked[call].iter().filter_map(|spot| if let Spot::Memory(place) = spot { Some(*place) } else { None });
        fixed.chain(slice.calls[call].fills).for_each(|place| mark(place, Byte::Fixed));
    }
    let mut variables = Vec::new();
    for operation in blocks.iter().flat_map(|block| &block.operations) {
        match operation.code {
            Code::LoadAt | Code::StoreAt => mark(operation.array(), Byte::Fixed),
            Code::Load | Code::Store => {
                let place = variable(operation);
                mark(place, Byte::Of(place));
                if !variables.contains(&place) {
                    variables.push(place);
                }
            }
            _ => {}
        }
    }
    // A byte that became fixed late fixes what shares a variable with it.
    variables.retain(|place| {
        let range = usize::from(place.offset)..usize::from(place.offset) + usize::from(place.size);
        bytes[range].iter().all(|byte| *byte == Byte::Of(*place))
    });
    let cells: Vec<(u16, Place)> = variables.into_iter().map_while(|place| Some((new.register()?, place))).collect();
    for operation in blocks.iter_mut().flat_map(|block| &mut block.operations) {
        if !matches!(operation.code, Code::Load | Code::Store) {
            continue;
        }
        let place = variable(operation);
        let Some((register, _)) = cells.iter().find(|(_, other)| *other == place) else { continue };
        let (target, from) = match operation.target {
            Some(target) => (target, *register),
            None => (*register, operation.operands[0]),
        };
        *operation =
            Operation { code: Code::Copy, target: Some(target), operands: [from, 0, 0], immediate: 0, ..*operation };
    }
    cells
}

fn variable(operation: &Operation) -> Place {
    Place { offset: operation.immediate as u16, size: operation.width.into() }
}
