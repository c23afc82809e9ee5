//! Manifests for the tests: written here, independently of the reader.

use crate::parse::checksum;

#[derive(Default)]
pub struct Sample {
    pub sites: Vec<[u8; 40]>,
    pub loops: Vec<[u8; 32]>,
    pub arguments: Vec<[u8; 16]>,
    pub code: Vec<u8>,
    pub texts: Vec<u8>,
}

impl Sample {
    pub fn text(&mut self, text: &str) -> u32 {
        let offset = self.texts.len() as u32;
        self.texts.extend((text.len() as u16).to_le_bytes());
        self.texts.extend(text.as_bytes());
        offset
    }

    pub fn expression(&mut self, code: &[u8]) -> u32 {
        let offset = self.code.len() as u32;
        self.code.extend(code);
        offset
    }

    pub fn add_loop(&mut self, parent: u32, name: u32) {
        let mut entry = [0; 32];
        entry[..8].copy_from_slice(&0x1000_u64.to_le_bytes());
        entry[16..20].copy_from_slice(&parent.to_le_bytes());
        entry[20] = 1;
        entry[22] = 2;
        entry[24..28].copy_from_slice(&name.to_le_bytes());
        entry[28..].copy_from_slice(&77_u32.to_le_bytes());
        self.loops.push(entry);
    }

    /// `words`: loop, more, remaining, name, proof, first argument, number of arguments.
    pub fn add_site(&mut self, address: u64, permissions: u8, words: [u32; 7]) {
        let mut entry = [0; 40];
        entry[..8].copy_from_slice(&address.to_le_bytes());
        entry[8..12].copy_from_slice(&words[0].to_le_bytes());
        entry[12] = 1;
        entry[15] = permissions;
        for (index, word) in words[1..].iter().enumerate() {
            entry[16 + 4 * index..][..4].copy_from_slice(&word.to_le_bytes());
        }
        self.sites.push(entry);
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; 88];
        bytes[..8].copy_from_slice(b"FARLANEM");
        bytes[8] = 1;
        bytes[24] = 1;
        bytes[25] = 20;
        bytes[32..52].fill(0xab);
        bytes.extend(self.sites.concat());
        bytes.extend(self.loops.concat());
        bytes.extend(self.arguments.concat());
        for blob in [&self.code, &self.texts] {
            bytes.extend(blob);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        let counts = [self.sites.len(), self.loops.len(), self.arguments.len(), self.code.len(), self.texts.len(), 0];
        for (index, count) in counts.iter().enumerate() {
            bytes[64 + 4 * index..][..4].copy_from_slice(&(*count as u32).to_le_bytes());
        }
        let length = bytes.len() as u32;
        bytes[12..16].copy_from_slice(&length.to_le_bytes());
        seal(&mut bytes);
        bytes
    }
}

/// Makes the checksum right.
pub fn seal(bytes: &mut [u8]) {
    if bytes.len() >= 24 {
        let checksum = checksum(bytes);
        bytes[16..24].copy_from_slice(&checksum);
    }
}

/// Two nested loops, three sites, an argument of each kind.
pub fn nested() -> Sample {
    let mut sample = Sample::default();
    let (function, sync, read) = (sample.text("main"), sample.text("cudaDeviceSynchronize"), sample.text("cudaMemcpy"));
    let proof = sample.text("the destination is not read");
    sample.add_loop(u32::MAX, function);
    sample.add_loop(0, function);
    sample.add_loop(0, function);
    // r12 - 1, and whether it is not 0.
    let remaining = sample.expression(&[2, 12, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0x11, 0]);
    let more = sample.expression(&[2, 12, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0x31, 0]);
    for kind in 0..6 {
        let mut entry = [0; 16];
        entry[..3].copy_from_slice(&[kind, kind, 8]);
        entry[8..].copy_from_slice(&(-i64::from(kind)).to_le_bytes());
        sample.arguments.push(entry);
    }
    sample.add_site(0x1010, 1, [1, u32::MAX, u32::MAX, sync, proof, 0, 0]);
    sample.add_site(0x1020, 2, [2, more, remaining, read, proof, 0, 6]);
    sample.add_site(0x2000, 0, [0, u32::MAX, remaining, read, u32::MAX, 6, 0]);
    sample
}
