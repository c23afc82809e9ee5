//! What a hole will hold in the iterations to come, told from those that were.
//!
//! Beside counters and rotations, programs compute arguments from what they have just read: a quotient of two dot products, its negative.
//! Such a hole is *computed*: one operation on the values of the last reads. That it gave every earlier value, bit for bit, is all that is
//! asked: the host computes it anew, and what it used is compared with what the program passes.
//!
//! Source: `protos/tape.md`, "Running ahead".

use crate::layout::mask;

/// How far back a computed hole looks: the values of this many reads.
pub(crate) const MOST_BACK: usize = 8;
/// Values that a computed hole must have given before it is believed; of those that nothing gives by chance.
const LEAST_GIVEN: usize = 3;
const LEAST_RICH: usize = 2;
/// Values that make a counter.
const LEAST_COUNTED: usize = 3;
/// One operand; two.
const UNARY: [u8; 2] = [0, 1];
const BINARY: [u8; 5] = [2, 3, 4, 5, 6];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fit {
    Affine {
        start: u64,
        step: u64,
    },
    Periodic(Vec<u64>),
    /// An operation on the values of the `a`th last read and the `b`th last.
    Computed {
        code: u8,
        a: u8,
        b: u8,
    },
}

impl Fit {
    /// From the values so far; the next is number 0. `read` gives what the nth last read before the hole returned in an iteration.
    pub(crate) fn of(values: &[u64], width: usize, read: impl Fn(usize, usize) -> Option<u64>) -> Option<Self> {
        let step = values.get(1)?.wrapping_sub(values[0]) & mask(width);
        let counted = values.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) & mask(width) == step);
        if counted && (step == 0 || values.len() >= LEAST_COUNTED) {
            let start = values[values.len() - 1].wrapping_add(step) & mask(width);
            return Some(Self::Affine { start, step });
        }
        for period in 2..=values.len() / 2 {
            if values.iter().zip(&values[period..]).all(|(left, right)| left == right) {
                return Some(Self::Periodic(values[values.len() - period..].to_vec()));
            }
        }
        if !matches!(width, 4 | 8) {
            return None;
        }
        let least = if values.iter().all(|value| is_rich(*value, width)) { LEAST_RICH } else { LEAST_GIVEN };
        let gives = |code: u8, a: usize, b: usize| {
            let mut given = 0;
            for (iteration, wanted) in values.iter().enumerate() {
                let (Some(left), Some(right)) = (read(iteration, a), read(iteration, b)) else { continue };
                if compute(code, width, left, right) != Some(*wanted) {
                    return false;
                }
                given += 1;
            }
            given >= least
        };
        for a in 1..=MOST_BACK {
            for code in UNARY {
                if gives(code, a, a) {
                    return Some(Self::Computed { code, a: a as u8, b: a as u8 });
                }
            }
            for b in (1..=MOST_BACK).filter(|b| *b != a) {
                for code in BINARY {
                    if gives(code, a, b) {
                        return Some(Self::Computed { code, a: a as u8, b: b as u8 });
                    }
                }
            }
        }
        None
    }

    /// The same in another run of the loop, whose first iteration had this value. `read` as for `of`.
    pub(crate) fn again(&self, value: u64, width: usize, read: impl Fn(usize, usize) -> Option<u64>) -> Option<Self> {
        match self {
            Self::Affine { step, .. } => {
                Some(Self::Affine { start: value.wrapping_add(*step) & mask(width), step: *step })
            }
            Self::Periodic(values) => {
                let place = values.iter().position(|known| *known == value)?;
                let mut next = values.clone();
                next.rotate_left(place + 1);
                Some(Self::Periodic(next))
            }
            Self::Computed { code, a, b } => {
                let (left, right) = (read(0, (*a).into())?, read(0, (*b).into())?);
                (compute(*code, width, left, right) == Some(value)).then(|| self.clone())
            }
        }
    }

    /// The value in an iteration; `None` where only the host knows it.
    pub(crate) fn value(&self, iteration: u64, width: usize) -> Option<u64> {
        match self {
            Self::Affine { start, step } => Some(start.wrapping_add(step.wrapping_mul(iteration)) & mask(width)),
            Self::Periodic(values) => values.get((iteration % values.len().max(1) as u64) as usize).copied(),
            Self::Computed { .. } => None,
        }
    }

    pub(crate) fn is_computed(&self) -> bool {
        matches!(self, Self::Computed { .. })
    }

    /// The column, as it stands on the tape.
    pub(crate) fn encode(&self, width: usize, out: &mut Vec<u8>) {
        let mut header = |kind: u8, number: u32| {
            out.extend_from_slice(&[kind, 0, 0, 0]);
            out.extend_from_slice(&number.to_le_bytes());
        };
        match self {
            Self::Affine { start, step } => {
                header(0, 0);
                out.extend_from_slice(&start.to_le_bytes());
                out.extend_from_slice(&step.to_le_bytes());
            }
            Self::Periodic(values) => {
                header(2, values.len() as u32);
                for value in values {
                    out.extend_from_slice(&value.to_le_bytes()[..width]);
                }
                out.resize(out.len().next_multiple_of(8), 0);
            }
            Self::Computed { code, a, b } => {
                header(4, (*code).into());
                out.extend_from_slice(&[*a, *b, 0, 0, 0, 0, 0, 0]);
            }
        }
    }
}

