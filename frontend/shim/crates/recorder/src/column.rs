//! One hole's values over the iterations of a run, in the shortest form that has fitted so far.
//!
//! A column starts as affine (a constant is a step of 0): its first value is free, its second sets the step. Where a
//! value breaks the pattern early in a run, the column takes another form: another column's values (a handle minted and
//! used), a period (ping-pong pointers, parity), else the values themselves. Every form gives every earlier value
//! exactly, so nothing is lost by changing it.
//!
//! Source: `protos/tape.md`, the table of columns.

use crate::layout::mask;

/// A pattern that breaks later than this closes the run instead: to turn it into values costs as much as the iterations
/// that held it. As many records are a REPEAT's price (`policy`), so loops that are entered again stay what they are.
pub(crate) const REFORM_LIMIT: u64 = 16;
/// Values between two looks at whether a column of values has become something shorter.
const REVIEW: usize = 16;
/// The longest period that is looked for.
const MAX_PERIOD: usize = 256;
/// How many of the last values must be affine for the run to be worth cutting.
const DECIDED: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    Affine,
    Values,
    Periodic,
    /// The values of another column, `lag` iterations before.
    Same {
        other: u32,
        lag: u8,
    },
}

#[derive(Debug, Clone)]
pub(crate) struct Column {
    pub(crate) form: Form,
    pub(crate) width: u8,
    /// Another column follows this one, so it follows none.
    pub(crate) followed: bool,
    pub(crate) start: u64,
    pub(crate) step: u64,
    /// Values: all of them. Periodic: one period. Same: the first `lag`.
    pub(crate) values: Vec<u64>,
}

impl Column {
    pub(crate) fn new(width: u8, step: u64) -> Self {
        Self { form: Form::Affine, width, followed: false, start: 0, step, values: Vec::new() }
    }

    /// A hole found late: it was `value` so far.
    pub(crate) fn constant(width: u8, value: u64) -> Self {
        Self { start: value, ..Self::new(width, 0) }
    }

    #[inline]
    fn affine(&self, k: u64) -> u64 {
        self.start.wrapping_add(self.step.wrapping_mul(k)) & mask(self.width.into())
    }
}

/// The value in an iteration that the column has seen.
pub(crate) fn value(columns: &[Column], index: usize, k: u64) -> u64 {
    let column = &columns[index];
    match column.form {
        Form::Affine => column.affine(k),
        Form::Values => at(&column.values, k),
        Form::Periodic => at(&column.values, k % column.values.len().max(1) as u64),
        Form::Same { lag, .. } if k < u64::from(lag) => at(&column.values, k),
        Form::Same { other, lag } => value(columns, other as usize, k - u64::from(lag)),
    }
}

fn at(values: &[u64], k: u64) -> u64 {
    usize::try_from(k).ok().and_then(|k| values.get(k)).copied().unwrap_or(0)
}

/// Whether iteration k may have this value without a change of form. `fixed`: earlier iterations are sent, and their
/// step with them.
#[inline]
pub(crate) fn agrees(columns: &[Column], index: usize, k: u64, fixed: bool, found: u64) -> bool {
    let column = &columns[index];
    match column.form {
        Form::Affine => k < 2 && !fixed || column.affine(k) == found,
        Form::Values => true,
        Form::Periodic | Form::Same { .. } => value(columns, index, k) == found,
    }
}

/// Takes the value of iteration k; the form changes where it must. True when it changed.
pub(crate) fn take(columns: &mut [Column], index: usize, k: u64, found: u64) -> bool {
    if !agrees(columns, index, k, false, found) {
        reform(columns, index, k, found);
        return true;
    }
    let column = &mut columns[index];
    match column.form {
        Form::Affine if k == 0 => column.start = found,
        Form::Affine if k == 1 => {
            column.step = found.wrapping_sub(column.start) & mask(column.width.into());
        }
        Form::Values => {
            column.values.push(found);
            let seen = column.values.len();
            if is_looked_at(seen) && seen <= 16 * REVIEW {
                return review(columns, index);
            }
        }
        _ => {}
    }
    false
}

