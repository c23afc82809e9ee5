//! The symbol table of a file (`.symtab` and its strings): functions with their names. The file is untrusted: every
//! access is bounded.

/// `Elf64_Sym`.
const ENTRY: usize = 24;
const TYPE_FUNCTION: u8 = 2;
const TYPE_INDIRECT: u8 = 10;
const FIRST_RESERVED_SECTION: u16 = 0xff00;
const HIDDEN: u8 = 2;
/// Longer names are none of the runtime's.
const LONGEST: usize = 128;

/// A function that the file defines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Symbol {
    /// Link-time address.
    pub address: u64,
    pub size: u64,
    /// Where its name begins among the strings.
    pub name: u32,
    /// It is the chooser of an indirect function.
    pub indirect: bool,
    pub hidden: bool,
}

/// A symbol table and its strings, as they lie in the file.
#[derive(Clone, Copy, Debug)]
pub struct Symbols<'a> {
    table: &'a [u8],
    strings: &'a [u8],
}

impl<'a> Symbols<'a> {
    pub fn new(table: &'a [u8], strings: &'a [u8]) -> Symbols<'a> {
        Symbols { table, strings }
    }

    /// The functions that are defined here, in the table's order.
    pub fn functions(self) -> impl Iterator<Item = Symbol> + 'a {
        self.table.chunks_exact(ENTRY).filter_map(|entry| {
            let entry = entry.first_chunk::<ENTRY>()?;
            let kind = entry[4] & 0xf;
            let section = u16::from_le_bytes([entry[6], entry[7]]);
            let function = kind == TYPE_FUNCTION || kind == TYPE_INDIRECT;
            (function && section != 0 && section < FIRST_RESERVED_SECTION).then(|| Symbol {
                address: u64::from_le_bytes([
                    entry[8], entry[9], entry[10], entry[11], entry[12], entry[13], entry[14], entry[15],
                ]),
                size: u64::from_le_bytes([
                    entry[16], entry[17], entry[18], entry[19], entry[20], entry[21], entry[22], entry[23],
                ]),
                name: u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]),
                indirect: kind == TYPE_INDIRECT,
                hidden: entry[5] & 3 == HIDDEN,
            })
        })
    }

    /// Whether the name at that place begins so.
    #[inline]
    pub fn begins(self, name: u32, with: &[u8]) -> bool {
        self.strings.get(name as usize..).is_some_and(|rest| rest.starts_with(with))
    }

    /// The name at that place, when it ends within the strings and is short enough to matter.
    pub fn name(self, name: u32) -> Option<&'a [u8]> {
        let rest = self.strings.get(name as usize..)?;
        let rest = rest.get(..LONGEST).unwrap_or(rest);
        let end = rest.iter().position(|byte| *byte == 0)?;
        rest.get(..end)
    }
}
