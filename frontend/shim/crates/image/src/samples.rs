//! Images for the tests of this crate, built here so that every byte is known.

/// One entry with an 64-byte header.
pub(crate) fn entry(kind: u16, architecture: u32, flags: u64, payload: &[u8]) -> Vec<u8> {
    packed_entry(kind, architecture, flags, payload, 0, 0)
}

pub(crate) fn lz4_entry(architecture: u32, text: &[u8]) -> Vec<u8> {
    let packed = lz4_flex::block::compress(text);
    packed_entry(1, architecture, 0x2000, &packed, packed.len() as u32, text.len() as u64)
}

pub(crate) fn zstd_entry(architecture: u32, text: &[u8]) -> Vec<u8> {
    let packed = zstd::encode_all(text, 1).unwrap();
    packed_entry(1, architecture, 0x8000, &packed, packed.len() as u32, text.len() as u64)
}

fn packed_entry(kind: u16, architecture: u32, flags: u64, payload: &[u8], compressed: u32, size: u64) -> Vec<u8> {
    let padded = payload.len().next_multiple_of(8);
    let mut entry = Vec::new();
    entry.extend(kind.to_le_bytes());
    entry.extend(0x0101u16.to_le_bytes());
    entry.extend(64u32.to_le_bytes());
    entry.extend((padded as u64).to_le_bytes());
    entry.extend(compressed.to_le_bytes());
    entry.extend([0; 8]);
    entry.extend(architecture.to_le_bytes());
    entry.extend([0; 8]);
    entry.extend((flags | 0x11).to_le_bytes());
    entry.extend([0; 8]);
    entry.extend(size.to_le_bytes());
    assert_eq!(entry.len(), 64);
    entry.extend(payload);
    entry.resize(64 + padded, 0);
    entry
}

pub(crate) fn container(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut image = 0xBA55_ED50u32.to_le_bytes().to_vec();
    image.extend(1u16.to_le_bytes());
    image.extend(16u16.to_le_bytes());
    image.extend((entries.iter().map(Vec::len).sum::<usize>() as u64).to_le_bytes());
    entries.iter().for_each(|entry| image.extend(entry));
    image
}

/// What nvcc 13 writes for a kernel with every kind of parameter (`.target`, entry and module variables in one text).
pub(crate) const PTX: &str = include_str!("../testdata/parameters.ptx");

/// Machine code for the kernels of [`PTX`], sm_75, as nvcc 13.0 writes it.
pub(crate) const CUBIN: &[u8] = include_bytes!("../testdata/parameters.sm_75.cubin");
