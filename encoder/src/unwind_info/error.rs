//! Errors and warnings: what cannot be written as it was given, or not at all.

use core::fmt;
use core::num::NonZeroU32;

use cfipack_format::Key;

/// A function that the table cannot hold as it was given. The table is right all the same, as
/// long as the function has an FDE.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Warning {
    /// Three personalities are used more than this function's: it fell back to DWARF mode.
    FourthPersonality {
        /// The function, as it was pushed.
        function: Key,
        /// The personality.
        personality: NonZeroU32,
        /// The FDE; without one the entry only encodes DWARF mode, and the function
        /// can be unwound if `__eh_frame` has an FDE for it nevertheless.
        fde: Option<NonZeroU32>,
    },
    /// The FDE lies beyond the 24 bits that an encoding has for it: readers must search all of
    /// `__eh_frame`.
    FdeOutOfReach {
        /// The function, as it was pushed.
        function: Key,
        /// Offset of the FDE.
        fde: NonZeroU32,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FourthPersonality { function, personality, fde } => {
                write!(f, "function {function}: three personalities are used more than its own, ")?;
                write!(f, "number {personality}; ")?;
                match fde {
                    Some(fde) => write!(f, "its FDE at {fde:#x} takes over"),
                    None => write!(f, "no FDE is known to take over"),
                }
            }
            Self::FdeOutOfReach { function, fde } => {
                write!(f, "function {function}: its FDE at {fde:#x} is out of the table's reach; ")?;
                write!(f, "readers have to search for it")
            }
        }
    }
}

/// The reason why a table was not written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum WriteError {
    /// The table has more bytes than its own 32-bit offsets reach.
    TooLarge {
        /// Bytes it would have.
        size: u64,
    },
    /// The output has another length than [`Placed::len`](super::Placed::len).
    OutputLength {
        /// Bytes that were given.
        given: usize,
        /// Bytes that are needed.
        needed: usize,
    },
}

impl fmt::Display for WriteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { size } => write!(f, "__unwind_info of {size} bytes is over 4 GiB"),
            Self::OutputLength { given, needed } => {
                write!(f, "__unwind_info has {needed} bytes, the buffer for it {given}")
            }
        }
    }
}

impl core::error::Error for WriteError {}
