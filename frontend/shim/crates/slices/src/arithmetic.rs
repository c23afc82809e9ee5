//! Exact results of x86-64's operations, on bits.
//!
//! Rust rounds as SSE does, but promises nothing about the bits of a NaN: an operation with one passes the first on, made quiet; one that has no
//! result gives the NaN with a sign. Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, 4.8.3.5; volume 2 (MINSD, MAXSD,
//! CVTTSD2SI).

use crate::form::Code;

/// The low bytes of a value.
pub(crate) const fn low(value: u64, width: u8) -> u64 {
    value & (u64::MAX >> (64 - 8 * width as u32))
}

/// They as a signed number.
const fn signed(value: u64, width: u8) -> i64 {
    let unused = 64 - 8 * width as u32;
    (value << unused).cast_signed() >> unused
}

/// A floating-point number of 4 or 8 bytes.
trait Float: Copy + PartialOrd {
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn is_nan(self) -> bool;
    /// The bits of the NaN that an operation without a result gives.
    const UNDEFINED: u64;
    /// What makes a NaN quiet.
    const QUIET: u64;
    fn add(self, other: Self) -> Self;
    fn subtract(self, other: Self) -> Self;
    fn multiply(self, other: Self) -> Self;
    fn divide(self, other: Self) -> Self;
    fn root(self) -> Self;
    fn from_integer(value: i64) -> Self;
    /// Rounded to a whole number, of the same sign where that is 0.
    fn whole(self, round: fn(f64) -> f64) -> u64;
    /// As 8 bytes hold every number of 4.
    fn wide(self) -> f64;
}

macro_rules! float {
    ($name:ident, $bits:ident, $undefined:literal, $quiet:literal) => {
        impl Float for $name {
            fn of(bits: u64) -> Self {
                Self::from_bits(bits as $bits)
            }

            fn bits(self) -> u64 {
                self.to_bits().into()
            }

            fn is_nan(self) -> bool {
                self.is_nan()
            }

            const UNDEFINED: u64 = $undefined;
            const QUIET: u64 = $quiet;

            fn add(self, other: Self) -> Self {
                self + other
            }

            fn subtract(self, other: Self) -> Self {
                self - other
            }

            fn multiply(self, other: Self) -> Self {
                self * other
            }

            fn divide(self, other: Self) -> Self {
                self / other
            }

            fn root(self) -> Self {
                self.sqrt()
            }

            fn from_integer(value: i64) -> Self {
                value as Self
            }

            fn whole(self, round: fn(f64) -> f64) -> u64 {
                (round(self.into()) as Self).to_bits().into()
            }

            fn wide(self) -> f64 {
                self.into()
            }
        }
    };
}

float!(f32, u32, 0xFFC0_0000, 0x0040_0000);
float!(f64, u64, 0xFFF8_0000_0000_0000, 0x0008_0000_0000_0000);

fn quiet<F: Float>(value: F) -> u64 {
    value.bits() | F::QUIET
}

/// The result, or the NaN that takes its place.
fn settled<F: Float>(operands: &[F], result: impl FnOnce() -> F) -> u64 {
    if let Some(&nan) = operands.iter().find(|operand| operand.is_nan()) {
        return quiet(nan);
    }
    let result = result();
    if result.is_nan() {
        F::UNDEFINED
    } else {
        result.bits()
    }
}

fn floating<F: Float>(code: Code, a: u64, b: u64) -> u64 {
    let (first, second) = (F::of(a), F::of(b));
    let both = [first, second];
    match code {
        Code::FAdd => settled(&both, || first.add(second)),
        Code::FSubtract => settled(&both, || first.subtract(second)),
        Code::FMultiply => settled(&both, || first.multiply(second)),
        Code::FDivide => settled(&both, || first.divide(second)),
        Code::FSquareRoot => settled(&both[..1], || first.root()),
        Code::FMinimum => (if first < second { first } else { second }).bits(),
        Code::FMaximum => (if first > second { first } else { second }).bits(),
        Code::FEqual => u64::from(first == second),
        Code::FLess => u64::from(first < second),
        Code::FLessEqual => u64::from(first <= second),
        Code::FUnordered => u64::from(first.is_nan() || second.is_nan()),
        Code::From4 => F::from_integer(signed(a, 4)).bits(),
        Code::From8 => F::from_integer(signed(a, 8)).bits(),
        Code::To4 => integer_of(first.wide().trunc(), 4),
        Code::To8 => integer_of(first.wide().trunc(), 8),
        Code::Nearest4 => integer_of(first.wide().round_ties_even(), 4),
        Code::Nearest8 => integer_of(first.wide().round_ties_even(), 8),
        _ if first.is_nan() => quiet(first),
        Code::RoundEven => first.whole(f64::round_ties_even),
        Code::RoundDown => first.whole(f64::floor),
        Code::RoundUp => first.whole(f64::ceil),
        _ => first.whole(f64::trunc), // RoundCut
    }
}