/// Whether a value looks like a number that was computed: no integer, no address, no round number.
fn is_rich(value: u64, width: usize) -> bool {
    match width {
        4 => value >> 23 & 0xff != 0 && value & 0xff != 0,
        _ => value >> 52 & 0x7ff != 0 && value & 0xf_ffff != 0,
    }
}

/// `None` where the result is no finite number: the host does not go there.
fn compute(code: u8, width: usize, left: u64, right: u64) -> Option<u64> {
    if code == 0 {
        return Some(left);
    }
    if width == 8 {
        let (a, b) = (f64::from_bits(left), f64::from_bits(right));
        let value = match code {
            1 => -a,
            2 => a + b,
            3 => a - b,
            4 => a * b,
            5 => a / b,
            _ => -(a / b),
        };
        return value.is_finite().then_some(value.to_bits());
    }
    let narrow = |bits: u64| u32::try_from(bits).ok().map(f32::from_bits);
    let (a, b) = (narrow(left)?, narrow(right)?);
    let value = match code {
        1 => -a,
        2 => a + b,
        3 => a - b,
        4 => a * b,
        5 => a / b,
        _ => -(a / b),
    };
    value.is_finite().then_some(value.to_bits().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_and_rotations_go_on() {
        let nothing = |_, _| None;
        let fit = |values: &[u64], width| Fit::of(values, width, nothing);
        let next = |fit: Option<Fit>, width| fit.map(|fit| [0, 1, 2].map(|k| fit.value(k, width).expect("known")));
        assert_eq!(next(fit(&[3, 5, 7, 9], 8), 8), Some([11, 13, 15]));
        assert_eq!(next(fit(&[7, 7, 7, 7], 4), 4), Some([7, 7, 7]));
        assert_eq!(next(fit(&[250, 252, 254, 0], 1), 1), Some([2, 4, 6]));
        assert_eq!(next(fit(&[10, 90, 10, 90], 8), 8), Some([10, 90, 10]));
        assert_eq!(next(fit(&[1, 2, 9, 1, 2, 9], 8), 8), Some([1, 2, 9]));
        assert_eq!(fit(&[1, 2, 9, 4], 8), None);
    }

    #[test]
    fn few_iterations_tell_only_what_is_plain() {
        let reads = [1.1_f64, 1.3, 1.7, 1.9];
        let read = |iteration: usize, back: usize| reads.get((iteration + 2).checked_sub(back)?).map(|v| v.to_bits());
        let two = |first: f64, second: f64| Fit::of(&[first.to_bits(), second.to_bits()], 8, read);
        assert_eq!(two(reads[1] / reads[0], reads[2] / reads[1]), Some(Fit::Computed { code: 5, a: 1, b: 2 }));
        assert_eq!(two(5.0, 5.0), Some(Fit::Affine { start: 5.0_f64.to_bits(), step: 0 }));
        assert_eq!(two(reads[1] / reads[0], reads[2] * reads[1]), None);
        let integers = |iteration: usize, back: usize| (iteration + 2).checked_sub(back).map(|value| value as u64);
        assert_eq!(Fit::of(&[1, 2], 8, integers), None, "a counter, or what was read");
        assert_eq!(Fit::of(&[1, 2, 3], 8, integers), Some(Fit::Affine { start: 4, step: 1 }));
        assert_eq!(Fit::of(&[4096, 8192], 8, integers), None, "two buffers in turn, or the next one");
    }

    #[test]
    fn a_loop_that_comes_again_goes_on_from_its_first_iteration() {
        let read = |_, back: usize| [3.5_f64, 1.25].get(back.checked_sub(1)?).map(|value| value.to_bits());
        let again = |fit: Fit, value: u64| fit.again(value, 8, read);
        assert_eq!(again(Fit::Affine { start: 90, step: 2 }, 7), Some(Fit::Affine { start: 9, step: 2 }));
        assert_eq!(again(Fit::Periodic(vec![5, 6, 7]), 6), Some(Fit::Periodic(vec![7, 5, 6])));
        assert_eq!(again(Fit::Periodic(vec![5, 6, 7]), 8), None);
        let quotient = Fit::Computed { code: 5, a: 1, b: 2 };
        assert_eq!(again(quotient.clone(), (3.5_f64 / 1.25).to_bits()), Some(quotient.clone()));
        assert_eq!(again(quotient, 2.5_f64.to_bits()), None);
    }

    #[test]
    fn quotients_of_what_was_read_are_found() {
        let reads: Vec<f64> = (0..20).map(|k| 1.0 + 1.0 / f64::from(3 * k + 1)).collect();
        // The hole of iteration i comes behind read 2 i + 4.
        let read =
            |iteration: usize, back: usize| reads.get((2 * iteration + 5).checked_sub(back)?).map(|v| v.to_bits());
        let values = |of: fn(f64, f64) -> f64| -> Vec<u64> {
            (0..4).map(|i| of(reads[2 * i + 4], reads[2 * i + 2]).to_bits()).collect()
        };
        let find = |of: fn(f64, f64) -> f64| Fit::of(&values(of), 8, read);
        assert_eq!(find(|a, b| a / b), Some(Fit::Computed { code: 5, a: 1, b: 3 }));
        assert_eq!(find(|a, b| -(b / a)), Some(Fit::Computed { code: 6, a: 3, b: 1 }));
        assert_eq!(find(|a, _| a), Some(Fit::Computed { code: 0, a: 1, b: 1 }));
        assert_eq!(find(|a, b| a.sin() * b), None);
        assert_eq!(find(|a, _| a / 0.0), Fit::of(&[f64::INFINITY.to_bits(); 4], 8, read));
    }

    #[test]
    fn narrow_numbers_are_computed_narrowly() {
        let reads: Vec<f32> = (0..9).map(|k| 1.0 / (k as f32 + 3.0)).collect();
        let read = |iteration: usize, back: usize| {
            reads.get((iteration + 2).checked_sub(back)?).map(|v| u64::from(v.to_bits()))
        };
        let values: Vec<u64> = (0..5).map(|i| u64::from((reads[i + 1] - reads[i]).to_bits())).collect();
        assert_eq!(Fit::of(&values, 4, read), Some(Fit::Computed { code: 3, a: 1, b: 2 }));
    }
}
