//! Archives of objects (`ar`), as far as the linker needs them: whether one is NVIDIA's device library, which the
//! device provides itself.
//!
//! Source: System V ABI, "Archive File".

const MAGIC: &[u8] = b"!<arch>\n";
const HEADER: usize = 60;
/// The one member of `libcudadevrt.a`, from CUDA 12 to 13.5.
const DEVICE_RUNTIME: &[u8] = b"cuda_device_runtime.o";

/// Whether the bytes are `libcudadevrt.a`: an archive whose members are all NVIDIA's device runtime.
pub fn is_device_runtime(bytes: &[u8]) -> bool {
    names(bytes).is_some_and(|names| !names.is_empty() && names.iter().all(|name| *name == DEVICE_RUNTIME))
}

/// The names of an archive's objects; None where it is malformed.
fn names(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut long: &[u8] = &[];
    let mut names = Vec::new();
    while !rest.is_empty() {
        let (header, tail) = rest.split_at_checked(HEADER)?;
        let name = header[..16].trim_ascii_end();
        let size: usize = std::str::from_utf8(&header[48..58]).ok()?.trim_end().parse().ok()?;
        let (body, tail) = tail.split_at_checked(size)?;
        rest = tail.get(size % 2..).unwrap_or_default();
        match name {
            b"/" | b"/SYM64/" => {}
            b"//" => long = body,
            [b'/', digits @ ..] => {
                let start: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
                names.push(long.get(start..)?.split(|byte| matches!(byte, b'/' | b'\n')).next()?);
            }
            _ => names.push(name.strip_suffix(b"/").unwrap_or(name)),
        }
    }
    Some(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, body: &[u8]) -> Vec<u8> {
        let padding: &[u8] = if body.len() % 2 == 1 { b"\n" } else { b"" };
        let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 0, body.len());
        [header.as_bytes(), body, padding].concat()
    }

    fn archive(members: &[Vec<u8>]) -> Vec<u8> {
        [MAGIC, &members.concat()].concat()
    }

    #[test]
    fn the_device_runtime_is_told_by_its_member() {
        let long = member("//", b"cuda_device_runtime.o/\n");
        let whole = archive(&[member("/", b"odd"), long.clone(), member("/0", b"\x7fELF")]);
        assert!(is_device_runtime(&whole));
        assert!(!is_device_runtime(&archive(&[long, member("/0", b"a"), member("mine.o/", b"b")])));
        assert!(!is_device_runtime(&archive(&[])));
        assert!(!is_device_runtime(&whole[..whole.len() - 1]));
        assert!(!is_device_runtime(b"\x7fELF"));
        assert!(!is_device_runtime(&archive(&[member("/7", b"no table")])));
    }
}
