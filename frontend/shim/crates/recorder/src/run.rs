//! A run: iterations of one body, as they come.
//!
//! The next iteration is predicted (`expected`); a record that equals its prediction costs one comparison and the steps
//! of its moving holes. Where a hole may hold any value, the record's own is the prediction. Everything else (first
//! iterations, columns that follow others or are to be looked at, deviations) takes the slower way through the columns.
//!
//! k counts iterations since the columns began; those below `base` are sent, and a further REPEAT continues them.

use crate::body::{Body, Hole};
use crate::column::{self, Column, Form, REFORM_LIMIT};
use crate::layout::{self, mask};
use std::sync::Arc;
use tape::operations::code;
use tape::MAX_CONTINUED_BYTES;

/// Explicit values of one run, in bytes: more, and it is sent so far.
const MAX_VALUES: usize = 64 << 10;

#[derive(Debug, Clone, Copy)]
struct Step {
    start: u32,
    end: u32,
    moves: (u32, u32),
    /// Each record goes through the columns.
    lazy: bool,
    /// Some of the moves are values.
    values: bool,
}

/// A hole whose value changes from one iteration to the next.
#[derive(Debug)]
enum Move {
    /// By a constant, in an aligned word of the body: the value's bits, and the step where they are.
    Word { at: u32, bits: u64, step: u64 },
    /// By a constant, elsewhere.
    Bytes { at: u32, width: u8, step: u64 },
    /// Its values are those of a column with a period.
    Periodic { at: u32, width: u8, column: u32 },
    /// To any value, which a column keeps.
    Value { at: u32, width: u8, column: u32 },
}

impl Move {
    fn by(at: u32, width: u8, step: u64) -> Self {
        let (word, shift) = (at / 8 * 8, at % 8 * 8);
        if shift + u32::from(width) * 8 > 64 {
            return Self::Bytes { at, width, step };
        }
        Self::Word { at: word, bits: mask(width.into()) << shift, step: step << shift }
    }
}

#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) birth: u64,
    pub(crate) place: u32,
    pub(crate) body: Arc<Body>,
    /// The host knows the template: its holes are fixed.
    pub(crate) sealed: bool,
    pub(crate) k: u64,
    pub(crate) base: u64,
    pub(crate) pos: usize,
    /// It was worth a REPEAT.
    pub(crate) repeated: bool,
    /// Records of the iterations that it does not hold any more, sent or given back.
    pub(crate) done: u64,
    columns: Vec<Column>,
    expected: Vec<u8>,
    plan: Vec<Step>,
    moves: Vec<Move>,
    /// The plan holds.
    warm: bool,
    value_bytes: usize,
    /// A column of values has become regular: to begin anew is shorter.
    decided: bool,
}

/// What a record is to a run.
#[derive(Debug)]
pub(crate) enum Verdict {
    Taken,
    /// It is, once what was taken so far is sent; in a wider body, perhaps.
    Restart(Option<Arc<Body>>),
    Other,
}

impl Run {
    pub(crate) fn new(birth: u64, place: u32, body: Arc<Body>, sealed: bool, steps: &[u64]) -> Self {
        let column = |(index, hole): (usize, &Hole)| Column::new(hole.width, steps.get(index).copied().unwrap_or(0));
        Self {
            birth,
            place,
            sealed,
            k: 0,
            base: 0,
            pos: 0,
            repeated: false,
            done: 0,
            columns: body.holes.iter().enumerate().map(column).collect(),
            expected: body.bytes.clone(),
            plan: Vec::new(),
            moves: Vec::new(),
            warm: false,
            value_bytes: 0,
            decided: false,
            body,
        }
    }

    /// Takes a record that is exactly what was predicted.
    #[inline(always)]
    pub(crate) fn take_predicted(&mut self, record: &[u8]) -> bool {
        if !self.warm {
            return false;
        }
        let Some(&step) = self.plan.get(self.pos) else { return false };
        if step.lazy || step.values && !self.expect_values(step, record) {
            return false;
        }
        let start = step.start as usize;
        if self.expected.get(start..step.end as usize) != Some(record) {
            return false;
        }
        for hole in &self.moves[step.moves.0 as usize..step.moves.1 as usize] {
            match *hole {
                Move::Word { at, bits, step } => {
                    let Some(bytes) = self.expected.get_mut(at as usize..).and_then(<[u8]>::first_chunk_mut) else {
                        continue; // bodies are whole words
                    };
                    let word = u64::from_le_bytes(*bytes);
                    *bytes = (word & !bits | (word & bits).wrapping_add(step) & bits).to_le_bytes();
                }
                Move::Bytes { at, width, step } => {
                    let (at, width) = (at as usize, usize::from(width));
                    let next = layout::read(&self.expected, at, width).wrapping_add(step);
                    layout::write(&mut self.expected, at, width, next);
                }
                Move::Periodic { at, width, column } => {
                    let values = &self.columns[column as usize].values;
                    let next = values[((self.k + 1) % values.len() as u64) as usize];
                    layout::write(&mut self.expected, at as usize, width.into(), next);
                }
                Move::Value { at, width, column } => {
                    self.columns[column as usize].values.push(layout::read(record, at as usize - start, width.into()));
                    self.value_bytes += usize::from(width);
                }
            }
        }
        self.advance();
        true
    }

