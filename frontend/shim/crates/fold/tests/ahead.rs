//! Programs that wait in their iterations, and a host that runs ahead of them as protos/tape.md has it, at times less far than it might:
//! what has happened in the end, and what every read has yielded, is what the program would have had without.

mod support;

use fold::{Folder, Origin, Read, Reason};
use std::collections::HashMap;
use support::expander::Expander;
use support::Random;
use tape::{operations, record_length, Writer};

const READ: u16 = 0x14;
const TEMPLATE: u16 = 0x60;
const RUN_AHEAD: u16 = 0x62;
const KEEP_AHEAD: u16 = 0x63;
/// Iterations that the host does at most.
const MOST: u64 = 16;

fn word(bytes: &[u8], at: usize, width: usize) -> u64 {
    let mut padded = [0; 8];
    padded[..width].copy_from_slice(&bytes[at..at + width]);
    u64::from_le_bytes(padded)
}

fn records(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(length) = record_length(bytes) {
        let (record, rest) = bytes.split_at(length);
        found.push(record);
        bytes = rest;
    }
    assert!(bytes.is_empty());
    found
}

fn operation(record: &[u8]) -> u16 {
    word(record, 4, 2) as u16
}

/// Takes the slots out of records, which tell calls apart that are the same.
fn without_slots(records: &mut [u8]) {
    let mut at = 0;
    while let Some(length) = record_length(&records[at..]) {
        if operation(&records[at..]) == READ {
            records[at + 44..at + 48].fill(0);
        }
        at += length;
    }
}

/// What a read yields that is the last thing that has happened: a number between 1 and 2.
fn yields(log: &[u8]) -> u64 {
    let lately = &log[log.len().saturating_sub(2048)..];
    let hash = lately.chunks(8).fold(log.len() as u64, |hash, chunk| {
        (hash ^ word(chunk, 0, chunk.len())).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23)
    });
    0x3ff0_0000_0000_0000 | hash >> 12
}

/// Holes (where, how wide) and body.
type Template = (Vec<(usize, usize)>, Vec<u8>);

#[derive(Default)]
struct Host {
    done: Expander,
    templates: HashMap<u64, Template>,
    /// How long the log was behind each read of a run.
    points: Option<Vec<usize>>,
    /// Bytes of what an iteration of the last run has yielded.
    row: usize,
    last: u64,
    steady: bool,
}

impl Host {
    /// The data for each slot.
    fn replay(&mut self, tape: &[u8], random: &mut Random) -> HashMap<u32, Vec<u8>> {
        let mut results = HashMap::new();
        for record in records(tape) {
            let operation = operation(record);
            assert!(self.points.is_none() || operation == KEEP_AHEAD, "nothing stands between the two");
            if operation == RUN_AHEAD {
                results.insert(word(record, 32, 4) as u32, self.run_ahead(record, random));
                continue;
            }
            if operation == KEEP_AHEAD {
                let points = self.points.take().expect("something was done ahead");
                self.done.records.truncate(points[word(record, 8, 4) as usize]);
                continue;
            }
            if operation == TEMPLATE {
                let (holes, content) = (word(record, 12, 4) as usize, &record[24..24 + word(record, 16, 4) as usize]);
                let hole = |index: usize| (word(content, 8 * index, 4) as usize, usize::from(content[8 * index + 4]));
                self.templates
                    .insert(word(record, 8, 4), ((0..holes).map(hole).collect(), content[8 * holes..].to_vec()));
            }
            let before = self.done.records.len();
            self.done.tape(record);
            let mut at = before;
            let new = self.done.records[before..].to_vec();
            without_slots(&mut self.done.records[before..]);
            for happened in records(&new) {
                at += happened.len();
                if self::operation(happened) == READ {
                    self.last = yields(&self.done.records[..at]);
                    results.insert(word(happened, 44, 4) as u32, self.last.to_le_bytes().to_vec());
                }
            }
        }
        results
    }

