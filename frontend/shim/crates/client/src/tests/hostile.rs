//! Random results against the ledger: whatever a host sends, nothing is written but the rows that were asked for, and
//! every waiting thread is released.

use super::fake_host::{data, status, value};
use crate::incoming::awaited::Awaited;
use crate::incoming::destination::Destination;
use crate::incoming::ledger::{Entry, Ledger, Patience};
use crate::incoming::waiter::Waiter;
use std::sync::Arc;

/// xorshift64*: the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % limit
    }
}

fn result(random: &mut Random) -> Vec<u8> {
    let slot = random.below(4) as u32;
    let error = if random.below(4) == 0 { 700 } else { 0 };
    match random.below(8) {
        0 => status(slot, error),
        1 => value(slot, error, random.below(u64::MAX)),
        _ => {
            let offset = if random.below(16) == 0 { u64::MAX - random.below(64) } else { random.below(48) };
            let size = if error == 0 { random.below(24) as usize } else { 0 };
            data(slot, error, offset, &vec![0xaa; size])
        }
    }
}

#[test]
fn random_results_touch_only_the_rows() {
    let mut random = Random(0x5eed_5eed_5eed_5eed);
    let (mut complete, mut refused) = (0, 0);
    for _ in 0..fuzzing::inputs(50_000) {
        let (pitch, width, height) = (7 + random.below(4) as usize, random.below(8) as usize, random.below(5) as usize);
        let mut memory = [0_u8; 96];
        let start = 24;
        let destination = Destination { ptr: memory[start..].as_mut_ptr(), pitch, width, height };
        let ledger = Ledger::new(1 << 20);
        let waiters = [Arc::new(Waiter::for_rows(destination).expect("fits")), Arc::new(Waiter::for_answer())];
        for (index, waiter) in waiters.iter().enumerate() {
            let (group, slot) = (index as u64 + 1, index as u32 + 1);
            let entry = ledger.enter(group, 8, 0, Some(Awaited::new(slot, waiter.clone())), Patience::None, 0);
            assert_eq!(entry, Entry::Entered { waited: false });
        }
        let mut ended = false;
        let mut group = 1;
        for _ in 0..random.below(8) {
            let mut results: Vec<u8> = (0..random.below(4)).flat_map(|_| result(&mut random)).collect();
            if random.below(8) == 0 && !results.is_empty() {
                let at = random.below(results.len() as u64) as usize;
                results[at] ^= 1 << random.below(8);
            }
            let outcome = ledger.deliver(group, &results).and_then(|_| match random.below(3) {
                0 => ledger.acknowledge(group).map(|_| group += 1),
                _ => Ok(()),
            });
            if outcome.is_err() {
                ended = true;
                break;
            }
        }
        ledger.close();
        refused += usize::from(ended);
        complete += waiters.iter().filter(|waiter| waiter.wait().is_some()).count();
        let inside = |at: usize| (0..height).any(|row| (0..width).any(|column| at == start + row * pitch + column));
        for (at, byte) in memory.iter().enumerate() {
            assert!(*byte == 0 || inside(at), "byte {at} with pitch {pitch}, width {width}, height {height}");
        }
    }
    assert!(complete > 1000 && refused > 10_000, "{complete} {refused}");
}
