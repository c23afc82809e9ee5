//! Damaged images, in a fixed sequence: nothing panics, nothing takes long, whatever the bytes say.

use crate::cubin::elf::machine_code_length;
use crate::samples;
use crate::{container_length, Module, Target, Wrapper};

/// A small generator of fixed sequences (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

const PTX_TOKENS: [&str; 28] = [
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ";",
    ",",
    "\"",
    "/*",
    "//",
    ".entry",
    ".func",
    ".param",
    ".shared",
    ".align",
    ".b8",
    ".v4",
    ".ptr",
    ".maxntid",
    ".const",
    "0xffffffffffffffff",
    "18446744073709551615",
    "0",
    ".extern",
    "\\",
    ".target sm_",
    "=",
];

fn damage(random: &mut Random, image: &mut Vec<u8>) {
    for _ in 0..=random.below(6) {
        if image.is_empty() {
            return;
        }
        let at = random.below(image.len());
        match random.below(7) {
            0 => image[at] = random.next() as u8,
            1 => image[at] ^= 1 << random.below(8),
            2 => image.truncate(at),
            3 => {
                let end = (at + 8).min(image.len());
                let extreme = [0, u64::MAX, 1 << 63, 0x7fff_ffff, 0xffff_ffff][random.below(5)];
                image[at..end].copy_from_slice(&extreme.to_le_bytes()[..end - at]);
            }
            4 => {
                let end = (at + random.below(64)).min(image.len());
                image.drain(at..end);
            }
            5 => {
                let end = (at + random.below(256)).min(image.len());
                let copy = image[at..end].to_vec();
                let to = random.below(image.len());
                image.splice(to..to, copy);
            }
            _ => {
                let token = PTX_TOKENS[random.below(PTX_TOKENS.len())];
                image.splice(at..at, token.bytes());
            }
        }
    }
}

fn run(seed: u64, rounds: u64, originals: &[Vec<u8>]) {
    let mut random = Random(seed);
    for _ in 0..fuzzing::inputs(rounds) {
        let mut image = originals[random.below(originals.len())].clone();
        damage(&mut random, &mut image);
        for takes_machine_code in [false, true] {
            let target =
                Target { compute: (7, 5), takes_ptx: true, takes_machine_code, takes_any_ptx: !takes_machine_code };
            if let Ok(module) = Module::read(&image, &target) {
                for kernel in module.kernels.values().flatten() {
                    let end = kernel.parameters.iter().map(|place| place.offset + place.size).max().unwrap_or(0);
                    assert_eq!(end, kernel.parameter_bytes);
                }
            }
        }
        let _ = container_length(&image);
        assert!(machine_code_length(&image).is_none_or(|length| length <= image.len()));
        let _ = Wrapper::parse(&image);
    }
}

#[test]
fn damaged_text_and_machine_code() {
    run(1, 1500, &[samples::PTX.as_bytes().to_vec(), samples::CUBIN.to_vec()]);
}

#[test]
fn damaged_containers() {
    let text = samples::PTX.as_bytes();
    run(
        2,
        1500,
        &[
            samples::container(&[samples::entry(1, 75, 0, text), samples::entry(2, 75, 0, &samples::CUBIN[..2000])]),
            samples::container(&[samples::lz4_entry(75, text)]),
            samples::container(&[samples::zstd_entry(75, text)]),
        ],
    );
}

#[test]
fn words_in_any_order() {
    let mut random = Random(3);
    for _ in 0..fuzzing::inputs(3000) {
        let mut text = String::from(".version 8.0\n.target sm_75\n");
        for _ in 0..random.below(60) {
            text.push_str(PTX_TOKENS[random.below(PTX_TOKENS.len())]);
            text.push([' ', '\n', 'a'][random.below(3)]);
        }
        let target = Target { compute: (7, 5), takes_ptx: true, takes_machine_code: false, takes_any_ptx: false };
        let _ = Module::read(text.as_bytes(), &target);
    }
}