    fn run_ahead(&mut self, record: &[u8], random: &mut Random) -> Vec<u8> {
        let count = word(record, 16, 8);
        let columns = &record[40..40 + word(record, 12, 4) as usize];
        let (holes, body) = self.templates[&word(record, 8, 4)].clone();
        let mut values: Vec<u64> = (0..7).map(|back| word(columns, 8 * back, 8)).chain([self.last]).collect();
        let mut kinds = Vec::new();
        let mut at = 64;
        for &(_, width) in &holes {
            let (kind, number) = (columns[at], word(columns, at + 4, 4));
            let list = &columns[at + 8..];
            let bytes = match kind {
                0 => 16,
                2 => number as usize * width,
                4 => 8,
                other => panic!("kind {other}"),
            };
            kinds.push((kind, number, list[..bytes].to_vec()));
            at += 8 + bytes.next_multiple_of(8);
        }
        assert_eq!(at, columns.len());
        let computed = kinds.iter().filter(|(kind, ..)| *kind == 4).count();
        let reads = records(&body).iter().filter(|record| operation(record) == READ).count();
        let mut yielded = Vec::new();
        let mut points = vec![self.done.records.len()];
        let most = if !self.steady && random.one_in(3) { random.below(MOST) } else { MOST }.min(count);
        for k in 0..most {
            let mut filled = body.clone();
            let (mut numbers, mut data) = (Vec::new(), Vec::new());
            let mut start = 0;
            let mut hole = 0;
            for length in records(&body).iter().map(|record| record.len()) {
                while hole < holes.len() && holes[hole].0 < start + length {
                    let ((at, width), (kind, number, list)) = (holes[hole], &kinds[hole]);
                    let value = match kind {
                        0 => word(list, 0, 8).wrapping_add(word(list, 8, 8).wrapping_mul(k)),
                        2 => word(list, (k % number) as usize * width, width),
                        _ => {
                            let operand =
                                |index: usize| f64::from_bits(values[values.len() - usize::from(list[index])]);
                            let (a, b) = (operand(0), operand(1));
                            let value = [a, -a, a + b, a - b, a * b, a / b, -(a / b)][*number as usize];
                            numbers.extend_from_slice(&value.to_le_bytes());
                            value.to_bits()
                        }
                    };
                    filled[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
                    hole += 1;
                }
                let record = &filled[start..start + length];
                start += length;
                self.done.records.extend_from_slice(record);
                if operation(record) == READ {
                    let value = yields(&self.done.records);
                    values.push(value);
                    data.extend_from_slice(&value.to_le_bytes());
                    points.push(self.done.records.len());
                }
            }
            assert_eq!((numbers.len(), data.len()), (8 * computed, 8 * reads));
            yielded.extend(numbers);
            yielded.extend(data);
        }
        self.row = 8 * (computed + reads);
        self.points = Some(points);
        yielded
    }
}

struct Program {
    folder: Folder,
    tape: Writer,
    host: Host,
    called: Vec<u8>,
    slot: u32,
    read: Vec<f64>,
    random: Random,
    round_trips: u64,
    /// What the host has done ahead and the folder was not told yet.
    coming: Option<Vec<u8>>,
    /// Nothing comes between, and the host goes as far as it may.
    steady: bool,
}

impl Program {
    fn new(seed: u64) -> Self {
        Self {
            folder: Folder::new(),
            tape: Writer::new(),
            host: Host::default(),
            called: Vec::new(),
            slot: 0,
            read: vec![1.5, 1.25],
            random: Random(seed),
            round_trips: 0,
            coming: None,
            steady: false,
        }
    }

    fn steady(&mut self) {
        (self.steady, self.host.steady) = (true, true);
    }

    fn call(&mut self, thread: u64, site: u64, write: impl Fn(&mut Writer)) {
        let mark = self.tape.len();
        write(&mut self.tape);
        let from = self.called.len();
        self.called.extend_from_slice(&self.tape.as_slice()[mark..]);
        without_slots(&mut self.called[from..]);
        self.folder.appended(&mut self.tape, mark, Origin { thread, site, hint: 0 });
    }

    fn launch(&mut self, thread: u64, site: u64, arguments: &[u64]) {
        let bytes: Vec<u8> = arguments.iter().flat_map(|argument| argument.to_le_bytes()).collect();
        self.call(thread, site, |w| operations::launch(w, 16, 1, [1; 3], [32, 1, 1], 0, false, 0, &bytes));
    }

    /// What stands in front of a kernel's first launch.
    fn open(&mut self, function: u32) {
        self.call(1, 0, |w| operations::function_open(w, function, 16, b"kernel"));
    }

