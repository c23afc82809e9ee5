//! The 24-byte wrapper that a program passes to `__cudaRegisterFatBinary`.
//!
//! Version 1 points to the container. Version 2 is what `nvcc -rdc=true` writes: it points to the container of the
//! device-linked code (empty when only PTX was asked for) and to a null-terminated array of the containers that a
//! device linker would have to join.

use crate::bytes::{u32_at, u64_at};
use crate::error::Error;

/// Bytes of a wrapper.
pub const WRAPPER_SIZE: usize = 24;
const MAGIC: u32 = 0x4662_43B1;

/// A decoded wrapper. Addresses are the process's own, unverified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrapper {
    /// Address of the container.
    pub container: u64,
    /// Address of the array of containers to be linked, of a version 2 wrapper.
    pub to_link: Option<u64>,
}

impl Wrapper {
    /// Decodes a wrapper.
    pub fn parse(data: &[u8]) -> Result<Wrapper, Error> {
        let short = || Error::malformed("the fat binary wrapper is shorter than 24 bytes");
        let magic = u32_at(data, 0).ok_or_else(short)?;
        let version = u32_at(data, 4).ok_or_else(short)?;
        let container = u64_at(data, 8).ok_or_else(short)?;
        let second = u64_at(data, 16).ok_or_else(short)?;
        if magic != MAGIC {
            return Err(Error::malformed(format!("the fat binary wrapper's magic is {magic:#010x}")));
        }
        match version {
            1 => Ok(Wrapper { container, to_link: None }),
            2 => Ok(Wrapper { container, to_link: Some(second).filter(|address| *address != 0) }),
            _ => Err(Error::malformed(format!("the fat binary wrapper's version is {version}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapper(version: u32, second: u64) -> Vec<u8> {
        let mut data = MAGIC.to_le_bytes().to_vec();
        data.extend(version.to_le_bytes());
        data.extend(0x1000u64.to_le_bytes());
        data.extend(second.to_le_bytes());
        data
    }

    #[test]
    fn versions() {
        let plain = Wrapper::parse(&wrapper(1, 7)).unwrap();
        assert_eq!(plain, Wrapper { container: 0x1000, to_link: None });
        let linked = Wrapper::parse(&wrapper(2, 0x2000)).unwrap();
        assert_eq!(linked.to_link, Some(0x2000));
        assert_eq!(Wrapper::parse(&wrapper(2, 0)).unwrap().to_link, None);
        assert!(Wrapper::parse(&wrapper(3, 0)).is_err());
    }

    #[test]
    fn damage_is_an_error() {
        let good = wrapper(1, 0);
        for length in 0..WRAPPER_SIZE {
            assert!(Wrapper::parse(&good[..length]).is_err());
        }
        let mut bad = good.clone();
        bad[0] ^= 1;
        assert!(Wrapper::parse(&bad).is_err());
    }
}
