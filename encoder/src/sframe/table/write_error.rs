//! The reason why a section cannot be written.

use core::fmt;

use cfipack_format::{Address, Key};

/// The reason why a section cannot be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The output has another length than [`Section::len`](crate::sframe::Section::len).
    OutputLength {
        /// Bytes that were given.
        given: usize,
        /// Bytes that are needed.
        needed: usize,
    },
    /// Version 2 stores starts in 32 bits, and a function is further away: see [`Section::omit_distant`](crate::sframe::Section::omit_distant).
    StartTooFar {
        /// The function's address.
        function: Address,
        /// The function, if it is known.
        key: Option<Key>,
        /// The distance from the section or field, in bytes.
        distance: i64,
    },
    /// [Merged](crate::sframe::Options::merge_functions) functions do not keep their distance.
    MergedApart {
        /// A merged function that has moved.
        function: Key,
    },
    /// Functions that had no addresses when the section was finished share PCs: an error of
    /// [`Section::into_bytes`](crate::sframe::Section::into_bytes) alone.
    Overlap {
        /// The start of one function.
        function: Address,
        /// The start of the other function.
        other: Address,
    },
    /// The header cannot count the functions, rows or bytes.
    Count {
        /// The number.
        count: usize,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OutputLength { given, needed } => {
                write!(f, "the output has {given} bytes, the section {needed}")
            }
            Self::StartTooFar { function, distance, .. } => {
                write!(f, "function {function} is {distance} bytes away, too far for version 2")
            }
            Self::MergedApart { function } => {
                write!(f, "function {function} does not keep its distance from the one it is merged with")
            }
            Self::Overlap { function, other } => {
                write!(f, "the functions at {function} and {other} share PCs")
            }
            Self::Count { count } => {
                write!(f, "{count} functions, rows or bytes do not fit the header's 32 bits")
            }
        }
    }
}

impl core::error::Error for WriteError {}
