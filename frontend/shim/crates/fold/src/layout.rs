//! What of a record may change from one iteration to the next: where holes may lie, and which operations a body may hold.
//!
//! Source: `protos/tape.md`, "Loops", and the fields of `protos/tape.toml` (a test compares the two).

use tape::operations::code;
use tape::{ALIGNMENT, HEADER_BYTES};

/// Bytes `[start, end)` of a record in which holes of at most `width` bytes may lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Zone {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) width: usize,
}

/// What an operation's records look like.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout {
    /// Fields that may change, by the width of the fields: `(start, end, width)`.
    pub(crate) fields: &'static [(u8, u8, u8)],
    /// Where the length of the tail stands, and where the tail starts.
    pub(crate) tail: Option<(u8, u8)>,
    /// A field that tells records apart and is never a hole, though it could be: `(start, bytes)`.
    pub(crate) identity: Option<u8>,
}

const fn fields(fields: &'static [(u8, u8, u8)]) -> Option<Layout> {
    Some(Layout { fields, tail: None, identity: None })
}

/// Where REPEAT has its fields; its columns are described by its template.
pub(crate) const REPEAT_COLUMNS: usize = 24;
pub(crate) const REPEAT_COUNT: usize = 16;

/// The layout of an operation that may stand in a body; `None` for the others. REPEAT is told from its template.
pub(crate) const fn layout(operation: u16) -> Option<Layout> {
    match operation {
        code::FENCE | code::STREAM_DESTROY | code::EVENT_DESTROY | code::DEVICE_SYNCHRONIZE => fields(&[(8, 12, 4)]),
        code::ALLOCATE => fields(&[(8, 24, 8)]),
        code::FREE => fields(&[(8, 16, 8)]),
        code::MEMSET => fields(&[(8, 40, 8), (40, 52, 4)]),
        code::WRITE => Some(Layout { fields: &[(8, 40, 8), (40, 44, 4)], tail: Some((44, 48)), identity: None }),
        code::READ | code::WRITE_KEPT => fields(&[(8, 40, 8), (40, 48, 4)]),
        code::COPY => fields(&[(8, 56, 8), (56, 60, 4)]),
        code::STREAM_CREATE | code::EVENT_RECORD | code::EVENT_ELAPSED | code::FUNCTION_ATTRIBUTE => {
            fields(&[(8, 20, 4)])
        }
        code::STREAM_WAIT_EVENT
        | code::STREAM_SYNCHRONIZE
        | code::STREAM_QUERY
        | code::EVENT_CREATE
        | code::EVENT_SYNCHRONIZE
        | code::EVENT_QUERY
        | code::VARIABLE_ADDRESS => fields(&[(8, 16, 4)]),
        code::DEVICE_LIMIT => fields(&[(8, 12, 4), (16, 24, 8)]),
        code::CONDITIONAL => Some(Layout { fields: &[(8, 16, 8), (16, 24, 4)], tail: Some((28, 32)), identity: None }),
        code::LAUNCH => Some(Layout { fields: &[(12, 44, 4)], tail: Some((44, 48)), identity: Some(8) }),
        _ => None,
    }
}

/// The operation of a record.
#[inline]
pub(crate) fn operation(record: &[u8]) -> u16 {
    match record.get(4..6) {
        Some(bytes) => u16::from_le_bytes([bytes[0], bytes[1]]),
        None => 0,
    }
}

#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}

#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The little-endian number of `width` bytes.
#[inline]
pub(crate) fn read(bytes: &[u8], at: usize, width: usize) -> u64 {
    match width {
        8 => u64_at(bytes, at),
        4 => u64::from(u32_at(bytes, at)),
        2 => u64::from(bytes[at]) | u64::from(bytes[at + 1]) << 8,
        _ => u64::from(bytes[at]),
    }
}

#[inline]
pub(crate) fn write(bytes: &mut [u8], at: usize, width: usize, value: u64) {
    let value = value.to_le_bytes();
    match width {
        // Nearly all holes: one store, no call.
        8 => bytes[at..at + 8].copy_from_slice(&value),
        4 => bytes[at..at + 4].copy_from_slice(&value[..4]),
        _ => bytes[at..at + width].copy_from_slice(&value[..width]),
    }
}

/// All ones in the low `width` bytes.
#[inline]
pub(crate) const fn mask(width: usize) -> u64 {
    match width {
        8 => u64::MAX,
        4 => 0xffff_ffff,
        2 => 0xffff,
        _ => 0xff,
    }
}

/// The zones of a record that is no REPEAT.
pub(crate) fn zones(record: &[u8], zones: &mut Vec<Zone>) {
    zones.clear();
    let Some(layout) = layout(operation(record)) else { return };
    let one = |&(start, end, width): &(u8, u8, u8)| Zone { start: start.into(), end: end.into(), width: width.into() };
    zones.extend(layout.fields.iter().map(one));
    if let Some((length_at, start)) = layout.tail {
        let end = usize::from(start) + u32_at(record, length_at.into()) as usize;
        zones.push(Zone { start: start.into(), end: end.min(record.len()), width: 8 });
    }
}

