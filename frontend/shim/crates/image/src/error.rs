//! Why an image, or a kernel of it, cannot be used. The text is shown to the user as it is.

use std::fmt;

/// Why an image cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The bytes are not what they say they are.
    Malformed(String),
    /// The image is whole, but nothing in it runs on the target.
    NoUsableEntry(String),
    /// The image asks for more memory or time than [`crate::limits`] allow.
    TooLarge(String),
    /// PTX of a version that came after [`crate::NEWEST_PTX`].
    TooNew(String),
}

impl Error {
    pub(crate) fn malformed(what: impl Into<String>) -> Error {
        Error::Malformed(what.into())
    }

    pub(crate) fn too_large(what: impl Into<String>) -> Error {
        Error::TooLarge(what.into())
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Malformed(what) => write!(f, "malformed GPU image: {what}"),
            Error::NoUsableEntry(what) => write!(f, "no usable GPU code: {what}"),
            Error::TooLarge(what) => write!(f, "GPU image over the limits: {what}"),
            Error::TooNew(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}
