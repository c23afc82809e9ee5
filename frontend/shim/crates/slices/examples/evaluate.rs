//! Evaluates slices that come by standard input, for tests that compare this crate with its specification (tests/unit/analyzer/slices).
//!
//! A line is `slice HEX`, `begin HEX...` (the inputs), `simplify` (begins again, as loops go on that are long), `step`, `fill HEX` (what the last call
//! has brought) or `time N HEX`
//! (so many iterations, in which each copy brings this byte again and again: nanoseconds of the processor for each, and how many there were from one beginning
//! to the end). Each is answered by a line.

use slices::form::{Place, Spot};
use slices::invariant::Invariants;
use slices::{Evaluation, Event, Prepared, Slice};
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
    /// What the evaluation is not asked for.
    invariants: Option<Invariants>,
    fills: Option<Place>,
}

impl State {
    fn inputs(&self) -> Vec<&[u8]> {
        self.inputs.iter().map(Vec::as_slice).collect()
    }

    /// As records are made of it: what is the same in all iterations is known, and not asked for.
    fn prepare(&self) -> Option<(Arc<Prepared>, Invariants)> {
        let slice = self.slice.clone()?;
        let invariants = Invariants::of(&slice, &self.inputs())?;
        let changing = slice.calls.iter().enumerate().map(|(number, call)| {
            call.values().filter(|value| invariants.bytes(number, *value).is_none()).collect::<Vec<Spot>>()
        });
        let changing = changing.collect();
        Some((Arc::new(Prepared::asked_for(slice, changing)), invariants))
    }

    fn value(&self, call: usize, value: Spot) -> Option<String> {
        if let Some(bytes) = self.invariants.as_ref().and_then(|invariants| invariants.bytes(call, value)) {
            return Some(hex(&bytes));
        }
        let mut bytes = Vec::new();
        self.evaluation.as_ref()?.put(value, &mut bytes);
        Some(hex(&bytes))
    }

    fn step(&mut self) -> Option<String> {
        let call = match self.evaluation.as_mut()?.step() {
            Ok(Event::Called(number)) => number,
            Ok(Event::Again) => return Some("again".to_owned()),
            Ok(Event::Left(address)) => return Some(format!("left {address}")),
            Err(stuck) => return Some(format!("stuck: {stuck}")),
        };
        let slice = self.slice.clone()?;
        let call_ = &slice.calls[call];
        self.fills = call_.fills;
        let source = call_.source.map_or(Some("-".to_owned()), |at| self.value(call, Spot::Memory(at)))?;
        let mut line = format!("called {call} {source}");
        for argument in &call_.arguments {
            let _ = write!(line, " {}={}", argument.number, self.value(call, argument.value)?);
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
                self.invariants = None;
                let prepared = Arc::new(Prepared::whole(self.slice.clone()?));
                self.evaluation = Evaluation::begin(prepared, &self.inputs());
                self.evaluation.as_ref().map(|_| "ok".to_owned())
            }
            "simplify" => {
                let (prepared, invariants) = self.prepare()?;
                let mut evaluation = Evaluation::begin(prepared, &self.inputs())?;
                evaluation.simplify();
                (self.evaluation, self.invariants) = (Some(evaluation), Some(invariants));
                Some("ok".to_owned())
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
                let (prepared, _) = self.prepare()?;
                let started = processor_time()?;
                while iterations < rounds {
                    let mut evaluation = Evaluation::begin(prepared.clone(), &self.inputs())?;
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
