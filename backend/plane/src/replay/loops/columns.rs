//! The columns of a REPEAT: what a hole of a template holds in iteration k.
//!
//! A column is checked and brought into one form: some first values (the prefix), then an affine sequence or a table
//! that repeats. "The same as another column, `lag` iterations ago" needs nothing more: the references end at a column
//! of another kind, or they come back (a rotation of pointers), and then the sequence is periodic.
//!
//! Source: protos/tape.md, "Loops".

pub const AFFINE: u8 = 0;
pub const VALUES: u8 = 1;
pub const PERIODIC: u8 = 2;
pub const SAME: u8 = 3;

/// The most iterations of a REPEAT.
const MAX_COUNT: u64 = 1 << 40;
const MAX_LAG: u8 = 16;
/// Of the columns that one leads to, together.
const MAX_LAGS: u32 = 256;
const HEADER: usize = 8;
const AFFINE_BYTES: usize = 16;

/// A checked column: where its values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub kind: u8,
    pub lag: u8,
    /// Bytes of a value.
    pub width: u8,
    pub number: u32,
    /// Of the values, in the columns' bytes.
    pub begin: u32,
    /// Without padding.
    pub end: u32,
}

/// The columns for holes of these widths: one for each, nothing behind them. Whether kind 1 has a value for each
/// iteration is [`check_repetitions`]'.
///
/// # Errors
/// The rule of tape.md that they break.
pub fn read_headers(data: &[u8], widths: &[u8]) -> Result<Vec<Header>, String> {
    let mut headers = Vec::with_capacity(widths.len());
    let mut at = 0;
    for (index, &width) in widths.iter().enumerate() {
        let Some(header) = data[at..].first_chunk::<HEADER>() else {
            return Err(format!("columns for {index} of {} holes", widths.len()));
        };
        let (kind, lag) = (header[0], header[1]);
        let reserved = u16::from_le_bytes([header[2], header[3]]);
        let number = u32::from_le_bytes([header[4], header[5], header[6], header[7]]);
        at += HEADER;
        let values = match kind {
            AFFINE => AFFINE_BYTES,
            VALUES | PERIODIC => number as usize * usize::from(width),
            SAME => usize::from(lag) * usize::from(width),
            _ => return Err(format!("column {index} is of the unknown kind {kind}")),
        };
        if reserved != 0 || (lag != 0 && kind != SAME) || lag > MAX_LAG || (number != 0 && kind == AFFINE) {
            return Err(format!("column {index}: kind {kind}, lag {lag}, number {number}, reserved {reserved}"));
        }
        if matches!(kind, VALUES | PERIODIC) && number == 0 {
            return Err(format!("column {index} has no values"));
        }
        let follows = number as usize;
        if kind == SAME && (widths.get(follows) != Some(&width) || (lag == 0 && follows >= index)) {
            return Err(format!("column {index} cannot be column {number} with a lag of {lag}"));
        }
        let left = data.len() - at;
        if values > left {
            return Err(format!("column {index} has {values} bytes of values where {left} are left"));
        }
        let padded = (values + 7) & !7;
        if padded > left {
            return Err(format!("column {index} is not padded"));
        }
        headers.push(Header { kind, lag, width, number, begin: at as u32, end: (at + values) as u32 });
        at += padded;
    }
    if at != data.len() {
        return Err(format!("{} bytes behind the columns", data.len() - at));
    }
    check_lags(&headers)?;
    Ok(headers)
}

/// A REPEAT's count with these columns.
///
/// # Errors
/// It is impossible.
pub fn check_repetitions(headers: &[Header], count: u64) -> Result<(), String> {
    if count == 0 || count > MAX_COUNT {
        return Err(format!("a REPEAT of {count} iterations"));
    }
    for (index, header) in headers.iter().enumerate() {
        if header.kind == VALUES && u64::from(header.number) != count {
            return Err(format!("column {index} has {} values for {count} iterations", header.number));
        }
    }
    Ok(())
}

/// Bounds what `Column` is made of. A column without lag follows an earlier one, so no walk is longer than all columns.
fn check_lags(headers: &[Header]) -> Result<(), String> {
    if headers.iter().all(|header| header.kind != SAME) {
        return Ok(());
    }
    // Of columns whose walk ends at another kind.
    let mut total: Vec<Option<u32>> = headers.iter().map(|header| (header.kind != SAME).then_some(0)).collect();
    let mut on_walk = vec![usize::MAX; headers.len()];
    for first in 0..headers.len() {
        let mut walk = vec![];
        let mut index = first;
        while total[index].is_none() && on_walk[index] != first {
            on_walk[index] = first;
            walk.push(index);
            index = headers[index].number as usize;
        }
        if total[index].is_none() {
            let begin = walk.iter().position(|&step| step == index).unwrap_or_default();
            let around = walk[begin..].iter().map(|&step| u32::from(headers[step].lag)).sum();
            for step in walk.drain(begin..) {
                total[step] = Some(around);
            }
        }
        let mut sum = total[index].unwrap_or_default();
        for &step in walk.iter().rev() {
            sum += u32::from(headers[step].lag);
            total[step] = Some(sum);
        }
        let depends = total[first].unwrap_or_default();
        if depends > MAX_LAGS {
            return Err(format!(
                "column {first} depends on the values of {depends} iterations before; {MAX_LAGS} are allowed"
            ));
        }
    }
    Ok(())
}