/// Whether a column of values is looked at, by `review` or `decided`, when it has so many.
#[inline]
pub(crate) fn is_looked_at(seen: usize) -> bool {
    matches!(seen, 4 | 8) || seen.is_multiple_of(REVIEW)
}

fn reform(columns: &mut [Column], index: usize, k: u64, found: u64) {
    if k == 0 {
        let column = &mut columns[index];
        (column.form, column.start) = (Form::Affine, found);
        column.values.clear();
        return;
    }
    let mut values: Vec<u64> = (0..k).map(|i| value(columns, index, i)).collect();
    values.push(found);
    let column = &mut columns[index];
    column.values = values;
    column.form = Form::Values;
    if k == 1 {
        let step = column.values[1].wrapping_sub(column.values[0]) & mask(column.width.into());
        (column.form, column.start, column.step) = (Form::Affine, column.values[0], step);
        column.values.clear();
        return;
    }
    review(columns, index);
}

/// Looks for a shorter form of a column of values. True when there is one.
fn review(columns: &mut [Column], index: usize) -> bool {
    if let Some(form) = leader(columns, index) {
        let Form::Same { other, lag } = form else { return false };
        columns[other as usize].followed = true;
        let column = &mut columns[index];
        column.form = form;
        column.values.truncate(lag.into());
        return true;
    }
    let column = &mut columns[index];
    let period = period(&column.values);
    if period <= MAX_PERIOD && (2 * period <= column.values.len() || period < 4 && period < column.values.len()) {
        column.form = Form::Periodic;
        column.values.truncate(period);
        return true;
    }
    false
}

/// The smallest period of the values (their number when they do not repeat).
fn period(values: &[u64]) -> usize {
    let mut border = vec![0; values.len()];
    let mut length = 0;
    for index in 1..values.len() {
        while length > 0 && values[index] != values[length] {
            length = border[length - 1];
        }
        length += usize::from(values[index] == values[length]);
        border[index] = length;
    }
    values.len() - border.last().copied().unwrap_or(0)
}

/// Columns looked at in search of one with the same values.
const MOST_LEADERS: usize = 32;

fn leader(columns: &[Column], index: usize) -> Option<Form> {
    let column = &columns[index];
    let seen = column.values.len() as u64;
    if column.followed || seen < 3 {
        return None;
    }
    let candidates = columns.iter().enumerate().filter(|(other, candidate)| {
        *other != index && candidate.width == column.width && matches!(candidate.form, Form::Values | Form::Periodic)
    });
    for (other, _) in candidates.take(MOST_LEADERS) {
        for lag in 0..=2_u8 {
            let lagging = u64::from(lag);
            if (lag == 0 && other >= index) || seen < lagging + 3 {
                continue;
            }
            if (lagging..seen).all(|k| at(&column.values, k) == value(columns, other, k - lagging)) {
                return Some(Form::Same { other: u32::try_from(other).ok()?, lag });
            }
        }
    }
    None
}

/// Whether a column of values has become affine, so that a new run would be shorter.
pub(crate) fn decided(column: &Column) -> bool {
    let values = &column.values;
    if column.form != Form::Values || values.len() < 2 * REVIEW || !values.len().is_multiple_of(REVIEW) {
        return false;
    }
    let last = &values[values.len() - DECIDED..];
    let step = last[1].wrapping_sub(last[0]) & mask(column.width.into());
    last.windows(2).all(|pair| pair[1].wrapping_sub(pair[0]) & mask(column.width.into()) == step)
}

/// Bytes of the column in a REPEAT of `count` iterations.
pub(crate) fn encoded_bytes(column: &Column, count: u64) -> usize {
    let width = usize::from(column.width);
    8 + match column.form {
        Form::Affine => 16,
        Form::Values => usize::try_from(count).unwrap_or(usize::MAX / 16) * width,
        Form::Periodic => column.values.len() * width,
        Form::Same { lag, .. } => usize::from(lag) * width,
    }
    .next_multiple_of(8)
}

