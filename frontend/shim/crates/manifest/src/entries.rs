//! What a manifest says of one object, call site, loop or argument, as entries of its tables.

use limits::IDENTITY_BYTES;

/// What names an object: a build-id (kind 1) or a SHA-256 (kind 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Identity {
    pub kind: u8,
    length: u8,
    bytes: [u8; IDENTITY_BYTES],
}

impl Identity {
    pub const BUILD_ID: u8 = 1;
    pub const SHA_256: u8 = 2;

    /// `None` unless there are 1 to [`IDENTITY_BYTES`].
    #[must_use]
    pub fn new(kind: u8, bytes: &[u8]) -> Option<Self> {
        let length = u8::try_from(bytes.len()).ok().filter(|length| (1..=IDENTITY_BYTES as u8).contains(length))?;
        let mut padded = [0; IDENTITY_BYTES];
        padded[..bytes.len()].copy_from_slice(bytes);
        Some(Self { kind, length, bytes: padded })
    }

    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    #[must_use]
    pub fn hex(&self) -> String {
        self.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A text of the manifest.
pub type Text<'a> = &'a str;

/// A place from which CUDA is called in a loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Site {
    /// At link time.
    pub return_address: u64,
    /// Index of the innermost loop.
    pub in_loop: u32,
    pub position: u16,
    pub flags: u8,
    pub permissions: u8,
    /// For [`Manifest::evaluate`]; `None`: not known.
    pub more: Option<u32>,
    pub remaining: Option<u32>,
    pub(crate) name: u32,
    pub(crate) proof: u32,
    pub(crate) first_argument: u32,
    pub(crate) argument_count: u32,
}

/// A loop that calls CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loop {
    pub header: u64,
    pub function: u64,
    /// Index; smaller than the loop's own.
    pub parent: Option<u32>,
    /// 0 none, 1, 2, 3, 4 mixed.
    pub class: u8,
    pub flags: u8,
    /// Sites of the loop itself.
    pub body: u16,
    pub(crate) name: u32,
    pub line: u32,
}

/// What is predicted of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    pub index: u8,
    pub kind: u8,
    pub width: u8,
    /// For [`Manifest::expression`], where the program stands at the loop's first site: its value in the iteration
    /// under way. `None`: not known.
    pub first: Option<u32>,
    pub value: i64,
}
