//! Evaluates slices that come by standard input, for tests that compare this crate with its specification (tests/unit/analyzer/slices).
//!
//! A line is `slice HEX`, `begin HEX...` (the inputs), `step`, `fill HEX` (what the last call has brought) or `time N` (so many iterations, in loops
//! to which copies bring nothing: nanoseconds for each). Each is answered by a line.

use slices::form::Place;
use slices::{Evaluation, Event, Slice};
use std::fmt::Write;
use std::io::BufRead;
use std::sync::Arc;
use std::time::Instant;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[derive(Default)]
struct State {
    slice: Option<Arc<Slice>>,
    inputs: Vec<Vec<u8>>,
    evaluation: Option<Evaluation>,
    fills: Option<Place>,
}

impl State {
    fn begin(&self) -> Option<Evaluation> {
        let inputs: Vec<&[u8]> = self.inputs.iter().map(Vec::as_slice).collect();
        Evaluation::begin(self.slice.clone()?, &inputs)
    }

    fn step(&mut self) -> Option<String> {
        let evaluation = self.evaluation.as_mut()?;
        let call = match evaluation.step() {
            Ok(Event::Called(number)) => number,
            Ok(Event::Again) => return Some("again".to_owned()),
            Ok(Event::Left(address)) => return Some(format!("left {address}")),
            Err(stuck) => return Some(format!("stuck: {stuck}")),
        };
        let slice = evaluation.slice().clone();
        let call_ = &slice.calls[call];
        self.fills = call_.fills;
        let mut line = format!("called {call} {}", call_.source.map_or("-".to_owned(), |at| hex(evaluation.bytes(at))));
        for argument in &call_.arguments {
            let mut value = Vec::new();
            evaluation.put(argument.value, &mut value);
            let _ = write!(line, " {}={}", argument.number, hex(&value));
        }
        Some(line)
    }

    fn answer(&mut self, line: &str) -> Option<String> {
        let mut words = line.split_whitespace();
        match words.next()? {
            "slice" => match Slice::read(&bytes(words.next().unwrap_or(""))) {
                Ok(slice) => {
                    self.slice = Some(Arc::new(slice));
                    Some("ok".to_owned())
                }
                Err(error) => Some(error.to_string()),
            },
            "begin" => {
                self.inputs = words.map(bytes).collect();
                self.evaluation = self.begin();
                self.evaluation.as_ref().map(|_| "ok".to_owned())
            }
            "step" => self.step(),
            "fill" => {
                let fits = self.evaluation.as_mut()?.fill(self.fills?, &bytes(words.next()?));
                Some(if fits { "ok" } else { "another size" }.to_owned())
            }
            "time" => {
                let (rounds, mut iterations) = (words.next()?.parse::<u64>().ok()?, 0);
                let started = Instant::now();
                while iterations < rounds {
                    let mut evaluation = self.begin()?;
                    while !matches!(evaluation.step(), Ok(Event::Left(_)) | Err(_)) && evaluation.iterations() < rounds
                    {
                    }
                    iterations += evaluation.iterations();
                }
                Some(format!("{:.1}", started.elapsed().as_nanos() as f64 / iterations as f64))
            }
            _ => None,
        }
    }
}

fn main() {
    let mut state = State::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.expect("text");
        println!("{}", state.answer(&line).unwrap_or_else(|| format!("what is {line:?}?")));
    }
}