    /// A read that the program waits for.
    fn read(&mut self, site: u64) {
        self.slot += 1;
        let slot = self.slot;
        let mut from = self.called.len();
        operations::read(&mut self.tape, 4096, 8, 8, 1, 1, slot);
        let record = self.tape.as_slice()[self.tape.len() - 48..].to_vec();
        self.called.extend_from_slice(&record);
        without_slots(&mut self.called[from..]);
        let origin = Origin { thread: 1, site, hint: 0 };
        let data = loop {
            let mark = self.tape.len() - record.len();
            match self.folder.appended_read(&mut self.tape, mark, origin) {
                Read::Done(data) => break data,
                Read::Coming => {
                    self.arrive();
                    if !self.steady && self.random.one_in(20) {
                        self.launch(2, 98, &[2]); // while it waits
                        let launched = self.called.split_off(from + record.len());
                        self.called.splice(from..from, launched.iter().copied());
                        from += launched.len();
                    }
                    self.tape.records(&record);
                }
                Read::Recorded => {
                    self.folder.flush(&mut self.tape, Reason::Sync);
                    self.round_trips += 1;
                    let data = self.send().remove(&slot).expect("a result");
                    if let Some(most) = self.folder.run_ahead(&mut self.tape, slot + 1, 1000) {
                        self.slot += 1;
                        let rows = self.send().remove(&(slot + 1)).expect("a result");
                        assert!(rows.len() <= most);
                        self.coming = Some(rows);
                        if !self.steady && self.random.one_in(12) {
                            self.launch(2, 99, &[1]); // before anything has arrived
                        }
                    }
                    self.folder.read_answered(&data);
                    break data;
                }
            }
        };
        while self.coming.is_some() && self.random.one_in(3) {
            self.arrive();
        }
        self.read.push(f64::from_bits(word(&data, 0, 8)));
    }

    /// Some rows arrive, or that there are no more.
    fn arrive(&mut self) {
        let Some(mut rows) = self.coming.take() else { return self.folder.ahead_arrived(&mut self.tape, &[], true) };
        let row = self.host.row;
        let rest = rows.split_off(rows.len().min(row * self.random.below(4) as usize));
        let ended = rest.is_empty() && self.random.one_in(2);
        self.folder.ahead_arrived(&mut self.tape, &rows, ended);
        self.coming = (!ended).then_some(rest);
    }

    fn send(&mut self) -> HashMap<u32, Vec<u8>> {
        let tape = self.tape.as_slice().to_vec();
        self.tape.truncate(0);
        self.host.replay(&tape, &mut self.random)
    }

    fn last(&self, back: usize) -> f64 {
        self.read[self.read.len() - back]
    }

    /// The arguments of a loop's launches, stretch by stretch.
    fn kinds(&mut self) -> Vec<Vec<u64>> {
        let reads = 1 + self.random.below(3);
        (0..reads).map(|_| (0..1 + self.random.below(3)).map(|_| self.random.below(9)).collect()).collect()
    }

    /// A loop like those of iterative solvers, from which it may stray.
    fn solve(&mut self, base: u64, kinds: &[Vec<u64>], stray: u64) {
        for i in 0..1 + self.random.below(60) {
            for (stretch, kinds) in (0..).zip(kinds) {
                for (index, kind) in (0..).zip(kinds) {
                    let (a, b, c) = (self.last(1), self.last(2), self.last(3.min(self.read.len())));
                    let argument = match kind {
                        0 => 17,
                        1 => 3 * i,
                        2 => [11, 47][i as usize % 2],
                        3 => (a / b).to_bits(),
                        4 => (-(a / c)).to_bits(),
                        5 => (b - a).to_bits(),
                        6 => a.to_bits(),
                        7 => (a * b).to_bits(),
                        _ => base,
                    };
                    self.launch(1, base + 16 * stretch + index, &[4096 + 8 * base, argument]);
                    if self.random.one_in(stray) {
                        match self.random.below(6) {
                            0 => return,
                            1 => self.launch(1, base + 500, &[argument]),
                            2 => self.launch(2, base + 500, &[argument]),
                            3 => self.folder.flush(&mut self.tape, Reason::Hint),
                            4 => self.call(1, base + 501, |w| operations::event_create(w, 20, 0)),
                            _ => self.launch(1, base + 16 * stretch + index, &[4096, argument + 1]),
                        }
                    }
                }
                self.read(base + 16 * stretch + 15);
                if self.random.one_in(stray) {
                    return;
                }
            }
        }
    }

