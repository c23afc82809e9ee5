//! Joined images: several images whose code the host links, as one (tape.md, "Images").
//!
//! Source: protos/tape.md, "Images".

use crate::bytes::{slice, u32_at, u64_at};
use crate::error::Error;

const MAGIC: &[u8; 8] = b"FARLANEJ";
const VERSION: u32 = 1;
const HEADER: usize = 16;
/// More than any program has translation units.
pub use ::limits::IMAGE_PARTS as MOST_PARTS;

/// Whether the bytes begin like a joined image.
pub(crate) fn is_joined(image: &[u8]) -> bool {
    image.starts_with(MAGIC)
}

/// One image of several, to be linked in this order.
#[must_use]
pub fn join(parts: &[&[u8]]) -> Vec<u8> {
    let mut joined = MAGIC.to_vec();
    joined.extend(VERSION.to_le_bytes());
    joined.extend((parts.len() as u32).to_le_bytes());
    for part in parts {
        joined.extend((part.len() as u64).to_le_bytes());
        joined.extend(*part);
        joined.resize(joined.len().next_multiple_of(8), 0);
    }
    joined
}

/// The bytes of the joined image that `data` begins with.
///
/// # Errors
/// When its parts are not all there.
pub(crate) fn length(data: &[u8]) -> Result<usize, Error> {
    let short = || Error::malformed("a joined image is cut off");
    let count = u32_at(data, 12).ok_or_else(short)?;
    let mut position = HEADER as u64;
    for _ in 0..count {
        let at = usize::try_from(position).map_err(|_| short())?;
        let bytes = u64_at(data, at).and_then(|bytes| bytes.checked_next_multiple_of(8)).ok_or_else(short)?;
        position = position.checked_add(8).and_then(|start| start.checked_add(bytes)).ok_or_else(short)?;
        if position > data.len() as u64 {
            return Err(short());
        }
    }
    usize::try_from(position).map_err(|_| short())
}

/// The images in a joined one.
pub(crate) fn parts(image: &[u8]) -> Result<Vec<&[u8]>, Error> {
    let damaged = || Error::malformed("a damaged joined image");
    let count = u32_at(image, 12).ok_or_else(damaged)? as usize;
    if u32_at(image, 8) != Some(VERSION) || count == 0 || count > MOST_PARTS {
        return Err(damaged());
    }
    let mut parts = Vec::new();
    let mut at = HEADER;
    for _ in 0..count {
        let length = u64_at(image, at).and_then(|length| usize::try_from(length).ok()).ok_or_else(damaged)?;
        at += 8;
        let part = slice(image, at as u64, length as u64).filter(|part| !part.is_empty()).ok_or_else(damaged)?;
        parts.push(part);
        at = at.checked_add(length.next_multiple_of(8)).ok_or_else(damaged)?;
    }
    if at == image.len() {
        Ok(parts)
    } else {
        Err(damaged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_joined_comes_apart_again() {
        let joined = join(&[b"one", b"eight888", b"x"]);
        assert!(is_joined(&joined));
        assert_eq!(parts(&joined).unwrap(), [&b"one"[..], b"eight888", b"x"]);
    }

    #[test]
    fn damage_is_an_error() {
        let joined = join(&[b"one", b"two"]);
        for length in 0..joined.len() {
            assert!(parts(&joined[..length]).is_err(), "{length} bytes");
        }
        for byte in 8..joined.len() {
            let mut damaged = joined.clone();
            damaged[byte] = damaged[byte].wrapping_add(0x81);
            let _ = parts(&damaged);
        }
        assert!(parts(&join(&[])).is_err());
        assert!(parts(&join(&[b""])).is_err());
    }
}
