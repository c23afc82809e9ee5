//! Resource views: a texture of some levels and layers of an array, whose texels are read in another format of the same
//! size.
//!
//! Pure: the array's numbers and the view's in, what the descriptor says instead out. Block-compressed formats are not
//! there.
//!
//! Source: CUDA runtime API, cudaCreateTextureObject, cudaResourceViewDesc.

use std::ffi::c_int;
use std::ops::RangeInclusive;

use crate::memory::channels;
use crate::types::{ChannelFormatDesc, ResourceViewDesc, ARRAY_CUBEMAP as CUBE, ARRAY_LAYERED as LAYERED};
use session::call::{Error, Outcome};

/// cudaResViewFormatFloat4; those behind it are block-compressed.
const LAST_PLAIN: c_int = 0x18;

/// The texels that a view shows, of one level.
#[derive(Debug, PartialEq)]
pub struct Shown {
    pub desc: ChannelFormatDesc,
    pub first_layer: u32,
    /// As many as there were, where there are no layers.
    pub depth: u32,
}

/// What there is to be viewed: the array's, or a level's.
#[derive(Debug, Clone, Copy)]
pub struct Viewed {
    pub desc: ChannelFormatDesc,
    pub extent: [u32; 3],
    pub flags: u32,
}

/// The format that the view asks for.
fn format(view: &ResourceViewDesc, own: ChannelFormatDesc) -> Outcome<ChannelFormatDesc> {
    let Some(number) = view.format.checked_sub(1).filter(|number| (0..LAST_PLAIN).contains(number)) else {
        return if view.format == 0 { Ok(own) } else { Err(Error::NOT_SUPPORTED) };
    };
    let (unsigned, signed, float) = (
        crate::types::CHANNEL_FORMAT_KIND_UNSIGNED,
        crate::types::CHANNEL_FORMAT_KIND_SIGNED,
        crate::types::CHANNEL_FORMAT_KIND_FLOAT,
    );
    let (bits, kind) = [
        (8, unsigned),
        (8, signed),
        (16, unsigned),
        (16, signed),
        (32, unsigned),
        (32, signed),
        (16, float),
        (32, float),
    ][(number / 3) as usize];
    let count = [1, 2, 4][(number % 3) as usize];
    let channel = |index: c_int| if index < count { bits } else { 0 };
    Ok(ChannelFormatDesc { x: channel(0), y: channel(1), z: channel(2), w: channel(3), f: kind })
}

/// What the view shows.
///
/// # Errors
/// cudaErrorInvalidValue: texels of another size, another extent, or layers that are not there. cudaErrorNotSupported:
/// compressed formats, and faces of cube maps.
pub fn shown(view: &ResourceViewDesc, viewed: &Viewed, extent: [u32; 3]) -> Outcome<Shown> {
    let desc = format(view, viewed.desc)?;
    let bytes = |desc| channels(desc).map(|(bits, count)| bits * count);
    let asked = [view.width, view.height, view.depth];
    let same = asked.iter().zip(extent).all(|(asked, own)| (*asked).max(1) == own.max(1) as usize);
    if bytes(&desc)? != bytes(&viewed.desc)? || !same {
        return Err(Error::INVALID_VALUE);
    }
    let (first, last, depth) = (view.firstLayer, view.lastLayer, viewed.extent[2].max(1));
    if viewed.flags & CUBE != 0 && (first, last) != (0, depth - 1) && (first, last) != (0, 0) {
        return Err(Error::NOT_SUPPORTED);
    }
    if viewed.flags & LAYERED == 0 || viewed.flags & CUBE != 0 {
        let none = viewed.flags & CUBE != 0 || (first, last) == (0, 0);
        return if none { Ok(Shown { desc, first_layer: 0, depth }) } else { Err(Error::INVALID_VALUE) };
    }
    if first > last || last >= depth {
        return Err(Error::INVALID_VALUE);
    }
    Ok(Shown { desc, first_layer: first, depth: last - first + 1 })
}