    fn check(mut self) -> (u64, u64, u64) {
        self.folder.flush(&mut self.tape, Reason::Exit);
        self.send();
        assert!(self.host.points.is_none(), "kept or undone in the end");
        assert!(self.host.done.records == self.called, "what has happened is what was called");
        let mut at = 0;
        let mut reads = self.read[2..].iter();
        for record in records(&self.called) {
            at += record.len();
            if operation(record) == READ {
                assert_eq!(reads.next().map(|value| value.to_bits()), Some(yields(&self.called[..at])), "read at {at}");
            }
        }
        assert!(reads.next().is_none());
        let counts = self.folder.ahead_counts();
        assert!(counts.reads + self.round_trips >= self.read.len() as u64 - 2);
        (counts.runs, counts.reads, counts.undone)
    }
}

#[test]
fn a_loop_that_waits_makes_few_round_trips() {
    let mut program = Program::new(5);
    program.steady();
    for i in 0..200_u64 {
        let factor = program.last(1) / program.last(3.min(program.read.len()));
        program.launch(1, 10, &[4096, factor.to_bits(), i]);
        program.read(11);
        let factor = -(program.last(2) / program.last(1));
        program.launch(1, 12, &[4096 + 64 * (i % 2), factor.to_bits()]);
        program.read(13);
    }
    let round_trips = program.round_trips;
    let (runs, reads, _) = program.check();
    assert!(round_trips < 60 && reads > 340 && runs < 50, "{round_trips} round trips, {runs} runs, {reads} reads");
}

#[test]
fn a_loop_that_comes_again_is_recognised_by_its_first_iteration() {
    let mut program = Program::new(9);
    program.steady();
    let mut taken = Vec::new();
    for solve in 0..3_u64 {
        let before = program.round_trips;
        program.launch(1, 90 + solve, &[solve]);
        program.read(90);
        for i in 0..40 {
            let factor = program.last(1) / program.last(2);
            program.launch(1, 10, &[4096, factor.to_bits(), i]);
            program.read(11);
            program.launch(1, 12, &[4096, (-program.last(1)).to_bits()]);
            program.read(13);
            if i == 2 {
                taken.push(program.round_trips - before);
            }
        }
    }
    program.check();
    // The read in front, then six: a counter takes three iterations to be told, in the next solve one.
    assert_eq!(taken, [7, 3, 3]);
}

#[test]
fn where_arguments_follow_from_reads_two_iterations_tell() {
    let mut program = Program::new(3);
    program.steady();
    program.launch(1, 9, &[1]);
    program.read(20);
    for i in 0..30 {
        if i > 0 {
            let factor = program.last(1) / program.last(3);
            if i == 1 {
                program.open(40);
            }
            program.launch(1, 10, &[4096, factor.to_bits(), 77]);
        }
        program.launch(1, 11, &[8192]);
        program.read(20);
        let factor = program.last(2) / program.last(1);
        program.launch(1, 12, &[4096, factor.to_bits()]);
        program.launch(1, 13, &[8192, (-factor).to_bits()]);
        program.read(20);
        if i == 2 {
            // In front, the first iteration, which is another one, and two.
            assert_eq!((program.round_trips, program.folder.ahead_counts().runs), (6, 1));
        }
    }
    program.check();
}

#[test]
fn nothing_is_lost_or_repeated_whatever_the_program_does() {
    let mut total = (0, 0, 0);
    for seed in 1..=200_u64 {
        let mut program = Program::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let stray = [8, 40, 200, 5000][seed as usize % 4];
        let kinds: Vec<_> = (0..3).map(|_| program.kinds()).collect();
        for part in 0..6 {
            if program.random.one_in(3) {
                program.solve(1000 * (part % 3 + 1), &kinds[part as usize % 3], stray);
            // perhaps again
            } else {
                let other = program.kinds();
                program.solve(1000 * (part % 3 + 1), &other, stray);
            }
        }
        let (runs, reads, undone) = program.check();
        total = (total.0 + runs, total.1 + reads, total.2 + undone);
    }
    assert!(total.0 > 500 && total.1 > 2500 && total.2 > 100, "{total:?}");
}
