//! Bounded little-endian reads. A read past the end is `None`; nothing here can panic or overflow.

pub(crate) fn slice(data: &[u8], offset: u64, length: u64) -> Option<&[u8]> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(length).ok()?)?;
    data.get(start..end)
}

pub(crate) fn u16_at(data: &[u8], offset: usize) -> Option<u16> {
    let bytes = data.get(offset..offset.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

pub(crate) fn u32_at(data: &[u8], offset: usize) -> Option<u32> {
    let bytes = data.get(offset..offset.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

pub(crate) fn u64_at(data: &[u8], offset: usize) -> Option<u64> {
    let bytes = data.get(offset..offset.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

/// The NUL-terminated string at `offset`; `None` when no NUL follows, or it is no UTF-8.
pub(crate) fn string_at(data: &[u8], offset: usize) -> Option<&str> {
    let tail = data.get(offset..)?;
    let end = tail.iter().take(crate::limits::NAME_BYTES).position(|byte| *byte == 0)?;
    std::str::from_utf8(&tail[..end]).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_bounded() {
        let data = [1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(u16_at(&data, 6), Some(0x0807));
        assert_eq!(u16_at(&data, 7), None);
        assert_eq!(u32_at(&data, 5), None);
        assert_eq!(u64_at(&data, 0), Some(0x0807_0605_0403_0201));
        assert_eq!(u64_at(&data, usize::MAX), None);
        assert_eq!(slice(&data, 4, 4), Some(&data[4..]));
        assert_eq!(slice(&data, 4, 5), None);
        assert_eq!(slice(&data, u64::MAX, 2), None);
    }

    #[test]
    fn strings_need_their_terminator() {
        assert_eq!(string_at(b"ab\0c", 0), Some("ab"));
        assert_eq!(string_at(b"ab\0c", 3), None);
        assert_eq!(string_at(b"ab\0c", 9), None);
        assert_eq!(string_at(b"\xff\0", 0), None);
    }
}
