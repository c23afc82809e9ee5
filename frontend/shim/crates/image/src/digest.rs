//! The name of an image between guest and host: BLAKE2b-256 of its bytes, as in tape.md.

use blake2::digest::consts::U32;
use blake2::{Blake2b, Digest};

/// BLAKE2b-256 of `image`.
pub fn digest(image: &[u8]) -> [u8; 32] {
    Blake2b::<U32>::digest(image).into()
}

/// BLAKE2b-256 of `first` and `second`, one behind the other.
pub(crate) fn digest_of_two(first: &[u8], second: &[u8]) -> [u8; 32] {
    Blake2b::<U32>::new().chain_update(first).chain_update(second).finalize().into()
}

#[cfg(test)]
mod tests {
    #[test]
    fn matches_the_reference() {
        // Python: hashlib.blake2b(b"abc", digest_size=32).hexdigest()
        let hex: String = super::digest(b"abc").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "bddd813c634239723171ef3fee98579b94964e3bb1cb3e427262c8c068d52319");
    }
}
