//! The 128 bytes that describe a texture or surface: where texels are, how they are laid out, how they are read.
//!
//! Owns what CUDA's descriptions of resources, views and textures are as bytes, and which of them are refused.
//!
//! Source: protos/tape.md, "Textures"; CUDA runtime API, "Texture Object Management".

use std::ffi::c_int;

use crate::memory::{self, addresses, array_of, channels};
use crate::types::{
    ChannelFormatDesc, ConstArrayHandle, ConstMipmappedArrayHandle, ResourceDesc, ResourceViewDesc, TextureDesc,
};
use session::call::{Error, Outcome};

use super::view;

pub const BYTES: usize = 128;
const MAGIC: u32 = 0x7E8F_1A5E;
/// cudaFilterModeLinear, cudaReadModeNormalizedFloat, cudaAddressModeBorder.
const LINEAR: c_int = 1; // of texels, and of levels
const NORMALIZED_FLOAT: c_int = 1;
const BORDER: c_int = 3;
/// CUDA's limit of texels of a texture in linear memory.
pub const MOST_LINEAR: usize = 1 << 28;

/// Of an array, memory in rows or linear memory, an array perhaps as a view shows it.
pub fn of(
    resource: &ResourceDesc,
    texture: Option<&TextureDesc>,
    view: Option<&ResourceViewDesc>,
) -> Outcome<[u8; BYTES]> {
    let texels = view.map_or_else(|| texels(resource), |view| viewed(resource, view))?;
    descriptor(&texels, texture)
}

/// Where texels are and how they are laid out.
struct Texels {
    address: u64,
    size: [u32; 3],
    pitch: u64,
    slice: u64,
    desc: ChannelFormatDesc,
    /// What is there: cudaResourceType. Of an array also what the program asked for.
    resource: c_int,
    extent: [u32; 3],
    flags: u32,
}

impl Texels {
    /// As a view shows them. `extent`: what its extent is compared with.
    fn seen(&mut self, view: &ResourceViewDesc, extent: [u32; 3]) -> Outcome {
        let viewed = view::Viewed { desc: self.desc, extent: self.extent, flags: self.flags };
        let shown = view::shown(view, &viewed, extent)?;
        self.desc = shown.desc;
        self.address += u64::from(shown.first_layer) * self.slice;
        self.size[2] = shown.depth;
        Ok(())
    }
}

fn texels(resource: &ResourceDesc) -> Outcome<Texels> {
    let texels = |value: usize| u32::try_from(value.max(1)).map_err(|_| Error::INVALID_VALUE);
    let (start, desc) = (resource.start as u64, resource.desc);
    let memory = |rows: u64, pitch: u64, row: u64| {
        let span = rows.checked_sub(1).and_then(|rows| rows.checked_mul(pitch)).and_then(|span| span.checked_add(row));
        let addresses = addresses()?;
        span.filter(|span| addresses.holds(start, *span)).map(drop).ok_or(Error::INVALID_VALUE)
    };
    match resource.resType {
        crate::types::RESOURCE_TYPE_ARRAY => {
            let array = array_of(resource.start as ConstArrayHandle)?;
            let asked = [array.extent.width, array.extent.height, array.extent.depth];
            let size = [texels(asked[0])?, texels(asked[1])?, texels(asked[2])?];
            Ok(Texels {
                address: array.address,
                size,
                pitch: array.pitch,
                slice: array.slice(),
                desc: array.desc,
                resource: resource.resType,
                extent: asked.map(|length| length as u32), // they fit: see above
                flags: array.flags,
            })
        }
        crate::types::RESOURCE_TYPE_LINEAR => {
            let (bits, count) = channels(&desc)?;
            let width = resource.width / (bits / 8 * count) as usize;
            if width == 0 || width > MOST_LINEAR {
                return Err(Error::INVALID_VALUE);
            }
            memory(1, 0, resource.width as u64)?;
            Ok(in_memory(resource, [texels(width)?, 1, 1], 0))
        }
        crate::types::RESOURCE_TYPE_PITCH2D => {
            let (bits, count) = channels(&desc)?;
            let row = resource.width as u64 * u64::from(bits / 8 * count);
            let (rows, pitch) = (resource.height as u64, resource.pitchInBytes as u64);
            if pitch < row || rows == 0 || row == 0 {
                return Err(Error::INVALID_VALUE);
            }
            memory(rows, pitch, row)?;
            let size = [texels(resource.width)?, texels(resource.height)?, 1];
            Ok(in_memory(resource, size, pitch))
        }
        _ => Err(Error::INVALID_VALUE),
    }
}

