//! Evaluates slices that come by standard input, for tests that compare this crate with its specification (tests/unit/analyzer/slices).
//!
//! A line is `slice HEX`, `begin HEX...` (the inputs), `step`, `fill HEX` (what the last call has brought) or `time N HEX`
//! (so many iterations, in which each copy brings this byte again and again: nanoseconds of the processor for each, and how many there were from one beginning
//! to the end). Each is answered by a line.

use slices::form::Place;
use slices::{Evaluation, Event, Slice};
use std::fmt::Write;
use std::io::BufRead;
use std::sync::Arc;

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hexadecimal digits")).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Nanoseconds for which the process was on a processor.
fn processor_time() -> Option<u64> {
    std::fs::read_to_string("/proc/self/schedstat").ok()?.split_whitespace().next()?.parse().ok()
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
                let (rounds, mut iterations, mut begun) = (words.next()?.parse::<u64>().ok()?, 0, 0_u64);
                let brought = vec![*bytes(words.next()?).first()?; usize::from(u16::MAX)];
                let fills: Vec<_> = self.slice.as_ref()?.calls.iter().map(|call| call.fills).collect();
                let started = processor_time()?;
                while iterations < rounds {
                    let mut evaluation = self.begin()?;
                    begun += 1;
                    while evaluation.iterations() < rounds {
                        match evaluation.step() {
                            Ok(Event::Called(call)) => {
                                if let Some(place) = fills[call] {
                                    let filled = evaluation.fill(place, &brought[..usize::from(place.size)]);
                                    assert!(filled, "as many bytes as the slice says");
                                }
                            }
                            Ok(Event::Again) => {}
                            Ok(Event::Left(_)) | Err(_) => break,
                        }
                    }
                    iterations += evaluation.iterations();
                }
                let took = (processor_time()? - started) as f64 / iterations as f64;
                Some(format!("{took:.1} {}", iterations / begun))
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
