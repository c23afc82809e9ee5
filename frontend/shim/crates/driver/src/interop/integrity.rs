//! The interoperability handshake: NVIDIA's runtime asks the driver to sign what both know, and goes on when the answer
//! is the one it expects.
//!
//! Off until the user says otherwise (FARLANE_INTEROP=1, which `farlane setup --interop` makes permanent): whether the
//! user's licence with NVIDIA allows it is the user's to decide. While it is off the question is refused, and one line
//! says what asked and where to read on. The answer is HMAC (RFC 2104) with MD2 (RFC 1319) over the process, the tables
//! and the devices; two kinds of version have a fixed one.

use std::env;
use std::sync::OnceLock;

use hmac::{Hmac, Mac as _};
use md2::Md2;
use operations::device::attribute;
use session::call::{Error, Outcome};
use session::{log, process};

use super::tables;

const KEY: [u8; 16] = [0x14, 0x6A, 0xDD, 0xAE, 0x53, 0xA9, 0xA7, 0x52, 0xAA, 0x08, 0x41, 0x36, 0x0B, 0xF5, 0x5A, 0x9F];
const FIXED_0: [u64; 2] = [0x3341_181C_03CB_675C, 0x8ED3_83AA_1F4C_D1E8];
const FIXED_1: [u64; 2] = [0x1841_181C_03CB_675C, 0x8ED3_83AA_1F4C_D1E8];

/// What of a device goes into the signature.
struct Device {
    uuid: [u8; 16],
    /// PCI domain, bus and device.
    place: [i32; 3],
}

/// What of the process goes into the signature.
struct Process {
    driver: u32,
    pid: u32,
    thread: u32,
    /// The addresses of the runtime's table, of the integrity table, and of that one's function.
    tables: [u64; 3],
}

/// The answer to a runtime of that version, which asked at that time.
///
/// # Errors
/// CUDA_ERROR_NOT_SUPPORTED while the handshake is off.
pub fn answer(version: u32, time: u64) -> Outcome<[u64; 2]> {
    if !allowed(version) {
        return Err(Error::NOT_SUPPORTED);
    }
    Ok(match version % 10 {
        0 => FIXED_0,
        1 => FIXED_1,
        _ => signature(&KEY, &message(version, time, &process(), &devices()?)),
    })
}

/// Whether the user switched the handshake on; says once what asks for it where it is off.
fn allowed(version: u32) -> bool {
    static ALLOWED: OnceLock<bool> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let setting = env::var("FARLANE_INTEROP").unwrap_or_default();
        if setting == "1" {
            return true;
        }
        if !matches!(setting.as_str(), "" | "0") {
            log::error(format_args!("FARLANE_INTEROP is \"{setting}\": it must be 1 or 0"));
        }
        log::error(format_args!(
            "NVIDIA's CUDA runtime {}.{}, which is in this program or a library of its, asks the driver to identify itself; Farlane answers only where \
             the user switched that on: FARLANE_INTEROP=1, or `farlane setup --interop` once (docs/explanation/interoperability.md says what it means)",
            version / 1000,
            version % 1000 / 10
        ));
        false
    })
}

fn process() -> Process {
    // SAFETY: a thread may always ask who it is.
    let thread = unsafe { libc::pthread_self() } as u64;
    Process {
        driver: operations::device::DRIVER_VERSION.cast_unsigned(),
        pid: std::process::id(),
        thread: (thread & u64::from(u32::MAX)) as u32,
        tables: tables::signed(),
    }
}

fn devices() -> Outcome<Vec<Device>> {
    let known = process::devices()?.iter().map(|device| {
        let mut uuid = [0; 16];
        let length = device.description.uuid.len().min(uuid.len());
        uuid[..length].copy_from_slice(&device.description.uuid[..length]);
        let value = |which| attribute(device, which).unwrap_or(0);
        let place = [
            operations::types::DEV_ATTR_PCI_DOMAIN_ID,
            operations::types::DEV_ATTR_PCI_BUS_ID,
            operations::types::DEV_ATTR_PCI_DEVICE_ID,
        ];
        Device { uuid, place: place.map(value) }
    });
    Ok(known.collect())
}

fn message(version: u32, time: u64, process: &Process, devices: &[Device]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in [process.driver, version, process.pid, process.thread] {
        bytes.extend(word.to_le_bytes());
    }
    for word in process.tables.into_iter().chain([time]) {
        bytes.extend(word.to_le_bytes());
    }
    for device in devices {
        bytes.extend(device.uuid);
        bytes.extend(device.place.iter().flat_map(|part| part.to_le_bytes()));
    }
    bytes
}

fn signature(key: &[u8], message: &[u8]) -> [u64; 2] {
    // A key of any length is one of HMAC's.
    let mut signing = Hmac::<Md2>::new_from_slice(key).unwrap_or_else(|_| unreachable!());
    signing.update(message);
    let bytes: [u8; 16] = signing.finalize().into_bytes().into();
    let word = |half: usize| u64::from_le_bytes(std::array::from_fn(|index| bytes[half * 8 + index]));
    [word(0), word(1)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use md2::Digest as _;

    fn hex(bytes: impl AsRef<[u8]>) -> String {
        bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// RFC 1319, A.5.
    #[test]
    fn md2_is_the_rfcs() {
        for (text, digest) in [
            ("", "8350e5a3e24c153df2275c9f80692773"),
            ("a", "32ec01ec4a6dac72c0ab96fb34c0b5d1"),
            ("abc", "da853b0d3f88d99b30283a69e6ded6bb"),
            ("message digest", "ab4f496bfb2a530b219ff33031fe06b0"),
            ("abcdefghijklmnopqrstuvwxyz", "4e8ddff3650292ab5a4108c3aa47940b"),
            ("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "da33def2a42df13975352846c30338cd"),
        ] {
            assert_eq!(hex(Md2::digest(text)), digest, "{text}");
        }
    }

    /// RFC 2104: H(key ^ opad, H(key ^ ipad, text)). MD2's blocks are 16 bytes, and so are its results.
    #[test]
    fn the_signature_is_an_hmac() {
        let padded = |pad: u8| KEY.map(|byte| byte ^ pad);
        let text = b"what do ya want for nothing?";
        let inner = Md2::digest([padded(0x36).as_slice(), text].concat());
        let outer = Md2::digest([padded(0x5c).as_slice(), &inner].concat());
        let words = signature(&KEY, text);
        assert_eq!(words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>(), outer.as_slice());
    }

    #[test]
    fn the_message_has_every_part_in_its_place() {
        let process = Process { driver: 1, pid: 3, thread: 4, tables: [5, 6, 7] };
        let devices = [Device { uuid: [9; 16], place: [10, 11, -1] }];
        let bytes = message(2, 8, &process, &devices);
        let expected = "01000000020000000300000004000000".to_owned()
            + "0500000000000000060000000000000007000000000000000800000000000000"
            + &"09".repeat(16)
            + "0a0000000b000000ffffffff";
        assert_eq!(hex(bytes), expected);
    }

    #[test]
    fn the_handshake_is_off_until_it_is_switched_on() {
        // The tests' environment has no FARLANE_INTEROP.
        assert_eq!(answer(13050, 0), Err(Error::NOT_SUPPORTED));
    }
}