    /// Where values may be any, those of the record are expected. False: a column is to be looked at with the next one.
    fn expect_values(&mut self, step: Step, record: &[u8]) -> bool {
        let start = step.start as usize;
        if record.len() != step.end as usize - start {
            return false;
        }
        for each in &self.moves[step.moves.0 as usize..step.moves.1 as usize] {
            let Move::Value { at, width, column } = *each else { continue };
            if column::is_looked_at(self.columns[column as usize].values.len() + 1) {
                return false;
            }
            let (at, width) = (at as usize, usize::from(width));
            layout::write(&mut self.expected, at, width, layout::read(record, at - start, width));
        }
        true
    }

    #[inline]
    fn advance(&mut self) {
        self.pos += 1;
        if self.pos == self.body.items.len() {
            self.pos = 0;
            self.k += 1;
        }
    }

    /// Takes a record, or says why not. `widths` are those of the holes of the template that a REPEAT repeats.
    pub(crate) fn take(&mut self, record: &[u8], token: u64, widths: impl FnOnce() -> Vec<usize>) -> Verdict {
        let body = self.body.clone();
        let item = &body.items[self.pos];
        if token != item.token || record.len() != item.bytes().len() {
            return Verdict::Other;
        }
        if !body.fits(item, record) {
            let Some(wider) = body.widened(self.pos, record, &widths()) else { return Verdict::Other };
            let wider = Arc::new(wider);
            if self.sealed || self.base > 0 || self.k > REFORM_LIMIT {
                return Verdict::Restart(Some(wider));
            }
            self.widen(wider);
        }
        let body = self.body.clone();
        let item = &body.items[self.pos];
        let base = item.start as usize;
        let holes = item.holes();
        let fixed = self.base > 0;
        for index in holes.clone() {
            let hole = body.holes[index];
            let found = layout::read(record, hole.at() - base, hole.width());
            if !column::agrees(&self.columns, index, self.k, fixed, found) && (fixed || self.k > REFORM_LIMIT) {
                return Verdict::Restart(None);
            }
        }
        let mut reformed = false;
        for index in holes {
            let hole = body.holes[index];
            let found = layout::read(record, hole.at() - base, hole.width());
            reformed |= column::take(&mut self.columns, index, self.k, found);
            let next = self.predict(index);
            layout::write(&mut self.expected, hole.at(), hole.width(), next);
            let column = &self.columns[index];
            if column.form == Form::Values {
                self.value_bytes += hole.width();
                self.decided |= column::decided(column);
            }
        }
        self.warm &= !reformed;
        self.advance();
        if self.pos == 0 && !self.warm && self.k >= 2 {
            self.make_plan();
        }
        Verdict::Taken
    }

    /// What a hole holds in the next iteration, as far as that is known.
    fn predict(&self, index: usize) -> u64 {
        match self.columns[index].form {
            Form::Affine | Form::Periodic => column::value(&self.columns, index, self.k + 1),
            Form::Values | Form::Same { .. } => 0,
        }
    }

    fn make_plan(&mut self) {
        self.plan.clear();
        self.moves.clear();
        for item in &self.body.items {
            let first = self.moves.len();
            let (mut lazy, mut values) = (false, false);
            for index in item.holes() {
                let (hole, column) = (self.body.holes[index], &self.columns[index]);
                let (at, width) = (hole.offset, hole.width);
                match column.form {
                    Form::Periodic => self.moves.push(Move::Periodic { at, width, column: index as u32 }),
                    Form::Affine if column.step != 0 => self.moves.push(Move::by(at, width, column.step)),
                    Form::Values => {
                        values = true;
                        self.moves.push(Move::Value { at, width, column: index as u32 });
                    }
                    Form::Affine => {}
                    Form::Same { .. } => lazy = true,
                }
            }
            let moves = (first as u32, self.moves.len() as u32);
            self.plan.push(Step { start: item.start, end: item.end, moves, lazy, values });
        }
        self.warm = true;
    }

