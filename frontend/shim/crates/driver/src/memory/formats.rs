//! The driver API's formats of texels (CUarray_format and a number of channels) as the descriptions that the operations
//! take, and back.

use std::ffi::{c_int, c_uint};

use abi::driver::CUarray_format;
use operations::types::{
    ChannelFormatDesc, CHANNEL_FORMAT_KIND_FLOAT, CHANNEL_FORMAT_KIND_SIGNED, CHANNEL_FORMAT_KIND_UNSIGNED,
};
use session::call::{Error, Outcome};

/// CUarray_format, kind of a channel, bits of a channel.
const FORMATS: [(CUarray_format, c_int, c_int); 8] = [
    (0x01, CHANNEL_FORMAT_KIND_UNSIGNED, 8),
    (0x02, CHANNEL_FORMAT_KIND_UNSIGNED, 16),
    (0x03, CHANNEL_FORMAT_KIND_UNSIGNED, 32),
    (0x08, CHANNEL_FORMAT_KIND_SIGNED, 8),
    (0x09, CHANNEL_FORMAT_KIND_SIGNED, 16),
    (0x0a, CHANNEL_FORMAT_KIND_SIGNED, 32),
    (0x10, CHANNEL_FORMAT_KIND_FLOAT, 16),
    (0x20, CHANNEL_FORMAT_KIND_FLOAT, 32),
];

/// # Errors
/// cudaErrorInvalidValue for a format without channels of one width (block-compressed and planar ones), and for 3
/// channels.
pub fn description(format: CUarray_format, channels: c_uint) -> Outcome<ChannelFormatDesc> {
    let (_, f, bits) = FORMATS.into_iter().find(|(known, ..)| *known == format).ok_or(Error::INVALID_VALUE)?;
    if ![1, 2, 4].contains(&channels) {
        return Err(Error::INVALID_VALUE);
    }
    let channel = |index: c_uint| if index < channels { bits } else { 0 };
    Ok(ChannelFormatDesc { x: channel(0), y: channel(1), z: channel(2), w: channel(3), f })
}

/// The format and the number of channels.
pub fn format_of(desc: &ChannelFormatDesc) -> (CUarray_format, c_uint) {
    let channels = [desc.x, desc.y, desc.z, desc.w].iter().filter(|bits| **bits != 0).count() as c_uint;
    let found = FORMATS.into_iter().find(|(_, kind, bits)| (*kind, *bits) == (desc.f, desc.x));
    (found.map_or(0, |(format, ..)| format), channels)
}

/// Whether texels of that format are read as they are: floats, and integers of 32 bits, which cannot become normalized
/// floats.
pub fn reads_as_is(desc: &ChannelFormatDesc) -> bool {
    desc.f == CHANNEL_FORMAT_KIND_FLOAT || desc.x == 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_come_back_as_they_were_given() {
        for (format, ..) in FORMATS {
            for channels in [1, 2, 4] {
                assert_eq!(format_of(&description(format, channels).unwrap()), (format, channels));
            }
        }
        for (format, channels) in [(0, 1), (0x04, 1), (0x20, 3), (0x20, 0), (0x91, 1)] {
            assert_eq!(description(format, channels), Err(Error::INVALID_VALUE), "{format:#x} {channels}");
        }
    }
}
