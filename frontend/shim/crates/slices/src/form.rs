//! The form of a slice: registers of 64 bits, a memory of a few bytes, typed operations, blocks, and the calls between them.
//!
//! An operation takes the low `width` bytes of its operands and leaves its result zero-extended to 64 bits. There are no flags: a comparison
//! leaves 1 or 0. Every cycle of the blocks with a call in it leads through block 0; how long the ways between calls are, the evaluation counts.

use crate::lowered::{execute, Run};

pub use limits::{
    SLICE_ARGUMENTS as MAXIMUM_ARGUMENTS, SLICE_BLOCKS as MAXIMUM_BLOCKS, SLICE_CALLS as MAXIMUM_CALLS,
    SLICE_INPUTS as MAXIMUM_INPUTS, SLICE_MEMORY as MAXIMUM_MEMORY, SLICE_OPERATIONS as MAXIMUM_OPERATIONS,
    SLICE_REGISTERS as MAXIMUM_REGISTERS, SLICE_STEPS as MAXIMUM_STEPS,
};

/// Bytes above the stack pointer at the entry.
pub const FRAME_REACH: u64 = limits::SLICE_FRAME_BYTES as u64;
/// General registers that an input may be in: all but rax, rsp's own number included, r10 and r11.
pub const REACHED: [u64; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15];

macro_rules! codes {
    ($($name:ident = $number:literal: $operands:literal, [$($width:literal),+];)+) => {
        /// What an operation computes of its operands a, b, c.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Code { $($name = $number),+ }

        impl Code {
            /// Its number of operands and its widths.
            #[must_use]
            pub const fn shape(self) -> (usize, &'static [u8]) {
                match self { $(Self::$name => ($operands, &[$($width),+])),+ }
            }

            #[must_use]
            pub const fn of(number: u8) -> Option<Self> {
                match number { $($number => Some(Self::$name),)+ _ => None }
            }

            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// What executes it with operands of so many bytes, which `check` has seen it has.
            pub(crate) fn run(self, width: u8) -> Run {
                match (self, width) {
                    $($((Self::$name, $width) => execute::<{ Self::$name as u8 }, $width>,)+)+
                    _ => unreachable!("{self:?} of {width} bytes"),
                }
            }
        }
    };
}

codes! {
    Constant = 0x00: 0, [8];
    Copy = 0x01: 1, [1, 2, 4, 8];
    Load = 0x02: 0, [1, 2, 4, 8];
    Store = 0x03: 1, [1, 2, 4, 8];
    Select = 0x04: 3, [1, 2, 4, 8];
    Insert = 0x05: 2, [1, 2, 4];
    Sign = 0x06: 1, [1, 2, 4];
    Negate = 0x07: 1, [1, 2, 4, 8];
    Not = 0x08: 1, [1, 2, 4, 8];
    LoadAt = 0x09: 1, [1, 2, 4, 8];
    StoreAt = 0x0A: 2, [1, 2, 4, 8];
    Add = 0x10: 2, [1, 2, 4, 8];
    Subtract = 0x11: 2, [1, 2, 4, 8];
    Multiply = 0x12: 2, [1, 2, 4, 8];
    And = 0x13: 2, [1, 2, 4, 8];
    Or = 0x14: 2, [1, 2, 4, 8];
    Xor = 0x15: 2, [1, 2, 4, 8];
    ShiftLeft = 0x16: 2, [1, 2, 4, 8];
    ShiftRight = 0x17: 2, [1, 2, 4, 8];
    ShiftArithmetic = 0x18: 2, [1, 2, 4, 8];
    Divide = 0x19: 2, [1, 2, 4, 8];
    Remainder = 0x1A: 2, [1, 2, 4, 8];
    DivideSigned = 0x1B: 2, [1, 2, 4, 8];
    RemainderSigned = 0x1C: 2, [1, 2, 4, 8];
    High = 0x1D: 2, [1, 2, 4, 8];
    HighSigned = 0x1E: 2, [1, 2, 4, 8];
    Equal = 0x20: 2, [1, 2, 4, 8];
    Below = 0x21: 2, [1, 2, 4, 8];
    BelowEqual = 0x22: 2, [1, 2, 4, 8];
    Less = 0x23: 2, [1, 2, 4, 8];
    LessEqual = 0x24: 2, [1, 2, 4, 8];
    FAdd = 0x30: 2, [4, 8];
    FSubtract = 0x31: 2, [4, 8];
    FMultiply = 0x32: 2, [4, 8];
    FDivide = 0x33: 2, [4, 8];
    FMinimum = 0x34: 2, [4, 8];
    FMaximum = 0x35: 2, [4, 8];
    FSquareRoot = 0x36: 1, [4, 8];
    FEqual = 0x38: 2, [4, 8];
    FLess = 0x39: 2, [4, 8];
    FLessEqual = 0x3A: 2, [4, 8];
    FUnordered = 0x3B: 2, [4, 8];
    From4 = 0x40: 1, [4, 8];
    From8 = 0x41: 1, [4, 8];
    To4 = 0x42: 1, [4, 8];
    To8 = 0x43: 1, [4, 8];
    Nearest4 = 0x44: 1, [4, 8];
    Nearest8 = 0x45: 1, [4, 8];
    Widen = 0x46: 1, [4];
    Narrow = 0x47: 1, [8];
    RoundEven = 0x48: 1, [4, 8];
    RoundDown = 0x49: 1, [4, 8];
    RoundUp = 0x4A: 1, [4, 8];
    RoundCut = 0x4B: 1, [4, 8];
}

