//! The jump at the entry of an embedded function.
//!
//! The long form keeps the bytes of the original at offsets 0 and 4 (`push %rbp`, and what follows `mov %rsp,%rbp`),
//! which are the places where a debugger puts a breakpoint on a function. A breakpoint that was there before stays, and
//! one that the debugger takes away later, which writes the original byte, does no harm:
//!
//! ```text
//!     0: 55                  push %rbp        the original byte, or a breakpoint
//!     1: 5d                  pop  %rbp
//!     2: eb 01               jmp  +1
//!     4: ..                  the original byte, or a breakpoint; never executed
//!     5: ff 25 00 00 00 00   jmp  *0(%rip)
//!    11: target
//! ```
//!
//! The short form is its last 14 bytes, for functions that are shorter or begin in another way. No register changes.
//! The objects are not marked for indirect branch tracking, because the runtime in them is not; so no `endbr64` is
//! needed.

pub const LONGEST: usize = 19;
pub const SHORTEST: usize = 14;
const PUSH: u8 = 0x55;
const BREAKPOINT: u8 = 0xcc;
const JUMP: [u8; 6] = [0xff, 0x25, 0, 0, 0, 0];

/// The bytes to write at an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Patch {
    /// The patch of a function whose file has the bytes `original` and whose memory `present`; both at least `SHORTEST`
    /// long. `None` when the memory is not what the file says.
    pub fn new(original: &[u8], present: &[u8], target: usize) -> Option<Patch> {
        let (original, present) =
            (original.get(..original.len().min(LONGEST))?, present.get(..original.len().min(LONGEST))?);
        let broken = |at: usize| (at == 0 || at == 4) && present.get(at) == Some(&BREAKPOINT);
        let same = original.iter().zip(present).enumerate().all(|(at, (was, is))| was == is || broken(at));
        if !same || original.len() < SHORTEST {
            return None;
        }
        let target = (target as u64).to_le_bytes();
        let mut bytes = [0; LONGEST];
        if original.len() == LONGEST && original.first() == Some(&PUSH) {
            let start = [*present.first()?, 0x5d, 0xeb, 0x01, *present.get(4)?];
            fill(&mut bytes, &[&start, &JUMP, &target]);
            return Some(Patch { bytes, length: LONGEST });
        }
        // A breakpoint at a short function would be in the way.
        if original != present {
            return None;
        }
        fill(&mut bytes, &[&JUMP, &target]);
        Some(Patch { bytes, length: SHORTEST })
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

fn fill(bytes: &mut [u8], parts: &[&[u8]]) {
    let all = parts.iter().flat_map(|part| part.iter());
    for (place, byte) in bytes.iter_mut().zip(all) {
        *place = *byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ORIGINAL: [u8; 24] =
        [0x55, 0x48, 0x89, 0xe5, 0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14];
    const TARGET: usize = 0x1122_3344_5566_7788;
    const ADDRESS: [u8; 8] = [0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11];

    #[test]
    fn the_bytes_that_carry_breakpoints_stay() {
        let patch = Patch::new(&ORIGINAL, &ORIGINAL, TARGET).unwrap();
        let expected = [&[0x55, 0x5d, 0xeb, 1, 0x41], &JUMP[..], &ADDRESS].concat();
        assert_eq!(patch.bytes(), expected);
        let mut present = ORIGINAL;
        (present[0], present[4]) = (0xcc, 0xcc);
        let patch = Patch::new(&ORIGINAL, &present, TARGET).unwrap();
        assert_eq!((patch.bytes()[0], patch.bytes()[4], &patch.bytes()[5..]), (0xcc, 0xcc, &expected[5..]));
    }

    #[test]
    fn short_functions_have_the_jump_alone() {
        let patch = Patch::new(&ORIGINAL[..16], &ORIGINAL, TARGET).unwrap();
        assert_eq!(patch.bytes(), [&JUMP[..], &ADDRESS].concat());
        let other = [0x31; 24];
        assert_eq!(Patch::new(&other, &other, TARGET).unwrap().bytes().len(), SHORTEST);
        assert_eq!(Patch::new(&ORIGINAL[..13], &ORIGINAL, TARGET), None);
    }

    #[test]
    fn memory_that_is_not_the_files_is_left_alone() {
        for at in 0..LONGEST {
            let mut present = ORIGINAL;
            present[at] ^= 0x80;
            assert_eq!(Patch::new(&ORIGINAL, &present, TARGET), None, "{at}");
        }
        assert_eq!(Patch::new(&ORIGINAL, &ORIGINAL[..10], TARGET), None);
        let mut broken = [0x31; 16];
        let original = broken;
        broken[0] = 0xcc;
        assert_eq!(Patch::new(&original, &broken, TARGET), None);
    }
}