/// Writes the column for iterations `[from, to)`, which become `[0, to - from)`.
pub(crate) fn encode(columns: &[Column], index: usize, from: u64, to: u64, out: &mut Vec<u8>) {
    let column = &columns[index];
    let (kind, lag, count): (u8, u8, u64) = match column.form {
        Form::Affine => (0, 0, 0),
        Form::Values => (1, 0, to - from),
        Form::Periodic => (2, 0, column.values.len() as u64),
        Form::Same { lag, .. } => (3, lag, lag.into()),
    };
    let number = match column.form {
        Form::Same { other, .. } => other,
        _ => u32::try_from(count).unwrap_or(u32::MAX),
    };
    out.extend_from_slice(&[kind, lag, 0, 0]);
    out.extend_from_slice(&number.to_le_bytes());
    if column.form == Form::Affine {
        out.extend_from_slice(&column.affine(from).to_le_bytes());
        out.extend_from_slice(&column.step.to_le_bytes());
        return;
    }
    for k in from..from + count {
        out.extend_from_slice(&value(columns, index, k).to_le_bytes()[..usize::from(column.width)]);
    }
    out.resize(out.len().next_multiple_of(8), 0);
}

/// Iterations `[0, k)` are sent: k becomes 0. `seen` says of a column whether iteration k's value is known already. All
/// but periods begin anew, so that a column that has become regular is sent as such.
pub(crate) fn rebase(columns: &mut [Column], k: u64, seen: impl Fn(usize) -> bool) {
    // Before any column changes: those that follow others need their values.
    let first = |index: usize| if seen(index) { value(columns, index, k) } else { columns[index].affine(k) };
    let starts: Vec<u64> = (0..columns.len()).map(first).collect();
    for (column, start) in columns.iter_mut().zip(starts) {
        column.followed = false;
        if column.form == Form::Periodic {
            let period = column.values.len().max(1);
            column.values.rotate_left((k % period as u64) as usize);
        } else {
            (column.form, column.start) = (Form::Affine, start);
            column.values.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(columns: &mut [Column], rows: &[&[u64]]) {
        for (k, row) in rows.iter().enumerate() {
            for (index, found) in row.iter().enumerate() {
                take(columns, index, k as u64, *found);
            }
        }
        for (k, row) in rows.iter().enumerate() {
            for (index, expected) in row.iter().enumerate() {
                assert_eq!(value(columns, index, k as u64), *expected, "column {index}, iteration {k}");
            }
        }
    }

    #[test]
    fn forms_are_found() {
        let mut columns = vec![Column::new(4, 0), Column::new(8, 0), Column::new(4, 0), Column::new(8, 0)];
        let rows: Vec<Vec<u64>> =
            (0..40_u64).map(|k| vec![k * 3, [70, 90][k as usize % 2], 5, k * k * 7919 % 257]).collect();
        fill(&mut columns, &rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let forms: Vec<Form> = columns.iter().map(|column| column.form).collect();
        assert_eq!(forms, [Form::Affine, Form::Periodic, Form::Affine, Form::Values]);
    }

    #[test]
    fn a_column_follows_another_with_and_without_lag() {
        let mut columns = vec![Column::new(8, 0), Column::new(8, 0), Column::new(8, 0)];
        let minted = [900, 17, 40, 3, 88, 61, 5];
        let rows: Vec<[u64; 3]> =
            (0..7).map(|k| [minted[k], minted[k], if k == 0 { 1 } else { minted[k - 1] }]).collect();
        fill(&mut columns, &rows.iter().map(|row| &row[..]).collect::<Vec<_>>());
        assert_eq!(columns[1].form, Form::Same { other: 0, lag: 0 });
    }

    #[test]
    fn rebasing_keeps_what_comes() {
        let mut columns = vec![Column::new(8, 0), Column::new(8, 0), Column::new(8, 0)];
        let rows: Vec<[u64; 3]> = (0..9).map(|k| [k * 5, [1, 2, 9][k as usize % 3], k * k]).collect();
        fill(&mut columns, &rows.iter().map(|row| &row[..]).collect::<Vec<_>>());
        rebase(&mut columns, 7, |_| true);
        assert_eq!(value(&columns, 0, 1), 40);
        assert_eq!((value(&columns, 1, 0), value(&columns, 1, 1)), (2, 9));
        assert_eq!(value(&columns, 2, 0), 49);
    }
}
