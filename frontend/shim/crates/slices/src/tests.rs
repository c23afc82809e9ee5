//! Slices made by hand, hostile bytes.

use crate::form::{
    Argument, Block, Call, Code, End, Input, Operation, Origin, Place, Slice, Spot, MAXIMUM_OPERATIONS,
    MAXIMUM_REGISTERS,
};
use crate::{Evaluation, Event, Prepared, Stuck};
use std::sync::Arc;

fn begun(slice: Slice, inputs: &[&[u8]]) -> Evaluation {
    Evaluation::begin(Arc::new(Prepared::whole(Arc::new(slice))), inputs).expect("its inputs")
}

fn register(number: u16) -> Spot {
    Spot::Register { number, width: 8 }
}

fn operation(code: Code, width: u8, target: u16, operands: &[u16]) -> Operation {
    let mut all = [0; 3];
    all[..operands.len()].copy_from_slice(operands);
    Operation { code, width, target: Some(target), operands: all, immediate: 0 }
}

fn with(immediate: u64, operation: Operation) -> Operation {
    Operation { immediate, ..operation }
}

/// `do { call(x); read 8 bytes; x += what was read; } while (x < limit)`
fn summing() -> Slice {
    let read = Place { offset: 0, size: 8 };
    Slice {
        entry: 0x1000,
        registers: 4,
        memory: 8,
        inputs: vec![
            Input { origin: Origin::Register(3), to: register(0) },
            Input { origin: Origin::Frame(16), to: Spot::Memory(read) },
        ],
        blocks: vec![
            Block { operations: vec![], end: End::Called { call: 0, block: 1 } },
            Block {
                operations: vec![
                    operation(Code::Load, 8, 1, &[]),
                    operation(Code::Add, 8, 0, &[0, 1]),
                    with(10, operation(Code::Constant, 8, 2, &[])),
                    operation(Code::Less, 8, 3, &[0, 2]),
                ],
                end: End::Branch { register: 3, then: 0, other: 2 },
            },
            Block { operations: vec![], end: End::Leave(0x1234) },
        ],
        calls: vec![Call {
            site: 0x1000,
            name: "cudaMemcpy".to_owned(),
            arguments: vec![Argument { number: 2, value: Spot::Register { number: 0, width: 4 } }],
            source: Some(read),
            fills: Some(read),
        }],
        floating: false,
    }
}

#[test]
fn a_loop_is_evaluated_call_by_call() {
    let slice = Arc::new(summing());
    assert_eq!(slice.check(), Ok(()));
    let prepared = Arc::new(Prepared::whole(slice.clone()));
    assert!(Evaluation::begin(prepared.clone(), &[&[0; 8]]).is_none(), "an input is missing");
    assert!(Evaluation::begin(prepared.clone(), &[&[0; 8], &[0; 7]]).is_none(), "one is shorter");
    let mut loop_ = Evaluation::begin(prepared, &[&1_u64.to_le_bytes(), &[5; 8]]).expect("its inputs");
    let call = &slice.calls[0];
    for (number, read) in [(1_u32, 4_u64), (5, 5), (10, 0)].into_iter().take(2) {
        assert_eq!(loop_.step(), Ok(Event::Called(0)));
        let mut passed = Vec::new();
        loop_.put(call.arguments[0].value, &mut passed);
        assert_eq!(passed, number.to_le_bytes());
        assert_eq!(loop_.number(call.arguments[0].value), Some(number.into()));
        assert!(!loop_.fill(call.fills.expect("a place"), &[0; 7]));
        assert!(loop_.fill(call.fills.expect("a place"), &read.to_le_bytes()));
        if number == 1 {
            assert_eq!(loop_.step(), Ok(Event::Again));
        }
    }
    assert_eq!(loop_.step(), Ok(Event::Left(0x1234)));
    assert_eq!(loop_.step(), Ok(Event::Left(0x1234)));
    assert_eq!(loop_.iterations(), 2);
    assert_eq!(loop_.bytes(call.source.expect("a place")), 5_u64.to_le_bytes());
}

#[test]
fn a_fault_of_the_program_is_one_here() {
    let mut slice = summing();
    slice.blocks[0].operations = vec![operation(Code::DivideSigned, 4, 0, &[1, 2])];
    let mut loop_ = begun(slice, &[&[0; 8], &[0; 8]]);
    assert_eq!(loop_.step(), Err(Stuck));
}

