//! Whether a payload is worth compressing, and its LZ4 block.
//!
//! The test is cheap: two samples of 2 KiB are compressed. How well they must do depends on the link: over a network a
//! byte saved is worth much more than over a socket of the same machine, where compressing pays only for what nearly
//! vanishes. A payload that turns out larger than seven eighths of itself travels as it is.

use lz4_flex::block::{compress_into, get_maximum_output_size};

const SAMPLE: usize = 2048;

/// What the bytes travel over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// A socket of this machine.
    Local,
    Network,
}

/// Compresses, into a buffer that is used again. One for each thread.
#[derive(Debug, Default)]
pub struct Packer {
    buffer: Vec<u8>,
}

impl Packer {
    #[must_use]
    pub const fn new() -> Self {
        Self { buffer: Vec::new() }
    }

    /// Whether `bytes` may be worth packing. They may change meanwhile.
    pub fn promises(&mut self, bytes: &[u8], link: Link) -> bool {
        if bytes.len() < smallest(link) {
            return false;
        }
        if bytes.len() < 4 * SAMPLE {
            return true;
        }
        self.make_room(SAMPLE);
        let starts = [bytes.len() / 4, bytes.len() / 4 * 3];
        let packed =
            starts.iter().filter_map(|&start| compress_into(&bytes[start..start + SAMPLE], &mut self.buffer).ok());
        packed.sum::<usize>() <= 2 * SAMPLE / 8 * worth(link)
    }

    /// The LZ4 block of `bytes` when it is worth sending instead.
    pub fn pack(&mut self, bytes: &[u8], link: Link) -> Option<&[u8]> {
        if !self.promises(bytes, link) {
            return None;
        }
        self.make_room(bytes.len());
        let length = compress_into(bytes, &mut self.buffer).ok()?;
        (length <= bytes.len() / 8 * worth(link)).then(|| &self.buffer[..length])
    }

    fn make_room(&mut self, bytes: usize) {
        let room = get_maximum_output_size(bytes);
        if self.buffer.len() < room {
            self.buffer.resize(room, 0);
        }
    }
}

/// Smaller payloads are not looked at. On one machine the work of both sides for a small one takes longer than its way
/// (benchmarks/payloads.py).
fn smallest(link: Link) -> usize {
    match link {
        Link::Local => 256 << 10,
        Link::Network => 512,
    }
}

/// Eighths of its size that a compressed payload may have.
fn worth(link: Link) -> usize {
    match link {
        Link::Local => 1,
        Link::Network => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lz4_flex::block::decompress;

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 88_172_645_463_325_252u64;
        (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state as u8
            })
            .collect()
    }

    #[test]
    fn what_is_packed_comes_back() {
        let mut packer = Packer::new();
        for length in [512, 1000, 8192, 8193, 100_000, 1 << 20] {
            let bytes: Vec<u8> = (0..length).map(|at| (at / 300) as u8).collect();
            let packed = packer.pack(&bytes, Link::Network).expect("compresses").to_vec();
            assert!(packed.len() <= length / 8 * 7);
            assert_eq!(decompress(&packed, length).expect("a block"), bytes, "{length}");
        }
    }

    #[test]
    fn noise_and_small_payloads_travel_as_they_are() {
        let mut packer = Packer::new();
        for length in [0, 1, 511, 512, 8192, 1 << 20] {
            assert_eq!(packer.pack(&noise(length), Link::Network), None, "{length}");
        }
        assert_eq!(packer.pack(&[0; 511], Link::Network), None);
    }

    #[test]
    fn a_local_link_asks_for_more() {
        let mut packer = Packer::new();
        // A quarter of each 64 bytes is noise: a network gains, a local socket does not.
        let noise = noise(1 << 18);
        let bytes: Vec<u8> = (0..1 << 18).map(|at| if at % 64 < 16 { noise[at] } else { 0 }).collect();
        assert!(packer.pack(&bytes, Link::Network).is_some());
        assert!(packer.pack(&bytes, Link::Local).is_none());
        assert!(packer.pack(&vec![0; 1 << 18], Link::Local).is_some_and(|packed| packed.len() < 2048));
        assert!(packer.pack(&vec![0; 1 << 17], Link::Local).is_none());
        assert!(packer.pack(&vec![0; 1 << 17], Link::Network).is_some());
    }

    #[test]
    fn samples_that_mislead_cost_only_time() {
        let mut packer = Packer::new();
        let mut bytes = noise(1 << 20);
        for start in [1 << 18, (1 << 18) * 3] {
            bytes[start..start + SAMPLE].fill(0);
        }
        assert_eq!(packer.pack(&bytes, Link::Network), None);
    }
}