/// The levels that the view shows, of so many.
///
/// # Errors
/// cudaErrorInvalidValue: they are not there.
pub fn levels(view: &ResourceViewDesc, count: usize) -> Outcome<RangeInclusive<usize>> {
    let (first, last) = (view.firstMipmapLevel as usize, view.lastMipmapLevel as usize);
    if first > last || last >= count {
        return Err(Error::INVALID_VALUE);
    }
    Ok(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: ChannelFormatDesc = ChannelFormatDesc { x: 8, y: 8, z: 8, w: 8, f: 1 };

    fn viewed(extent: [u32; 3], flags: u32) -> Viewed {
        Viewed { desc: BYTES, extent, flags }
    }

    fn view(format: c_int, extent: [usize; 3], layers: (u32, u32)) -> ResourceViewDesc {
        let [width, height, depth] = extent;
        let (firstLayer, lastLayer) = layers;
        ResourceViewDesc { format, width, height, depth, firstLayer, lastLayer, ..ResourceViewDesc::default() }
    }

    fn see(view: &ResourceViewDesc, viewed: &Viewed) -> Outcome<Shown> {
        shown(view, viewed, viewed.extent)
    }

    #[test]
    fn formats_of_the_same_size() {
        let plane = viewed([16, 8, 0], 0);
        let read = |number| see(&view(number, [16, 8, 0], (0, 0)), &plane).map(|shown| shown.desc);
        assert_eq!(read(0), Ok(BYTES));
        assert_eq!(read(0x06), Ok(ChannelFormatDesc { f: 0, ..BYTES }));
        assert_eq!(read(0x16), Ok(ChannelFormatDesc { x: 32, y: 0, z: 0, w: 0, f: 2 }));
        assert_eq!(read(0x08), Ok(ChannelFormatDesc { x: 16, y: 16, z: 0, w: 0, f: 1 }));
        assert_eq!(read(0x14), Ok(ChannelFormatDesc { x: 16, y: 16, z: 0, w: 0, f: 2 }));
        assert_eq!(read(0x0d), Ok(ChannelFormatDesc { x: 32, y: 0, z: 0, w: 0, f: 1 }));
        assert_eq!(read(0x18), Err(Error::INVALID_VALUE));
        assert_eq!(read(0x19), Err(Error::NOT_SUPPORTED));
        assert_eq!(read(-1), Err(Error::NOT_SUPPORTED));
        let other = see(&view(0, [8, 8, 0], (0, 0)), &plane);
        assert_eq!(other, Err(Error::INVALID_VALUE));
    }

    #[test]
    fn layers_and_levels() {
        let layers = viewed([16, 8, 5], LAYERED);
        let part = see(&view(0, [16, 8, 5], (1, 3)), &layers).unwrap();
        assert_eq!((part.first_layer, part.depth), (1, 3));
        for wrong in [(3, 1), (0, 5)] {
            assert_eq!(see(&view(0, [16, 8, 5], wrong), &layers), Err(Error::INVALID_VALUE));
        }
        let volume = viewed([16, 8, 5], 0);
        assert_eq!(see(&view(0, [16, 8, 5], (0, 0)), &volume).unwrap().depth, 5);
        assert_eq!(see(&view(0, [16, 8, 5], (0, 1)), &volume), Err(Error::INVALID_VALUE));
        let cubes = viewed([16, 16, 6], CUBE);
        assert_eq!(see(&view(0, [16, 16, 6], (0, 5)), &cubes).unwrap().depth, 6);
        assert_eq!(see(&view(0, [16, 16, 6], (1, 2)), &cubes), Err(Error::NOT_SUPPORTED));
        let some = |first, last| {
            let view = ResourceViewDesc { firstMipmapLevel: first, lastMipmapLevel: last, ..Default::default() };
            levels(&view, 3)
        };
        assert_eq!(some(1, 2), Ok(1..=2));
        assert_eq!(some(0, 3), Err(Error::INVALID_VALUE));
        assert_eq!(some(2, 1), Err(Error::INVALID_VALUE));
    }
}
