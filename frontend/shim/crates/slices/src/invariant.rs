//! What a slice passes to a call in all iterations of one execution alike, known before the first one.
//!
//! Constants are propagated over the slice's blocks, from the inputs on, until nothing changes: a value is known where
//! it is the same on all ways to its call, in whatever iteration. Who makes records of a slice's calls puts such
//! arguments into them for good.
//!
//! Source: G. Kildall, "A unified approach to global program optimization", POPL 1973 (constant propagation).

use crate::arithmetic::{compute, low};
use crate::form::{Code, End, Operation, Place, Slice, Spot};

/// See the module's page.
#[derive(Debug)]
pub struct Invariants {
    /// By call; `None`: no way leads there.
    calls: Vec<Option<State>>,
}

/// What is known at one place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    registers: Vec<Option<u64>>,
    memory: Vec<Option<u8>>,
}

impl State {
    /// What holds at the slice's beginning. `None`: the inputs are not those of the slice.
    fn of(slice: &Slice, inputs: &[&[u8]]) -> Option<Self> {
        let mut state = Self { registers: vec![Some(0); slice.registers], memory: vec![Some(0); slice.memory] };
        if inputs.len() != slice.inputs.len() {
            return None;
        }
        for (input, bytes) in slice.inputs.iter().zip(inputs) {
            match input.to {
                Spot::Register { number, .. } => {
                    state.registers[usize::from(number)] = Some(u64::from_le_bytes((*bytes).try_into().ok()?));
                }
                Spot::Memory(place) => {
                    let to = state.memory.get_mut(range(place)).filter(|to| to.len() == bytes.len())?;
                    to.iter_mut().zip(*bytes).for_each(|(to, from)| *to = Some(*from));
                }
            }
        }
        Some(state)
    }

    /// Forgets what is otherwise in another state. Whether that was something.
    fn meet(&mut self, other: &Self) -> bool {
        let mut changed = false;
        for (left, right) in self.registers.iter_mut().zip(&other.registers) {
            if left.is_some() && left != right {
                (*left, changed) = (None, true);
            }
        }
        for (left, right) in self.memory.iter_mut().zip(&other.memory) {
            if left.is_some() && left != right {
                (*left, changed) = (None, true);
            }
        }
        changed
    }

    fn execute(&mut self, operation: &Operation) {
        let place = Place { offset: operation.immediate as u16, size: operation.width.into() };
        let (count, _) = operation.code.shape();
        let mut operands = Some([0; 3]);
        for (index, register) in operation.operands[..count].iter().enumerate() {
            let value = self.registers[usize::from(*register)];
            operands = operands.zip(value).map(|(mut operands, value)| {
                operands[index] = value;
                operands
            });
        }
        let result = match operation.code {
            Code::Constant => Some(operation.immediate),
            Code::Load => self.number(Spot::Memory(place)),
            Code::LoadAt => {
                operands.and_then(|[at, ..]| element(operation, at)).and_then(|place| self.number(Spot::Memory(place)))
            }
            Code::Store => return self.store(place, operands.map(|[value, ..]| value)),
            Code::StoreAt => {
                return match operands.map(|[value, at, _]| (value, element(operation, at))) {
                    Some((value, Some(place))) => self.store(place, Some(value)),
                    _ => self.store(operation.array(), None), // one of them
                };
            }
            code => operands.and_then(|operands| compute(code, operands, operation.width)),
        };
        if let Some(target) = operation.target {
            self.registers[usize::from(target)] = result;
        }
    }

    fn store(&mut self, place: Place, value: Option<u64>) {
        let bytes = value.map(u64::to_le_bytes);
        for (index, to) in self.memory[range(place)].iter_mut().enumerate() {
            *to = bytes.map(|bytes| bytes[index]);
        }
    }

    fn number(&self, value: Spot) -> Option<u64> {
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

    fn bytes(&self, value: Spot) -> Option<Vec<u8>> {
        match value {
            Spot::Register { number, width } => {
                Some(self.registers[usize::from(number)]?.to_le_bytes().get(..width.into())?.to_vec())
            }
            Spot::Memory(place) => self.memory[range(place)].iter().copied().collect(),
        }
    }
}

impl Invariants {
    /// Takes the inputs as [`crate::Evaluation::begin`] does. `None`: they are not those of the slice.
    #[must_use]
    pub fn of(slice: &Slice, inputs: &[&[u8]]) -> Option<Self> {
        let mut calls: Vec<Option<State>> = vec![None; slice.calls.len()];
        let mut entries: Vec<Option<State>> = vec![None; slice.blocks.len()];
        entries[0] = Some(State::of(slice, inputs)?);
        let mut changed = vec![0];
        while let Some(at) = changed.pop() {
            let Some(mut state) = entries[at].clone() else { continue };
            let block = &slice.blocks[at];
            block.operations.iter().for_each(|operation| state.execute(operation));
            let next = match block.end {
                End::Jump(next) => [Some(next), None],
                End::Branch { then, other, .. } => [Some(then), Some(other)],
                End::Leave(_) => [None, None],
                End::Called { call, block } => {
                    let call = usize::from(call);
                    join(&mut calls[call], &state);
                    if let Some(place) = slice.calls[call].fills {
                        state.memory[range(place)].fill(None);
                    }
                    [Some(block), None]
                }
            };
            for next in next.into_iter().flatten().map(usize::from) {
                if join(&mut entries[next], &state) {
                    changed.push(next);
                }
            }
        }
        Some(Self { calls })
    }

    /// What a value of at most 8 bytes always is at a call.
    #[must_use]
    pub fn number(&self, call: usize, value: Spot) -> Option<u64> {
        self.calls.get(call)?.as_ref()?.number(value)
    }

    /// What the bytes of a value always are at a call.
    #[must_use]
    pub fn bytes(&self, call: usize, value: Spot) -> Option<Vec<u8>> {
        self.calls.get(call)?.as_ref()?.bytes(value)
    }
}

/// Whether that has changed something.
fn join(known: &mut Option<State>, state: &State) -> bool {
    match known {
        Some(known) => known.meet(state),
        None => {
            *known = Some(state.clone());
            true
        }
    }
}

fn range(place: Place) -> std::ops::Range<usize> {
    usize::from(place.offset)..usize::from(place.offset) + usize::from(place.size)
}

/// The element of an operation's array that begins so many bytes behind its start.
fn element(operation: &Operation, at: u64) -> Option<Place> {
    let (array, size) = (operation.array(), u16::from(operation.width));
    let at = u16::try_from(at).ok().filter(|&at| at <= array.size - size)?;
    Some(Place { offset: array.offset + at, size })
}
