//! An entry's bytes as the compiler wrote them: stored, LZ4 (one raw block) or zstd (one frame).
//!
//! Memory is bounded by [`limits::PAYLOAD_BYTES`], whatever sizes a header claims; zstd output grows as it is produced,
//! so that a false claim costs nothing.

use std::borrow::Cow;
use std::io::Read;

use crate::container::{Compression, Entry};
use crate::error::Error;
use crate::limits;

/// The most that LZ4 can expand: a match length byte of 255 per input byte.
const LZ4_RATIO: u64 = 255;
const FIRST_GUESS: usize = 1 << 20;

impl<'a> Entry<'a> {
    /// The entry's bytes, decompressed.
    ///
    /// # Errors
    /// When they cannot be decompressed to the size that the header claims, or not within the limits.
    pub fn payload(&self) -> Result<Cow<'a, [u8]>, Error> {
        if self.size > limits::PAYLOAD_BYTES {
            return Err(Error::too_large(format!("a fat binary entry of {} bytes", self.size)));
        }
        let size = usize::try_from(self.size).unwrap_or(usize::MAX);
        match self.compression {
            Compression::None => Ok(Cow::Borrowed(self.stored)),
            Compression::Lz4 => expand_lz4(self.stored, size).map(Cow::Owned),
            Compression::Zstd => expand_zstd(self.stored, size).map(Cow::Owned),
        }
    }
}

fn expand_lz4(stored: &[u8], size: usize) -> Result<Vec<u8>, Error> {
    if size as u64 > stored.len() as u64 * LZ4_RATIO + LZ4_RATIO {
        return Err(Error::malformed("an LZ4 entry that claims more bytes than it can hold"));
    }
    let mut output = vec![0; size];
    match lz4_flex::block::decompress_into(stored, &mut output) {
        Ok(written) if written == size => Ok(output),
        Ok(written) => Err(Error::malformed(format!("an LZ4 entry of {written} bytes that claims {size}"))),
        Err(error) => Err(Error::malformed(format!("a damaged LZ4 entry ({error})"))),
    }
}

fn expand_zstd(stored: &[u8], size: usize) -> Result<Vec<u8>, Error> {
    let damaged = |error: String| Error::malformed(format!("a damaged zstd entry ({error})"));
    let mut decoder = zstd::Decoder::with_buffer(stored).map_err(|error| damaged(error.to_string()))?.single_frame();
    decoder.window_log_max(limits::ZSTD_WINDOW_LOG).map_err(|error| damaged(error.to_string()))?;
    let mut output = Vec::with_capacity(size.min(FIRST_GUESS));
    let read = decoder.take(size as u64 + 1).read_to_end(&mut output).map_err(|error| damaged(error.to_string()))?;
    if read == size {
        Ok(output)
    } else {
        Err(Error::malformed(format!("a zstd entry that does not hold the {size} bytes it claims")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::Container;
    use crate::samples;

    fn expand(image: &[u8]) -> Result<Vec<u8>, Error> {
        Container::parse(image).unwrap().entries[0].payload().map(Cow::into_owned)
    }

    #[test]
    fn stored_entries_are_borrowed() {
        let image = samples::container(&[samples::entry(1, 80, 0, b"plain")]);
        let container = Container::parse(&image).unwrap();
        assert!(matches!(container.entries[0].payload().unwrap(), Cow::Borrowed(_)));
    }

    #[test]
    fn lz4_and_zstd_agree_with_the_text() {
        let text = "mov.u32 %r1, %tid.x;\n".repeat(1000).into_bytes();
        assert_eq!(expand(&samples::container(&[samples::lz4_entry(80, &text)])).unwrap(), text);
        assert_eq!(expand(&samples::container(&[samples::zstd_entry(80, &text)])).unwrap(), text);
    }

    #[test]
    fn false_sizes_are_errors() {
        let text = "x".repeat(5000).into_bytes();
        for make in [samples::lz4_entry, samples::zstd_entry] {
            for claim in [0u64, 1, 4999, 5001, 1 << 20, limits::PAYLOAD_BYTES, limits::PAYLOAD_BYTES + 1, u64::MAX] {
                let mut entry = make(80, &text);
                entry[56..64].copy_from_slice(&claim.to_le_bytes());
                assert!(expand(&samples::container(&[entry])).is_err(), "{claim}");
            }
        }
    }
}
