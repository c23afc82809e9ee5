//! Random programs, flushed anywhere: what was emitted stands for exactly what was recorded.

mod support;

use recorder::Reason;
use support::{Random, Recording};
use tape::operations;

/// One argument, as a function of the loop variables.
#[derive(Clone)]
enum Argument {
    Constant(u64),
    Affine(u64, u64, usize),
    Swap(u64, u64, usize),
    Wild,
    Minted,
    Square(usize),
    Narrow(usize),
}

#[derive(Clone)]
enum Node {
    Launch { function: u32, arguments: Vec<Argument>, stream: Argument },
    Short { bytes: usize, argument: Argument },
    Write { bytes: usize, argument: Argument },
    Memory(Argument),
    Mint,
    Event(Argument),
    Read(Argument),
    Module,
    Flush,
    Part,
    Loop { count: u64, triangular: bool, leave: u64, body: Vec<Node> },
    When { every: u64, body: Vec<Node> },
    Thread(u64),
}

fn argument(random: &mut Random) -> Argument {
    let variable = random.below(3) as usize;
    match random.below(9) {
        0 | 1 => Argument::Constant(random.below(4)),
        2 | 3 => Argument::Affine(random.next() >> random.below(40), random.next() >> random.below(63), variable),
        4 => Argument::Swap(random.next(), random.next(), variable),
        5 => Argument::Minted,
        6 => Argument::Square(variable),
        7 => Argument::Narrow(variable),
        _ => Argument::Wild,
    }
}

fn block(random: &mut Random, depth: u32) -> Vec<Node> {
    (0..1 + random.below(5)).map(|_| node(random, depth)).collect()
}

fn node(random: &mut Random, depth: u32) -> Node {
    match random.below(if depth < 4 { 26 } else { 19 }) {
        0..=7 => Node::Launch {
            function: 16 + random.below(4) as u32,
            arguments: (0..random.below(5)).map(|_| argument(random)).collect(),
            stream: if random.one_in(4) { argument(random) } else { Argument::Constant(1) },
        },
        8 => Node::Short { bytes: 1 + random.below(15) as usize, argument: argument(random) },
        9 => Node::Write { bytes: 1 + random.below(40) as usize, argument: argument(random) },
        10 | 11 => Node::Memory(argument(random)),
        12 | 13 => Node::Mint,
        14 => Node::Event(argument(random)),
        15 => Node::Read(argument(random)),
        16 if random.one_in(4) => Node::Module,
        16 => Node::Flush,
        17 => Node::Part,
        18 if random.one_in(6) => Node::Thread(1 + random.below(3)),
        18 => Node::Event(Argument::Constant(17)),
        19..=23 => Node::Loop {
            count: 1 + random.below(if depth == 0 { 60 } else { 12 }),
            triangular: random.one_in(4),
            leave: if random.one_in(5) { 1 + random.below(40) } else { u64::MAX },
            body: block(random, depth + 1),
        },
        _ => Node::When { every: 2 + random.below(3), body: block(random, depth + 1) },
    }
}

struct Machine {
    recording: Recording,
    random: Random,
    variables: [u64; 3],
    minted: u64,
    slot: u32,
    budget: u32,
    sites: bool,
}

impl Machine {
    fn value(&mut self, argument: &Argument) -> u64 {
        match *argument {
            Argument::Constant(value) => value,
            Argument::Affine(start, step, v) => start.wrapping_add(step.wrapping_mul(self.variables[v])),
            Argument::Swap(a, b, v) => [a, b][(self.variables[v] % 2) as usize],
            Argument::Wild => self.random.next() >> self.random.below(60),
            Argument::Minted => self.minted,
            Argument::Square(v) => self.variables[v] * self.variables[v],
            Argument::Narrow(v) => 0x0101_0000_0000_0000 | (self.variables[v] & 0xff) << 16,
        }
    }

    fn run(&mut self, nodes: &[Node], depth: usize) {
        for (index, node) in nodes.iter().enumerate() {
            if self.budget == 0 {
                return;
            }
            self.budget -= 1;
            let site = if self.sites { (depth * 100 + index + 1) as u64 } else { 0 };
            self.one(node, site, depth);
        }
    }