    /// Goes on with a body that has more holes. What stood there until now was constant.
    fn widen(&mut self, wider: Arc<Body>) {
        let mut old = self.body.holes.iter().zip(std::mem::take(&mut self.columns)).peekable();
        let mut moved = Vec::with_capacity(wider.holes.len());
        let mut columns = Vec::with_capacity(wider.holes.len());
        for hole in &wider.holes {
            match old.next_if(|(before, _)| before.offset == hole.offset) {
                Some((_, column)) => {
                    moved.push(columns.len() as u32);
                    columns.push(column);
                }
                None => {
                    let value = layout::read(&wider.bytes, hole.at(), hole.width());
                    columns.push(Column::constant(hole.width, value));
                }
            }
        }
        drop(old);
        for column in &mut columns {
            if let Form::Same { other, .. } = &mut column.form {
                *other = moved[*other as usize];
            }
        }
        self.columns = columns;
        self.body = wider;
        self.warm = false;
    }

    /// As `widen`, for a body that takes the place of a sealed one. Nothing may be held but the iteration under way.
    pub(crate) fn adopt(&mut self, place: u32, wider: Arc<Body>) {
        self.place = place;
        self.sealed = false;
        self.widen(wider);
    }

    /// Iterations that are complete and not sent.
    pub(crate) fn complete(&self) -> u64 {
        self.k - self.base
    }

    /// Whether it is to be sent so far: it holds many values, or another form has become shorter.
    pub(crate) fn is_due(&self) -> bool {
        self.pos == 0 && (self.value_bytes > MAX_VALUES || self.decided || self.k >= 1 << 39)
    }

    /// Whether further iterations can be sent as `continued`.
    pub(crate) fn can_continue(&self) -> bool {
        let values = self.columns.iter().any(|column| column.form == Form::Values);
        !values && self.repeat_bytes() <= MAX_CONTINUED_BYTES
    }

    /// What was taken so far is sent: columns begin anew.
    pub(crate) fn rebase(&mut self) {
        let started = self.body.items[self.pos].holes.start as usize;
        column::rebase(&mut self.columns, self.k, |index| index < started);
        (self.k, self.base, self.value_bytes, self.decided, self.warm) = (0, 0, 0, false, false);
    }

    /// Whether it holds anything that is not sent.
    pub(crate) fn holds(&self) -> bool {
        self.pos > 0 || self.k > self.base
    }

    /// What was taken so far is sent, and will be continued.
    pub(crate) fn continue_from_here(&mut self) {
        self.base = self.k;
    }

    pub(crate) fn steps(&self) -> Vec<u64> {
        self.columns.iter().map(|column| column.step).collect()
    }

    /// Bytes of a REPEAT of the complete iterations.
    pub(crate) fn repeat_bytes(&self) -> usize {
        let columns: usize = self.columns.iter().map(|c| column::encoded_bytes(c, self.k - self.base)).sum();
        layout::REPEAT_COLUMNS + columns
    }

    /// The REPEAT of iterations `[from, k)`.
    pub(crate) fn repeat(&self, number: u16, from: u64) -> Vec<u8> {
        let mut record = Vec::with_capacity(self.repeat_bytes());
        record.extend_from_slice(&[0; layout::REPEAT_COLUMNS]);
        for index in 0..self.columns.len() {
            column::encode(&self.columns, index, from, self.k, &mut record);
        }
        let (length, columns) = (record.len(), record.len() - layout::REPEAT_COLUMNS);
        layout::write(&mut record, 0, 4, length as u64);
        layout::write(&mut record, 4, 2, code::REPEAT.into());
        layout::write(&mut record, 8, 4, number.into());
        layout::write(&mut record, 12, 4, columns as u64);
        layout::write(&mut record, layout::REPEAT_COUNT, 8, self.k - from);
        record
    }

    /// A hash of what two REPEATs of the template have in common when one can stand for the other: the forms of their
    /// columns.
    pub(crate) fn shape(&self) -> u64 {
        let mut shape = 0_u64;
        for column in &self.columns {
            let form = match column.form {
                Form::Affine => 0,
                Form::Values => 1 | (self.k - self.base) << 8,
                Form::Periodic => 2 | (column.values.len() as u64) << 8,
                Form::Same { other, lag } => 3 | u64::from(lag) << 8 | u64::from(other) << 16,
            };
            shape = crate::mix(shape, form);
        }
        shape
    }

    /// Writes the record that the item stands for in iteration k into `record`.
    pub(crate) fn expand(&self, item: usize, k: u64, record: &mut Vec<u8>) {
        let item = &self.body.items[item];
        record.clear();
        record.extend_from_slice(&self.body.bytes[item.bytes()]);
        for index in item.holes() {
            let hole = self.body.holes[index];
            let value = column::value(&self.columns, index, k);
            layout::write(record, hole.at() - item.start as usize, hole.width(), value);
        }
    }
}

#[cfg(test)]
mod tests;
