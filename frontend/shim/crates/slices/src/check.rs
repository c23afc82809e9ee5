//! The rules: no register and no byte outside of the slice is named, every operation has a type that exists, no iteration makes a call twice.
//!
//! The check takes time that grows with the slice alone, which the bounds of `form` hold small.

use crate::form::{
    Block, Call, Code, End, Input, Operation, Origin, Place, Slice, Spot, FRAME_REACH, MAXIMUM_ARGUMENTS,
    MAXIMUM_BLOCKS, MAXIMUM_CALLS, MAXIMUM_INPUTS, MAXIMUM_MEMORY, MAXIMUM_OPERATIONS, MAXIMUM_REGISTERS, REACHED,
};
use crate::Malformed;

fn require(kept: bool, rule: impl FnOnce() -> String) -> Result<(), Malformed> {
    if kept {
        Ok(())
    } else {
        Err(Malformed(rule()))
    }
}

impl Block {
    /// The blocks that may come next.
    fn successors(&self) -> impl Iterator<Item = usize> {
        let (first, second) = match self.end {
            End::Jump(block) | End::Called { block, .. } => (Some(block), None),
            End::Branch { then, other, .. } => (Some(then), Some(other)),
            End::Leave(_) => (None, None),
        };
        first.into_iter().chain(second).map(usize::from)
    }
}

impl Slice {
    pub(crate) fn check(&self) -> Result<(), Malformed> {
        let operations: usize = self.blocks.iter().map(|block| block.operations.len()).sum();
        for (count, most, what) in [
            (self.registers, MAXIMUM_REGISTERS, "registers"),
            (self.memory, MAXIMUM_MEMORY, "bytes of memory"),
            (self.blocks.len(), MAXIMUM_BLOCKS, "blocks"),
            (self.calls.len(), MAXIMUM_CALLS, "calls"),
            (self.inputs.len(), MAXIMUM_INPUTS, "inputs"),
            (operations, MAXIMUM_OPERATIONS, "operations"),
        ] {
            require(count <= most, || format!("{count} {what}, at most {most}"))?;
        }
        require(!self.blocks.is_empty(), || "no blocks".to_owned())?;
        self.inputs.iter().try_for_each(|input| self.check_input(input))?;
        self.calls.iter().try_for_each(|call| self.check_call(call))?;
        for block in &self.blocks {
            block.operations.iter().try_for_each(|operation| self.check_operation(operation))?;
            self.check_end(block)?;
        }
        self.check_iterations()
    }

    fn check_register(&self, number: u16) -> Result<(), Malformed> {
        require(usize::from(number) < self.registers, || format!("register {number}"))
    }

    fn check_place(&self, place: Place) -> Result<(), Malformed> {
        let inside = place.size > 0 && usize::from(place.offset) + usize::from(place.size) <= self.memory;
        require(inside, || format!("a place at {}", place.offset))
    }

    fn check_input(&self, input: &Input) -> Result<(), Malformed> {
        let size = match input.to {
            Spot::Register { number, width } => {
                self.check_register(number)?;
                let from = matches!(input.origin, Origin::Register(_) | Origin::Bias) && width == 8;
                require(from, || "a register takes its value from a register".to_owned())?;
                width
            }
            Spot::Memory(place) => {
                self.check_place(place)?;
                place.size
            }
        };
        let good = match input.origin {
            Origin::Register(number) => REACHED.contains(&number) && size <= 8,
            Origin::Frame(number) => number <= FRAME_REACH.saturating_sub(size.into()),
            Origin::Global(number) => number != 0 && number < 1 << 63,
            Origin::BehindRegister { number, behind } => REACHED.contains(&number) && behind <= MAXIMUM_MEMORY as u64,
            Origin::BehindFrame { offset, behind } => offset <= FRAME_REACH - 8 && behind <= MAXIMUM_MEMORY as u64,
            Origin::Bias => size <= 8,
        };
        require(good, || format!("an input of {size} bytes from {:?}", input.origin))
    }

    fn check_call(&self, call: &Call) -> Result<(), Malformed> {
        let count = call.arguments.len();
        require(count <= MAXIMUM_ARGUMENTS, || format!("{count} arguments, at most {MAXIMUM_ARGUMENTS}"))?;
        let mut given = [false; 256];
        for argument in &call.arguments {
            let twice = std::mem::replace(&mut given[usize::from(argument.number)], true);
            require(!twice, || format!("argument {} is given twice", argument.number))?;
            match argument.value {
                Spot::Register { number, width } => {
                    self.check_register(number)?;
                    require(matches!(width, 1 | 2 | 4 | 8), || format!("an argument of {width} bytes"))?;
                }
                Spot::Memory(place) => self.check_place(place)?,
            }
        }
        [call.source, call.fills].into_iter().flatten().try_for_each(|place| self.check_place(place))
    }

    fn check_operation(&self, operation: &Operation) -> Result<(), Malformed> {
        let Operation { code, width, target, operands, immediate } = *operation;
        let (count, widths) = code.shape();
        require(widths.contains(&width), || format!("{code:?} of {width} bytes"))?;
        operands[..count].iter().try_for_each(|&operand| self.check_register(operand))?;
        match target {
            None => require(operation.is_store(), || format!("{code:?} without a target"))?,
            Some(target) => {
                require(!operation.is_store(), || "a store has no target".to_owned())?;
                self.check_register(target)?;
            }
        }
        if matches!(code, Code::Load | Code::Store) {
            let offset = u16::try_from(immediate).map_err(|_| Malformed(format!("a place at {immediate}")))?;
            self.check_place(Place { offset, size: width.into() })?;
        }
        if matches!(code, Code::LoadAt | Code::StoreAt) {
            require(immediate >> 32 == 0, || format!("an array at {immediate}"))?;
            self.check_place(operation.array())?;
            require(operation.array().size >= width.into(), || "an array shorter than its elements".to_owned())?;
        }
        require(self.floating || !code.is_floating(), || "floating-point arithmetic that is not declared".to_owned())
    }

    fn check_end(&self, block: &Block) -> Result<(), Malformed> {
        for next in block.successors() {
            require(next < self.blocks.len(), || format!("block {next}"))?;
        }
        match block.end {
            End::Branch { register, .. } => self.check_register(register),
            End::Called { call, .. } => require(usize::from(call) < self.calls.len(), || format!("call {call}")),
            End::Jump(_) | End::Leave(_) => Ok(()),
        }
    }

    /// Every cycle with a call in it leads through block 0.
    fn check_iterations(&self) -> Result<(), Malformed> {
        for (index, block) in self.blocks.iter().enumerate().skip(1) {
            let End::Called { block: next, .. } = block.end else { continue };
            let (mut seen, mut work) = (vec![false; self.blocks.len()], vec![usize::from(next)]);
            seen[0] = true;
            while let Some(each) = work.pop() {
                if !std::mem::replace(&mut seen[each], true) {
                    work.extend(self.blocks[each].successors());
                }
            }
            require(!seen[index], || "a cycle with a call that does not lead through block 0".to_owned())?;
        }
        Ok(())
    }
}
