//! What a host does with TEMPLATE and REPEAT, written from protos/tape.md and from nothing else: every rule of the page
//! is checked.

use std::collections::HashMap;

pub const TEMPLATE: u16 = 0x60;
pub const REPEAT: u16 = 0x61;

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(b[at..at + 2].try_into().expect("2 bytes"))
}
fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().expect("4 bytes"))
}
fn u64_at(b: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(b[at..at + 8].try_into().expect("8 bytes"))
}

#[derive(Clone)]
struct Template {
    holes: Vec<(usize, usize)>,
    body: Vec<u8>,
    contains: Vec<u32>,
    levels: usize,
}

#[derive(Clone)]
enum Column {
    Affine { start: u64, step: u64 },
    Values(Vec<u64>),
    Periodic(Vec<u64>),
    Same { first: Vec<u64>, other: usize },
}

struct Continued {
    columns: Vec<Column>,
    next: u64,
}

#[derive(Default)]
pub struct Expander {
    templates: HashMap<u32, Template>,
    continued: HashMap<u32, Continued>,
    pub records: Vec<u8>,
    pub most_levels: usize,
}

fn records(bytes: &[u8]) -> Vec<&[u8]> {
    let mut rest = bytes;
    let mut found = Vec::new();
    while !rest.is_empty() {
        let length = u32_at(rest, 0) as usize;
        assert!(length >= 8 && length.is_multiple_of(8) && length <= rest.len(), "a record of {length} bytes");
        assert!(length <= (1 << 20) + 4096);
        found.push(&rest[..length]);
        rest = &rest[length..];
    }
    found
}

fn value(columns: &[Column], index: usize, k: u64, width: usize) -> u64 {
    let mask = if width == 8 { u64::MAX } else { (1 << (8 * width)) - 1 };
    match &columns[index] {
        Column::Affine { start, step } => start.wrapping_add(step.wrapping_mul(k)) & mask,
        Column::Values(values) => values[k as usize],
        Column::Periodic(values) => values[(k % values.len() as u64) as usize],
        Column::Same { first, .. } if (k as usize) < first.len() => first[k as usize],
        Column::Same { first, other } => value(columns, *other, k - first.len() as u64, width),
    }
}

/// The columns, and the ranges of their values (holes of an outer loop may lie there).
fn parse(bytes: &[u8], widths: &[usize]) -> (Vec<Column>, Vec<(usize, usize)>) {
    let (mut at, mut columns, mut zones) = (0, Vec::new(), Vec::new());
    for (index, &width) in widths.iter().enumerate() {
        let (kind, lag, number) = (bytes[at], usize::from(bytes[at + 1]), u32_at(bytes, at + 4) as usize);
        assert_eq!(u16_at(bytes, at + 2), 0);
        assert!(kind == 3 || lag == 0);
        at += 8;
        let list = |count: usize| -> Vec<u64> {
            let one = |i: usize| {
                let mut word = [0; 8];
                word[..width].copy_from_slice(&bytes[at + i * width..at + (i + 1) * width]);
                u64::from_le_bytes(word)
            };
            (0..count).map(one).collect()
        };
        let (column, length) = match kind {
            0 => {
                assert_eq!(number, 0);
                (Column::Affine { start: u64_at(bytes, at), step: u64_at(bytes, at + 8) }, 16)
            }
            1 => (Column::Values(list(number)), number * width),
            2 => {
                assert!(number > 0);
                (Column::Periodic(list(number)), number * width)
            }
            3 => {
                assert!(number < widths.len() && widths[number] == width && lag <= 16 && (lag > 0 || number < index));
                (Column::Same { first: list(lag), other: number }, lag * width)
            }
            other => panic!("kind {other}"),
        };
        zones.push((at, at + length));
        let padded = length.next_multiple_of(8);
        assert!(bytes[at + length..at + padded].iter().all(|b| *b == 0), "padding");
        at += padded;
        columns.push(column);
    }
    assert_eq!(at, bytes.len(), "bytes behind the columns");
    (columns, zones)
}

impl Expander {
    pub fn tape(&mut self, bytes: &[u8]) {
        for record in records(bytes) {
            match u16_at(record, 4) {
                TEMPLATE => self.template(record),
                REPEAT => self.repeat(record, true),
                _ => self.records.extend_from_slice(record),
            }
        }
    }