/// The zones of a REPEAT whose template's holes have these widths: its count, and the values of its columns.
pub(crate) fn repeat_zones(record: &[u8], widths: impl Iterator<Item = usize>, zones: &mut Vec<Zone>) {
    zones.clear();
    zones.push(Zone { start: REPEAT_COUNT, end: REPEAT_COUNT + 8, width: 8 });
    let mut at = REPEAT_COLUMNS;
    for width in widths {
        if at + HEADER_BYTES > record.len() {
            return;
        }
        let number = u32_at(record, at + 4) as usize;
        let values = at + 8;
        let (bytes, width) = match record[at] {
            0 => (16, 8),
            1 | 2 => (number * width, width),
            _ => (usize::from(record[at + 1]) * width, width),
        };
        zones.push(Zone { start: values, end: (values + bytes).min(record.len()), width });
        at = values + bytes.next_multiple_of(ALIGNMENT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[allow(clippy::type_complexity)]
    /// `(code, fields, tail)` of every operation, as tape.toml has them.
    fn operations() -> Vec<(u16, Vec<(String, String)>, bool)> {
        let text = include_str!("../../../../../protos/tape.toml");
        let mut found = Vec::new();
        for section in text.split("[[operation]]").skip(1) {
            let section = section.split("[[result]]").next().expect("text");
            let field = |name: &str| {
                let line = section.lines().find(|line| line.starts_with(&format!("{name} = ")));
                line.map(|line| line.split_once(" = ").expect("a value").1.trim().to_owned())
            };
            let code = field("code").expect("a code");
            let code = u16::from_str_radix(code.trim_start_matches("0x"), 16).expect("a number");
            let fields: Vec<Vec<String>> = serde_json::from_str(&field("fields").expect("fields")).expect("a list");
            let fields = fields.into_iter().map(|f| (f[0].clone(), f[1].clone())).collect();
            found.push((code, fields, field("tail").is_some()));
        }
        found
    }

    #[test]
    fn zones_are_the_fields_of_the_table() {
        let operations = operations();
        assert!(operations.len() > 30);
        for (code, fields, tail) in operations {
            let Some(layout) = layout(code) else { continue };
            let mut at = 8;
            let mut open = Vec::new();
            for (kind, name) in &fields {
                let (width, count) = match kind.as_str() {
                    "u64" => (8, 1),
                    "u32" | "i32" => (4, 1),
                    "u32[3]" => (4, 3),
                    other => panic!("{code:#x}: a field of type {other}"),
                };
                let closed = name == "reserved" || name.ends_with("_bytes") && name != "shared_bytes";
                let identity = layout.identity == Some(at);
                for part in 0..count {
                    if !closed && !identity {
                        open.push((at + part * width, width));
                    }
                }
                if let (Some((length_at, _)), true) = (layout.tail, closed && name != "reserved") {
                    assert_eq!(length_at, at, "{code:#x}: the tail's length");
                }
                at += width * count;
            }
            let zones = layout
                .fields
                .iter()
                .flat_map(|&(start, end, width)| (start..end).step_by(width.into()).map(move |at| (at, width)));
            assert_eq!(zones.collect::<Vec<_>>(), open, "{code:#x}");
            assert_eq!(layout.tail.map(|(_, start)| start), tail.then_some(at), "{code:#x}: the tail");
        }
    }

    #[test]
    fn bodies_hold_what_the_page_allows() {
        let forbidden = |code: u16| {
            use tape::operations::code as c;
            matches!(
                code,
                c::MODULE_OPEN
                    | c::MODULE_BEGIN
                    | c::MODULE_CHUNK
                    | c::MODULE_END
                    | c::MODULE_CLOSE
                    | c::MODULE_CHECK
                    | c::MODULE_QUERY
                    | c::FUNCTION_OPEN
                    | c::VARIABLE_OPEN
                    | c::ALIAS
                    | c::PHYSICAL_CREATE
                    | c::PHYSICAL_RELEASE
                    | c::PHYSICAL_MAP
                    | c::PHYSICAL_UNMAP
                    | c::PHYSICAL_ACCESS
                    | c::OBJECT_CREATE
                    | c::OBJECT_DESTROY
                    | c::PAYLOAD_KEEP
                    | c::PAYLOAD_DROP
                    | c::DEVICE_RESET
                    | c::CONTEXT
                    | c::CHECK_END
                    | c::TEMPLATE
                    | c::REPEAT
                    | c::RUN_AHEAD
                    | c::KEEP_AHEAD
            )
        };
        for (code, _, _) in operations() {
            assert_eq!(layout(code).is_none(), forbidden(code), "{code:#x}");
        }
    }
}
