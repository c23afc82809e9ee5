//! The expressions: checked once, when the manifest is read, then evaluated without any further check of their form,
//! decoded (`Expression`) where that happens often.
//!
//! Postfix code over 64-bit operands that wrap. What cannot be evaluated (memory that is not there, a division by 0) is
//! not known.

use crate::bytes::{array, u32_at, u64_at};
use crate::Broken;

/// Operands on the stack.
pub use limits::CODE_DEPTH as MAX_DEPTH;
/// Operations of one expression, END included.
pub use limits::CODE_OPERATIONS as MAX_OPERATIONS;
/// FRAME reads no further than this from rsp.
pub const MAX_FRAME: u64 = limits::CODE_FRAME_BYTES as u64;

/// What an expression can ask about the program at its call instruction.
pub trait Machine {
    /// A register by its number: 3 rbx, 4 rsp, 5 rbp, 12 to 15.
    fn register(&self, number: u8) -> Option<u64>;
    /// `size` (1, 2, 4 or 8) bytes at rsp + `offset`, zero-extended.
    fn frame(&self, offset: u32, size: u8) -> Option<u64>;
    /// `size` bytes of the object's memory at a link-time address, zero-extended.
    fn global(&self, address: u64, size: u8) -> Option<u64>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operation {
    End,
    Constant(u64),
    Register(u8),
    Frame(u32, u8),
    Global(u64, u8),
    Binary(u8),
    Extend { signed: bool, size: u8 },
}

/// The operation at `at` and where the next one is.
fn decode(code: &[u8], at: usize) -> Result<(Operation, usize), Broken> {
    let cut = || Broken::at("an expression ends with END", at);
    let byte = |at: usize| code.get(at).copied().ok_or_else(cut);
    let size = |at: usize| match byte(at)? {
        size @ (1 | 2 | 4 | 8) => Ok(size),
        _ => Err(Broken::at("a size is 1, 2, 4 or 8", at)),
    };
    Ok(match byte(at)? {
        0x00 => (Operation::End, at + 1),
        0x01 => (Operation::Constant(u64::from_le_bytes(array(code, at + 1).ok_or_else(cut)?)), at + 9),
        0x02 => match byte(at + 1)? {
            number @ (3..=5 | 12..=15) => (Operation::Register(number), at + 2),
            _ => return Err(Broken::at("a register is one that calls preserve", at)),
        },
        0x03 => {
            let (offset, size) = (u32_at(code, at + 1).ok_or_else(cut)?, size(at + 5)?);
            if u64::from(offset) + u64::from(size) > MAX_FRAME {
                return Err(Broken::at("FRAME reads at most 65536 bytes from rsp", at));
            }
            (Operation::Frame(offset, size), at + 6)
        }
        0x04 => (Operation::Global(u64_at(code, at + 1).ok_or_else(cut)?, size(at + 9)?), at + 10),
        binary @ (0x10..=0x1A | 0x30..=0x35) => (Operation::Binary(binary), at + 1),
        extend @ (0x20 | 0x21) => (Operation::Extend { signed: extend == 0x21, size: size(at + 1)? }, at + 2),
        _ => return Err(Broken::at("an operation's code is known", at)),
    })
}

/// Checks the expression that starts at `start`.
pub(crate) fn check(code: &[u8], start: usize) -> Result<(), Broken> {
    let (mut at, mut depth) = (start, 0_usize);
    for _ in 0..MAX_OPERATIONS {
        let (operation, next) = decode(code, at)?;
        match operation {
            Operation::End if depth == 1 => return Ok(()),
            Operation::End => return Err(Broken::at("an expression leaves one value", at)),
            Operation::Binary(_) if depth < 2 => return Err(Broken::at("an operation has its operands", at)),
            Operation::Binary(_) => depth -= 1,
            Operation::Extend { .. } if depth < 1 => return Err(Broken::at("an operation has its operands", at)),
            Operation::Extend { .. } => {}
            _ if depth == MAX_DEPTH => return Err(Broken::at("an expression is at most 16 operands deep", at)),
            _ => depth += 1,
        }
        at = next;
    }
    Err(Broken::at("an expression has at most 96 operations", start))
}

/// An expression that was checked, decoded: for one that is evaluated at every call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expression(Box<[Operation]>);

impl Expression {
    /// Decodes the expression that starts at `start`; `None` when it breaks a rule.
    #[must_use]
    pub fn decode(code: &[u8], start: usize) -> Option<Self> {
        check(code, start).ok()?;
        let (mut at, mut operations) = (start, Vec::new());
        loop {
            let (operation, next) = decode(code, at).ok()?;
            if operation == Operation::End {
                return Some(Self(operations.into()));
            }
            operations.push(operation);
            at = next;
        }
    }

    /// The value; `None` when it cannot be evaluated.
    #[inline]
    #[must_use]
    pub fn evaluate(&self, machine: &impl Machine) -> Option<u64> {
        let mut stack = [0_u64; MAX_DEPTH];
        let mut depth = 0_usize;
        for operation in &self.0 {
            let value = match *operation {
                Operation::End => break,
                Operation::Constant(value) => value,
                Operation::Register(number) => machine.register(number)?,
                Operation::Frame(offset, size) => machine.frame(offset, size)?,
                Operation::Global(address, size) => machine.global(address, size)?,
                Operation::Extend { signed, size } => {
                    depth = depth.checked_sub(1)?;
                    extend(*stack.get(depth)?, signed, size)
                }
                Operation::Binary(code) => {
                    depth = depth.checked_sub(2)?;
                    binary(code, *stack.get(depth)?, *stack.get(depth + 1)?)?
                }
            };
            *stack.get_mut(depth)? = value;
            depth += 1;
        }
        stack.get(depth.checked_sub(1)?).copied()
    }
}

/// The value of the expression that starts at `start`; `None` when it cannot be evaluated.
#[must_use]
pub fn evaluate(code: &[u8], start: usize, machine: &impl Machine) -> Option<u64> {
    Expression::decode(code, start)?.evaluate(machine)
}

/// The low `size` bytes, extended.
fn extend(value: u64, signed: bool, size: u8) -> u64 {
    let shift = 64 - 8 * u32::from(size.clamp(1, 8));
    let shifted = value << shift;
    if signed {
        (shifted.cast_signed() >> shift).cast_unsigned()
    } else {
        shifted >> shift
    }
}

fn binary(code: u8, left: u64, right: u64) -> Option<u64> {
    #[allow(clippy::cast_possible_truncation)] // shifts are modulo 64 anyway
    let shift = right as u32;
    let (signed_left, signed_right) = (left.cast_signed(), right.cast_signed());
    Some(match code {
        0x10 => left.wrapping_add(right),
        0x11 => left.wrapping_sub(right),
        0x12 => left.wrapping_mul(right),
        0x13 => left & right,
        0x14 => left | right,
        0x15 => left ^ right,
        0x16 => left.wrapping_shl(shift),
        0x17 => left.wrapping_shr(shift),
        0x18 => signed_left.wrapping_shr(shift).cast_unsigned(),
        0x19 => left.checked_div(right)?,
        0x1A if right == 0 => return None,
        0x1A => signed_left.wrapping_div(signed_right).cast_unsigned(),
        0x30 => u64::from(left == right),
        0x31 => u64::from(left != right),
        0x32 => u64::from(left < right),
        0x33 => u64::from(left <= right),
        0x34 => u64::from(signed_left < signed_right),
        0x35 => u64::from(signed_left <= signed_right),
        _ => return None,
    })
}