    fn template(&mut self, record: &[u8]) {
        let (number, count, content) = (u32_at(record, 8), u32_at(record, 12) as usize, u32_at(record, 16) as usize);
        assert_eq!(u16_at(record, 6), 0);
        assert_eq!(u32_at(record, 20), 0);
        assert_eq!(record.len(), (24 + content).next_multiple_of(8));
        assert!(number < 4096 && count <= 4096);
        assert!(!self.templates.values().any(|t| t.contains.contains(&number)), "given anew while contained");
        let content = &record[24..24 + content];
        let body = content[8 * count..].to_vec();
        assert!(!body.is_empty() && body.len() <= 64 << 10);
        let mut zones = Vec::new();
        let (mut contains, mut levels) = (Vec::new(), 1);
        let mut start = 0;
        for inner in records(&body) {
            let code = u16_at(inner, 4);
            assert!(!matches!(code, 0x31 | 0x40..=0x45 | 0x48 | 0x4a | 0x60 | 0x68 | 0x69), "{code:#x} in a body");
            let end = start + inner.len();
            if code == REPEAT {
                assert_eq!(u16_at(inner, 6), 0, "continued in a body");
                let child = self.templates.get(&u32_at(inner, 8)).expect("an inner template is given first");
                contains.push(u32_at(inner, 8));
                levels = levels.max(1 + child.levels);
                let widths: Vec<usize> = child.holes.iter().map(|hole| hole.1).collect();
                let columns = u32_at(inner, 12) as usize;
                zones.push((start + 16, start + 24));
                let (_, values) = parse(&inner[24..24 + columns], &widths);
                zones.extend(values.iter().map(|(from, to)| (start + 24 + from, start + 24 + to)));
            } else if matches!(code, 0x13 | 0x50) {
                zones.push((start + 8, start + 44));
                zones.push((start + 48, start + 48 + u32_at(inner, 44) as usize));
            } else {
                zones.push((start + 8, end));
            }
            start = end;
        }
        assert!(levels <= 8);
        self.most_levels = self.most_levels.max(levels);
        let mut holes = Vec::new();
        let mut last = 0;
        for entry in content[..8 * count].chunks(8) {
            let (offset, width) = (u32_at(entry, 0) as usize, usize::from(entry[4]));
            assert_eq!(&entry[5..], [0, 0, 0]);
            assert!(matches!(width, 1 | 2 | 4 | 8) && offset % width == 0 && offset >= last, "hole at {offset}");
            last = offset + width;
            assert!(zones.iter().any(|(from, to)| *from <= offset && last <= *to), "a hole at {offset} of {width}");
            assert!(body[offset..last].iter().all(|b| *b == 0), "a hole is 0 in the body");
            holes.push((offset, width));
        }
        self.continued.remove(&number);
        self.templates.insert(number, Template { holes, body, contains, levels });
    }

    fn repeat(&mut self, record: &[u8], on_tape: bool) {
        let (flags, number, bytes) = (u16_at(record, 6), u32_at(record, 8), u32_at(record, 12) as usize);
        let count = u64_at(record, 16);
        assert!((1..=1 << 40).contains(&count));
        assert_eq!(record.len(), (24 + bytes).next_multiple_of(8));
        let template = self.templates.get(&number).expect("a template is given before its REPEAT").clone();
        let widths: Vec<usize> = template.holes.iter().map(|hole| hole.1).collect();
        let (columns, first) = if flags & 1 != 0 {
            assert!(on_tape && bytes == 0 && flags == 1);
            let before = self.continued.remove(&number).expect("something to continue");
            (before.columns, before.next)
        } else {
            let (columns, _) = parse(&record[24..24 + bytes], &widths);
            for column in &columns {
                if let Column::Values(values) = column {
                    assert_eq!(values.len() as u64, count);
                }
            }
            (columns, 0)
        };
        for k in first..first + count {
            let mut body = template.body.clone();
            for (index, (offset, width)) in template.holes.iter().enumerate() {
                let word = value(&columns, index, k, *width).to_le_bytes();
                body[*offset..offset + width].copy_from_slice(&word[..*width]);
            }
            for inner in records(&body) {
                match u16_at(inner, 4) {
                    REPEAT => self.repeat(inner, false),
                    _ => self.records.extend_from_slice(inner),
                }
            }
        }
        if on_tape {
            self.continued.remove(&number);
            if !columns.iter().any(|column| matches!(column, Column::Values(_))) {
                self.continued.insert(number, Continued { columns, next: first + count });
            }
        }
    }
}
