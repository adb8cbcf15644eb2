//! The reason why a section cannot be written.

use cfipack_format::{Address, Key};

cfipack_format::errors! {
    /// The reason why a section cannot be written.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum WriteError {
        /// The output has another length than [`Section::len`](crate::sframe::Section::len).
        #[error("the output has {given} bytes, the section {needed}")]
        OutputLength {
            /// Bytes that were given.
            given: usize,
            /// Bytes that are needed.
            needed: usize,
        },
        /// Version 2 stores starts in 32 bits, and a function is further away: see
        /// [`Section::omit_distant`](crate::sframe::Section::omit_distant).
        #[error("function {function} is {distance} bytes away, too far for version 2")]
        StartTooFar {
            /// The function's address.
            function: Address,
            /// The function, if it is known.
            key: Option<Key>,
            /// The distance from the section or field, in bytes.
            distance: i64,
        },
        /// [Merged](crate::sframe::Options::merge_functions) functions do not keep their distance.
        #[error("function {function} does not keep its distance from the one it is merged with")]
        MergedApart {
            /// A merged function that has moved.
            function: Key,
        },
        /// Functions that had no addresses when the section was finished share PCs: an error of
        /// [`Section::into_bytes`](crate::sframe::Section::into_bytes) alone.
        #[error("the functions at {function} and {other} share PCs")]
        Overlap {
            /// The start of one function.
            function: Address,
            /// The start of the other function.
            other: Address,
        },
        /// The header cannot count the functions, rows or bytes.
        #[error("{count} functions, rows or bytes do not fit the header's 32 bits")]
        Count {
            /// The number.
            count: usize,
        },
    }
}
