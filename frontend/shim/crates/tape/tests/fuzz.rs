//! The reader of results against bytes that no host should send: it ends, stays inside, and never panics.

use tape::{ResultRecord, Results};

/// xorshift64*: the same bytes in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % limit as u64).expect("small")
    }
}

/// Reads everything and checks what every reader may rely on.
fn read(bytes: &[u8]) -> (usize, bool) {
    let (mut good, mut bad) = (0, false);
    for record in Results::new(bytes) {
        assert!(!bad, "nothing comes after an error");
        match record {
            Ok(record) => {
                if let ResultRecord::Data { error, data, .. } = record {
                    assert!(bytes.as_ptr_range().start <= data.as_ptr_range().start);
                    assert!(data.as_ptr_range().end <= bytes.as_ptr_range().end);
                    assert!(error == 0 || data.is_empty());
                }
                good += 1;
            }
            Err(error) => {
                assert!(!error.to_string().is_empty());
                bad = true;
            }
        }
        assert!(good * 16 <= bytes.len(), "every record has bytes of its own");
    }
    (good, bad)
}

fn record(random: &mut Random, bytes: &mut Vec<u8>) {
    let slot = random.next() as u32;
    let mut push = |words: &[u32], tail: &[u8]| {
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(tail);
    };
    match random.below(3) {
        0 => push(&[16, 1, slot, 0], &[]),
        1 => push(&[24, 2, slot, 0, 1, 2], &[]),
        _ => {
            let size = random.below(64);
            let padded = size.next_multiple_of(8);
            push(&[32 + padded as u32, 3, slot, 0, 7, 0, size as u32, 0], &vec![0xaa; padded]);
        }
    }
}

#[test]
fn random_bytes() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (inputs, mut refused) = (fuzzing::inputs(100_000), 0);
    for _ in 0..inputs {
        let mut bytes = vec![0; random.below(96)];
        bytes.iter_mut().for_each(|byte| *byte = (random.next() >> 32) as u8);
        refused += u64::from(read(&bytes).1);
    }
    assert!(refused > inputs / 10 * 9, "{refused}");
}

#[test]
fn good_results_with_a_few_bytes_changed_or_cut() {
    let mut random = Random(0x0123_4567_89ab_cdef);
    let (inputs, mut refused) = (fuzzing::inputs(100_000), 0);
    for round in 0..inputs {
        let mut bytes = Vec::new();
        let count = random.below(6);
        (0..count).for_each(|_| record(&mut random, &mut bytes));
        assert_eq!(read(&bytes), (count, false));
        if bytes.is_empty() {
            continue;
        }
        if round % 4 == 0 {
            bytes.truncate(random.below(bytes.len()));
        }
        for _ in 0..random.below(4).min(bytes.len()) {
            let at = random.below(bytes.len());
            // Header fields are where damage matters: half of the changes go to the start of a record.
            let at = if random.next() & 1 == 0 {
                at
            } else {
                at / 16 * 16 + random.below(8).min(bytes.len() - 1 - at / 16 * 16)
            };
            bytes[at] = if random.next() & 1 == 0 { random.next() as u8 } else { bytes[at] ^ (1 << random.below(8)) };
        }
        refused += u64::from(read(&bytes).1);
    }
    assert!(refused > inputs / 10, "{refused}");
}
