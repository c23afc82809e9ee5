//! What the tests share: the reference expander, programs to record, and a tape that remembers what was recorded.
#![allow(dead_code)] // each test file uses a part

pub mod expander;

use expander::Expander;
use recorder::{Origin, PredictedLaunch, Reason, Recorder};
use tape::{operations, Writer};

/// xorshift64*.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 16) % limit
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// A recorder, its tape, and beside them the records as they were appended.
pub struct Recording {
    pub recorder: Recorder,
    pub tape: Writer,
    pub original: Vec<u8>,
    pub thread: u64,
    pub hint: u32,
}

impl Recording {
    pub fn new() -> Self {
        Self { recorder: Recorder::new(), tape: Writer::new(), original: Vec::new(), thread: 1, hint: 0 }
    }

    pub fn call(&mut self, site: u64, write: impl Fn(&mut Writer)) {
        let mark = self.tape.len();
        write(&mut self.tape);
        self.original.extend_from_slice(&self.tape.as_slice()[mark..]);
        let origin = Origin { thread: self.thread, site, hint: std::mem::take(&mut self.hint) };
        self.recorder.appended(&mut self.tape, mark, origin);
    }

    pub fn launch(&mut self, site: u64, function: u32, parameters: &[u64]) {
        let bytes: Vec<u8> = parameters.iter().flat_map(|p| p.to_le_bytes()).collect();
        self.call(site, |w| operations::launch(w, function, 1, [64, 1, 1], [256, 1, 1], 0, false, 0, &bytes));
    }

    /// A launch as `launch` makes it, predicted.
    pub fn predicted(site: u64, function: u32, now: &[u64], next: &[u64]) -> PredictedLaunch {
        let record = |parameters: &[u64]| {
            let bytes: Vec<u8> = parameters.iter().flat_map(|p| p.to_le_bytes()).collect();
            let mut w = Writer::new();
            operations::launch(&mut w, function, 1, [64, 1, 1], [256, 1, 1], 0, false, 0, &bytes);
            w.as_slice().to_vec()
        };
        PredictedLaunch { site, now: record(now), next: record(next) }
    }

    /// The next record is expected to be the first of so many iterations of these.
    pub fn predict(&mut self, iterations: u64, records: &[PredictedLaunch]) -> bool {
        self.recorder.predict(&mut self.tape, self.thread, iterations, records)
    }

    pub fn flush(&mut self, reason: Reason) {
        self.recorder.flush(&mut self.tape, reason);
        assert!(!self.recorder.holds());
    }

    /// Flushes and checks that the tape stands for exactly what was recorded. Bytes of the tape.
    pub fn check(&mut self) -> usize {
        self.flush(Reason::Exit);
        let mut expander = Expander::default();
        expander.tape(self.tape.as_slice());
        if expander.records != self.original {
            let at = expander.records.iter().zip(&self.original).take_while(|(a, b)| a == b).count();
            panic!(
                "differs at {at}: {} bytes of {}, taken {:?}",
                expander.records.len(),
                self.original.len(),
                self.recorder.counts()
            );
        }
        self.tape.len()
    }

    pub fn levels(&self) -> usize {
        let mut expander = Expander::default();
        expander.tape(self.tape.as_slice());
        expander.most_levels
    }
}