/// What a column goes on with after its prefix.
#[derive(Debug, Clone)]
enum Tail {
    Affine {
        start: u64,
        step: u64,
    },
    /// So many values in the columns' bytes, again and again.
    Table {
        begin: usize,
        count: u64,
    },
    Rotation(Box<[u64]>),
}

#[derive(Debug)]
struct Column {
    kind: u8,
    width: u8,
    prefix: Box<[u64]>,
    tail: Tail,
    /// Every iteration has the same value.
    fixed: bool,
}

/// The checked columns of a REPEAT.
#[derive(Debug)]
pub struct Columns {
    columns: Box<[Column]>,
    data: Box<[u8]>,
}

impl Columns {
    /// The columns that `read_headers` has checked in `data`.
    #[must_use]
    pub fn new(headers: &[Header], data: &[u8]) -> Self {
        let mut seen = vec![];
        let columns = headers
            .iter()
            .enumerate()
            .map(
                |(index, header)| {
                    if header.kind == SAME {
                        resolve(index, headers, data, &mut seen)
                    } else {
                        own(header, data)
                    }
                },
            )
            .collect();
        Self { columns, data: data.into() }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// What a column holds in every iteration, where its form says that it is always the same.
    #[must_use]
    pub fn constant(&self, index: usize) -> Option<u64> {
        let column = &self.columns[index];
        let says = matches!(column.kind, AFFINE | PERIODIC) && column.fixed;
        says.then(|| self.value(index, 0))
    }

    /// Whether every iteration has the same value.
    #[must_use]
    pub fn fixed(&self, index: usize) -> bool {
        self.columns[index].fixed
    }

    /// What a column holds in iteration k, below 2^(8 width).
    #[must_use]
    pub fn value(&self, index: usize, k: u64) -> u64 {
        let column = &self.columns[index];
        let lead = column.prefix.len() as u64;
        if k < lead {
            return column.prefix[k as usize];
        }
        let at = k - lead;
        match &column.tail {
            Tail::Affine { start, step } => start.wrapping_add(step.wrapping_mul(at)) & mask(column.width),
            Tail::Table { begin, count } => {
                let place = if at < *count { at } else { at % count };
                load(&self.data, begin + place as usize * usize::from(column.width), column.width)
            }
            Tail::Rotation(table) => table[(at % table.len() as u64) as usize],
        }
    }

    /// What a column holds in iterations from `first` on, one after the other.
    pub fn values(&self, index: usize, first: u64, count: usize, mut put: impl FnMut(usize, u64)) {
        let column = &self.columns[index];
        let lead = (column.prefix.len() as u64).saturating_sub(first).min(count as u64) as usize;
        for k in 0..lead {
            put(k, self.value(index, first + k as u64));
        }
        match &column.tail {
            &Tail::Affine { start, step } => {
                let at = first.wrapping_add(lead as u64).wrapping_sub(column.prefix.len() as u64);
                let mut value = start.wrapping_add(step.wrapping_mul(at));
                let mask = mask(column.width);
                for k in lead..count {
                    put(k, value & mask);
                    value = value.wrapping_add(step);
                }
            }
            _ if column.fixed => {
                let value = self.value(index, 0);
                (lead..count).for_each(|k| put(k, value));
            }
            _ => (lead..count).for_each(|k| put(k, self.value(index, first.wrapping_add(k as u64)))),
        }
    }
}

/// A column that follows no other.
fn own(header: &Header, data: &[u8]) -> Column {
    let begin = header.begin as usize;
    let tail = if header.kind == AFFINE {
        Tail::Affine { start: load(data, begin, 8), step: load(data, begin + 8, 8) }
    } else {
        Tail::Table { begin, count: u64::from(header.number) }
    };
    let fixed = matches!(tail, Tail::Affine { step: 0, .. } | Tail::Table { count: 1, .. });
    Column { kind: header.kind, width: header.width, prefix: Box::default(), tail, fixed }
}

/// A column that follows another. `seen` is at hand for which columns were passed.
fn resolve(first: usize, headers: &[Header], data: &[u8], seen: &mut Vec<usize>) -> Column {
    seen.clear();
    seen.resize(headers.len(), usize::MAX);
    let mut heads = vec![];
    let mut lengths = vec![]; // of `heads`, before each column of the path
    let mut index = first;
    while headers[index].kind == SAME && seen[index] == usize::MAX {
        seen[index] = lengths.len();
        lengths.push(heads.len());
        let header = &headers[index];
        let width = usize::from(header.width);
        heads
            .extend((header.begin as usize..header.end as usize).step_by(width).map(|at| load(data, at, header.width)));
        index = header.number as usize;
    }
    let header = &headers[index];
    let (kind, width) = (SAME, header.width);
    if header.kind == SAME {
        // A rotation: what it begins with comes back.
        let around = heads.split_off(lengths[seen[index]]);
        let fixed = heads.is_empty() && around.len() == 1;
        return Column { kind, width, prefix: heads.into(), tail: Tail::Rotation(around.into()), fixed };
    }
    let end = own(header, data);
    let fixed = end.fixed && heads.is_empty();
    Column { kind, width, prefix: heads.into(), tail: end.tail, fixed }
}

/// All ones in the low `width` bytes.
fn mask(width: u8) -> u64 {
    u64::MAX >> (64 - 8 * u32::from(width))
}

/// The little-endian number of `width` bytes at `at`.
fn load(data: &[u8], at: usize, width: u8) -> u64 {
    let mut bytes = [0; 8];
    let width = usize::from(width);
    bytes[..width].copy_from_slice(&data[at..at + width]);
    u64::from_le_bytes(bytes)
}