fn in_memory(resource: &ResourceDesc, size: [u32; 3], pitch: u64) -> Texels {
    let (address, desc, resource) = (resource.start as u64, resource.desc, resource.resType);
    Texels { address, size, pitch, slice: 0, desc, resource, extent: [0; 3], flags: 0 }
}

/// The bytes that kernels read, or of which the host makes an object.
fn descriptor(texels: &Texels, texture: Option<&TextureDesc>) -> Outcome<[u8; BYTES]> {
    let (bits, count) = channels(&texels.desc)?;
    let mut bytes = [0; BYTES];
    let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    put(0, &texels.address.to_le_bytes());
    for (axis, size) in texels.size.iter().enumerate() {
        put(8 + 4 * axis, &size.to_le_bytes());
    }
    put(24, &texels.pitch.to_le_bytes());
    put(32, &texels.slice.to_le_bytes());
    let (resource, is_texture) = (texels.resource as u32, u32::from(texture.is_some()));
    let [x, y, z] = texels.extent;
    for (at, value) in [
        (40, bits / 8),
        (44, count),
        (48, texels.desc.f as u32),
        (76, MAGIC),
        (80, resource),
        (84, x),
        (88, y),
        (92, z),
        (96, texels.flags),
        (100, is_texture),
    ] {
        put(at, &value.to_le_bytes());
    }
    let Some(texture) = texture else { return Ok(bytes) };
    let float = texels.desc.f == crate::types::CHANNEL_FORMAT_KIND_FLOAT;
    let normalized = texture.readMode == NORMALIZED_FLOAT && !float;
    if normalized && bits == 32 || texture.filterMode == LINEAR && !float && !normalized {
        return Err(Error::INVALID_VALUE);
    }
    let modes = texture.addressMode;
    if !modes.iter().all(|mode| (0..=BORDER).contains(mode)) || !(0..=LINEAR).contains(&texture.filterMode) {
        return Err(Error::INVALID_VALUE);
    }
    put(104, &u32::from(texture.sRGB != 0).to_le_bytes());
    for (channel, value) in texture.borderColor.iter().enumerate() {
        put(108 + 4 * channel, &value.to_le_bytes());
    }
    put(124, &texture.maxAnisotropy.to_le_bytes());
    put(52, &texture.filterMode.to_le_bytes());
    for (axis, mode) in modes.iter().enumerate() {
        put(56 + 4 * axis, &mode.to_le_bytes());
    }
    put(68, &u32::from(texture.normalizedCoords != 0).to_le_bytes());
    put(72, &u32::from(normalized).to_le_bytes());
    Ok(bytes)
}