    fn one(&mut self, node: &Node, site: u64, depth: usize) {
        match node {
            Node::Launch { function, arguments, stream } => {
                let bytes: Vec<u8> = arguments.iter().flat_map(|a| self.value(a).to_le_bytes()).collect();
                let stream = self.value(stream) as u32;
                let launch = |w: &mut _| {
                    operations::launch(w, *function, stream, [8, 1, 1], [32, 1, 1], 0, false, 0, &bytes);
                };
                self.recording.call(site, launch);
            }
            Node::Short { bytes, argument } => {
                let value = u128::from(self.value(argument)) | 7 << 64;
                let bytes = &value.to_le_bytes()[..*bytes];
                self.recording.call(site, |w| operations::launch(w, 16, 1, [1; 3], [1; 3], 0, true, 0, bytes));
            }
            Node::Write { bytes, argument } => {
                let data: Vec<u8> = (0..6).flat_map(|_| self.value(argument).to_le_bytes()).take(*bytes).collect();
                let width = *bytes as u64;
                self.recording.call(site, |w| operations::write(w, 0x1000, width, width, 1, 1, false, false, &data));
            }
            Node::Memory(argument) => {
                let value = self.value(argument);
                self.recording.call(site, |w| {
                    operations::memset(w, value, 0, 16, 1, value as u32, 1, 1);
                    operations::copy(w, value, 0, 0x2000, 0, 16, 1, 1);
                });
            }
            Node::Mint => {
                self.minted = 0x7000_0000_0000 + self.random.below(1000) * 256;
                let minted = self.minted;
                self.recording.call(site, |w| operations::allocate(w, minted, 256));
            }
            Node::Event(argument) => {
                let event = self.value(argument) as u32;
                self.recording.call(site, |w| operations::event_record(w, event, 1, 0));
            }
            Node::Read(argument) => {
                let address = self.value(argument);
                self.slot += 1;
                let slot = self.slot;
                self.recording.call(site, |w| operations::read(w, address, 4, 4, 1, 1, slot));
                self.recording.flush(Reason::Sync);
            }
            Node::Module => {
                let function = 16 + self.random.below(100) as u32;
                self.recording.call(site, |w| operations::function_open(w, function, 16, b"kernel"));
            }
            Node::Flush => {
                if self.random.one_in(3) {
                    self.recording.flush(Reason::Sync);
                }
            }
            Node::Part => {
                if self.random.one_in(3) {
                    self.recording.recorder.part(&mut self.recording.tape);
                }
            }
            Node::Thread(thread) => self.recording.thread = *thread,
            Node::Loop { count, triangular, leave, body } => {
                let variable = depth % 3;
                let before = self.variables[variable];
                let count = if *triangular { before % 8 } else { *count };
                for i in 0..count.min(*leave) {
                    self.variables[variable] = i;
                    if self.random.one_in(50) {
                        self.recording.hint = 1 + depth as u32;
                    }
                    self.run(body, depth + 1);
                }
                self.variables[variable] = before;
            }
            Node::When { every, body } => {
                if self.variables[0].is_multiple_of(*every) {
                    self.run(body, depth + 1);
                }
            }
        }
    }
}

fn check(seed: u64, budget: u32) {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let program = block(&mut random, 0);
    let sites = random.one_in(2);
    let mut machine =
        Machine { recording: Recording::new(), random, variables: [0; 3], minted: 0, slot: 0, budget, sites };
    for round in 0..3 {
        machine.variables = [round; 3];
        machine.run(&program, 0);
    }
    machine.recording.check();
}

#[test]
fn random_programs() {
    let count = std::env::var("RECORDER_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(400);
    for seed in 0..count {
        if let Err(panic) = std::panic::catch_unwind(|| check(seed, 4000)) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// No structure at all: few records, in any order.
#[test]
fn random_records() {
    for seed in 0..400_u64 {
        let mut random = Random(seed + 1);
        let mut recording = Recording::new();
        let kinds = 1 + random.below(5);
        for _ in 0..2000 {
            let kind = random.below(kinds);
            let value = random.below(3);
            recording.launch(0, 16 + kind as u32, &[value, if random.one_in(9) { random.next() } else { 1 }]);
            if random.one_in(100) {
                recording.flush(Reason::Sync);
            }
        }
        recording.check();
    }
}
