//! Addresses of pinned memory among bytes that kernels will see: what is copied to the device, and pinned memory that
//! became the device's.
//!
//! Owns the search. A word that looks like an address of pinned memory is taken for one: where it is none, that costs
//! time and changes no result. Most bytes have none, so blocks are looked at as a whole first, by the upper half of
//! each word.

use super::placed;

/// Words that are looked at together.
const BLOCK: usize = 64;

/// Calls with each address of pinned memory among the words of `bytes`, the first of which is at `start`: words lie at
/// multiples of 8.
pub fn addresses(bytes: &[u8], start: u64, mut found: impl FnMut(usize)) {
    let lead = (start.wrapping_neg() & 7) as usize;
    let Some(bytes) = bytes.get(lead..) else { return };
    let (low, high) = placed::bounds();
    if low >= high {
        return;
    }
    let (first, span) = ((low >> 32) as u32, ((high - 1) >> 32) as u32 - (low >> 32) as u32);
    for block in bytes.chunks(8 * BLOCK) {
        let words = block.chunks_exact(8);
        let near = |word: &[u8]| u32::from_le_bytes([word[4], word[5], word[6], word[7]]).wrapping_sub(first) <= span;
        if words.clone().fold(false, |any, word| any | near(word)) {
            for word in words {
                let word = word.try_into().map_or(0, u64::from_le_bytes) as usize;
                if placed::near(word) {
                    found(word);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(bytes: &[u8], start: u64) -> Vec<usize> {
        let mut all = Vec::new();
        addresses(bytes, start, |address| all.push(address));
        all
    }

    #[test]
    fn words_at_multiples_of_eight_are_found_wherever_the_bytes_begin() {
        placed::tests::bound(0x5325_0000_0000, 0x5325_0001_0000);
        let wanted = [0x5325_0000_0010_usize, 0x5325_0000_ffff];
        for start in 0..9_u64 {
            let lead = (8 - start % 8) as usize % 8;
            for at in [0, 1, 63, 64, 100] {
                let mut bytes = vec![0xa5_u8; lead + 8 * 200 + 5];
                for (place, address) in [(at, wanted[0]), (at + 70, wanted[1]), (at + 71, 0x5325_0001_0000)] {
                    bytes[lead + 8 * place..][..8].copy_from_slice(&address.to_le_bytes());
                }
                assert_eq!(found(&bytes, start), wanted, "{start} {at}");
                assert_eq!(found(&bytes, start + 4), [], "{start} {at}");
            }
        }
        assert_eq!((found(&[1, 2, 3], 5), found(&[], 0)), (vec![], vec![]));
    }
}