/// A whole number as a signed integer; what is none, or does not fit, is the lowest one.
fn integer_of(whole: f64, size: u8) -> u64 {
    let lowest = 1_u64 << (8 * u32::from(size) - 1);
    let limit = lowest as f64; // a power of two
    if (-limit..limit).contains(&whole) {
        low((whole as i64).cast_unsigned(), size)
    } else {
        lowest
    }
}

fn widened(bits: u64) -> u64 {
    let value = f32::of(bits);
    if value.is_nan() {
        let quiet = quiet(value);
        return quiet >> 31 << 63 | 0x7FF << 52 | (quiet & 0x7F_FFFF) << 29;
    }
    value.wide().bits()
}

fn narrowed(bits: u64) -> u64 {
    let value = f64::of(bits);
    if value.is_nan() {
        let quiet = quiet(value);
        return quiet >> 63 << 31 | 0xFF << 23 | quiet >> 29 & 0x7F_FFFF;
    }
    (value as f32).bits()
}

/// A quotient or remainder; `None`: a fault.
fn divided(code: Code, a: u64, b: u64, width: u8) -> Option<u64> {
    let result = match code {
        Code::Divide => low(a, width).checked_div(low(b, width))?,
        Code::Remainder => low(a, width).checked_rem(low(b, width))?,
        _ => {
            let (first, second) = (signed(a, width), signed(b, width));
            let quotient = first.checked_div(second)?;
            if signed(quotient.cast_unsigned(), width) != quotient {
                return None; // it does not fit
            }
            let wanted = if code == Code::DivideSigned { quotient } else { first % second };
            wanted.cast_unsigned()
        }
    };
    Some(low(result, width))
}

/// An operation without memory and without an immediate, of the operands a, b and c. `None`: the program would be ended by a fault.
#[inline(always)]
pub(crate) fn compute(code: Code, [a, b, c]: [u64; 3], width: u8) -> Option<u64> {
    if code.is_floating() {
        return Some(match code {
            Code::Widen => widened(a),
            Code::Narrow => narrowed(a),
            _ if width == 4 => floating::<f32>(code, a, b),
            _ => floating::<f64>(code, a, b),
        });
    }
    let count = b as u32 & if width == 8 { 63 } else { 31 };
    let result = match code {
        Code::Copy => a,
        Code::Select => {
            if c == 0 {
                b
            } else {
                a
            }
        }
        Code::Insert => return Some(a & !low(u64::MAX, width) | low(b, width)),
        Code::Sign => return Some(signed(a, width).cast_unsigned()),
        Code::Negate => a.wrapping_neg(),
        Code::Not => !a,
        Code::Add => a.wrapping_add(b),
        Code::Subtract => a.wrapping_sub(b),
        Code::Multiply => a.wrapping_mul(b),
        Code::And => a & b,
        Code::Or => a | b,
        Code::Xor => a ^ b,
        Code::ShiftLeft => low(a, width) << count,
        Code::ShiftRight => low(a, width) >> count,
        Code::ShiftArithmetic => (signed(a, width) >> count).cast_unsigned(),
        Code::High => ((u128::from(low(a, width)) * u128::from(low(b, width))) >> (8 * u32::from(width))) as u64,
        Code::HighSigned => {
            ((i128::from(signed(a, width)) * i128::from(signed(b, width))) >> (8 * u32::from(width))) as u64
        }
        Code::Equal => u64::from(low(a, width) == low(b, width)),
        Code::Below => u64::from(low(a, width) < low(b, width)),
        Code::BelowEqual => u64::from(low(a, width) <= low(b, width)),
        Code::Less => u64::from(signed(a, width) < signed(b, width)),
        Code::LessEqual => u64::from(signed(a, width) <= signed(b, width)),
        _ => return divided(code, a, b, width),
    };
    Some(low(result, width))
}