/// Of a mipmapped array: one for each level, one behind another, that also says which levels are read (protos/tape.md).
pub fn of_levels(resource: &ResourceDesc, texture: &TextureDesc, view: Option<&ResourceViewDesc>) -> Outcome<Vec<u8>> {
    let levels = memory::levels_of(resource.start as ConstMipmappedArrayHandle)?;
    let of = |level: crate::types::ArrayHandle| {
        texels(&ResourceDesc { resType: crate::types::RESOURCE_TYPE_ARRAY, start: level as usize, ..*resource })
    };
    let extent = of(levels[0])?.extent;
    let shown = view.map_or(Ok(0..=levels.len() - 1), |view| view::levels(view, levels.len()))?;
    let last = (shown.end() - shown.start()) as u32;
    let mut bytes = Vec::new();
    for level in &levels[shown] {
        let mut texels = of(*level)?;
        if let Some(view) = view {
            texels.seen(view, extent)?;
        }
        let mut one = descriptor(&texels, Some(texture))?;
        let words = [
            (80, resource.resType as u32),
            (84, last),
            (88, texture.minMipmapLevelClamp.to_bits()),
            (92, texture.maxMipmapLevelClamp.to_bits()),
            (96, texture.mipmapLevelBias.to_bits()),
            (124, u32::from(texture.mipmapFilterMode == LINEAR)),
        ];
        for (at, word) in words {
            one[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes.extend_from_slice(&one);
    }
    Ok(bytes)
}

/// Of an array, as a view shows it.
fn viewed(resource: &ResourceDesc, view: &ResourceViewDesc) -> Outcome<Texels> {
    if resource.resType != crate::types::RESOURCE_TYPE_ARRAY || (view.firstMipmapLevel, view.lastMipmapLevel) != (0, 0)
    {
        return Err(Error::INVALID_VALUE);
    }
    let mut texels = texels(resource)?;
    texels.seen(view, texels.extent)?;
    Ok(texels)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texture() -> TextureDesc {
        // SAFETY: an all-zero value of this C struct is valid.
        unsafe { std::mem::zeroed() }
    }

    fn texels_of(size: [u32; 3], desc: ChannelFormatDesc) -> Texels {
        let (address, extent) = (0x2000_0000_0200, [7, 5, 0]);
        Texels { address, size, pitch: 512, slice: 2560, desc, resource: 0, extent, flags: 2 }
    }

    fn bytes_of(desc: ChannelFormatDesc, texture: &TextureDesc) -> Outcome<[u8; BYTES]> {
        let size = [7, 5, 3];
        descriptor(&texels_of(size, desc), Some(texture))
    }

    #[test]
    fn descriptors_are_laid_out_as_kernels_read_them() {
        let bytes8 = ChannelFormatDesc { x: 8, y: 8, z: 8, w: 8, f: 1 };
        let asked =
            TextureDesc { addressMode: [0, 1, 2], filterMode: 1, readMode: 1, normalizedCoords: 1, ..texture() };
        let bytes = bytes_of(bytes8, &asked).unwrap();
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
        let words: Vec<u32> = (40..80).step_by(4).map(word).collect();
        assert_eq!(bytes[..8], 0x2000_0000_0200_u64.to_le_bytes());
        assert_eq!([word(8), word(12), word(16), word(24), word(32)], [7, 5, 3, 512, 2560]);
        assert_eq!(words, [1, 4, 1, 1, 0, 1, 2, 1, 1, MAGIC]);
        let rest: Vec<u32> = (80..128).step_by(4).map(word).collect();
        assert_eq!(rest, [0, 7, 5, 0, 2, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn colours_and_samples_are_passed_on() {
        let float = ChannelFormatDesc { x: 32, y: 0, z: 0, w: 0, f: 2 };
        let asked = TextureDesc { addressMode: [3; 3], borderColor: [1.5; 4], sRGB: 1, maxAnisotropy: 4, ..texture() };
        let bytes = descriptor(&texels_of([7, 5, 3], float), Some(&asked)).unwrap();
        let words: Vec<u32> = bytes[100..].chunks(4).map(|at| u32::from_le_bytes(at.try_into().unwrap())).collect();
        let border = 1.5_f32.to_bits();
        assert_eq!(words, [1, 1, border, border, border, border, 4]);
        let surface = descriptor(&texels_of([7, 5, 3], float), None).unwrap();
        assert_eq!((surface[100], surface[80], surface[84]), (0, 0, 7));
    }

    #[test]
    fn what_cannot_be_filtered_is_refused() {
        let (int32, float) = ([32, 0, 0, 0, 0], [32, 0, 0, 0, 2]);
        let desc = |[x, y, z, w, f]: [c_int; 5]| ChannelFormatDesc { x, y, z, w, f };
        let code = |format, asked: TextureDesc| bytes_of(desc(format), &asked).map(drop).err();
        assert_eq!(code(float, TextureDesc { filterMode: 1, ..texture() }), None);
        assert_eq!(code(int32, TextureDesc { filterMode: 1, ..texture() }), Some(Error::INVALID_VALUE));
        assert_eq!(code(int32, TextureDesc { readMode: 1, ..texture() }), Some(Error::INVALID_VALUE));
        assert_eq!(code(float, TextureDesc { addressMode: [4, 0, 0], ..texture() }), Some(Error::INVALID_VALUE));
        let border = TextureDesc { addressMode: [3; 3], borderColor: [1.0; 4], ..texture() };
        assert!([float, int32].into_iter().all(|format| code(format, border).is_none()));
    }
}