#[test]
fn each_rule_is_checked() {
    let breaks: &[fn(&mut Slice)] = &[
        |slice| slice.registers = MAXIMUM_REGISTERS + 1,
        |slice| slice.registers = 3,
        |slice| slice.memory = 7,
        |slice| slice.blocks.clear(),
        |slice| slice.blocks[1].operations = vec![operation(Code::Not, 8, 0, &[0]); MAXIMUM_OPERATIONS + 1],
        |slice| slice.blocks[1].operations[0].width = 3,
        |slice| slice.blocks[1].operations[0].immediate = 1,
        |slice| slice.blocks[1].operations[0].immediate = u64::MAX,
        |slice| slice.blocks[1].operations[1].operands[1] = 4,
        |slice| slice.blocks[1].operations[1].target = None,
        |slice| slice.blocks[1].operations[1].code = Code::FAdd,
        |slice| slice.blocks[1].operations[1].code = Code::Store,
        |slice| slice.blocks[1].end = End::Branch { register: 4, then: 0, other: 2 },
        |slice| slice.blocks[1].end = End::Called { call: 0, block: 1 },
        |slice| slice.blocks[1].end = End::Jump(3),
        |slice| slice.blocks[0].end = End::Called { call: 1, block: 1 },
        |slice| slice.inputs[0].origin = Origin::Register(0),
        |slice| slice.inputs[0].origin = Origin::Frame(0),
        |slice| slice.inputs[1].origin = Origin::Frame(65_529),
        |slice| slice.inputs[1].origin = Origin::Global(0),
        |slice| slice.inputs[1].origin = Origin::BehindRegister { number: 0, behind: 0 },
        |slice| slice.inputs[1].origin = Origin::BehindRegister { number: 3, behind: 5000 },
        |slice| slice.inputs[1].origin = Origin::BehindFrame { offset: 65_529, behind: 0 },
        |slice| slice.inputs[0].origin = Origin::BehindFrame { offset: 8, behind: 0 },
        |slice| slice.inputs[0].to = Spot::Register { number: 4, width: 8 },
        |slice| slice.calls[0].arguments[0].value = Spot::Register { number: 0, width: 3 },
        |slice| slice.calls[0].arguments[0].value = Spot::Memory(Place { offset: 1, size: 8 }),
        |slice| slice.calls[0].arguments = vec![slice.calls[0].arguments[0]; 2],
        |slice| slice.calls[0].source = Some(Place { offset: 8, size: 0 }),
        |slice| slice.calls[0].fills = Some(Place { offset: 1, size: 8 }),
    ];
    for (number, break_) in breaks.iter().enumerate() {
        let mut slice = summing();
        break_(&mut slice);
        assert!(slice.check().is_err(), "{number}");
    }
}

/// Whatever comes, it is no slice, or one that can be evaluated.
#[test]
fn arbitrary_bytes_do_no_harm() {
    let good = {
        // By hand: entry, 2 registers, 8 bytes, 1 input, 2 blocks, 0 calls, no floating.
        let mut bytes = 0x1000_u64.to_le_bytes().to_vec();
        for number in [2_u16, 8, 1, 2, 0, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&[1, 0, 0, 0, 8, 0, 8, 0, 0, 0, 0, 0, 0, 0]); // 8 bytes of the frame
        bytes.extend_from_slice(&[2, 0]);
        bytes.extend_from_slice(&[2, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]); // LOAD
        bytes.extend_from_slice(&[0x19, 8, 1, 0, 1, 0, 0, 0]); // DIVIDE
        bytes.extend_from_slice(&[1, 1, 0, 0, 0, 1, 0]); // a branch
        bytes.extend_from_slice(&[0, 0, 3, 9, 0, 0, 0, 0, 0, 0, 0]); // left
        bytes
    };
    assert!(Slice::read(&good).is_ok());
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize
    };
    let mut taken = 0;
    for _ in 0..fuzzing::inputs(200_000) {
        let mut bytes = good.clone();
        for _ in 0..=next() % 3 {
            let at = next() % bytes.len();
            bytes[at] = next() as u8;
        }
        bytes.truncate(if next() % 8 == 0 { next() % bytes.len() } else { bytes.len() });
        let Ok(slice) = Slice::read(&bytes) else { continue };
        taken += 1;
        let sizes: Vec<usize> = slice
            .inputs
            .iter()
            .map(|input| match input.to {
                Spot::Register { .. } => 8,
                Spot::Memory(place) => place.size.into(),
            })
            .collect();
        let inputs: Vec<Vec<u8>> = sizes.iter().map(|&size| vec![next() as u8; size]).collect();
        let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
        let (mut plain, mut simple) = (begun(slice.clone(), &inputs), begun(slice, &inputs));
        simple.simplify();
        for _ in 0..20 {
            let event = plain.step();
            assert_eq!(simple.step(), event);
            if event.is_err() {
                break;
            }
        }
    }
    assert!(taken > 10_000, "{taken}");
}