impl Code {
    /// Whether a number of 64 bits follows: the value, a place in the memory, or an array there.
    #[must_use]
    pub const fn has_immediate(self) -> bool {
        matches!(self, Self::Constant | Self::Load | Self::Store | Self::LoadAt | Self::StoreAt)
    }

    /// Whether its result depends on SSE's control word.
    #[must_use]
    pub const fn is_floating(self) -> bool {
        self as u8 >= Self::FAdd as u8
    }
}

/// One operation; stores have no target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    pub code: Code,
    pub width: u8,
    pub target: Option<u16>,
    pub operands: [u16; 3],
    pub immediate: u64,
}

impl Operation {
    /// The array that the immediate of LOAD_AT and STORE_AT names: its offset in the low 16 bits, its size in the next 16.
    #[must_use]
    pub const fn array(&self) -> Place {
        Place { offset: self.immediate as u16, size: (self.immediate >> 16) as u16 }
    }

    #[must_use]
    pub const fn is_store(&self) -> bool {
        matches!(self.code, Code::Store | Code::StoreAt)
    }
}

/// How a block ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Jump(u16),
    /// To `then` when the register is not 0.
    Branch {
        register: u16,
        then: u16,
        other: u16,
    },
    /// This call is made; then the block.
    Called {
        call: u16,
        block: u16,
    },
    /// The loop is left towards an address; 0: the function returns, or the program ends.
    Leave(u64),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub operations: Vec<Operation>,
    pub end: End,
}

/// Bytes of the slice's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    pub offset: u16,
    pub size: u16,
}

/// Where a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spot {
    /// The low `width` bytes of a register.
    Register {
        number: u16,
        width: u16,
    },
    Memory(Place),
}

impl Spot {
    /// Its bytes.
    #[must_use]
    pub const fn size(self) -> u16 {
        match self {
            Self::Register { width, .. } => width,
            Self::Memory(place) => place.size,
        }
    }
}

/// What a call is passed. `number`: of the parameter, as the manifest counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    pub number: u8,
    pub value: Spot,
}

/// A CUDA call of the loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The return address; of a launch that of the pushed configuration. 0: it is a caller's.
    pub site: u64,
    pub name: String,
    pub arguments: Vec<Argument>,
    /// What a copy to the device carries.
    pub source: Option<Place>,
    /// Where the bytes go that a copy to the host brings.
    pub fills: Option<Place>,
}

impl Call {
    /// What it is passed, and what it copies to the device.
    pub fn values(&self) -> impl Iterator<Item = Spot> + '_ {
        let arguments = self.arguments.iter().map(|argument| argument.value);
        arguments.chain(self.source.map(Spot::Memory))
    }
}

/// Where a value stands when the program is at the entry's call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A general register, by its number.
    Register(u64),
    /// Bytes above the stack pointer.
    Frame(u64),
    /// An address in the file.
    Global(u64),
    /// Memory behind an address, which stands in a general register; and how many bytes behind it.
    BehindRegister { number: u64, behind: u64 },
    /// The same of an address that stands above the stack pointer.
    BehindFrame { offset: u64, behind: u64 },
    /// How far the file is from where it is linked.
    Bias,
}

/// What takes its first value from the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Input {
    pub origin: Origin,
    pub to: Spot,
}

/// See the module's page. One that [`Slice::read`] gives keeps all the rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slice {
    /// The return address of the call at which it begins.
    pub entry: u64,
    pub registers: usize,
    pub memory: usize,
    pub inputs: Vec<Input>,
    pub blocks: Vec<Block>,
    pub calls: Vec<Call>,
    /// It holds only where the program has SSE's standard control word.
    pub floating: bool,
}
