//! The checks of expressions, and the evaluator against a second one.

use super::{Numbers, Random};
use crate::{code, Broken, Machine};

#[test]
fn expressions_are_checked() {
    let constant = [1, 7, 0, 0, 0, 0, 0, 0, 0];
    let push = |count: usize| constant.repeat(count);
    let with = |mut code: Vec<u8>, rest: &[u8]| {
        code.extend(rest);
        code
    };
    let adds = |count: usize| vec![0x10; count];
    for (code, expected) in [
        (with(push(1), &[0]), None),
        (with(with(push(16), &adds(15)), &[0]), None),
        (with(with(push(17), &adds(16)), &[0]), Some("16 operands")),
        (with(push(2), &[0]), Some("one value")),
        (vec![0], Some("one value")),
        (with(push(1), &[0x10, 0]), Some("operands")),
        (vec![0x20, 4, 0], Some("operands")),
        (push(1), Some("END")),
        (vec![1, 0], Some("END")),
        (vec![2, 0, 0], Some("register")),
        (vec![2, 4, 0], None),
        (vec![3, 0xf8, 0xff, 0, 0, 8, 0], None),
        (vec![3, 0xf9, 0xff, 0, 0, 8, 0], Some("65536")),
        (vec![3, 0, 0, 0, 0, 3, 0], Some("size")),
        (vec![0x1B, 0], Some("known")),
        (with(with(push(1), &[0x20, 8].repeat(94)), &[0]), None),
        (with(with(push(1), &[0x20, 8].repeat(95)), &[0]), Some("96 operations")),
    ] {
        let found = code::check(&code, 0).err().map(|Broken { rule, .. }| rule);
        match (found, expected) {
            (None, None) => {}
            (Some(rule), Some(words)) => assert!(rule.contains(words), "{code:x?}: {rule}"),
            _ => panic!("{code:x?}: {found:?} instead of {expected:?}"),
        }
    }
}

/// A random expression as code, and its value by another way: over i128 where it matters.
fn expression(random: &mut Random, depth: usize, code: &mut Vec<u8>) -> Option<u64> {
    if depth == 0 || random.below(4) == 0 {
        let size = [1, 2, 4, 8][random.below(4)];
        return match random.below(4) {
            0 => {
                let value = random.next() >> random.below(64);
                code.push(1);
                code.extend(value.to_le_bytes());
                Some(value)
            }
            1 => {
                let number = [3, 4, 5, 12, 13, 14, 15][random.below(7)];
                code.extend([2, number]);
                Numbers.register(number)
            }
            2 => {
                let offset = random.below(65528) as u32;
                code.push(3);
                code.extend(offset.to_le_bytes());
                code.push(size);
                Numbers.frame(offset, size)
            }
            _ => {
                let address = random.below(3) as u64;
                code.push(4);
                code.extend(address.to_le_bytes());
                code.push(size);
                Numbers.global(address, size)
            }
        };
    }
    let left = expression(random, depth - 1, code);
    if random.below(5) == 0 {
        let (signed, size) = (random.below(2) == 1, [1, 2, 4, 8][random.below(4)]);
        code.extend([0x20 + u8::from(signed), size as u8]);
        let low = left? & if size == 8 { u64::MAX } else { (1 << (8 * size)) - 1 };
        let negative = signed && size < 8 && low >> (8 * size - 1) == 1;
        return Some(if negative { (i128::from(low) - (1_i128 << (8 * size))) as u64 } else { low });
    }
    let right = expression(random, depth - 1, code);
    let operations =
        [0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1A, 0x30, 0x31, 0x32, 0x33, 0x34, 0x35];
    let operation = operations[random.below(operations.len())];
    code.push(operation);
    let (left, right) = (left?, right?);
    let (a, b) = (i128::from(left), i128::from(right));
    let (c, d) = (i128::from(left as i64), i128::from(right as i64));
    let value = match operation {
        0x10 => a + b,
        0x11 => a - b,
        0x12 => return Some(((u128::from(left) * u128::from(right)) & u128::from(u64::MAX)) as u64),
        0x13 => a & b,
        0x14 => a | b,
        0x15 => a ^ b,
        0x16 => a << (right % 64),
        0x17 => a >> (right % 64),
        0x18 => c >> (right % 64),
        0x19 | 0x1A if right == 0 => return None,
        0x19 => a / b,
        0x1A => c / d,
        0x30 => i128::from(a == b),
        0x31 => i128::from(a != b),
        0x32 => i128::from(a < b),
        0x33 => i128::from(a <= b),
        0x34 => i128::from(c < d),
        _ => i128::from(c <= d),
    };
    Some(value as u64)
}

#[test]
fn random_expressions_have_the_values_of_a_second_evaluator() {
    let mut random = Random(1);
    let (mut known, mut unknown) = (0, 0);
    for _ in 0..20_000 {
        let mut code = Vec::new();
        let expected = expression(&mut random, 4, &mut code);
        code.push(0);
        assert_eq!(code::check(&code, 0), Ok(()), "{code:x?}");
        assert_eq!(code::evaluate(&code, 0, &Numbers), expected, "{code:x?}");
        *(if expected.is_some() { &mut known } else { &mut unknown }) += 1;
    }
    assert!(known > 5_000 && unknown > 500, "{known} {unknown}");
}
