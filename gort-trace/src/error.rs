//! What is wrong with a file, and where.

use std::fmt;

/// What is wrong with a trace, and at which byte of the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Error {
    /// The offset in the file at which the reader could not go on.
    pub offset: usize,
    /// Whether the file ends too early; everything before `offset` may be in order.
    pub truncated: bool,
    /// What is wrong, in words.
    pub what: String,
}

impl Error {
    pub(crate) fn broken(offset: usize, what: impl Into<String>) -> Error {
        Error { offset, truncated: false, what: what.into() }
    }

    pub(crate) fn truncated(offset: usize, what: impl Into<String>) -> Error {
        Error { offset, truncated: true, what: what.into() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.what)
    }
}

impl std::error::Error for Error {}
